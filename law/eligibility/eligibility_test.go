//test:plain-package It only computes: there is one goroutine.

package eligibility

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/reason"
)

// local is the usual request: the fake engine on a copy, in a sandbox.
func local() Request {
	return Request{
		TaskID: "t", ContractDigest: canon.Digest([]byte("contract")), PolicyBundleID: task.DefaultPolicyBundle, RiskClass: task.RiskLow,
		MutationMode: task.CopiedRepo, Engine: Engine{Name: "fake", Registered: true, ProvenMode: task.CopiedRepo}, Sandbox: Sandbox{Driver: "bwrap"},
	}
}

// admitted is an engine for which all records hold.
func admitted() Request {
	r := local()
	r.Engine = Engine{Name: "codex", Registered: true, Enabled: true, SourceAdmitted: true, ModelStatus: ModelAdmitted, ProvenMode: task.CopiedRepo}
	r.Network = task.NetworkGateway
	return r
}

const (
	engineGate, sourceGate, modelGate, modeGate    = "engine:enabled", "source:admitted", "model:admitted", "mode:within-stage"
	networkGate, fixtureGate                       = "network:gateway", "fixture:shipped"
	targetGate, approvalGate, noSandbox, recording = "target:admitted", "approval:granted", "sandbox:confined", "inputs:recordable"
)

// gap is a gate that a case expects to be missing.
type gap struct {
	gate string
	code reason.Code
}

type gateCase struct {
	name    string
	base    func() Request
	change  func(*Request)
	missing []gap
}

var gateCases = []gateCase{
	{"fake", local, func(*Request) {}, nil},
	{"command", local, func(r *Request) { r.Engine.Name = "command" }, nil},
	{"no engine to check a change", local, func(r *Request) {
		r.Purpose, r.Engine, r.MutationMode = PurposeCheck, Engine{Name: None}, task.CopiedRepo
	}, nil},
	{"no engine and no approval", local, func(r *Request) {
		r.Purpose, r.Engine, r.RiskClass, r.ApprovalRequired = PurposeCheck, Engine{Name: None}, task.RiskCritical, true
	}, nil},
	{"no engine and no sandbox", local, func(r *Request) {
		r.Purpose, r.Engine, r.Sandbox = PurposeCheck, Engine{Name: None}, Sandbox{}
	}, []gap{{noSandbox, reason.SandboxUnavailable}}},
	{"an engine that says it checks", local, func(r *Request) {
		r.Purpose, r.Engine = PurposeCheck, Engine{Name: "codex", Registered: true}
	}, []gap{
		{engineGate, reason.EngineNotEnabled}, {sourceGate, reason.SourceNotAdmitted}, {modelGate, reason.ModelNotAdmitted}, {networkGate, reason.NetworkNotAllowed}, {modeGate, reason.ModeExceedsStage},
	}},
	{"fake on nothing", local, func(r *Request) { r.MutationMode = task.ModeNone }, nil},
	{"fake switched off", local, func(r *Request) { r.Engine.Disabled = true }, []gap{{engineGate, reason.EngineNotEnabled}}},
	{"fake on a sandbox repo", local, func(r *Request) { r.MutationMode = task.SandboxRepo }, []gap{{modeGate, reason.ModeExceedsStage}}},
	{"fake without a proof", local, func(r *Request) { r.Engine.ProvenMode = task.ModeNone }, []gap{{modeGate, reason.ModeExceedsStage}}},
	{"fake on nothing without a proof", local, func(r *Request) {
		r.MutationMode, r.Engine.ProvenMode = task.ModeNone, task.ModeNone
	}, []gap{{modeGate, reason.ModeExceedsStage}}},
	{"fake on a sandbox repo with a proof", local, func(r *Request) { r.MutationMode, r.Engine.ProvenMode = task.SandboxRepo, task.SandboxRepo }, nil},
	{"a proof that is no mode", local, func(r *Request) { r.Engine.ProvenMode = 99 }, []gap{
		{modeGate, reason.ModeExceedsStage}, {recording, reason.GateMissing},
	}},
	{"another engine without a proof", admitted, func(r *Request) { r.Engine.ProvenMode = task.ModeNone }, []gap{{modeGate, reason.ModeExceedsStage}}},
	{"a proving run, one mode further", admitted, func(r *Request) {
		r.Purpose, r.Engine.ProvenMode = PurposeProof, task.CopiedFixture
	}, nil},
	{"a proving run, two modes further", local, func(r *Request) {
		r.Purpose, r.Engine.ProvenMode = PurposeProof, task.ModeNone
	}, []gap{{modeGate, reason.ModeExceedsStage}}},
	{"another purpose", local, func(r *Request) {
		r.Purpose, r.Engine.ProvenMode = "urgent", task.CopiedFixture
	}, []gap{{modeGate, reason.ModeExceedsStage}}},
	{"a proving run on a repository called a fixture", admitted, func(r *Request) {
		r.Purpose, r.MutationMode = PurposeProof, task.CopiedFixture
	}, []gap{{fixtureGate, reason.NotAFixture}}},
	{"a fixture by name, proved further", admitted, func(r *Request) { r.MutationMode = task.CopiedFixture }, []gap{{fixtureGate, reason.NotAFixture}}},
	{"a fixture by name, proved no further", admitted, func(r *Request) {
		r.MutationMode, r.Engine.ProvenMode = task.CopiedFixture, task.CopiedFixture
	}, []gap{{fixtureGate, reason.NotAFixture}}},
	{"a shipped fixture", admitted, func(r *Request) { r.MutationMode, r.Fixture = task.CopiedFixture, "greeting/sh" }, nil},
	{"fake on a real repo", local, func(r *Request) { r.MutationMode = task.ScopedRealRepo }, []gap{
		{modeGate, reason.ModeExceedsStage}, {targetGate, reason.TargetNotAdmitted},
	}},
	{"invalid mode", local, func(r *Request) { r.MutationMode = -1 }, []gap{{modeGate, reason.ModeExceedsStage}, {recording, reason.GateMissing}}},
	{"unknown engine", local, func(r *Request) { r.Engine = Engine{Name: "nobody"} }, []gap{
		{engineGate, reason.EngineUnknown}, {sourceGate, reason.SourceNotAdmitted}, {modelGate, reason.ModelNotAdmitted}, {networkGate, reason.NetworkNotAllowed}, {modeGate, reason.ModeExceedsStage},
	}},
	{"engine called none", local, func(r *Request) { r.Engine = Engine{Name: None, Registered: true} }, []gap{
		{engineGate, reason.EngineUnknown}, {sourceGate, reason.SourceNotAdmitted}, {modelGate, reason.ModelNotAdmitted}, {networkGate, reason.NetworkNotAllowed}, {modeGate, reason.ModeExceedsStage},
	}},
	{"another engine, no records", local, func(r *Request) { r.Engine = Engine{Name: "codex", Registered: true} }, []gap{
		{engineGate, reason.EngineNotEnabled}, {sourceGate, reason.SourceNotAdmitted}, {modelGate, reason.ModelNotAdmitted}, {networkGate, reason.NetworkNotAllowed}, {modeGate, reason.ModeExceedsStage},
	}},
	{"another engine, all records", admitted, func(*Request) {}, nil},
	{"not enabled", admitted, func(r *Request) { r.Engine.Enabled = false }, []gap{{engineGate, reason.EngineNotEnabled}}},
	{"enabled and disabled", admitted, func(r *Request) { r.Engine.Disabled = true }, []gap{{engineGate, reason.EngineNotEnabled}}},
	{"not registered", admitted, func(r *Request) { r.Engine.Registered = false }, []gap{{engineGate, reason.EngineUnknown}}},
	{"source not admitted", admitted, func(r *Request) { r.Engine.SourceAdmitted = false }, []gap{{sourceGate, reason.SourceNotAdmitted}}},
	{"model unknown", admitted, func(r *Request) { r.Engine.ModelStatus = "" }, []gap{{modelGate, reason.ModelNotAdmitted}}},
	{"model says not required", admitted, func(r *Request) { r.Engine.ModelStatus = ModelNotRequired }, []gap{{modelGate, reason.ModelNotAdmitted}}},
	{"model invalid", admitted, func(r *Request) { r.Engine.ModelStatus = ModelInvalid }, []gap{{modelGate, reason.ModelNotAdmitted}}},
	{"model mismatch", admitted, func(r *Request) { r.Engine.ModelStatus = ModelMismatch }, []gap{{modelGate, reason.ModelMismatch}}},
	{"no network", admitted, func(r *Request) { r.Network = task.NetworkNone }, []gap{{networkGate, reason.NetworkNotAllowed}}},
	{"network not stated", admitted, func(r *Request) { r.Network = "" }, []gap{{networkGate, reason.NetworkNotAllowed}}},
	{"mode above the proof", admitted, func(r *Request) { r.MutationMode = task.SandboxRepo }, []gap{{modeGate, reason.ModeExceedsStage}}},
	{"owned repo without target", admitted, func(r *Request) {
		r.MutationMode, r.Engine.ProvenMode = task.OwnedNoncriticalRepo, task.ScopedRealRepo
	}, []gap{{targetGate, reason.TargetNotAdmitted}}},
	{"owned repo with target", admitted, func(r *Request) {
		r.MutationMode, r.Engine.ProvenMode, r.TargetAdmitted = task.OwnedNoncriticalRepo, task.ScopedRealRepo, true
	}, nil},
	{"no driver", local, func(r *Request) { r.Sandbox = Sandbox{} }, []gap{{noSandbox, reason.SandboxUnavailable}}},
	{"none, not asked for", local, func(r *Request) { r.Sandbox = Sandbox{Driver: NoDriver} }, []gap{{noSandbox, reason.SandboxUnavailable}}},
	{"none by name", local, func(r *Request) { r.Sandbox = Sandbox{Driver: NoDriver, ExplicitNone: true} }, nil},
	{"asked for, nothing there", local, func(r *Request) { r.Sandbox = Sandbox{ExplicitNone: true} }, []gap{{noSandbox, reason.SandboxUnavailable}}},
	{"approval missing", local, func(r *Request) { r.ApprovalRequired = true }, []gap{{approvalGate, reason.ApprovalMissing}}},
	{"approval requested", local, func(r *Request) { r.ApprovalRequired, r.Approval = true, ApprovalRequested }, []gap{{approvalGate, reason.ApprovalMissing}}},
	{"approval denied", local, func(r *Request) { r.ApprovalRequired, r.Approval = true, ApprovalDenied }, []gap{{approvalGate, reason.ApprovalDenied}}},
	{"approval expired", local, func(r *Request) { r.ApprovalRequired, r.Approval = true, ApprovalExpired }, []gap{{approvalGate, reason.ApprovalExpired}}},
	{"approval consumed", local, func(r *Request) { r.ApprovalRequired, r.Approval = true, ApprovalConsumed }, []gap{{approvalGate, reason.ApprovalConsumed}}},
	{"approval made up", local, func(r *Request) { r.ApprovalRequired, r.Approval = true, "yes" }, []gap{{approvalGate, reason.ApprovalMissing}}},
	{"approval granted", local, func(r *Request) { r.ApprovalRequired, r.Approval = true, ApprovalGranted }, nil},
	{"denied though not required", local, func(r *Request) { r.Approval = ApprovalDenied }, []gap{{approvalGate, reason.ApprovalDenied}}},
	{"high risk needs approval", local, func(r *Request) { r.RiskClass = task.RiskHigh }, []gap{{approvalGate, reason.ApprovalMissing}}},
	{"critical risk, granted", local, func(r *Request) { r.RiskClass, r.Approval = task.RiskCritical, ApprovalGranted }, nil},
	{"unknown risk", local, func(r *Request) { r.RiskClass = "" }, []gap{{approvalGate, reason.ApprovalMissing}}},
	{"medium risk", local, func(r *Request) { r.RiskClass = task.RiskMedium }, nil},
	{"name that no record holds", local, func(r *Request) { r.TaskID = "\xff" }, []gap{{recording, reason.GateMissing}}},
}

func TestGates(t *testing.T) {
	t.Parallel()
	for _, tc := range gateCases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := tc.base()
			tc.change(&r)
			d := Decide(r)
			gates, codes := []string{}, []reason.Code{}
			for _, g := range tc.missing {
				gates, codes = append(gates, g.gate), append(codes, g.code)
			}
			if !slices.Equal(d.MissingGates, gates) {
				t.Fatalf("missing gates %v, want %v", d.MissingGates, gates)
			}
			if len(gates) == 0 {
				if d.Blocked() || d.SelectedBackend != r.Engine.Name || d.AllowedMutationMode != r.MutationMode || len(d.Reasons)+len(d.DeniedBackends)+len(d.Findings()) != 0 {
					t.Errorf("not eligible: %+v", d)
				}
				return
			}
			found := []reason.Code{}
			for _, f := range d.Findings() {
				found = append(found, f.Code)
			}
			if want := append([]reason.Code{reason.GateMissing}, codes...); !slices.Equal(found, want) {
				t.Errorf("findings %v, want %v", found, want)
			}
			if len(d.DeniedBackends) != 1 || d.DeniedBackends[0].Backend != r.Engine.Name || len(d.DeniedBackends[0].Reasons) == 0 {
				t.Errorf("denied backends %+v", d.DeniedBackends)
			}
		})
	}
}

func TestNoConfinementIsRecordedByName(t *testing.T) {
	t.Parallel()
	r := local()
	r.Sandbox = Sandbox{Driver: NoDriver, ExplicitNone: true}
	if d := Decide(r); !slices.Contains(d.PassedGates, "sandbox:none-explicit") || !slices.Contains(d.RequiredGates, "sandbox:none-explicit") {
		t.Errorf("gates %v of %v", d.PassedGates, d.RequiredGates)
	}
	if d := Decide(local()); !slices.Contains(d.PassedGates, "sandbox:bwrap") {
		t.Errorf("gates %v", d.PassedGates)
	}
}

func TestRecordHasEveryField(t *testing.T) {
	t.Parallel()
	b, err := canon.Marshal(Decide(local()))
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(b, &record); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"decision_id", "task_id", "selected_backend", "denied_backends", "risk_class", "required_gates", "passed_gates",
		"missing_gates", "allowed_mutation_mode", "approval_required", "reasons", "escalation_path"} {
		if value, ok := record[field]; !ok || value == nil {
			t.Errorf("%s is %v in %s", field, value, b)
		}
	}
	if record["model_admission_status"] != "not_required" || record["source_admission_status"] != "not_required" || record["allowed_mutation_mode"] != "copied-repo" {
		t.Errorf("got %s", b)
	}
}

// anyRequest is a function, since a generator finishes itself at its first
// draw: tests that run side by side cannot share one.
func anyRequest() *rapid.Generator[Request] {
	return rapid.Custom(func(t *rapid.T) Request {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		return Request{
			TaskID: rapid.SampledFrom([]string{"t", "u", "\xff"}).Draw(t, "task"), ContractDigest: "sha256:x",
			RiskClass:        rapid.SampledFrom(append(task.RiskClasses(), "", "odd")).Draw(t, "risk"),
			MutationMode:     rapid.SampledFrom(append(task.MutationModes(), -1, 99)).Draw(t, "mode"),
			ApprovalRequired: flag("approval required"), TargetAdmitted: flag("target"),
			Approval: rapid.SampledFrom([]Approval{"", ApprovalRequested, ApprovalGranted, ApprovalDenied, ApprovalExpired, ApprovalConsumed}).Draw(t, "approval"),
			Engine: Engine{
				Name:       rapid.SampledFrom([]string{"fake", "command", "codex", "", "none"}).Draw(t, "engine"),
				Registered: flag("registered"), Enabled: flag("enabled"), Disabled: flag("disabled"), SourceAdmitted: flag("source"),
				ModelStatus: rapid.SampledFrom([]ModelStatus{"", ModelAdmitted, ModelMismatch, ModelNotRequired}).Draw(t, "model"),
				ProvenMode:  rapid.SampledFrom(append(task.MutationModes(), 99)).Draw(t, "proven"),
			},
			Sandbox: Sandbox{Driver: rapid.SampledFrom([]string{"", "bwrap", NoDriver}).Draw(t, "driver"), ExplicitNone: flag("explicit")},
		}
	})
}

func TestAnyMissingGateBlocks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest().Draw(t, "request")
		d := Decide(r)
		known := slices.Sorted(slices.Values(slices.Concat(d.PassedGates, d.MissingGates)))
		if !slices.Equal(slices.Sorted(slices.Values(d.RequiredGates)), known) {
			t.Fatalf("required %v, passed %v, missing %v", d.RequiredGates, d.PassedGates, d.MissingGates)
		}
		if len(d.MissingGates) > 0 != d.Blocked() {
			t.Fatalf("missing %v, blocked %v", d.MissingGates, d.Blocked())
		}
		if !d.Blocked() {
			if d.AllowedMutationMode != r.MutationMode || d.ApprovalRequired && r.Approval != ApprovalGranted || r.Sandbox.Driver == "" || !r.Engine.Registered {
				t.Fatalf("eligible: %+v", r)
			}
			return
		}
		if d.SelectedBackend != None || d.AllowedMutationMode != task.ModeNone || len(d.DeniedBackends) != 1 ||
			d.Reasons[0].Code != reason.GateMissing || len(d.Reasons) != len(d.MissingGates)+1 {
			t.Fatalf("blocked, but %+v", d)
		}
		for _, finding := range d.Findings() {
			if _, known := reason.Lookup(finding.Code); !known || reason.StatusOf(finding.Code) != reason.Blocked {
				t.Fatalf("%s is no blocker", finding.Code)
			}
		}
	})
}

// The id is the digest of the question: the same for the same, another for any
// other.
func TestDecisionIsDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRequest().Draw(t, "a"), anyRequest().Draw(t, "b")
		first, again, other := Decide(a), Decide(a), Decide(b)
		if !reflect.DeepEqual(first, again) {
			t.Fatalf("%+v\n%+v", first, again)
		}
		if !canon.ValidDigest(first.DecisionID) {
			t.Fatalf("decision id %q", first.DecisionID)
		}
		if (first.DecisionID == other.DecisionID) != (a == b) {
			t.Fatalf("ids %s and %s for\n%+v\n%+v", first.DecisionID, other.DecisionID, a, b)
		}
	})
}

func TestEscalationNamesARemedyForEveryGate(t *testing.T) {
	t.Parallel()
	r := local()
	r.Engine, r.Sandbox, r.ApprovalRequired, r.MutationMode = Engine{Name: "pi", Registered: true}, Sandbox{}, true, task.ScopedRealRepo
	d := Decide(r)
	if len(d.MissingGates) != 8 || len(d.EscalationPath) != 8 {
		t.Fatalf("missing %v, escalation %v", d.MissingGates, d.EscalationPath)
	}
	for i, remedy := range d.EscalationPath {
		if strings.TrimSpace(remedy) == "" {
			t.Errorf("no remedy for %s", d.MissingGates[i])
		}
	}
}
