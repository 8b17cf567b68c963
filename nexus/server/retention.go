package server

import (
	"context"
	"time"

	"remit/nexus/api"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/reason"
)

// forgetEvery is the pause between two looks for what is past its retention.
const forgetEvery = 10 * time.Minute

// Forget removes what runs have left behind that ended longer ago than they are
// kept, until nothing is left of it, in bounded transactions. Content goes when no
// artifact has it and it was not stored lately.
func (s *Server) Forget(ctx context.Context) error {
	total := 0
	for {
		var n int
		var gone []string
		if err := s.opt.Store.Update(ctx, func(tx *store.Tx) (err error) {
			n, gone, err = jobs.Forget(tx, s.opt.Sweep.KeepRuns)
			return err
		}); err != nil {
			return err
		}
		for _, digest := range gone {
			if err := s.removeContent(ctx, digest); err != nil {
				return err
			}
		}
		if total += n; n == 0 {
			break
		}
	}
	if total > 0 {
		s.opt.Log.Info("swept", "what", "runs past their retention", "count", total)
	}
	return nil
}

// removeContent removes content that no artifact has.
func (s *Server) removeContent(ctx context.Context, digest string) error {
	var has bool
	err := s.opt.Store.Look(ctx, func(tx *store.Tx) (err error) {
		has, err = tx.HasContent(digest)
		return err
	})
	if err == nil && !has {
		err = s.opt.Blobs.Retire(ctx, digest, blobsKept)
	}
	return err
}

// remembered refuses to read a log that retention has removed.
func remembered(run jobs.Run) error {
	if run.ForgottenAt == 0 {
		return nil
	}
	return reason.Errorf(reason.NotFound, "the log of run %s was kept until %s", run.ID, api.TimeOf(run.ForgottenAt)).
		WithHint("its sealed bundle, if it had one, is at /v1/runs/%s/bundle", run.ID)
}
