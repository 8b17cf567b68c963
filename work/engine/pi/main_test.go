package pi

import (
	"os"
	"testing"

	"remit/work/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init() // the tests start sandboxes
	os.Exit(m.Run())
}
