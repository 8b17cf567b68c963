package jobs

import (
	"fmt"
	"time"

	"remit/law/job"
	"remit/nexus/store"
)

// forgetBatch bounds the runs that one transaction forgets: each may have a
// thousand jobs.
const forgetBatch = 5

// Forget removes the logs, jobs and artifacts of runs that ended longer ago than
// kept, a few at a time. What stays: the runs themselves, their sealed bundles, all
// of the ledger, and the journals of accounts and providers. It returns how many
// runs it were, and the digests of content that they have no more.
func Forget(tx *store.Tx, kept time.Duration) (runs int, digests []string, err error) {
	ids, err := tx.RunsToForget(tx.Now()-kept.Milliseconds(), forgetBatch)
	if err != nil {
		return 0, nil, err
	}
	for _, id := range ids {
		run, err := tx.LockRun(id)
		if err != nil {
			return 0, nil, err
		}
		if !RunState(run.State).Final() || run.ForgottenAt > 0 {
			continue // another replica was faster
		}
		gone, err := tx.ForgetRun(id, func(name string) bool { _, ok := job.BundleEntries(name); return ok })
		if err != nil {
			return 0, nil, fmt.Errorf("forget run %s: %w", id, err)
		}
		runs, digests = runs+1, append(digests, gone...)
	}
	return runs, digests, nil
}
