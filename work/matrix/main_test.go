//test:plain-package It starts programs as processes, and meets them in files and over sockets; what they are made of has tests with the detector.

package matrix

import (
	"context"
	"maps"
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

// prompt is a driver whose commands end at once. The fake engine's process is
// this test binary, which the race detector would have sleep for a second before
// it ends, so that threads which still run can be caught; it has none.
type prompt struct{ sandbox.Driver }

func (d prompt) Run(ctx context.Context, s sandbox.Spec) (*sandbox.Result, error) {
	env := map[string]string{"GORACE": "atexit_sleep_ms=0"}
	maps.Copy(env, s.Env)
	s.Env = env
	return d.Driver.Run(ctx, s)
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
	return Options{Engine: engine, Binary: self, Sandbox: prompt{driver}, Dir: t.TempDir()}
}

// opened is a lane of these options.
func opened(t *testing.T, engine string) *lane {
	t.Helper()
	l, err := options(t, engine).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}
