package ladder

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
)

// canary is what no control summary may repeat.
const canary = "Content-Of-The-Target"

// TestControlRepeatsNoEvidence: free text of a proof, an address and a credential
// stay out, and a path that is not there is not named.
func TestControlRepeatsNoEvidence(t *testing.T) {
	t.Parallel()
	key := Key{Engine: "pi", EngineVersion: "1", EngineSHA256: "sha256:" + strings.Repeat("a", 64), AdapterVersion: "1",
		Provider: "https://10.1.2.3:8443/v1", Model: "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", VerifierSHA256: "sha256:" + strings.Repeat("b", 64), SandboxDriver: "bwrap"}
	proofs := []Recorded{
		{Path: "ladder/pi/0/stage1.json", Stage: 1, SHA256: "sha256:1", Proof: &Proof{Stage: 1, Key: key, Status: "fail",
			Checks: []Check{{Name: "source_unchanged", Detail: canary}}, Errors: []string{"source_unchanged: " + canary}}},
		{Path: "ladder/pi/0/stage2.json", Stage: 2, SHA256: "sha256:2", Fault: "cannot read /home/ann/" + canary},
	}
	l, err := LaneOf(LaneFacts{Key: key, Proofs: proofs, Standing: Judge(key, proofs, time.Now()), There: func(p string) bool { return strings.Contains(p, "stage1") }})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(ControlOf([]Lane{l}))
	if err != nil {
		t.Fatal(err)
	}
	for _, leak := range []string{canary, "10.1.2.3", "8443", "/home", "ghp_a1B2"} {
		if strings.Contains(string(text), leak) {
			t.Errorf("the summary has %q:\n%s", leak, text)
		}
	}
	if l.Stages[0].Proof == nil || l.Stages[1].Proof != nil || !strings.Contains(l.Stages[0].Why, "source_unchanged") {
		t.Errorf("%+v", l.Stages)
	}
	if l.RuntimeDefault || l.CandidateDefault || l.Approval.State != ApprovalNone || l.TargetReadOnly != NotChecked {
		t.Errorf("%+v", l)
	}
}

// TestLaneSaysThreeThings: how far, why not further, what to type.
func TestLaneSaysThreeThings(t *testing.T) {
	t.Parallel()
	key := Key{Engine: "command", AdapterVersion: "1", SandboxDriver: "bwrap"}
	facts := LaneFacts{Key: key, Standing: Judge(key, nil, time.Now()), There: func(string) bool { return false }}
	l, err := LaneOf(facts)
	if err != nil {
		t.Fatal(err)
	}
	if far, why, next := l.Summary(); far != "nothing" || why != "stage 1: no proof is recorded" || next != "remit ladder prove --engine command --through 1" {
		t.Errorf("%q %q %q", far, why, next)
	}
	facts.Blocked, facts.Unblock = &LaneBlock{Code: reason.ProviderUnavailable, Detail: "it is not installed"}, "remit doctor"
	if l, err = LaneOf(facts); err != nil {
		t.Fatal(err)
	}
	if _, why, next := l.Summary(); why != "it is not installed" || next != "remit doctor" || l.Status != LaneBlocked || ControlOf([]Lane{l}).BlockedLanes != 1 {
		t.Errorf("%q %q %+v", why, next, l)
	}
	s := Summarize([]Records{{Engine: "command"}})
	s.Attach(ControlOf([]Lane{l}))
	if s.Schema != StatusSchema || s.Control.Schema != ControlSchema || s.Engines[0].CandidateStatus != NotCandidate || !strings.Contains(s.Engines[0].NextAction, "remit doctor") {
		t.Errorf("%+v", s)
	}
}
