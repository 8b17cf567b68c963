//test:plain-package It only computes: there is one goroutine.

package admission

import (
	"strings"
	"testing"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// reviewed is a ruling with every field that may be left out.
func reviewed(d Decision) Ruling {
	r := ruling(d)
	r.Review = Review{Triggers: []Trigger{OnPolicy}, Basis: map[Trigger]string{OnPolicy: canon.Digest(nil)}, By: "2036-02-03T04:05:06.007Z"}
	return r
}

func ruling(d Decision) Ruling {
	return Ruling{Decision: d, By: "local-operator:test", At: "2026-02-03T04:05:06.007Z", Reason: "read it"}
}

var build = evidence.EngineIdentity{Name: "codex", Version: "0.169.0", SHA256: canon.Digest([]byte("program"))}

func source(t *testing.T, previous *Source, d Decision) *Source {
	t.Helper()
	rec, err := NextSource(previous, SourceDecision{Ruling: reviewed(d), Engine: build.Name, Version: build.Version, SHA256: build.SHA256, Type: "npm", SourceCommit: "30b1fa1285a9", Toolchain: "bun 1.4.5"})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func model(t *testing.T, previous *Model, d Decision) *Model {
	t.Helper()
	rec, err := NextModel(previous, ModelDecision{Ruling: reviewed(d), Provider: "openai", Model: "gpt-5.5"})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestSourceStates(t *testing.T) {
	t.Parallel()
	admitted := source(t, nil, Admitted)
	edited := source(t, nil, Rejected)
	edited.Decision = Admitted
	for _, test := range []struct {
		name   string
		rec    *Source
		change func(*evidence.EngineIdentity)
		status Status
		report string
		stale  bool
		detail string
	}{
		{name: "admitted", rec: admitted, status: StatusAdmitted, report: "admitted"},
		{name: "no record", status: StatusMissing, report: "not_admitted"},
		{name: "rejected", rec: source(t, nil, Rejected), status: StatusNotAdmitted, report: "not_admitted", detail: "rejected"},
		{name: "admitted, then rejected", rec: source(t, admitted, Rejected), status: StatusNotAdmitted, report: "not_admitted"},
		{name: "rejected, then admitted", rec: source(t, source(t, nil, Rejected), Admitted), status: StatusAdmitted, report: "admitted"},
		{name: "not decided", rec: source(t, admitted, NotDecided), status: StatusNotAdmitted, report: "not_admitted", detail: "not_decided"},
		{name: "another binary", rec: admitted, change: func(id *evidence.EngineIdentity) { id.SHA256 = canon.Digest([]byte("trojan")) },
			status: StatusMismatch, report: "not_admitted", stale: true, detail: "stale"},
		{name: "another version", rec: admitted, change: func(id *evidence.EngineIdentity) { id.Version = "0.169.1" },
			status: StatusMismatch, report: "not_admitted", stale: true, detail: "stale"},
		{name: "another engine", rec: admitted, change: func(id *evidence.EngineIdentity) { id.Name = "pi" },
			status: StatusMismatch, report: "not_admitted", stale: true, detail: "stale"},
		{name: "no digest", rec: admitted, change: func(id *evidence.EngineIdentity) { id.SHA256 = "" },
			status: StatusMismatch, report: "not_admitted", stale: true, detail: "stale"},
		{name: "rejected, and another binary", rec: source(t, nil, Rejected), change: func(id *evidence.EngineIdentity) { id.SHA256 = "" },
			status: StatusNotAdmitted, report: "not_admitted", stale: true},
		{name: "edited", rec: edited, status: StatusInvalid, report: "not_admitted", detail: "id"},
		{name: "zero", rec: &Source{}, status: StatusInvalid, report: "not_admitted", detail: "schema"},
		{name: "built in", change: func(id *evidence.EngineIdentity) { id.Name = "fake" }, status: StatusNotRequired, report: "not_required"},
		{name: "built in, and rejected", rec: source(t, nil, Rejected), change: func(id *evidence.EngineIdentity) { id.Name = "command" },
			status: StatusNotRequired, report: "not_required"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			id := build
			if test.change != nil {
				test.change(&id)
			}
			got := CheckSource(test.rec, id)
			if got.Status != test.status || got.Stale != test.stale || got.SourceStatus() != test.report || !strings.Contains(got.Detail, test.detail) || got.Detail == "" {
				t.Errorf("got %+v (%s)", got, got.SourceStatus())
			}
			open := test.status == StatusAdmitted || test.status == StatusNotRequired
			if (got.Code == "") != open || !open && got.Code != reason.SourceNotAdmitted {
				t.Errorf("code %q", got.Code)
			}
		})
	}
}

func TestModelStates(t *testing.T) {
	t.Parallel()
	admitted := model(t, nil, Admitted)
	for _, test := range []struct {
		name            string
		rec             *Model
		provider, model string
		status          Status
		stale           bool
	}{
		{"admitted", admitted, "openai", "gpt-5.5", StatusAdmitted, false},
		{"no record", nil, "openai", "gpt-5.5", StatusMissing, false},
		{"rejected", model(t, nil, Rejected), "openai", "gpt-5.5", StatusNotAdmitted, false},
		{"taken back", model(t, admitted, NotDecided), "openai", "gpt-5.5", StatusNotAdmitted, false},
		{"another model", admitted, "openai", "gpt-5", StatusMismatch, true},
		{"another provider", admitted, "azure", "gpt-5.5", StatusMismatch, true},
		{"another case", admitted, "openai", "GPT-5.5", StatusMismatch, true},
		{"white space", admitted, "openai", "gpt-5.5 ", StatusMismatch, true},
		{"look-alike", admitted, "openai", "gpt\u20105.5", StatusMismatch, true},
		{"half a pair", admitted, "openai", "", StatusMismatch, true},
		{"half a pair, no record", nil, "", "gpt-5.5", StatusMissing, false},
		{"no model", admitted, "", "", StatusNotRequired, false},
		{"zero", &Model{}, "openai", "gpt-5.5", StatusInvalid, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := CheckModel(test.rec, test.provider, test.model)
			if got.Status != test.status || got.Stale != test.stale || got.Detail == "" || got.Stale != strings.Contains(got.Detail, "stale") {
				t.Errorf("got %+v", got)
			}
			// The decision that is recorded says the same, with the same code.
			d := eligibility.Decide(eligibility.Request{TaskID: "t", RiskClass: task.RiskLow, MutationMode: task.CopiedRepo, Sandbox: eligibility.Sandbox{Driver: "bwrap"}, Network: task.NetworkGateway,
				Engine: eligibility.Engine{Name: "codex", Registered: true, Enabled: true, SourceAdmitted: true, ModelStatus: got.Status, ProvenMode: task.CopiedRepo}})
			if got.Admitted() == d.Blocked() {
				t.Errorf("%s, and the run is blocked: %v", got.Status, d.Blocked())
			}
			if got.Code != "" && (d.ModelAdmissionStatus != got.Status || d.DeniedBackends[0].Reasons[len(d.DeniedBackends[0].Reasons)-1] != got.Code) {
				t.Errorf("code %s, the decision %s %v", got.Code, d.ModelAdmissionStatus, d.DeniedBackends)
			}
		})
	}
}

// What would make a record that says less than it seems is refused when it is made.
func TestRefusedDecisions(t *testing.T) {
	t.Parallel()
	sources := map[string]func(*SourceDecision){
		"engine":                 func(d *SourceDecision) { d.Engine = "" },
		"version":                func(d *SourceDecision) { d.Version = "latest" },
		"sha256":                 func(d *SourceDecision) { d.SHA256 = "sha256:00" },
		"decision":               func(d *SourceDecision) { d.Decision = "approved" },
		"reason":                 func(d *SourceDecision) { d.Reason = " " },
		"approval_source":        func(d *SourceDecision) { d.By = "" },
		"admission_timestamp":    func(d *SourceDecision) { d.At = "2026-02-03" },
		"source_url":             func(d *SourceDecision) { d.URL = "https://user:secret@example.com" },
		"source_type":            func(d *SourceDecision) { d.Type = "rumour" },
		"allowed_execution_mode": func(d *SourceDecision) { d.ExecutionMode = "host" },
		"retrieved_at":           func(d *SourceDecision) { d.RetrievedAt = "yesterday" },
		"license_note":           func(d *SourceDecision) { d.License = "MIT\x1b[2J" },
	}
	for field, change := range sources {
		d := SourceDecision{Ruling: ruling(Admitted), Engine: build.Name, Version: build.Version, SHA256: build.SHA256}
		change(&d)
		_, err := NextSource(nil, d)
		refused(t, "source", field, err)
	}
	models := map[string]func(*ModelDecision){
		"provider":                func(d *ModelDecision) { d.Provider = "open ai" },
		"model":                   func(d *ModelDecision) { d.Model = "gpt-5\u200b" },
		"class":                   func(d *ModelDecision) { d.Class = "elsewhere" },
		"decision_status":         func(d *ModelDecision) { d.DecisionStatus = LocalRequired }, // and hosted
		"credential_source_class": func(d *ModelDecision) { d.CredentialSource = "sk-live-0123" },
		"allowed_network_class":   func(d *ModelDecision) { d.Class, d.Network = Local, "internet" },
		"fallbacks":               func(d *ModelDecision) { d.Fallbacks = []string{"a", "a"} },
		"reason":                  func(d *ModelDecision) { d.Reason = "fine\u202eton" },
	}
	for field, change := range models {
		d := ModelDecision{Ruling: ruling(Admitted), Provider: "openai", Model: "gpt-5.5"}
		change(&d)
		_, err := NextModel(nil, d)
		refused(t, "model", field, err)
	}
	for _, version := range []string{"latest", "MAIN", "^1.2.3", "1.x", "1.x.3", ">=2", "refs/heads/v2", "stable", "1.2 ", "", "*", "release"} {
		d := SourceDecision{Ruling: ruling(Admitted), Engine: build.Name, Version: version, SHA256: build.SHA256}
		_, err := NextSource(nil, d)
		refused(t, version, "version", err)
	}
	if _, err := NextSource(nil, SourceDecision{Ruling: ruling(Rejected), Engine: "codex"}); err != nil {
		t.Errorf("an engine that is not there cannot be rejected: %v", err)
	}
}

func refused(t *testing.T, what, field string, err error) {
	t.Helper()
	if reason.CodeOf(err) != reason.InvalidAdmission || !strings.HasPrefix(err.Error(), field+": ") {
		t.Errorf("%s with a bad %s: %v", what, field, err)
	}
}

// TestBuildOfSomebody: a record says what a build is said to be from and what its
// digest does not prove, and one that does not has the id that it always had.
func TestBuildOfSomebody(t *testing.T) {
	t.Parallel()
	plain := SourceDecision{Ruling: ruling(Admitted), Engine: build.Name, Version: build.Version, SHA256: build.SHA256}
	rec, err := NextSource(nil, plain)
	if err != nil {
		t.Fatal(err)
	}
	if text := text(t, rec); strings.Contains(text, "source_commit") || strings.Contains(text, "toolchain") || strings.Contains(text, "prove") {
		t.Errorf("%s", text)
	}
	for commit, ok := range map[string]bool{"30b1fa1285a9": true, "main": false, "30b1": false, "30B1FA1285A9": false, "30b1fa1285a9\n": false} {
		d := plain
		d.SourceCommit = commit
		rec, err := NextSource(nil, d)
		if (err == nil) != ok || ok && !strings.Contains(rec.Unproven, "from this commit") {
			t.Errorf("%q: %v", commit, err)
		}
	}
}
