//test:plain-package It starts programs as processes, and meets them in files and over sockets; what they are made of has tests with the detector.

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
