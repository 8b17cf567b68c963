package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/law/job"
	"remit/proof/reason"
)

// said puts a sign of life, a lease that is handed back or a result into a word.
func (a *authority) said(step string, r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var says struct {
		Status string
		Fence  int64
	}
	switch step {
	case "heartbeat", "release":
		if err := json.Unmarshal(body, &says); err != nil {
			a.t.Error(err)
		}
		if step == "release" {
			return fmt.Sprint("release ", says.Fence)
		}
		return says.Status
	case "complete":
		return step
	}
	return ""
}

func (a *authority) signs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.story)
}

// await waits until a story begins like this.
func (a *authority) await(t *testing.T, want ...string) {
	t.Helper()
	for range 12000 { // a minute
		if slices.Equal(a.signs(), want) || !wait(t.Context(), 5*time.Millisecond) {
			break
		}
	}
	if got := a.signs(); !slices.Equal(got, want) {
		t.Fatalf("signs %q, want %q", got, want)
	}
}

// TestStopSaysSo stops a daemon that has nothing to do. It may have stopped
// before it came to say that it is going to.
func TestStopSaysSo(t *testing.T) {
	t.Parallel()
	a := &authority{t: t, refuse: map[string]reason.Code{}}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	d := daemon(t, s.URL, func(c *Config) { c.Grace = time.Hour })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	a.await(t, "running")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := a.signs(); !slices.Equal(got, []string{"running", "stopped"}) && !slices.Equal(got, []string{"running", "stopping", "stopped"}) {
		t.Errorf("signs %q", got)
	}
}

// TestStartBeforeTheNexus: a daemon that is started while the nexus is away, or is no
// nexus yet, waits for it and then works; it does not wait for one that refuses it.
func TestStartBeforeTheNexus(t *testing.T) {
	t.Parallel()
	a := &authority{t: t, refuse: map[string]reason.Code{}}
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		default:
			a.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	d := daemon(t, s.URL, func(c *Config) { c.Grace = time.Hour })
	go func() { ended <- d.Run(ctx) }()
	a.await(t, "running")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	a.refuse["heartbeat"] = reason.ProviderDisabled
	if err := daemon(t, s.URL).Run(t.Context()); reason.CodeOf(err) != reason.ProviderDisabled {
		t.Errorf("refused: %v", err)
	}
}

// TestStopBeforeTheFirstAnswer: a daemon that is asked to stop while its first sign
// of life is under way says that it has stopped, for that sign may have arrived.
func TestStopBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	a := &authority{t: t, refuse: map[string]reason.Code{}}
	ctx, stop := context.WithCancel(t.Context())
	var first sync.Once
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slow := false
		first.Do(func() { slow = true })
		if slow {
			stop()
			_, _ = io.Copy(io.Discard, r.Body) // so that its end is seen
			<-r.Context().Done()
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	d := daemon(t, s.URL, func(c *Config) { c.Grace = time.Hour })
	if err := d.Run(ctx); err != nil {
		t.Error(err)
	}
	if got := a.signs(); !slices.Equal(got, []string{"stopped"}) {
		t.Errorf("signs %q", got)
	}
}

// TestStopWithWork stops a daemon at work: what ends within the grace is handed
// in, and what does not is handed back.
func TestStopWithWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command string
		grace   time.Duration
		want    []string
	}{
		"ends in time":   {"sleep 0.3", time.Minute, []string{"complete", "stopped"}},
		"takes too long": {"sleep 600", 10 * time.Millisecond, []string{"release 7", "stopped"}},
		"no grace":       {"sleep 600", 0, []string{"release 7", "stopped"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := repository(t)
			a, d := serve(t, repo, request(t, repo, func(r *job.SandboxRunRequest) { r.Commands[0].Cmd = c.command }))
			d.ttl, d.grace = time.Minute, c.grace
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go func() {
				for !d.works("job_1") && wait(ctx, time.Millisecond) {
				}
				stop()
			}()
			if ran, err := d.Once(ctx, 0); !ran || (err == nil) != (c.want[0] == "complete") {
				t.Errorf("%v %v", ran, err)
			}
			if got := a.signs(); !slices.Equal(got, append([]string{"running"}, c.want...)) {
				t.Errorf("signs %q", got)
			}
			if left, err := d.spool.all(); err != nil || len(left) != 0 {
				t.Error(left, err)
			}
		})
	}
}

// TestLastOneSaysSo: while another daemon of the registration lives, no daemon says
// that the provider ends.
func TestLastOneSaysSo(t *testing.T) {
	t.Parallel()
	a := &authority{t: t, refuse: map[string]reason.Code{}}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	var state State
	first := daemon(t, s.URL, func(c *Config) { state = c.State })
	second := daemon(t, s.URL, func(c *Config) { c.State = state })
	ended, stop := context.WithCancel(t.Context())
	stop()
	first.stopped(ended)
	second.stopped(ended)
	if got := a.signs(); len(got) != 0 {
		t.Fatalf("signs %q", got)
	}
	if err := first.voice.Close(); err != nil { // its process has ended
		t.Fatal(err)
	}
	// A program that another test is about to start has the lock too, until it is started.
	for end := time.Now().Add(10 * time.Second); len(a.signs()) == 0 && time.Now().Before(end); {
		second.stopped(ended)
	}
	a.await(t, "stopped")
}

// TestLostWorkIsHandedBack: the authority is away until the lease has run out,
// and hears of it when it is back.
func TestLostWorkIsHandedBack(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	a, d := serve(t, repo, request(t, repo, func(r *job.SandboxRunRequest) { r.Commands[0].Cmd = "sleep 600" }))
	a.refuse["renew"], a.refuse["release"] = reason.StoreUnavailable, reason.StoreUnavailable
	if ran, err := d.Once(t.Context(), 0); !ran || err == nil || strings.Contains(err.Error(), "stop") {
		t.Fatalf("%v %v", ran, err)
	}
	a.await(t, "running")
	d.handInAll(t.Context())
	a.await(t, "running")
	delete(a.refuse, "release")
	for range 2 {
		d.handInAll(t.Context())
	}
	a.await(t, "running", "release 7")
}
