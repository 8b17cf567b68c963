package provider

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
)

// TestDismissed: a daemon whose credential is not taken any more ends, at work or
// not, and says what to do. It asks no more and says nothing of itself.
func TestDismissed(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"heartbeat", "lease", "tickets", "renew"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			repo := repository(t)
			a := &authority{t: t, refuse: map[string]reason.Code{}}
			if step == "renew" {
				a.lease = leaseOf(request(t, repo, func(r *job.SandboxRunRequest) { r.Commands[0].Cmd = "sleep 600" }))
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			s := httptest.NewServer(a.live(ctx))
			t.Cleanup(s.Close)
			d := daemon(t, s.URL, func(c *Config) {
				// A lease that ran out before its renewal was asked for would be given back.
				c.Sources, c.LeaseTTL, c.Heartbeat, c.Grace = []string{repo}, time.Second, 10*time.Millisecond, time.Hour
			})
			a.refused = func(string) { // from then on it takes nothing
				for _, all := range []string{"heartbeat", "lease", "tickets", "renew"} {
					a.refuse[all] = reason.TokenExpired
				}
			}
			a.refuse[step] = reason.TokenExpired
			err := d.Run(ctx)
			if ctx.Err() != nil {
				t.Fatal("it went on for a minute")
			}
			var said *reason.Error
			if !errors.As(err, &said) || said.Code != reason.TokenExpired || !strings.Contains(said.Hint, "remit provider join --replace ") {
				t.Fatalf("%v", err)
			}
			if signs := a.signs(); slices.Contains(signs, "stopped") || slices.Contains(signs, "release 7") {
				t.Errorf("signs %q", signs)
			}
		})
	}
}

// TestJoinSparesTheToken: a registration that could not be kept is not asked for.
func TestJoinSparesTheToken(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ask := Registration{Nexus: s.URL, Token: "rmt_registration_x_y", Name: "one", Version: "test", Client: api.Options{Retry: api.Retry{Attempts: 1}}}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := (State{Dir: dir}).Join(t.Context(), ask); err == nil || asked.Load() != 0 {
			t.Errorf("%s: %v, asked %d times", dir, err, asked.Load())
		}
	}
	good := State{Dir: filepath.Join(t.TempDir(), "p")}
	if _, err := good.Join(t.Context(), ask); err == nil || asked.Load() != 1 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
	if left, err := os.ReadDir(good.Dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestKilledWorkIsHandedBack: the next daemon on this machine gives back what a
// killed one was at, under the fence of that attempt, and nothing else.
func TestKilledWorkIsHandedBack(t *testing.T) {
	t.Parallel()
	a := &authority{t: t, refuse: map[string]reason.Code{}}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	var config Config
	first := daemon(t, s.URL, func(c *Config) { config = *c })
	for id, done := range map[string]bool{"job_cut": false, "job_done": true} {
		if _, err := first.spool.begin(id); err != nil {
			t.Fatal(err)
		}
		if err := first.spool.mark(held{id, 5}); err != nil {
			t.Fatal(err)
		}
		if done {
			if err := first.spool.finish(Result{JobID: id, JobHash: "x", Fence: 5, Response: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	beside, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := beside.Once(t.Context(), 0); err != nil { // the first one lives: what it is at is its own
		t.Fatal(err)
	}
	if signs := a.signs(); slices.Contains(signs, "release 5") {
		t.Fatalf("signs %q", signs)
	}
	ended(t, first, beside)
	next, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := next.Once(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if signs := slices.Compact(a.signs()); !slices.Equal(signs, []string{"running", "complete", "running", "release 5", "running"}) {
		t.Errorf("signs %q", signs)
	}
}

// TestEveryLostJobIsHandedBack: a spool that cannot be written costs the job, but
// not the time of its lease.
func TestEveryLostJobIsHandedBack(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	a, d := serve(t, repo, request(t, repo, nil))
	d.ttl = time.Minute
	if err := os.RemoveAll(d.spool.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.spool.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if ran, err := d.Once(t.Context(), 0); !ran || err == nil {
		t.Errorf("%v %v", ran, err)
	}
	a.await(t, "running", "release 7")
}

// ended has the locks of daemons gone, as the end of their processes does. A process that
// another test forks at this moment has their files until it executes its program, so
// closing them would not do.
func ended(t *testing.T, daemons ...*Daemon) {
	t.Helper()
	for _, d := range daemons {
		if err := unix.Flock(int(d.presence.Fd()), unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		if err := d.presence.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
