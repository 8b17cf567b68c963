//go:build linux

package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/work/engine/agent/modeltest"
	"remit/work/sandbox"
)

// confined drives the fake agent in the real sandbox, as a program that the
// table does not know.
func confined(t *testing.T, mode string, wall time.Duration) *modeltest.Outcome {
	t.Helper()
	d, err := sandbox.Open(t.Context(), sandbox.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Skipf("SKIPPED, there is no sandbox here: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := write(t, filepath.Join(t.TempDir(), "fake"), "#!/bin/sh\nexec "+insideClient+" "+fakeArgument+" "+mode+"\n")
	e, err := New(Options{Command: []string{program}, Wire: "chat", Client: self})
	if err != nil {
		t.Fatal(err)
	}
	lower := t.TempDir()
	write(t, filepath.Join(lower, "a.txt"), "a\n")
	o, err := modeltest.Trial{Engine: e, Model: "some-model", Title: "add a file", Lower: lower, Server: &modeltest.Server{}, Wall: wall}.Run(t.Context(), d, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestConfined: the conversation takes place in the sandbox, about the
// workspace and the gateway, and what the agent changes is the change.
func TestConfined(t *testing.T) {
	t.Setenv("REMIT_CANARY", "s3cr3t-of-the-user")
	o := confined(t, "echo", time.Minute)
	if o.Command.ExitCode != 0 || !o.End.Complete || len(o.Changed) != 1 || o.Changed["made.txt"] != "made\n" {
		t.Errorf("exit %d, %+v, changed %q\n%s", o.Command.ExitCode, o.End, o.Changed, o.Stderr.String())
	}
	for _, part := range []string{`Task: add a file`, `"cwd":"` + sandbox.WorkspacePath + `"`, "http://127.0.0.1:", "some-model"} {
		if !strings.Contains(o.End.Summary, part) {
			t.Errorf("the agent did not get %q: %s", part, o.End.Summary)
		}
	}
	for _, part := range []string{"s3cr3t", `"_meta"`, modeltest.Token} {
		if strings.Contains(o.End.Summary, part) {
			t.Errorf("the agent got %q", part)
		}
	}
	if tokens := o.Events[len(o.Events)-1].Usage.Tokens; tokens != 10 {
		t.Errorf("%d tokens", tokens)
	}
}

// TestHang: an agent that never answers is stopped with the sandbox, and what
// it said before is there. On a busy machine it gets more time to say it.
func TestHang(t *testing.T) {
	t.Parallel()
	o := confined(t, "hang", 2*time.Second)
	for wall := 8 * time.Second; o.End.Summary == "" && wall < 10*time.Minute; wall *= 4 {
		o = confined(t, "hang", wall)
	}
	if !o.Command.TimedOut || o.End.Complete || o.End.Problem == "" || o.End.Summary != "I think." {
		t.Errorf("%+v %+v", o.Command, o.End)
	}
}
