package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/engine/command"
	"remit/work/gateway"
	"remit/work/harness"
	"remit/work/prove"
	"remit/work/prove/provetest"
	"remit/work/sandbox"
)

// proven gives the home of a script the proofs of an agent with a model, as if
// `remit ladder prove` had made them.
func proven(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 || len(args) > 5 {
		ts.Fatalf("usage: proven ENGINE BIN PROVIDER MODEL [THROUGH]")
	}
	through := 3
	if len(args) == 5 {
		var err error
		through, err = strconv.Atoi(args[4])
		ts.Check(err)
	}
	e, err := agentAt(args[0], ts.MkAbs(args[1]), "chat")
	ts.Check(err)
	ts.Check(grant(e, args[2], args[3], through).Write(context.Background(), ts.Getenv("REMIT_HOME")))
}

// agentAt is an agent by the place of its program.
func agentAt(name, bin, wire string) (engine.Engine, error) {
	if name == acp.Name {
		return acpNamed([]string{bin}, "", wire)
	}
	return engineNamed(name, bin)
}

func grant(e engine.Engine, provider, model string, through int) provetest.Grant {
	return provetest.Grant{Engine: e, Provider: provider, Model: model, Driver: sandbox.DriverBwrap, Through: through}
}

// TestNoModeWithoutProof: in a home where nothing was proved no engine of this build
// begins in any mode, but for the proofs that come with the program.
func TestNoModeWithoutProof(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, name := range engineNames() {
		for _, mode := range task.MutationModes() {
			e, id := engine.Engine(&command.Engine{}), evidence.EngineIdentity{Name: name}
			r := eligibility.Request{RiskClass: task.RiskLow, MutationMode: mode, Network: task.NetworkGateway, Fixture: "greeting/sh", TargetAdmitted: true,
				Sandbox: eligibility.Sandbox{Driver: sandbox.DriverBwrap}, Approval: eligibility.ApprovalGranted}
			a := harness.Admission{ProvenMode: task.ScopedRealRepo}
			q := prove.Question{Home: home, Engine: e, Identity: id, Driver: sandbox.DriverBwrap, Mode: mode}
			if eligibility.AdmissionRequired(name) {
				id.Version, id.SHA256 = "1", canon.Digest(nil)
				q.Identity, q.Model = id, &harness.ModelRoute{Upstream: gateway.Upstream{Provider: "acme"}, Model: "m"}
			}
			if err := q.Into(&a); err != nil {
				t.Fatal(err)
			}
			r.Engine = eligibility.Engine{Name: name, Registered: true, Enabled: true, SourceAdmitted: true, ModelStatus: eligibility.ModelAdmitted,
				ProvenMode: a.ProvenMode, ModeDetail: a.Unproved, ModeRemedy: a.Prove}
			d := eligibility.Decide(r)
			if open := !eligibility.AdmissionRequired(name) && mode <= task.CopiedRepo; d.Blocked() == open {
				t.Errorf("%s in mode %s: blocked is %v: %v", name, mode, d.Blocked(), d.Reasons)
			}
			if d.Blocked() && (!slices.Equal(d.MissingGates, []string{"mode:within-stage"}) || !strings.Contains(d.EscalationPath[0], "`remit ladder prove --engine "+name)) {
				t.Errorf("%s in mode %s: %v, %v", name, mode, d.MissingGates, d.EscalationPath)
			}
		}
	}
}
