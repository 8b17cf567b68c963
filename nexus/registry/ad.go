package registry

import (
	"context"
	"fmt"

	"remit/nexus/bridge"
	"remit/nexus/store"
)

// pricingFixed: the price of a job is known before it is dispatched.
const pricingFixed = "fixed"

// advertise puts the state of a provider into the mirror's outbox, if it says
// something new. There is nothing to say before the owner has set caps.
func advertise(tx *store.Tx, p Provider) error {
	if !p.Caps.Set() {
		return nil
	}
	return bridge.Advertise(tx, p.Owner, adOf(p, tx.Now()))
}

// adOf is what the world may know of a provider: what it does, for how much,
// within which caps, and whether it is there.
func adOf(p Provider, now int64) bridge.Provider {
	live := p.Liveness(now)
	ad := bridge.Provider{
		ID: p.ID, Name: p.Name, Capabilities: p.Capabilities, PriceMsats: p.PriceMsats, PricingStage: pricingFixed,
		Available: p.Enabled && !p.Quarantined() && Status(p.Status) == Running && live == Fresh,
		Status:    p.Status, Heartbeat: live, Caps: p.ProviderRow.Caps,
	}
	for _, c := range p.Capabilities {
		ad.Bands = append(ad.Bands, bridge.Band{Capability: c, MinPriceMsats: p.PriceMsats, MaxPriceMsats: p.PriceMsats})
	}
	return ad
}

// adPage is how many providers RefreshAds looks at in one view.
const adPage = 200

// RefreshAds puts ads into the outbox that no command has written: of providers
// that have fallen silent, which no command reports, and of those that changed more
// often than ads may. Any replica may call it at any time. It returns how many
// ads it found to be out of date.
func RefreshAds(ctx context.Context, st *store.Store) (int, error) {
	count, after := 0, ""
	for {
		var stale []string
		last := ""
		err := st.View(ctx, func(tx *store.Tx) error {
			list, err := All(tx, after, adPage)
			for _, p := range list {
				last = p.ID
				if !p.Caps.Set() {
					continue
				}
				said, err := bridge.Advertised(tx, adOf(p, tx.Now()))
				if err != nil {
					return err
				}
				if !said {
					stale = append(stale, p.ID)
				}
			}
			return err
		})
		if err != nil {
			return count, fmt.Errorf("compare ads: %w", err)
		}
		for _, id := range stale {
			if err := st.Update(ctx, func(tx *store.Tx) error {
				p, err := Lock(tx, id)
				if err != nil {
					return err
				}
				return advertise(tx, p)
			}); err != nil {
				return count, fmt.Errorf("advertise provider %s: %w", id, err)
			}
			count++
		}
		if last == "" {
			return count, nil
		}
		after = last
	}
}
