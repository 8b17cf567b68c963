package ladder

import (
	"slices"
	"strings"
	"testing"

	"remit/proof/evidence"
	"remit/proof/reason"
)

func laneShown(lane string) Shown {
	return Shown{Lane: lane, Fields: []string{"blockers", "status"}, Ends: map[string][]string{NoDiff: {"fail no_diff"}},
		Report: &evidence.Report{Status: "pass", AllowedWritesPassed: true, ChangedFiles: []string{"a"}, ArtifactPaths: []string{"patch.diff", "report.json", "backend/own.log"}}}
}

// TestDimensions spoils one thing of one lane: that lane fails in that dimension, and
// no other lane in any. A lane that could not run is blocked, and measures no engine.
func TestDimensions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dimension string
		spoil     func(*Shown)
		says      string
	}{
		{"", func(*Shown) {}, ""},
		{"", func(s *Shown) { s.Report.ArtifactPaths = s.Report.ArtifactPaths[:2] }, ""}, // raw logs are an engine's own
		{DimensionShape, func(s *Shown) { s.Fields = s.Fields[:1] }, "report.json has no status"},
		{DimensionEvents, func(s *Shown) { s.EventFault = "out of order" }, "out of order"},
		{DimensionPaths, func(s *Shown) { s.Report.AllowedWritesPassed = false }, "allowed paths"},
		{DimensionFailures, func(s *Shown) { s.Report.Status = "fail" }, "fail with 0 blockers"},
		{DimensionFailures, func(s *Shown) { s.Report.Blockers = []evidence.Blocker{{Code: reason.NoDiff}} }, "pass with 1 blockers"},
		{DimensionFailures, func(s *Shown) { s.Report.Status, s.Report.Blockers = "fail", []evidence.Blocker{{Code: "because"}} }, "without a cause"},
		{DimensionFailures, func(s *Shown) { s.Report.SourceRepositoryMutated = true }, "leave alone"},
		{DimensionArtifacts, func(s *Shown) { s.Report.ArtifactPaths = s.Report.ArtifactPaths[1:] }, "no patch.diff"},
	} {
		spoiled, away := laneShown("pi"), Shown{Lane: "codex", Blocked: reason.ProviderUnavailable}
		test.spoil(&spoiled)
		all := Dimensions([]Shown{laneShown("fake"), spoiled, away})
		if len(all) != len(DimensionNames()) {
			t.Fatalf("%d dimensions", len(all))
		}
		for i, d := range all {
			if d.Name != DimensionNames()[i] || d.Of("fake").Status != "pass" || d.Of("codex").Status != "blocked" || d.Of("codex").Detail != "provider_unavailable" {
				t.Errorf("%s: %+v", test.dimension, d)
			}
			if l := d.Of("pi"); (l.Status == "fail") != (d.Name == test.dimension) || !strings.Contains(l.Detail, test.says) && l.Status == "fail" {
				t.Errorf("%s in %s: %+v", d.Name, test.dimension, l)
			}
		}
	}
	other := laneShown("pi")
	other.Ends = map[string][]string{NoDiff: {"fail verification_failed"}, Timeout: {"blocked timeout"}}
	if l := Dimensions([]Shown{laneShown("fake"), other})[3].Of("pi"); l.Status != "fail" || !strings.Contains(l.Detail, "no-diff ends with") {
		t.Errorf("%+v", l)
	}
	if l := Dimensions([]Shown{other})[0].Of("nobody"); l.Status != "blocked" {
		t.Errorf("%+v", l)
	}
}

// TestEndsOf: of the rows alone, with the row's own code where a closer one says the same.
func TestEndsOf(t *testing.T) {
	t.Parallel()
	p := &Proof{Failures: []Session{{Class: ClassGateMissing, Status: "blocked", Code: "mode_exceeds_stage"}, {Class: ProviderUnavailable, Status: "blocked", Code: "program_not_found"},
		{Class: ProviderUnavailable, Status: "blocked", Code: "provider_unavailable"}, {Class: DirtyEndingTree, Status: "fail", Code: "nested_repository"}, {Class: DirtyEndingTree, Status: "fail", Code: "dirty_ending_tree"}}}
	got := EndsOf(p, p)
	if len(got) != 2 || !slices.Equal(got[ProviderUnavailable], []string{"blocked provider_unavailable"}) || !slices.Equal(got[DirtyEndingTree], []string{"fail dirty_ending_tree", "fail nested_repository"}) {
		t.Errorf("%v", got)
	}
}

// TestProveCommand: what is to be typed names the pair, the approval and the repository
// that the stage needs.
func TestProveCommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		key   Key
		stage int
		want  string
	}{
		{Key{Engine: "fake"}, 3, "remit ladder prove --engine fake --through 3"},
		{Key{Engine: "fake"}, 4, "remit ladder prove --engine fake --through 4 --approve"},
		{Key{Engine: "pi", Provider: "openai", Model: "gpt-5.5"}, 5, "remit ladder prove --engine pi --model-provider openai --model gpt-5.5 --through 5 --approve --repo DIR"},
		{Key{Engine: "pi", Provider: ScriptedPair, Model: ScriptedPair}, 6, "remit ladder prove --engine pi --scripted --through 6 --approve --repo DIR"},
	} {
		if got := ProveCommand(test.key, test.stage); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	l, err := LaneOf(LaneFacts{Key: Key{Engine: "acp"}, Program: "codex-acp", Standing: Judge(Key{Engine: "acp"}, nil, madeAt), There: func(string) bool { return false }})
	if err != nil || l.NextAction != "remit ladder prove --engine acp --through 1 -- codex-acp" {
		t.Errorf("%q, %v", l.NextAction, err)
	}
}
