//test:plain-package It only computes: there is one goroutine.

package health

import (
	"strings"
	"testing"

	"remit/proof/reason"
)

// TestReport: the verdict is that of the worst cause, each cause has a hint, and
// nothing repeats a key.
func TestReport(t *testing.T) {
	t.Parallel()
	var f Findings
	f.Looked(Sessions, 3)
	if r := f.Report(); !r.OK || r.ExitCode != 0 || len(r.Checks) != len(Checks()) || r.Checks[len(r.Checks)-1].Looked != 3 {
		t.Errorf("%+v", r)
	}
	key := "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	f.Add(Doctor, reason.SandboxUnavailable, "sandbox", "is "+key, "")
	if r := f.Report(); r.OK || r.Status != "blocked" || r.ExitCode != 3 || strings.Contains(r.Causes[0].Message, key) || r.Causes[0].Hint == "" {
		t.Errorf("%+v", r)
	}
	f.Add(Sessions, reason.ArtifactDigest, "s", "changed", "")
	f.Add(Sessions, reason.Interrupted, "t", "ended", "")
	if r := f.Report(); r.Status != "fail" || r.ExitCode != 2 || r.Checks[0].Status != "blocked" || r.Checks[len(r.Checks)-1].Status != "fail" {
		t.Errorf("%+v", r)
	}
}
