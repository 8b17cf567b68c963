package results

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rows is the table of docs/runners.md.
func rows() string {
	code := func(words []string) string {
		var out []string
		for _, w := range words {
			out = append(out, "`"+strings.ReplaceAll(w, "|", `\|`)+"`")
		}
		if len(out) == 0 {
			return "–"
		}
		return strings.Join(out, " ")
	}
	var b strings.Builder
	b.WriteString("| format | runner | how it is asked | what has to agree | known forgery | configuration | assertions | tried with |\n|---|---|---|---|---|---|---|---|\n")
	for _, a := range adapters {
		tried := a.Tried
		if tried == "" {
			tried = "unproven"
		}
		b.WriteString("| `" + a.Name + "` | " + strings.Join([]string{a.Title, a.Asked, a.Check, a.Forgery, code(a.Config), code(a.Idioms), tried}, " | ") + " |\n")
	}
	return b.String()
}

// TestRunnersPage holds docs/runners.md to the table.
func TestRunnersPage(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../../../docs/runners.md", "-update -->\n", "<!-- end of rows -->"
	src, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(src), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatal("the page has no place for the rows")
	}
	want := head + begin + rows() + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(src) != want {
		t.Errorf("%s differs from the table: go test ./work/verify/results -run TestRunnersPage -update", page)
	}
}

// TestAdapters: each row has what a reader of it needs.
func TestAdapters(t *testing.T) {
	t.Parallel()
	var names []string
	for _, a := range adapters {
		if a.Title == "" || a.Asked == "" || a.Check == "" || a.Forgery == "" || slices.Contains(names, a.Name) || strings.ContainsAny(a.Name, "-+ ") {
			t.Errorf("%q is not filled in, or there twice", a.Name)
		}
		names = append(names, a.Name)
		if a.read == nil && a.both == nil && a.file == nil && a.sum == nil {
			t.Errorf("%s cannot be read", a.Name)
		}
		if !strings.Contains(a.Check, "exit status") {
			t.Errorf("%s: a check without the exit status", a.Name)
		}
		for _, name := range a.Config {
			if _, err := regexp.Compile(name); err != nil {
				t.Errorf("%s: %v", a.Name, err)
			}
		}
		if strings.Contains(strings.Join([]string{a.Asked, a.Check, a.Forgery, a.Title}, ""), "|") {
			t.Errorf("%s breaks a table", a.Name)
		}
	}
}
