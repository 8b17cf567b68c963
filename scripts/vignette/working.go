package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// working is a job while a provider runs it.
type working struct {
	run   *run
	job   job
	by    *provider
	fence int64
	mark  string // stands in the command line of what the job runs
}

// How long such a job runs, in seconds.
const (
	shortly = 6  // another provider has to run it to its end; the first one is killed before
	forLong = 50 // it is stopped
)

// begin dispatches a job that lasts for a while, and returns when its command
// runs on provider A. The order says what else matters.
func (v *vignette) begin(ctx context.Context, name string, seconds int, o order) *working {
	r := v.newRun(ctx, name)
	w := &working{run: r, by: v.a, mark: "vignette-" + newKey()}
	o.command = fmt.Sprintf(": %s; sleep %d", w.mark, seconds)
	v.nexus.do(ctx, v.dispatch(r, "dispatch-"+name, o), http.StatusCreated, &w.job)
	if w.job.ProviderID != v.a.id {
		giveUp("job %s was dispatched to %s, not to provider A", name, w.job.ProviderID)
	}
	leased := need(r.lane.until(ctx, "a lease", func(e event) bool { return e.Type == "job.leased" }))
	w.fence = number(need(parse(leased.Payload)), "fence")
	must(until(ctx, "the command of job "+name+" runs", func() bool { return len(withMark(w.mark)) > 0 }))
	return w
}

// dies waits until what the job ran is gone.
func (w *working) dies(ctx context.Context) error {
	return until(ctx, "the end of what job "+w.run.name+" runs", func() bool { return len(withMark(w.mark)) == 0 })
}

// until looks again and again: what happens inside a sandbox gives no
// notice.
func until(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for this: %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// withMark lists the processes of this machine whose command line has a text.
func withMark(mark string) []string { return having(mark, "cmdline") }

// having lists the processes that have a text in one of these files of theirs.
func having(mark string, files ...string) (pids []string) {
	for _, file := range files {
		names, _ := filepath.Glob("/proc/[0-9]*/" + file) // the pattern is well formed
		for _, name := range names {
			// A process that ended meanwhile has none, and that of another user is not ours.
			if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(mark)) {
				pids = append(pids, strings.Split(name, "/")[2])
			}
		}
	}
	return pids
}
