//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"remit/fixtures/child"
)

// victim is one of our programs with a supervisor: it is killed and started
// again, on the same directories.
type victim struct {
	name string
	args []string
	home string
	log  string // stderr of all its lives
	// at is called with the address of a nexus that serves, gone when it stops.
	at, gone func(address string)

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // of the present life, nil between two
	meant bool          // the test has asked it to end
	url   string
	first announcement // of its first life
	fault []error      // lives that ended by themselves
}

// announcement is what `remit serve --json` says.
type announcement struct {
	URL   string `json:"url"`
	Token string `json:"admin_token"`
}

func newVictim(t *testing.T, root, name string, args ...string) *victim {
	t.Helper()
	v := &victim{name: name, args: args, home: filepath.Join(root, name), log: filepath.Join(root, name+".log")}
	t.Cleanup(func() {
		v.kill() // what is still alive when a test gives up
		if text, _ := os.ReadFile(v.log); t.Failed() {
			t.Logf("%s said at last:\n%s", name, text[max(0, len(text)-6000):])
		}
	})
	return v
}

// start begins a life. A nexus has begun when it has said where it is.
func (v *victim) start() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	log, err := os.OpenFile(v.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program(), v.args...)
	cmd.Env = append(os.Environ(), "REMIT_HOME="+v.home, "HOME="+v.home, "TMPDIR="+filepath.Dir(v.home))
	cmd.Stderr = log
	// It must not outlive a test process that is killed itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said announcement
	if v.at == nil {
		err = child.Start(cmd.Start)
	} else {
		err = startAndRead(cmd, &said)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", v.name, err)
	}
	v.cmd, v.ended, v.meant, v.url = cmd, make(chan struct{}), false, said.URL
	if v.first.URL == "" {
		v.first = said
	}
	if v.at != nil {
		v.at(strings.TrimPrefix(said.URL, "http://"))
	}
	go v.wait(cmd, v.ended)
	return nil
}

// keepThread keeps the thread of a test until it ends, for a program that it starts and
// waits for with a signal for the end of its parent: see package child.
func keepThread(t testing.TB) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread) // in the same goroutine
}

// startAndRead starts a program and decodes the first value on its stdout.
func startAndRead(cmd *exec.Cmd, said any) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(cmd.Start); err != nil {
		return err
	}
	if err := json.NewDecoder(out).Decode(said); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return nil
}

func (v *victim) wait(cmd *exec.Cmd, ended chan struct{}) {
	err := cmd.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.meant {
		v.fault = append(v.fault, fmt.Errorf("%s ended by itself: %w", v.name, errors.Join(err, errors.New(cmd.ProcessState.String()))))
	}
	if v.gone != nil {
		v.gone(strings.TrimPrefix(v.url, "http://"))
	}
	v.cmd, v.ended = nil, nil
	close(ended)
}

// end sends a signal and waits for the end; false when there was no life.
func (v *victim) end(signal os.Signal) (state *os.ProcessState, ok bool) {
	v.mu.Lock()
	cmd, ended := v.cmd, v.ended
	if cmd == nil {
		v.mu.Unlock()
		return nil, false
	}
	v.meant = true
	_ = cmd.Process.Signal(signal) // it may have ended meanwhile
	v.mu.Unlock()
	<-ended
	return cmd.ProcessState, true
}

func (v *victim) kill() bool {
	_, ok := v.end(syscall.SIGKILL)
	return ok
}

// killer kills victims at moments that a seed gives, and starts them again.
type killer struct {
	random   *rand.Rand
	victims  [2][]*victim     // authority and providers: each has every other kill, on average
	pause    [2]time.Duration // between two kills, at least and at most
	downTime time.Duration    // at most, until a supervisor starts it again
	most     int              // kills; 0 for no end

	mu    sync.Mutex
	kills map[string]int // by the name of the victim
	errs  []error
	again sync.WaitGroup
}

func (k *killer) total() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, kills := range k.kills {
		n += kills
	}
	return n
}

// run kills until ctx ends or it is enough. When it returns everybody lives again.
func (k *killer) run(ctx context.Context) {
	defer k.again.Wait()
	for (k.most == 0 || k.total() < k.most) && wait(ctx, k.pause[0]+time.Duration(k.random.Int64N(int64(k.pause[1]-k.pause[0])))) {
		side := k.victims[k.random.IntN(len(k.victims))]
		v := side[k.random.IntN(len(side))]
		down := time.Duration(k.random.Int64N(int64(k.downTime)))
		if !v.kill() {
			continue // it is down still
		}
		k.mu.Lock()
		k.kills[v.name]++
		k.mu.Unlock()
		k.again.Go(func() {
			wait(ctx, down)
			if err := v.start(); err != nil {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.errs = append(k.errs, err)
			}
		})
	}
}

// wait returns false when ctx has ended before the time is up.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// processesWith lists the processes that name one of the words in their command
// line or environment, and the mounts that do.
func processesWith(words ...string) ([]string, error) {
	has := func(text []byte) bool {
		return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(text, []byte(w)) })
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended meanwhile
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))  // or be another user's
		if has(line) || has(env) {
			found = append(found, fmt.Sprintf("%s: %q", dir, line[:min(len(line), 200)]))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && has(mounts) {
		found = append(found, "a mount")
	}
	return found, err
}
