//test:plain-package It only computes: there is one goroutine.

package forge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"remit/proof/evidence"
	"remit/proof/reason"
)

// sarifOracle is the published schema, in an implementation that is not ours.
func sarifOracle(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestSARIF: every golden session gives a document of the published schema; the rules
// are the reason codes of its blockers, with their hints.
func TestSARIF(t *testing.T) {
	t.Parallel()
	schema := sarifOracle(t)
	if schema.Validate(map[string]any{"version": "2.1.0"}) == nil {
		t.Fatal("the schema accepts a document without runs: it proves nothing")
	}
	sessions, err := filepath.Glob("../proof/evidence/testdata/golden/*")
	if err != nil || len(sessions) < 10 {
		t.Fatalf("%d sessions, %v", len(sessions), err)
	}
	for _, dir := range sessions {
		name := filepath.Base(dir)
		if name == "interrupted" {
			continue // it has no verdict
		}
		var out bytes.Buffer
		if err := SARIF(&out, dir); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var log sarifLog
		if err := json.Unmarshal(out.Bytes(), &log); err != nil {
			t.Fatal(err)
		}
		report, err := os.ReadFile(filepath.Join(dir, evidence.ReportFile))
		if err != nil {
			t.Fatal(err)
		}
		rep, err := evidence.ReadReport(report)
		if err != nil {
			t.Fatal(err)
		}
		run := log.Runs[0]
		want := len(rep.Blockers)
		if rep.Observation != nil {
			want += len(rep.Observation.Unobserved)
		}
		if len(run.Results) != want || rep.Status == evidence.StatusPass && slices.ContainsFunc(run.Results, func(r sarifResult) bool { return r.Level != "note" }) {
			t.Errorf("%s (%s): %d results, want %d", name, rep.Status, len(run.Results), want)
		}
		for i, r := range run.Results {
			if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
				t.Errorf("%s: result %d has another rule than its index says", name, i)
			}
			if i >= len(rep.Blockers) {
				continue
			}
			info, _ := reason.Lookup(rep.Blockers[i].Code)
			first := slices.IndexFunc(run.Results, func(other sarifResult) bool { return other.RuleID == r.RuleID }) == i
			help := run.Tool.Driver.Rules[r.RuleIndex].Help.Text
			if r.RuleID != info.String() || first && help != cmp.Or(rep.Blockers[i].Hint, info.HintFor(rep.Checked != nil), info.Description) {
				t.Errorf("%s: result %d has rule %s with the help %q, the blocker is %s", name, i, r.RuleID, help, info)
			}
		}
	}
}

// TestSARIFPlaces: a path is a relative URI, whatever it is called, and what is no file
// of the repository or the bundle is no place.
func TestSARIFPlaces(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"a/b.go": "a/b.go", "a b#c?d": "a%20b%23c%3Fd", "http://x": "http%3A//x", "größe": "gr%C3%B6%C3%9Fe", "a\x1b": "a%1B"} {
		if got := uriOf(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	changed := map[string]bool{"src/a.go": true}
	for place, base := range map[string]string{"src/a.go": sourceRoot, "test.log": ""} {
		if at := locate(evidence.Blocker{Evidence: place}, changed); len(at) != 1 || at[0].PhysicalLocation.ArtifactLocation.URIBaseID != base {
			t.Errorf("%s: %+v", place, at)
		}
	}
	for _, place := range []string{"", "/etc/passwd", "../x", "a/../b", "./a"} {
		if at := locate(evidence.Blocker{Evidence: place}, changed); at != nil {
			t.Errorf("%q is a place: %+v", place, at)
		}
	}
}

// TestRegionOf: what has no lines in the patched file is the file as a whole.
func TestRegionOf(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]evidence.HunkOfPatch{"a mode": {Path: "run.sh"}, "lines of the base": {Path: "a.go", First: 3, Last: 4, Removed: true}} {
		if r := regionOf(h); r != nil {
			t.Errorf("%s is at %+v", name, *r)
		}
	}
	if r := regionOf(evidence.HunkOfPatch{Path: "a.go", First: 3, Last: 9}); r == nil || *r != (sarifRegion{StartLine: 3, EndLine: 9}) {
		t.Errorf("lines 3 to 9 are at %+v", r)
	}
}
