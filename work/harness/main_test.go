package harness

import (
	"os"
	"testing"

	"remit/fixtures/tally"
	"remit/work/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	tally.Wide()
	os.Exit(m.Run())
}
