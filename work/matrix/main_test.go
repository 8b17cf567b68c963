package matrix

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

// options are those of a real matrix; without a sandbox there is nothing to
// test, and the test says so.
func options(t *testing.T, engine string) Options {
	t.Helper()
	driver, err := sandbox.Open(t.Context(), sandbox.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Engine: engine, Binary: self, Sandbox: driver, Dir: t.TempDir()}
}
