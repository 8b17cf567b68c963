//test:plain-package It only computes: there is one goroutine.

package twin

import (
	"testing"

	"remit/fixtures/tally"
)

// itsTurn has a quarter of the runs try the edits of a language.
func itsTurn(t *testing.T, quarter int) {
	t.Helper()
	tally.AtItsTurn(t, quarter, 4)
}
