//test:plain-package It starts programs as processes and reads what they left; there is little that runs side by side.

package prove

import (
	"os"
	"testing"

	"remit/work/engine/fake"
	"remit/work/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	if len(os.Args) > 1 && os.Args[1] == fake.Argument {
		os.Exit(fake.Process(os.Args[2:]))
	}
	os.Exit(m.Run())
}
