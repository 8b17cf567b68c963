package ladder

import (
	"os"
	"strings"
	"testing"

	"remit/proof/reason"
)

// TestGuardBlocks: work that is open and work that is unclear both block, and the
// reason says which there is. The page names every check.
func TestGuardBlocks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/governance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range GuardChecks() {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/governance.md has no row for %s", name)
		}
		for _, unclear := range []bool{false, true} {
			g := JudgeGuard("r", "", []OpenWork{{Check: name, Unclear: unclear}})
			want, status := reason.ConflictingWork, CheckConflict
			if unclear {
				want, status = reason.OwnershipUnclear, CheckUnclear
			}
			if g.Passed() || *g.BlockedReason != want || g.RouteAdmission != RouteNotAdmitted || reason.StatusOf(want) != reason.Blocked {
				t.Errorf("%+v", g)
			}
			for _, c := range g.Checks {
				if (c.Status == status) != (c.Name == name) {
					t.Errorf("%s: %+v", name, g.Checks)
				}
			}
		}
	}
	if g := JudgeGuard("r", "", nil); !g.Passed() || g.OpenWork == nil || len(g.Checks) != len(GuardChecks()) {
		t.Errorf("%+v", g)
	}
}
