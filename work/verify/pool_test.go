package verify

import "testing"

// TestSideBySide: an odd number of runs on two processors goes three at a time.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ runs, processors, want int }{
		{1, 2, 2}, {2, 2, 2}, {3, 2, 3}, {4, 2, 2}, {5, 2, 3}, {6, 2, 2}, {5, 1, 3}, {5, 4, 4}, {5, 64, 4}, {5, 3, 3}, {4, 3, 4},
	} {
		if got := sideBySide(tc.runs, tc.processors); got != tc.want {
			t.Errorf("%d runs on %d processors: %d at once, want %d", tc.runs, tc.processors, got, tc.want)
		}
	}
}
