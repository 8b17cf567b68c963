package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"remit/nexus/api"
)

// listed are the runs that a query finds, page by page.
func (w *world) listed(t *testing.T, token, query string, limit int) (names []string) {
	t.Helper()
	for cursor := ""; ; {
		path := fmt.Sprintf("/v1/runs?limit=%d&%s", limit, query)
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		var page api.RunPage
		if err := json.Unmarshal([]byte(w.do(get(path, token)).want(t, 200, "").body), &page); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Items {
			names = append(names, r.Metadata["name"])
		}
		if page.NextCursor == nil {
			return names
		}
		cursor = *page.NextCursor
	}
}

// TestRunsAreFound lists runs by each filter, by several, and by words, a page of
// one at a time as well, and only one's own.
func TestRunsAreFound(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		entries, _ := sealedSession(t, "pass")
		whole := string(*summary(t, entries))
		make := func(token, name, repo string, changes ...string) string {
			text := strings.NewReplacer(changes...).Replace(whole)
			id := w.do(post("/v1/runs", token, name, fmt.Sprintf(`{"repo_ref":%q,"metadata":{"name":%q},"summary":%s}`, repo, name, text))).want(t, 201, "").field(t, "run_id")
			return id
		}
		engine := `"name":"` + w.engineOf(t, whole) + `"`
		title := `"title":` + quotedTitle(t, whole)
		first := make(w.alice, "first", "shop", title, `"title":"Repair the Überweisung of totals"`)
		w.do(post("/v1/runs/"+first+"/finish", w.alice, "end", `{"status":"succeeded"}`)).want(t, 200, "")
		w.do(post("/v1/runs/"+first+"/outcome", w.alice, "o", `{"kind":"accepted"}`)).want(t, 200, "")
		make(w.alice, "second", "shop", engine, `"name":"codex"`, `"model":null`, `"model":"gpt-5.5"`, `"status":"pass"`, `"status":"fail"`, title, `"title":"Repair the clock"`)
		make(w.alice, "third", "clock", engine, `"name":"claude"`, `"status":"pass"`, `"status":"blocked"`, `"blocker":null`,
			`"blocker":{"code":"approval_missing","message":"ask","evidence":"x"}`, title, `"title":"100% of it_all"`)
		make(w.bob, "foreign", "shop", title, `"title":"Repair what is bob's"`)

		for query, want := range map[string]string{
			"":                              "third second first",
			"status=succeeded":              "first",
			"status=running":                "third second",
			"verdict=fail":                  "second",
			"verdict=blocked":               "third",
			"engine=codex":                  "second",
			"engine=cod":                    "",
			"model=gpt-5.5":                 "second",
			"repo_ref=shop":                 "second first",
			"outcome=accepted":              "first",
			"blocker=approval_missing":      "third",
			"repo_ref=shop&verdict=pass":    "first",
			"since=2000-01-01T00:00:00Z":    "third second first",
			"until=2000-01-01T00:00:00Z":    "",
			"since=2200-01-01T00:00:00Z":    "",
			"text=repair":                   "second first",
			"text=REPAIR+clock":             "second",
			"text=clock":                    "third second",
			"text=%C3%BCber":                "first",
			"text=%25":                      "-",
			"text=100%25":                   "third",
			"text=it_all":                   "third",
			"text=it%25":                    "third",
			"text=x'%20OR%201=1":            "",
			"text=bob":                      "",
			"text=approval":                 "third",
			"text=" + first[len("run_"):20]: "first",
			"owner=alice&text=repair":       "second first",
		} {
			if want == "-" {
				w.do(get("/v1/runs?"+query, w.alice)).want(t, 400, "request_invalid")
				continue
			}
			for _, limit := range []int{1, 2, 100} {
				if got := strings.Join(w.listed(t, w.alice, query, limit), " "); got != want {
					t.Errorf("%q by %d: %q, want %q", query, limit, got, want)
				}
			}
		}
		if got := w.listed(t, w.admin, "owner=alice", 100); len(got) != 3 {
			t.Errorf("an administrator sees %v", got)
		}
		if got := w.listed(t, w.bob, "text=repair", 100); !slices.Equal(got, []string{"foreign"}) {
			t.Errorf("bob sees %v", got)
		}
		for query, code := range map[string]string{
			"owner=bob": "forbidden", "status=great": "request_invalid", "verdict=maybe": "request_invalid", "outcome=forgotten": "request_invalid",
			"since=yesterday": "request_invalid", "until=-1": "request_invalid", "text=a+b+c+d+e": "request_invalid",
			"text=" + strings.Repeat("x", 201): "request_invalid", "engine=" + strings.Repeat("x", 501): "request_invalid", "engine=a%00": "request_invalid",
		} {
			status := map[string]int{"forbidden": 403, "request_invalid": 400}[code]
			w.do(get("/v1/runs?"+query, w.alice)).want(t, status, code)
		}
	})
}

func (w *world) engineOf(t *testing.T, text string) string {
	t.Helper()
	var s struct{ Engine struct{ Name string } }
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.Engine.Name == "" {
		t.Fatal(err)
	}
	return s.Engine.Name
}

func quotedTitle(t *testing.T, text string) string {
	t.Helper()
	var s struct{ Title json.RawMessage }
	if err := json.Unmarshal([]byte(text), &s); err != nil || len(s.Title) == 0 {
		t.Fatal(err)
	}
	return string(s.Title)
}
