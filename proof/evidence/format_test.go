//go:build !race

package evidence

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"remit/proof/bundle"
	"remit/proof/reason"
)

// TestFormatDocument keeps docs/format.md complete: it names every step, every
// key of every payload, every file, every gate and every code of the gates.
func TestFormatDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	named := func(kind, word string) {
		if !strings.Contains(text, "`"+word+"`") {
			t.Errorf("docs/format.md does not name the %s `%s`", kind, word)
		}
	}
	steps := 0
	for name, value := range stringConstants(t, "names.go") {
		switch {
		case strings.HasPrefix(name, "Step"):
			steps++
			named("step", value)
		case strings.HasSuffix(name, "File"), strings.HasSuffix(name, "Schema"):
			named("file or schema", value)
		}
	}
	if steps < 20 {
		t.Errorf("%d steps were found: the test proves little", steps)
	}
	for _, key := range payloadKeys(t) {
		if !regexp.MustCompile(`\b` + key + `\b`).MatchString(text) {
			t.Errorf("docs/format.md does not name the key %s", key)
		}
	}
	for _, g := range Gates() {
		named("gate", g.Name)
	}
	for _, g := range []string{bundle.GateIntegrity, bundle.GatePortability, bundle.GateManifest, bundle.GateHashes, bundle.GateImports, bundle.GateTests} {
		named("gate", g)
	}
	for kind := range rank {
		named("event", kind)
	}
	for name := range schemas() {
		named("schema", name)
	}
	for _, v := range []any{Report{}, Receipt{}, event{}, span{}} {
		for i := range reflect.TypeOf(v).NumField() {
			key, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
			named("key", key)
		}
	}
	for _, info := range reason.All() {
		if info.Domain == "evidence" || info.Domain == "manifest" || info.Domain == "audit" {
			named("code", string(info.Code))
		}
	}
}

// TestGateNames: the audit knows these gates under the same names.
func TestGateNames(t *testing.T) {
	t.Parallel()
	want := []string{bundle.GateSchema, bundle.GateJournal, bundle.GateProjections, bundle.GateSignatures}
	for i, g := range Gates() {
		if g.Name != want[i] || g.Check == nil {
			t.Errorf("gate %d is %q, want %q", i, g.Name, want[i])
		}
	}
}

func parseFile(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func stringConstants(t *testing.T, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	ast.Inspect(parseFile(t, name), func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				value, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				out[spec.Names[0].Name] = value
			}
		}
		return true
	})
	return out
}

// payloadKeys are the JSON keys of all payload types.
func payloadKeys(t *testing.T) []string {
	t.Helper()
	var keys []string
	for _, name := range []string{"payload.go", "payloadverify.go"} {
		ast.Inspect(parseFile(t, name), func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && field.Tag != nil {
				tag, err := strconv.Unquote(field.Tag.Value)
				if err != nil {
					t.Fatal(err)
				}
				key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
				keys = append(keys, key)
			}
			return true
		})
	}
	if len(keys) < 50 {
		t.Fatalf("%d keys were found: the test proves little", len(keys))
	}
	return keys
}
