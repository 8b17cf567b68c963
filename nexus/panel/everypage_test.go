package panel

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// pagesOf are addresses of every page that the panel has, read from its own list. A
// page that is about one thing has examples below; one without an example fails, so
// that no test leaves out a page that came later.
func pagesOf(t testing.TB, session, other, approval string, runs ...string) []string {
	t.Helper()
	one := "/runs/" + session
	examples := map[string][]string{
		"/{$}":                     {"/", "/?from=nexus"},
		"/runs/{id}":               {one, one + "?view=split&audit=1"},
		"/runs/{id}/changes":       {one + "/changes", one + "/changes?file=0"},
		"/runs/{id}/log/{name...}": {one + "/log/test.log", one + "/log/test.log?q=evil"},
		"/runs/{id}/journal":       {one + "/journal", one + "/journal?q=evil", one + "/journal?seq=0"},
		"/compare":                 {"/compare", "/compare?run=" + session + "&run=" + other},
		"/approvals/{id}":          {"/approvals/" + approval},
		"/health":                  {"/health", "/health?check=1"},
		"/nexus/runs/{id}":         {},
		// Downloads, and no pages: TestArtifactsAreNeverDocuments.
		"/runs/{id}/artifact/{name...}": {},
		"/runs/{id}/export/{to}":        {},
	}
	for _, run := range runs {
		examples["/nexus/runs/{id}"] = append(examples["/nexus/runs/{id}"], "/nexus/runs/"+run)
	}
	var out []string
	for _, pattern := range slices.Sorted(maps.Keys((&Panel{}).shown())) {
		addresses, ok := examples[pattern]
		switch {
		case ok:
			out = append(out, addresses...)
		case !strings.Contains(pattern, "{"):
			out = append(out, pattern)
		default:
			t.Errorf("the page %s has no example: add one to pagesOf", pattern)
		}
	}
	return out
}

// TestPagesOf is the control of the tests that walk the list: it has every page that
// needs no more than a login, and those about one thing.
func TestPagesOf(t *testing.T) {
	t.Parallel()
	list := pagesOf(t, "S", "O", "A", "R1", "R2")
	for _, want := range append(Pages(), "/runs/S", "/runs/S/changes", "/approvals/A", "/nexus/runs/R1", "/nexus/runs/R2") {
		if want != "/login" && !slices.Contains(list, want) {
			t.Errorf("the list lacks %s", want)
		}
	}
	if len(list) < 20 {
		t.Errorf("%d pages", len(list))
	}
}

// faults returns what a page must not have: markup from outside this program, anything
// inline, and invisible characters.
func faults(t *testing.T, page string) (out []string) {
	t.Helper()
	for _, r := range page {
		if hidden(r) {
			out = append(out, "an unseen character")
			break
		}
	}
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		value := map[string]string{}
		for _, a := range n.Attr {
			value[a.Key] = a.Val
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc":
				out = append(out, "the attribute "+a.Key)
			case strings.HasPrefix(strings.ToLower(strings.TrimSpace(a.Val)), "javascript:"):
				out = append(out, "a link that is a script")
			case a.Key == "href" && n.Data == "a" && (!strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "//")) &&
				!strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "?"):
				out = append(out, "a link to elsewhere: "+a.Val)
			}
		}
		switch n.Data {
		case "script":
			if !strings.HasPrefix(value["src"], "/assets/") || n.FirstChild != nil {
				out = append(out, "a script")
			}
		case "img", "iframe", "object", "embed", "style", "base", "frame", "audio", "video":
			out = append(out, "the element "+n.Data)
		case "form":
			if !strings.HasPrefix(value["action"], "/") && value["method"] == "post" {
				out = append(out, "a form to elsewhere")
			}
		}
	}
	return out
}

// TestFaultsAreFound is the positive control of the tests that ask for faults.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for name, planted := range map[string]string{
		"script": "<script>alert(1)</script>", "image": "<img src=x>", "handler": "<p onclick=x>", "style": "<p style=x>", "bidi": "a\u202eb",
		"escape": "a\x1b[31m", "link": `<a href="//evil.example">`, "scripted link": `<a href=" JavaScript:x">`, "form": `<form method="post" action="https://x">`,
	} {
		if len(faults(t, "<!doctype html><body>"+planted)) == 0 {
			t.Errorf("%s: nothing was found in %q", name, planted)
		}
	}
	if got := faults(t, `<!doctype html><script src="/assets/panel.js"></script><a href="/runs/x">x</a>`); len(got) != 0 {
		t.Errorf("found in a good page: %q", got)
	}
}
