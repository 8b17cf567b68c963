package ladder

import (
	"testing"

	"remit/proof/evidence"
	"remit/proof/reason"
)

// TestOutcomeMissing: from stage 5 on a pass without an outcome counts for
// nothing, and a mode that is not known is taken for one of those.
func TestOutcomeMissing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode, status, outcome string
		missing               bool
	}{
		{"copied-repo", "pass", "pending", false},
		{"sandbox-repo", "pass", "pending", false},
		{"owned-noncritical-repo", "pass", "pending", true},
		{"owned-noncritical-repo", "pass", "", true},
		{"owned-noncritical-repo", "pass", "accepted", false},
		{"owned-noncritical-repo", "pass", "rejected", false},
		{"owned-noncritical-repo", "fail", "pending", false},
		{"scoped-real-repo", "pass", "pending", true},
		{"everything", "pass", "pending", true},
	} {
		err := OutcomeMissing(&evidence.Report{SessionID: "s", MutationMode: test.mode, Status: test.status, OperatorOutcome: test.outcome})
		if (err != nil) != test.missing || err != nil && err.Code != reason.OperatorOutcomeMissing {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
