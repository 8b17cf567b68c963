package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// TestWatch: silence ends the engine at the limit and not before, every sign of
// life begins it anew, and the watch leaves nothing behind.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, p, done := watch(t.Context(), 10*time.Second)
		for range 5 {
			time.Sleep(9 * time.Second)
			p.beat()
		}
		time.Sleep(9999 * time.Millisecond)
		if synctest.Wait(); ctx.Err() != nil {
			t.Fatalf("stopped too early: %v", context.Cause(ctx))
		}
		time.Sleep(time.Millisecond)
		if synctest.Wait(); !errors.Is(context.Cause(ctx), errIdle) {
			t.Fatalf("not stopped: %v", context.Cause(ctx))
		}
		done()
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, _, done := watch(t.Context(), time.Hour)
		done() // the engine has ended: the bubble would find a watch that goes on
		if errors.Is(context.Cause(ctx), errIdle) {
			t.Error("an engine that ended was idle")
		}
	})
	gone, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user")
	cancel(why)
	ctx, _, done := watch(gone, time.Hour)
	defer done()
	if !errors.Is(context.Cause(ctx), why) {
		t.Error("who cancelled is not said")
	}
	same, p, none := watch(t.Context(), 0)
	p.beat() // of no pulse
	none()
	if same != t.Context() || p != nil {
		t.Error("no limit, and a watch")
	}
}

func TestOnlyIdle(t *testing.T) {
	t.Parallel()
	other := errors.New("collect changes")
	for _, err := range []error{errIdle, errors.Join(errIdle, nil), fmt.Errorf("sandbox: %w", errors.Join(errIdle))} {
		if !onlyIdle(err) {
			t.Errorf("%v", err)
		}
	}
	for _, err := range []error{nil, other, errors.Join(errIdle, other), fmt.Errorf("%w, %w", other, errIdle), context.Canceled} {
		if onlyIdle(err) {
			t.Errorf("%v passes for silence alone", err)
		}
	}
}

// TestFeltConnections: bytes through the gateway's listener are signs of life,
// in both directions.
func TestFeltConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		p := &pulse{begun: time.Now()}
		c := feltConn{near, p}
		for name, move := range map[string]func(){
			"read":  func() { go func() { _, _ = far.Write([]byte("x")) }(); _, _ = c.Read(make([]byte, 1)) },
			"write": func() { go func() { _, _ = far.Read(make([]byte, 1)) }(); _, _ = c.Write([]byte("x")) },
		} {
			time.Sleep(time.Minute)
			if move(); p.silent() != 0 {
				t.Errorf("%s: silent for %s", name, p.silent())
			}
		}
	})
}

// slowStart is a sandbox that is not ready before the engine's patience ends.
type slowStart struct{}

func (slowStart) Describe() sandbox.Description { return sandbox.Description{Driver: "slow"} }

func (slowStart) Run(ctx context.Context, _ sandbox.Spec) (*sandbox.Result, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("sandbox: %w", context.Cause(ctx))
}

// TestSilentBeforeItsStart: a repository can make a sandbox slow to build. An
// engine that was not started by then left nothing, and the run ends in order.
func TestSilentBeforeItsStart(t *testing.T) {
	t.Parallel()
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n"}), nil, talker{[]string{"tool"}})
	req.Sandbox, req.Contract.Budget.IdleSeconds = slowStart{}, new(int64(1))
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if rep := out.Report; rep.Status != evidence.StatusBlocked || rep.Blockers[0].Code != reason.Timeout {
		t.Errorf("%s: %+v", rep.Status, rep.Blockers)
	}
}
