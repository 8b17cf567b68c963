//go:build !race

package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"remit/proof/canon"
)

// TestRulesRefuse: what a schema says and a rule cannot hold is an error when
// the rule is made, never passed over.
func TestRulesRefuse(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, schema, want string }{
		{"unknown keyword", `{"dependentRequired":{"a":["b"]}}`, "dependentRequired"},
		{"unknown keyword in a definition", `{"$defs":{"a":{"format":"date"}}}`, "format"},
		{"unknown keyword below", `{"properties":{"a":{"items":{"oneOf":[true]}}}}`, "oneOf"},
		{"anchor", `{"$anchor":"x"}`, "$anchor"},
		{"no such definition", `{"$ref":"#/$defs/a"}`, "out of the schema"},
		{"loop", `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, "back to itself"},
		{"longer loop", `{"$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"$ref":"#/$defs/a"}}}`, "back to itself"},
		{"then alone", `{"then":false}`, "without if"},
		{"pattern", `{"pattern":"("}`, "pattern"},
		{"pattern of another type", `{"pattern":1}`, "pattern"},
		{"count below zero", `{"minItems":-1}`, "no count"},
		{"half a count", `{"maxLength":1.5}`, "no count"},
		{"number", `{"minimum":"1"}`, "no number"},
		{"required", `{"required":[1]}`, "no text"},
		{"properties", `{"properties":[]}`, "no object"},
		{"definitions", `{"$defs":[]}`, "no object"},
		{"constant object", `{"const":{}}`, "not understood"},
		{"list among values", `{"enum":["a",[]]}`, "not understood"},
		{"no values", `{"enum":[]}`, "no list"},
		{"unique", `{"uniqueItems":"yes"}`, "uniqueItems"},
		{"schema of another type", `{"items":1}`, "no schema"},
		{"no object", `true`, "no object"},
		{"no JSON", `{`, "EOF"},
	}
	for _, tt := range tests {
		if _, err := makeRule([]byte(tt.schema)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error about %q", tt.name, err, tt.want)
		}
	}
}

// TestSchemasLoadNothing: a reference to a network or a file leads nowhere.
func TestSchemasLoadNothing(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"https://example.com/s.json", "file:///etc/passwd", "urn:remit:schema:report:v1", "#", "#/properties/a"} {
		if _, err := makeRule([]byte(`{"properties":{"a":{"$ref":"` + ref + `"}}}`)); err == nil {
			t.Errorf("%s was followed", ref)
		}
	}
}

// nothing refuses to load: the oracle gets the embedded schemas and no other.
type nothing struct{}

func (nothing) Load(url string) (any, error) { return nil, fmt.Errorf("%q is not embedded", url) }

// oracle is an independent implementation of JSON Schema with the same schemas.
var oracle = sync.OnceValue(func() map[string]*jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	compiled := map[string]*jsonschema.Schema{}
	for name := range schemas() {
		raw, err := schemaFiles.ReadFile(schemaFile(name))
		if err != nil {
			panic(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			panic(err)
		}
		if err := c.AddResource(schemaURN(name), doc); err != nil {
			panic(err)
		}
		compiled[name] = c.MustCompile(schemaURN(name)) // holds the schema against its meta-schema, too
	}
	return compiled
})

// oracleSays returns what the oracle finds in a value, in the words of a rule.
func oracleSays(name string, value any) []string {
	err := oracle()[name].Validate(value)
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil
	}
	var found []string
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		_, names := e.ErrorKind.(*kind.PropertyNames)
		if len(e.Causes) > 0 && !names {
			for _, cause := range e.Causes {
				visit(cause)
			}
			return
		}
		var at *place
		for _, step := range e.InstanceLocation {
			at = &place{at, step}
		}
		if names {
			at = nil // the oracle names another place by mistake: the steps are overwritten behind it
		}
		found = append(found, fmt.Sprintf("at %q: %s", at.pointer(), oursFor(e.ErrorKind)))
	}
	for _, cause := range invalid.Causes {
		visit(cause)
	}
	return found
}

var english = message.NewPrinter(language.English)

// oursFor says in our words what the oracle means.
func oursFor(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Not:
		return "has a form that is ruled out"
	case *kind.FalseSchema:
		return "nothing is allowed here"
	case *kind.PropertyNames:
		return "invalid property name " + quotedAll([]any{k.Property})
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
	case *kind.Type:
		slices.Sort(k.Want)
	}
	return k.LocalizedString(english)
}

// agree compares a rule with the oracle, word for word, on a value of decodeAny.
func agree(t *testing.T, name string, value any) (valid bool) {
	t.Helper()
	got, want := schemas()[name].defects(value), oracleSays(name, value)
	for i, g := range got {
		if _, why, ok := strings.Cut(g, `": invalid property name `); ok {
			got[i] = `at "": invalid property name ` + why
		}
	}
	if (len(got) == 0) != (len(want) == 0) || schemas()[name].holds(value) != (len(got) == 0) {
		t.Errorf("%s %.200v:\n%q\nthe oracle says\n%q", name, value, got, want)
		return false
	}
	if len(want) >= maxViolations {
		return len(got) == 0 // cut
	}
	for i := range want {
		want[i] = bounded(want[i])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s %.200v:\n%q\nthe oracle says\n%q", name, value, got, want)
	}
	return len(got) == 0
}

// TestRulesAgreeWithOracle holds every document of the golden sessions, and
// each of them with one thing changed anywhere in it, against both.
func TestRulesAgreeWithOracle(t *testing.T) {
	t.Parallel()
	sessions, err := filepath.Glob("testdata/golden/*")
	if err != nil || len(sessions) == 0 {
		t.Fatalf("no golden sessions: %v", err)
	}
	good, bad := 0, 0
	check := func(name string, value any) {
		if agree(t, name, value) {
			good++
		} else {
			bad++
		}
	}
	for _, dir := range sessions {
		for _, d := range documents() {
			raw, err := os.ReadFile(filepath.Join(dir, d.file))
			if err != nil {
				continue // not every session has every file; the count below tells
			}
			for i, line := range bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")) {
				if i == 40 {
					break // what follows has the same forms
				}
				value, err := decodeAny(line)
				if err != nil {
					t.Fatalf("%s/%s: %v", dir, d.file, err)
				}
				check(d.schema, value)
				if dir == sessions[0] && i < 6 {
					value = shortened(value)
					check(d.schema, value)
					eachChange(value, func() { check(d.schema, value) })
				}
			}
		}
	}
	if t.Failed() {
		return
	}
	if good < 100 || bad < 1000 {
		t.Errorf("only %d documents that obey and %d that do not were compared", good, bad)
	}
	t.Logf("%d documents that obey, %d that do not", good, bad)
}

// shortened leaves two of the many that are alike, the files of a report and the
// items of a list: they have one rule, and a change in each of them shows it many
// times in the longest documents.
func shortened(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, was := range v {
			if files, ok := was.(map[string]any); ok && (key == "artifact_digests" || key == "freshness") {
				maps.DeleteFunc(files, func(name string, _ any) bool { return name != ReportFile && name != JournalFile })
			}
			v[key] = shortened(was)
		}
	case []any:
		for i := range v {
			v[i] = shortened(v[i])
		}
		if len(v) > 2 {
			return []any{v[0], v[len(v)-1]}
		}
	}
	return value
}

// substitutes are put in the place of every value.
var substitutes = []any{nil, true, json.Number("-1"), json.Number("0.5"), json.Number("7"), "", "x", strings.Repeat("a", 300), []any{}, []any{"a", "a"}, map[string]any{}, map[string]any{"x": "y"}}

// eachChange calls visit with every single change of a value made in place.
func eachChange(value any, visit func()) {
	change := func(get any, set func(any)) {
		for _, s := range substitutes {
			set(s)
			visit()
		}
		set(get)
		eachChange(get, visit)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			was := v[key]
			delete(v, key)
			visit()
			change(was, func(to any) { v[key] = to })
		}
		v["un known/key~"] = "x"
		visit()
		delete(v, "un known/key~")
	case []any:
		for i := range v {
			change(v[i], func(to any) { v[i] = to })
		}
	}
}

// FuzzRules: a rule and the oracle agree on any canonical text.
func FuzzRules(f *testing.F) {
	names := slices.Sorted(maps.Keys(schemas()))
	for i, name := range names {
		for _, d := range documents() {
			raw, err := os.ReadFile("testdata/golden/pass/" + d.file)
			if err == nil && d.schema == name {
				line, _, _ := bytes.Cut(raw, []byte("\n"))
				f.Add(i, line)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which int, text []byte) {
		if canon.Check(text) != nil {
			return
		}
		value, err := decodeAny(text)
		if err != nil {
			t.Fatal(err)
		}
		agree(t, names[uint(which)%uint(len(names))], value)
	})
}

// TestUniqueItemsInLinearTime: a hostile list of many items is no burden.
func TestUniqueItemsInLinearTime(t *testing.T) {
	t.Parallel()
	r, err := makeRule([]byte(`{"uniqueItems":true}`))
	if err != nil {
		t.Fatal(err)
	}
	list := make([]any, 50_000) // by the square: half a minute
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	if found := r.defects(list); len(found) > 0 {
		t.Errorf("%q", found)
	}
	list = append(list, "0")
	if found := r.defects(list); len(found) != 1 {
		t.Errorf("%q", found)
	}
}
