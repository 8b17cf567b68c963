package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"remit/fixtures/tally"
	"remit/work/sandbox"
)

// gateL are the scenes of the vignette, see scripts/vignette.
var gateL = &tally.Table{Name: "Gate L", Rows: []string{
	"P Preconditions: nexus, relay, identity, budget",
	"1 Enrol devices, set caps",
	"2 Create a run from the issue",
	"1b Enrolment and caps, as the run relied on them",
	"3 Dispatch oa.sandbox_run.v1",
	"4 The provider executes and returns artifacts",
	"5 The verdict",
	"6 Settlement",
	"7 The change goes out, with its bundle",
	"D1 Failure case: dispatch retry",
	"D2 Failure case: provider lost mid-run",
	"D3 Failure case: verification fails",
	"D4 Failure case: emergency disable",
	"R A stuck reservation is reconciled",
	"D5 Failure case: a provider is stopped at work",
	"L Every run has ended, every log is whole",
	"8 The bridge mirrors ads and receipt pointers",
	"B The books balance",
	"E The metrics",
	"X Everything is stopped",
}}

// vignette is the walk from an issue to a paid and mirrored change, as
// processes of the shipped program. It waits most of its time for leases to run
// out, and so it goes on beside other tests.
type vignette struct {
	dir  string
	cmd  *exec.Cmd
	said bytes.Buffer
	done chan struct{}
	err  error
}

var walk struct {
	mu sync.Mutex
	v  *vignette
}

// begunVignette starts the walk, if it has not begun. endVignette ends it.
func begunVignette(t *testing.T) *vignette {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED, -short: half a minute of waiting")
	}
	driver, err := sandbox.Open(t.Context(), sandbox.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Skipf("SKIPPED, no sandbox here: %v", err)
	}
	if missing := driver.Describe().NotEnforced; len(missing) > 0 {
		t.Skipf("SKIPPED, caps are part of what is proved, and this user cannot enforce %q", missing)
	}
	walk.mu.Lock()
	defer walk.mu.Unlock()
	if walk.v != nil {
		return walk.v
	}
	dir, err := os.MkdirTemp("", "remit-vignette-")
	if err != nil {
		t.Fatal(err)
	}
	v := &vignette{dir: dir, done: make(chan struct{})}
	v.cmd = exec.Command(filepath.Join("..", "..", "scripts", "vignette-phase0-issue-to-pr.sh"))
	v.cmd.Env = append(os.Environ(), "VIGNETTE_DIR="+dir, "VIGNETTE_TIME=3m", "REMIT_BIN="+program(), "REMIT_STORE=sqlite")
	v.cmd.Stdout, v.cmd.Stderr = &v.said, &v.said
	if err := v.cmd.Start(); err != nil {
		t.Fatal(errors.Join(err, os.RemoveAll(dir)))
	}
	go func() { defer close(v.done); v.err = v.cmd.Wait() }()
	walk.v = v
	return v
}

// endVignette leaves nothing of the walk behind, whatever became of it.
func endVignette() error {
	walk.mu.Lock()
	defer walk.mu.Unlock()
	if walk.v == nil {
		return nil
	}
	_ = walk.v.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-walk.v.done
	return os.RemoveAll(walk.v.dir)
}

// TestVignetteBegins starts what TestVignette looks at: it comes before all tests
// that are parallel, and that one after most of them.
func TestVignetteBegins(t *testing.T) { begunVignette(t) }

// TestVignette is Gate L: every scene is a row, every check of it is counted.
func TestVignette(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	v := begunVignette(t)
	<-v.done
	var summary struct {
		Green bool
		Steps []struct {
			ID, Title string
			Checks    []struct {
				ID, Text string
				OK       bool
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(v.dir, "summary.json"))
	if err == nil {
		err = json.Unmarshal(text, &summary)
	}
	if v.err != nil || err != nil || !summary.Green {
		t.Errorf("%v, %v:\n%s", v.err, err, v.said.Bytes())
	}
	for _, step := range summary.Steps {
		t.Run(step.ID, func(t *testing.T) {
			c := gateL.Row(t, step.ID+" "+step.Title)
			for _, check := range step.Checks {
				c.Check(check.OK, "%s %s", check.ID, check.Text)
			}
		})
	}
	for _, scene := range gateL.Missing() {
		t.Errorf("the scene %q was not walked", scene)
	}
}
