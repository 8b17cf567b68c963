//test:plain-package It starts programs as processes, and meets them in files and over sockets; what they are made of has tests with the detector.

package workos

import (
	"os"
	"path/filepath"
	"testing"

	"remit/work/sandbox"
)

// TestMain makes this program the stand-in for Case when it is started by that
// name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ca" {
		os.Exit(standIn(os.Args[1:]))
	}
	sandbox.Init() // the tests start sandboxes
	os.Exit(m.Run())
}
