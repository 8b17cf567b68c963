//test:plain-package It only computes: there is one goroutine.

package twin

import (
	"testing"

	"remit/fixtures/tally"
)

// itsTurn has half of the runs try the edits of a language, 0 or 1: package verify tries
// the runners of all languages in each run.
func itsTurn(t *testing.T, half int) {
	t.Helper()
	tally.AtItsTurn(t, half, 2)
}
