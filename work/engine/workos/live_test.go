//go:build linux

package workos

import (
	"os"
	"strings"
	"testing"

	"remit/work/engine/agent/modeltest"
)

// binVariable names the real program for TestLive. It is not published, so no
// other way leads to it.
const binVariable = "REMIT_CASE_BIN"

// TestLive has the real Case fix a hostile repository in the real sandbox.
func TestLive(t *testing.T) {
	bin := os.Getenv(binVariable)
	if bin == "" {
		t.Skipf("SKIPPED, the real agent is not driven: %s names no program of WorkOS Case; a stand-in was", binVariable)
	}
	t.Setenv("REMIT_CANARY", secret)
	o, h := try(t, bin, script(look+edit+commit+turn(`{"status":"completed","summary":"add adds"}`), turn(fine), turn(approved)))
	if o.Command.ExitCode != 0 || !o.End.Complete || o.End.Rejected || o.End.Summary != "add adds" || o.Changed["calc.py"] != fixed {
		t.Errorf("exit %d, %+v, %q\n%s\n%s", o.Command.ExitCode, o.End, o.Changed, o.Stdout.String(), o.Stderr.String())
	}
	prompts := h.all()
	if !strings.Contains(prompts, "Task: --help @calc.py") {
		t.Error("the task did not arrive")
	}
	for _, not := range []string{modeltest.Canary, secret, "# Closer"} {
		if strings.Contains(prompts, not) {
			t.Errorf("the model got %q", not)
		}
	}
	var calls, paths int
	for _, e := range o.Events {
		if e.Tool != "" {
			calls++
		}
		paths += len(e.Paths)
	}
	if calls != 3 || paths != 1 {
		t.Errorf("%d calls, %d paths", calls, paths)
	}
}

// TestLiveFaults: the defects that this engine works around are still Case's.
func TestLiveFaults(t *testing.T) {
	bin := os.Getenv(binVariable)
	if bin == "" {
		t.Skipf("SKIPPED, the real agent is not driven: %s names no program of WorkOS Case; a stand-in was", binVariable)
	}
	for name, test := range faults() {
		t.Run(name, func(t *testing.T) { test.check(t, bin) })
	}
}

const approved = `{"status":"completed","summary":"s","rubric":{"role":"reviewer","categories":[{"category":"scope-discipline","verdict":"pass","detail":"d"}]},"findings":{"critical":0,"warnings":0,"info":0,"details":[]}}`
