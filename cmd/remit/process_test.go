package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// process is the program in the background. A `remit serve` says where it
// listens, and the first time who may do everything.
type process struct {
	cmd   *exec.Cmd
	out   *json.Decoder
	log   *bytes.Buffer // complete when it has ended
	ended bool
	URL   string `json:"url"`
	Token string `json:"admin_token"`
}

// start starts the program and stops it at the end of the test, if it was not
// stopped before.
func start(t *testing.T, home string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(program(), args...)
	cmd.Env = append(os.Environ(), "REMIT_HOME="+home, "HOME="+home)
	p := &process{cmd: cmd, log: new(bytes.Buffer)}
	cmd.Stderr = p.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = json.NewDecoder(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !p.ended {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone
			p.wait(t)
		}
		if t.Failed() {
			t.Logf("remit %s said:\n%s", args[0], p.log)
		}
	})
	return p
}

// wait waits for its end, which must be a good one unless the test has failed.
func (p *process) wait(t *testing.T) {
	t.Helper()
	p.ended = true
	if err := p.cmd.Wait(); err != nil && !t.Failed() {
		t.Errorf("%v: %v\n%s", p.cmd.Args, err, p.log)
	}
}

// stop sends SIGTERM and expects a clean end.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var more json.RawMessage
	if err := p.out.Decode(&more); !errors.Is(err, io.EOF) {
		t.Errorf("more on stdout: %q %v", more, err)
	}
	p.wait(t)
	if p.Token != "" && strings.Contains(p.log.String(), p.Token) {
		t.Error("the log holds the token")
	}
}

// background starts the program and stops it at the end of the test.
func background(t *testing.T, home string, args ...string) (*exec.Cmd, *json.Decoder) {
	t.Helper()
	p := start(t, home, args...)
	return p.cmd, p.out
}

// serveNexus runs `remit serve` on a free port and waits for its URL. Its data
// are its own unless the arguments name others.
func serveNexus(t *testing.T, args ...string) *process {
	t.Helper()
	dir := t.TempDir()
	p := start(t, dir, append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data")}, args...)...)
	if err := p.out.Decode(p); err != nil {
		t.Fatalf("serve said nothing: %v", err)
	}
	return p
}
