package harness

import (
	"os"
	"testing"

	"remit/work/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	os.Exit(m.Run())
}
