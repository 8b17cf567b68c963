package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"
)

// maxSideBySide bounds what runs that go on at once can take of memory.
const maxSideBySide = 4

// sideBySide is how many of n runs go on at once: as many as there are
// processors, or one more where that leaves none idle beside the last run.
func sideBySide(n, processors int) int {
	p := max(2, min(processors, maxSideBySide))
	// In runs of a suite that uses one processor: p at once take one, p+1 take a
	// little more.
	plain, more := float64((n+p-1)/p), float64(n/(p+1))*float64(p+1)/float64(p)
	if n%(p+1) > 0 {
		more++
	}
	if p < maxSideBySide && more < plain {
		return p + 1
	}
	return p
}

// errEnough ends the runs that are left when their results are not needed.
var errEnough = errors.New("the other runs are not needed")

// runAll carries out jobs, some of them at once, begun in their order. Each has its own
// part of the log; the parts of those that came to their end are written in the
// order of the jobs. After each run enough is asked, when it is set, with the
// results so far: true stops the others, whose results are nil.
func (p *Plan) runAll(ctx context.Context, sb Sandbox, jobs []job, enough func([]*RunResult) bool) ([]*RunResult, error) {
	return p.runWithin(ctx, sb, jobs, enough, 0)
}

// runWithin is runAll with a limit on the time of all jobs together, 0 for none.
// Jobs that it stops have no result, and that is no error.
func (p *Plan) runWithin(ctx context.Context, sb Sandbox, jobs []job, enough func([]*RunResult) bool, limit time.Duration) ([]*RunResult, error) {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if limit > 0 {
		timer := time.AfterFunc(limit, func() { stop(errEnough) })
		defer timer.Stop()
	}
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		next  int
		done  = make([]*RunResult, len(jobs))
		errs  = make([]error, len(jobs))
		parts = make([]*os.File, len(jobs))
	)
	defer func() {
		for _, f := range parts {
			if f != nil {
				_ = f.Close() // it is removed
				_ = os.Remove(f.Name())
			}
		}
	}()
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		if next >= len(jobs) || inner.Err() != nil {
			return -1
		}
		next++
		return next - 1
	}
	work := func() {
		defer wg.Done()
		for i := take(); i >= 0; i = take() {
			part, err := os.CreateTemp(p.Scratch, "remit-log-")
			var run RunResult
			if err == nil {
				run, err = p.tryRun(inner, sb, jobs[i], part)
			}
			mu.Lock()
			parts[i], errs[i] = part, err
			if err == nil {
				done[i] = &run
			}
			if err != nil || enough != nil && enough(done) {
				stop(errEnough)
			}
			mu.Unlock()
		}
	}
	for range min(sideBySide(len(jobs), runtime.NumCPU()), len(jobs)) {
		wg.Add(1)
		go work()
	}
	wg.Wait()
	return p.collectRuns(ctx, done, errs, parts)
}

// collectRuns writes the log of the runs and chooses the error that counts: one
// of a run that was stopped because the others sufficed is none.
func (p *Plan) collectRuns(ctx context.Context, done []*RunResult, errs []error, parts []*os.File) ([]*RunResult, error) {
	var failed error
	for i, part := range parts {
		stopped := errors.Is(errs[i], errEnough) && ctx.Err() == nil
		if errs[i] != nil && !stopped && failed == nil {
			failed = errs[i]
		}
		if part == nil || stopped {
			continue
		}
		if _, err := part.Seek(0, io.SeekStart); err != nil {
			return done, fmt.Errorf("reading back a part of the log: %w", err)
		}
		if _, err := io.Copy(p.Log, part); err != nil {
			return done, logError(err)
		}
	}
	if failed == nil && ctx.Err() != nil {
		cause := context.Cause(ctx)
		failed = stoppedBy(cause)
	}
	return done, failed
}
