package remit_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
)

// declared lists the names that a Go file declares at its top, methods included.
func declared(t *testing.T, name string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(name), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

var (
	// named is a file of docs/house.md with names that it declares.
	named    = regexp.MustCompile("`([\\w./-]+\\.go)`: (`\\w+`(?:, `\\w+`)*)")
	anyFile  = regexp.MustCompile("`([\\w.-]+(?:/[\\w.-]+)*(?:\\.\\w+|/))`")
	walkStep = regexp.MustCompile(`(?m)^\d+\. `)
)

// TestHouse holds docs/house.md against the code: every file and every name in it
// exists, where it says so.
func TestHouse(t *testing.T) {
	t.Parallel()
	const page = "docs/house.md"
	src, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	where := func(name string) (files []string) { // for who mends the page
		for _, f := range goFiles(t) {
			if !f.test && slices.Contains(declared(t, f.path), name) {
				files = append(files, f.path)
			}
		}
		return files
	}
	for i, line := range strings.Split(string(src), "\n") {
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			var names []string
			if _, err := os.Stat(filepath.FromSlash(m[1])); err == nil {
				names = declared(t, m[1])
			}
			for name := range strings.SplitSeq(m[2], ", ") {
				if name = strings.Trim(name, "`"); !slices.Contains(names, name) {
					t.Errorf("%s:%d: %s does not declare %s; there is one in %q", page, i+1, m[1], name, where(name))
				}
			}
		}
		for _, m := range anyFile.FindAllStringSubmatch(line, -1) {
			if _, err := os.Stat(filepath.FromSlash(m[1])); err != nil {
				t.Errorf("%s:%d: %v", page, i+1, err)
			}
		}
	}
	parts := strings.Split(string(src), "\n## ")
	walks, changes := 0, 0
	for _, part := range parts {
		if strings.HasPrefix(part, "Walk ") {
			walks++
			if steps := len(walkStep.FindAllString(part, -1)); steps < 8 || steps > len(named.FindAllString(part, -1)) {
				t.Errorf("%s: %d steps, %d of them with a place", part[:20], steps, len(named.FindAllString(part, -1)))
			}
		}
		if strings.HasPrefix(part, "Ten changes") {
			for line := range strings.SplitSeq(part, "\n") {
				if strings.HasPrefix(line, "| ") && named.MatchString(line) {
					changes++
				}
			}
		}
	}
	_, rooms, _ := strings.Cut(string(src), "\n## The rooms\n")
	rooms, _, _ = strings.Cut(rooms, "\n## ")
	for _, f := range goFiles(t) {
		dir := path.Dir(f.path)
		wing, _, _ := strings.Cut(dir, "/")
		if house := []string{"cmd", "nexus", "provider", "forge", "work", "law", "proof"}; !f.test && slices.Contains(house, wing) && !within(dir, testOnly) && !strings.Contains(rooms, "`"+dir+"`") {
			t.Errorf("%s: the room %s is not in the table", page, dir)
		}
	}
	if walks != 4 || changes != 10 {
		t.Errorf("%s has %d walks and rooms for %d changes, want 4 and 10", page, walks, changes)
	}
	for _, from := range []string{"README.md", "CONTRIBUTING.md", "doc.go"} {
		if text, err := os.ReadFile(from); err != nil || !strings.Contains(string(text), page) {
			t.Errorf("%s does not name %s (%v)", from, page, err)
		}
	}
}

// step is one step of a recipe: a new file, or an insertion behind or before a text
// that stands in a file once.
var step = regexp.MustCompile("(?m)^\\d+\\. (?:New file `([^`]+)`|In `([^`]+)`, (behind|before) `([^`]+)`):\n\n   ```\\w+\n((?:(?:   .*)?\n)*?)   ```\n")

// TestRecipes applies each recipe of CONTRIBUTING.md to a copy of the files that it
// touches, and builds their packages. The copy is an overlay of the go command, so
// everything else comes from the build cache.
func TestRecipes(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(src), "\n## Recipes\n")
	text, _, _ = strings.Cut(text, "\n## ")
	recipes := strings.Split(text, "\n### ")[1:]
	if len(recipes) != 5 {
		t.Fatalf("%d recipes, want 5", len(recipes))
	}
	most := map[string]int{"An adapter for a test runner": 2, "A field of the receipt": 3, "An engine": 3, "An endpoint that moves money": 5, "A field of the contract or the policy": 3}
	for i, recipe := range recipes {
		title, _, _ := strings.Cut(recipe, "\n")
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			tally.AtItsTurn(t, i, 5)
			changed := map[string]string{}
			steps := step.FindAllStringSubmatch(recipe, -1)
			if n := len(walkStep.FindAllString(recipe, -1)); n == 0 || len(steps) != n {
				t.Fatalf("%d of %d steps can be applied", len(steps), n)
			}
			for _, s := range steps {
				apply(t, changed, s)
			}
			if len(changed) > most[title] {
				t.Errorf("%d files are touched, at most %d", len(changed), most[title])
			}
			build(t, changed)
		})
	}
}

// apply changes the text of one file as a step of a recipe says.
func apply(t *testing.T, changed map[string]string, s []string) {
	t.Helper()
	var code strings.Builder
	for line := range strings.Lines(s[5]) {
		code.WriteString(strings.TrimPrefix(line, "   "))
	}
	if s[1] != "" {
		if _, err := os.Stat(s[1]); err == nil {
			t.Fatalf("%s exists", s[1])
		}
		changed[s[1]] = code.String()
		return
	}
	name, anchor := s[2], s[4]
	if changed[name] == "" {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		changed[name] = string(text)
	}
	if n := strings.Count(changed[name], "\n"+anchor); n != 1 {
		t.Fatalf("%s has %d lines that begin with %q, want 1", name, n, anchor)
	}
	at := strings.Index(changed[name], "\n"+anchor) + 1
	if s[3] == "behind" {
		at += strings.Index(changed[name][at:], "\n") + 1
	}
	changed[name] = changed[name][:at] + code.String() + changed[name][at:]
}

// build compiles the packages of the changed files.
func build(t *testing.T, changed map[string]string) {
	t.Helper()
	dir, packages := t.TempDir(), []string{}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range changed {
		if filepath.Ext(name) != ".go" {
			continue // nothing compiles it
		}
		copied := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(here, filepath.FromSlash(name))] = copied
		packages = append(packages, "./"+filepath.ToSlash(filepath.Dir(name)))
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	// As the program is built, so that what did not change is compiled already.
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", list}, packages...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go build %v: %v\n%s", packages, err, out)
	}
}
