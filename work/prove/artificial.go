package prove

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"remit/law/ladder"
	"remit/proof/atomicfile"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/work/engine/fake"
	"remit/work/shipped"
)

// artificialFixture is stage 2: the engine on a shipped fixture, beside the fake
// engine's run of the same contract.
func (t *trial) artificialFixture(ctx context.Context) error {
	if err := t.gateMissing(ctx); err != nil {
		return err
	}
	w, err := t.fixture(ctx, "stage2", t.stage.Mode)
	if err != nil {
		return err
	}
	a := &attempt{engine: t.Engine}
	own, err := t.run(ctx, w, a)
	if err != nil {
		return err
	}
	baseline := &attempt{engine: fake.Name}
	lane, err := t.run(ctx, w, baseline)
	if err != nil {
		return err
	}
	t.pass(own, "fixture")
	t.pass(lane, ladder.PassBaseline)
	t.ranAs(own)
	t.tell("fixture", own.Status, own.Code)

	name, is := shipped.IsFixture(string(own.opened.BaselineTree))
	t.check("shipped_fixture", is, "%s", cmp.Or(name, string(own.opened.BaselineTree)))
	t.check("contract_explicit", len(w.contract.AllowedPaths) > 0 && len(w.contract.VerificationCommands) > 0, "%v, %v",
		w.contract.AllowedPaths, w.contract.VerificationCommands)
	t.ranWell(own, "fixture_run_passes")
	t.check("fake_baseline_passes", lane.Status == evidence.StatusPass, "session %s: %s %s", lane.SessionID, lane.Status, lane.Code)
	t.compare(own, lane)
	return t.inspect(w, []*attempt{a, baseline}, own, lane)
}

// ranAs notes what the passing run of the engine was.
func (t *trial) ranAs(k kept) {
	t.proof.ContractSHA256, t.proof.PolicySHA256 = k.opened.ContractSHA256, k.opened.PolicySHA256
	t.proof.RuntimeModelProvider = k.report.RuntimeModelProvider
}

// ranWell looks at what every passing run must leave.
func (t *trial) ranWell(k kept, name string) {
	t.check(name, k.Status == evidence.StatusPass && k.report.EngineProcessStarted, "session %s: %s %s", k.SessionID, k.Status, said(k.report.FailureReason))
	if t.stage.Number != 2 {
		return
	}
	t.check("changed_files_listed", len(k.report.ChangedFiles) > 0 && inPatch(k), "%v", k.report.ChangedFiles)
	t.check("allowed_write_proof", k.report.AllowedWritesPassed && k.text(evidence.ProofsDir+"/allowed-writes.json") != "", "%v", k.report.AllowedWritesPassed)
	t.check("verification_log", len(k.report.Verification) > 0 && k.text(evidence.TestLogFile) != "", "%d runs", len(k.report.Verification))
	stale := staleArtifacts(k)
	t.check("digests_and_freshness", len(stale) == 0, "%d artifacts%s", len(k.report.ArtifactPaths), listed(stale))
}

func inPatch(k kept) bool {
	patch := k.text(evidence.PatchFile)
	return !slices.ContainsFunc(k.report.ChangedFiles, func(f string) bool { return !strings.Contains(patch, f) })
}

// staleArtifacts are those that are older than their run, or not as the report
// says.
func staleArtifacts(k kept) (wrong []string) {
	for _, name := range k.report.ArtifactPaths {
		f := k.report.Freshness[name]
		text := k.text(name)
		if f.WrittenAt < k.report.RunStartedAt || f.CheckedAt < f.WrittenAt ||
			name != evidence.ReportFile && canon.Digest([]byte(text)) != k.report.ArtifactDigests[name] {
			wrong = append(wrong, name)
		}
	}
	return wrong
}

// compare holds the engine's run against the fake engine's.
func (t *trial) compare(own, lane kept) {
	for _, dimension := range []struct {
		check string
		of    func(kept) any
	}{
		{"same_report_shape", reportShape},
		{"same_event_order", func(k kept) any { return eventOrder(k) }},
		{"same_allowed_writes", func(k kept) any { return k.report.AllowedWritesPassed }},
		{"same_verification", verification},
		{"same_blockers", func(k kept) any { return len(k.report.Blockers) }},
		{"same_digests", func(k kept) any { return len(k.report.ArtifactDigests) - len(k.report.ArtifactPaths) }},
		{"same_freshness", func(k kept) any { return len(staleArtifacts(k)) }},
	} {
		mine, theirs := fmt.Sprint(dimension.of(own)), fmt.Sprint(dimension.of(lane))
		t.check(dimension.check, mine == theirs, "%s; fake: %s", short(mine), short(theirs))
	}
}

func short(text string) string {
	const most = 400
	return text[:min(len(text), most)]
}

func reportShape(k kept) any {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(k.text(evidence.ReportFile)), &fields); err != nil {
		return err
	}
	return slices.Sorted(maps.Keys(fields))
}

// eventOrder are the events that every run of this shape has, in their order.
// Calls of tools, messages and usage are an engine's own.
func eventOrder(k kept) (order []string) {
	own := []string{"tool.called", "tool.returned", "message.emitted", "usage.metered"}
	for line := range strings.Lines(k.text(evidence.EventsFile)) {
		var e struct{ Type string }
		if json.Unmarshal([]byte(line), &e) == nil && !slices.Contains(own, e.Type) {
			order = append(order, e.Type)
		}
	}
	return order
}

func verification(k kept) any {
	var runs []string
	for _, r := range k.report.Verification {
		runs = append(runs, fmt.Sprintf("%s %q %d", r.Phase, r.Command, r.ExitCode))
	}
	return runs
}

// InspectionSchema names the attachment of stage 2.
const InspectionSchema = "remit.ladder.inspection.v1"

// inspection says where paths of a target were looked for.
type inspection struct {
	Schema       string     `json:"schema"`
	AllowedRoots []string   `json:"allowed_roots"` // that the engine could write, by their symbolic names
	Searched     []searched `json:"searched"`
	Found        []string   `json:"found"`
	OK           bool       `json:"ok"`
}

// searched is one text. The paths that were looked for are not written down: the
// file travels, and they are of this machine.
type searched struct {
	Session string `json:"session_id"`
	What    string `json:"what"`
	SHA256  string `json:"sha256"`
}

// inspect looks for paths of this machine in what the engine was given.
func (t *trial) inspect(w world, attempts []*attempt, sessions ...kept) error {
	doc := inspection{Schema: InspectionSchema, AllowedRoots: []string{"runtime_workspace_root", "run_artifact_dir"}, Searched: []searched{}, Found: []string{}}
	paths := t.ownPaths(w)
	for i, k := range sessions {
		look := func(what, text string) {
			doc.Searched = append(doc.Searched, searched{k.SessionID, what, canon.Digest([]byte(text))})
			if slices.ContainsFunc(paths, func(p string) bool { return strings.Contains(text, p) }) {
				doc.Found = append(doc.Found, k.SessionID+": "+what)
			}
		}
		look("contract", k.text(evidence.ContractFile))
		look("configuration", k.text(evidence.ContextFile))
		inv := attempts[i].invoked
		if inv == nil {
			doc.Found = append(doc.Found, k.SessionID+": the engine was not invoked")
			continue
		}
		look("argv", strings.Join(inv.Argv, "\x00"))
		var env []string
		for name, value := range inv.Env {
			if value != "" && !strings.Contains(strings.ToLower(name), "key") && !strings.Contains(strings.ToLower(name), "token") {
				env = append(env, name+"="+value)
			} else {
				env = append(env, name)
			}
		}
		slices.Sort(env)
		look("environment", strings.Join(env, "\x00"))
		var inside []string
		for _, b := range inv.Binds {
			inside = append(inside, b.Inside)
		}
		look("lent files", strings.Join(inside, "\x00"))
	}
	doc.OK = len(doc.Found) == 0
	text, err := canon.Marshal(doc)
	if err != nil {
		return err
	}
	t.check("no_target_path", doc.OK, "%d texts were searched for %d paths%s", len(doc.Searched), len(paths), listed(doc.Found))
	return t.attach(ladder.InspectionFile, append(text, '\n'))
}

// ownPaths are the places of this machine that an engine must not learn of.
func (t *trial) ownPaths(w world) []string {
	home, _ := os.UserHomeDir() // "" is left out
	here, _ := os.Getwd()
	var out []string
	for _, p := range []string{w.repo, t.scratch, t.Home, t.Repo, home, here} {
		if p == "" {
			continue
		}
		if p, err := filepath.Abs(p); err == nil && strings.Count(p, "/") > 1 {
			out = append(out, p)
		}
	}
	return out
}

// attach writes a file beside the proof and names it.
func (t *trial) attach(name string, text []byte) error {
	t.proof.Attachments = append(t.proof.Attachments, ladder.Attachment{Name: name, SHA256: canon.Digest(text)})
	return atomicfile.ReplaceDurably(filepath.Join(t.dir, name), text, 0o600)
}
