package server

import (
	"context"
	"time"

	"remit/nexus/registry"
	"remit/nexus/store"
)

// adInterval is the pause between two looks at ads that no command keeps up to
// date: a provider that falls silent tells nobody.
const adInterval = time.Minute

// adRetention is how long an ad is kept in whose place a later one counts, and
// adPrune how many are forgotten in one transaction.
const (
	adRetention = 7 * 24 * time.Hour
	adPrune     = 500
)

// publish starts the mirror, if this replica has relays; Close waits for it.
// While the books are wrong nothing is told to the world.
func (s *Server) publish(ctx context.Context) {
	if s.opt.Mirror == nil || s.opt.Sweep.Every < 0 {
		return
	}
	s.sweeping.Go(func() { s.opt.Mirror.Run(ctx, s.readOnly.Load) })
	s.sweeping.Go(func() { s.repeat(ctx, "ads", adInterval, s.RefreshAds) })
}

// RefreshAds brings the ads of providers up to date, and forgets old ones.
func (s *Server) RefreshAds(ctx context.Context) error {
	if s.readOnly.Load() {
		return nil
	}
	if _, err := registry.RefreshAds(ctx, s.opt.Store); err != nil {
		return err
	}
	return s.opt.Store.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.PruneBridgeEvents(tx.Now()-adRetention.Milliseconds(), adPrune)
		return err
	})
}
