package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"remit/fixtures/child"
)

// stopTime is how long a process may take to end after SIGTERM: the nexus
// drains its lanes, a daemon hands in what it has.
const stopTime = 15 * time.Second

// processes starts the built program and sees to it that nothing outlives the
// vignette: not its end, not Ctrl-C, and on Linux not its sudden death either.
type processes struct {
	program string
	logs    string // directory of what they say

	mu      sync.Mutex
	running []*process
}

// process is a part of the house that runs in the background.
type process struct {
	name string
	cmd  *exec.Cmd
	said chan json.RawMessage // the first JSON document on its standard output
	done chan struct{}
	err  error // why it ended; read after done
}

// command prepares one use of the program with a home of its own: nothing of
// the person who runs the vignette is read or written.
func (p *processes) command(ctx context.Context, home string, args []string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "REMIT_") })
	cmd.Env = append(cmd.Env, "REMIT_HOME="+home, "HOME="+home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = childOnly()
	return cmd
}

// start runs the program in the background.
func (p *processes) start(name, home string, args ...string) (*process, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(p.logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	// Ended by stop, not by a context: the nexus is to drain.
	cmd := p.command(context.Background(), home, args)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := child.Start(cmd.Start); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	proc := &process{name: name, cmd: cmd, said: make(chan json.RawMessage, 1), done: make(chan struct{})}
	go proc.attend(out, log)
	p.mu.Lock()
	p.running = append(p.running, proc)
	p.mu.Unlock()
	return proc, nil
}

// attend reads what a process says until it ends. The first document may hold a
// token, so it is kept out of the log.
func (p *process) attend(out io.Reader, log *os.File) {
	defer close(p.done)
	var first json.RawMessage
	d := json.NewDecoder(out)
	if d.Decode(&first) == nil {
		p.said <- first
	}
	_, _ = io.Copy(log, io.MultiReader(d.Buffered(), out)) // a broken pipe is its end
	p.err = errors.Join(p.cmd.Wait(), log.Close())
}

// announced waits for the first JSON document of a process.
func (p *process) announced(ctx context.Context) answer {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	select {
	case said := <-p.said:
		return answer{raw: said}
	case <-p.done:
		giveUp("%s ended before it was ready: %w", p.name, p.err)
	case <-ctx.Done():
		giveUp("%s does not get ready: %w", p.name, context.Cause(ctx))
	}
	return answer{}
}

// alive reports whether a process has not ended.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop ends a process as an operator does, and says how it ended.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopTime):
		_ = p.kill() // what it says of that is no news
		return fmt.Errorf("%s did not end within %v of SIGTERM", p.name, stopTime)
	}
}

// kill ends a process as a power failure does, and says how it ended.
func (p *process) kill() error {
	_ = p.cmd.Process.Kill() // it may be gone
	<-p.done
	return p.err
}

// stopAll ends what still runs, the last one first, and says what went wrong.
func (p *processes) stopAll() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wrong []string
	for _, proc := range slices.Backward(p.running) {
		if !proc.alive() {
			continue
		}
		if err := proc.stop(); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", proc.name, err))
		}
	}
	return wrong
}

// finished is what a command of the program came to.
type finished struct {
	exit           int
	stdout, stderr []byte
}

// run runs a command of the program to its end. Only a command that could not
// be run is an error: exit codes are for the caller to judge.
func (p *processes) run(ctx context.Context, home string, args []string, env ...string) finished {
	must(os.MkdirAll(home, 0o700))
	return need(p.finish(p.command(ctx, home, args, env...)))
}

func (p *processes) finish(cmd *exec.Cmd) (finished, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	if err := child.Start(cmd.Start); err != nil {
		return finished{}, err
	}
	err := cmd.Wait()
	f := finished{cmd.ProcessState.ExitCode(), out.Bytes(), errs.Bytes()}
	if _, ended := errors.AsType[*exec.ExitError](err); ended && f.exit >= 0 {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, clip(errs.String()))
	}
	return f, err
}
