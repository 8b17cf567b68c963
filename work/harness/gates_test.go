package harness

import (
	"strings"
	"testing"

	"remit/law/eligibility"
	"remit/law/task"
)

// TestDecisionBlockersSayWhatToDo: what no record admits is refused with what the
// record says and with what would make one hold.
func TestDecisionBlockersSayWhatToDo(t *testing.T) {
	t.Parallel()
	d := eligibility.Decide(eligibility.Request{RiskClass: task.RiskLow, MutationMode: task.CopiedRepo, Network: task.NetworkGateway,
		Sandbox: eligibility.Sandbox{Driver: "bwrap"},
		Engine: eligibility.Engine{Name: "pi", Registered: true, Enabled: true, ProvenMode: task.CopiedRepo,
			SourceDetail: "the record is stale", SourceRemedy: "remit admit source", ModelStatus: eligibility.ModelMismatch,
			ModelDetail: "from: command", ModelRemedy: "remit admit model"}})
	var got []string
	for _, b := range decisionBlockers(d) {
		got = append(got, string(b.Code)+": "+b.Message+": "+b.Hint)
	}
	want := "source_not_admitted: the record is stale: remit admit source\nmodel_mismatch: from: command: remit admit model\n" +
		"gate_missing: missing gates: source:admitted, model:admitted: "
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
}
