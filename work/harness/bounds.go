package harness

import (
	"context"
	"fmt"
	"time"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/tree"
)

// What an engine leaves behind is worked on by the host, outside of every limit
// of the sandbox. So it is measured first, and the work has a deadline.

const (
	// leastHostTime is what the host's work gets on a slow machine, whatever the
	// contract's wall clock limit is.
	leastHostTime = 2 * time.Minute
	// keptPaths is how much is kept of a change that is too large: enough for
	// the edits that the agent meant, which are few beside what was generated.
	keptPaths = 1000
	keptBytes = 16 << 20
)

// change is what an engine left, and why it is more than a run takes.
type change struct {
	changes []tree.Change
	excess  string   // "" if it is not
	hint    string   // what to do about it, "" where the code alone says it
	ignored []string // paths that the base's .gitignore files have taken out of changes already
}

func (c change) fits() bool { return c.excess == "" }

// measure holds what the engine left against the caps of the contract. What the base
// ignores is no part of a change: packages and build outputs may be more than a run takes.
func (r *run) measure(ctx context.Context, res *sandbox.Result) change {
	if res == nil {
		return change{}
	}
	c := change{changes: res.Changes}
	if excess, _ := r.excess(c.changes); excess != "" {
		ctx, cancel := r.onHost(ctx, "looking for what is ignored")
		defer cancel()
		// Where that cannot be found out, all of it counts.
		if kept, ignored, err := r.store.WithoutIgnored(ctx, r.startTree(), c.changes); err == nil {
			c.changes, c.ignored = kept, ignored
		}
	}
	if excess, hint := r.excess(c.changes); excess != "" {
		c.excess, c.hint = "the engine's change: "+excess, hint
	}
	return c
}

// raiseLimit is the hint where the task or the policy asks for less than a run can take.
const raiseLimit = "leave out what was generated (.gitignore), split the task, or raise %s, which the task or remit.yaml set to %d (at most %d)"

// excess says by how much a change is more than the contract allows, "" if it is not,
// and, where the contract may allow more, how.
func (r *run) excess(changes []tree.Change) (text, hint string) {
	paths, limit := r.Contract.Limits.ChangeCap()
	var total int64
	for _, ch := range changes {
		total += ch.Size
	}
	switch {
	case len(changes) > paths:
		text = fmt.Sprintf("%d path(s), more than the %d that a run takes", len(changes), paths)
		if paths < task.MaxChangedPaths {
			hint = fmt.Sprintf(raiseLimit, "limits.changed_paths", paths, task.MaxChangedPaths)
		}
	case total > limit:
		text = fmt.Sprintf("its files hold %d MiB, more than the %d that a run takes", total>>20, limit>>20)
		if limit < task.MaxPatchMB<<20 {
			hint = fmt.Sprintf(raiseLimit, "limits.patch_mb", limit>>20, task.MaxPatchMB)
		}
	}
	return text, hint
}

// part is what is imported of a change: all, or if it is too large first the
// changes of what the baseline has, and then others as far as they fit.
func (r *run) part(ctx context.Context, c change) ([]tree.Change, error) {
	if c.fits() {
		return c.changes, nil
	}
	paths, limit := r.Contract.Limits.ChangeCap()
	paths, limit = min(paths, keptPaths), min(limit, keptBytes)
	var kept []tree.Change
	later := make([]tree.Change, 0, paths)
	take := func(ch tree.Change) {
		if len(kept) < paths && ch.Size <= limit {
			kept, limit = append(kept, ch), limit-ch.Size
		}
	}
	for _, ch := range c.changes {
		known, err := r.store.Has(ctx, r.startTree(), ch.Path)
		switch {
		case err != nil:
			return nil, err
		case known || ch.Kind == tree.Delete:
			take(ch)
		case len(later) < paths:
			later = append(later, ch)
		}
	}
	for _, ch := range later {
		take(ch)
	}
	return kept, nil
}

// hostTime bounds each piece of the host's work on a change.
func (r *run) hostTime() time.Duration { return max(leastHostTime, r.Contract.Budget.Wall()) }

// boundStore holds what the store does from now on to the caps of the contract.
func (r *run) boundStore() {
	paths, _ := r.Contract.Limits.ChangeCap()
	r.store.Bound(r.hostTime(), paths)
}

// onHost is the context of one such piece. When its time is over it says so,
// and the run ends as blocked, not in a hang.
func (r *run) onHost(ctx context.Context, doing string) (context.Context, context.CancelFunc) {
	limit := r.hostTime()
	return context.WithTimeoutCause(ctx, limit, reason.Errorf(reason.Timeout, "%s took longer than %s", doing, limit))
}
