package verify

import (
	"fmt"
	"testing"

	"remit/proof/reason"
	"remit/work/verify/twin"
)

// TestNextRuns: a run in which a test passed that cannot is tried again alone,
// and nothing is left out.
func TestNextRuns(t *testing.T) {
	t.Parallel()
	neutral, lost := func(run int) trouble { return trouble{run: run} }, func(run int) trouble { return trouble{run: run, kind: twin.Fail, lost: true} }
	passes := func(run int) trouble { return trouble{run: run, kind: twin.Flip} }
	for _, tc := range []struct {
		troubles []trouble
		want     string
	}{
		{[]trouble{neutral(2)}, "[[2]]"},
		{[]trouble{neutral(0), neutral(1), neutral(2), neutral(1)}, "[[0 1 1] [2]]"},
		{[]trouble{neutral(0), lost(1), passes(3), neutral(3)}, "[[3 3] [0 1]]"},
		{[]trouble{{run: 1, fault: &reason.Finding{}}, lost(0)}, "[[1 0]]"},
	} {
		var got [][]int
		for later := tc.troubles; len(later) > 0; {
			var now []trouble
			now, later = nextRuns(later)
			var runs []int
			for _, tr := range now {
				runs = append(runs, tr.run)
			}
			got = append(got, runs)
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("%+v: %v, want %s", tc.troubles, got, tc.want)
		}
	}
}
