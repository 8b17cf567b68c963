package jobs

import "testing"

// TestSpared: a provider that could not ask because the authority was away gets the time of
// one more renewal, and no other does.
func TestSpared(t *testing.T) {
	t.Parallel()
	const ttl = 30_000
	away := absence{from: 1_000_000, until: 1_060_000}
	for name, c := range map[string]struct {
		away      absence
		end, want int64
	}{
		"ran out while it was away":                {away, 1_020_000, 1_090_000},
		"ran out at its return":                    {away, 1_060_000, 1_090_000},
		"would run out soon after":                 {away, 1_061_000, 1_090_000},
		"renewed at its return":                    {away, 1_090_000, 1_090_000},
		"renewed after it":                         {away, 1_095_000, 1_095_000},
		"had run out before":                       {away, 999_000, 999_000},
		"ran out the moment before":                {away, 1_000_000, 1_000_000},
		"there was none":                           {absence{}, 1_020_000, 1_020_000},
		"it was short beside the lease":            {absence{1_000_000, 1_010_000}, 1_005_000, 1_005_000},
		"it left no time for the third renewal":    {absence{1_000_000, 1_010_001}, 1_005_000, 1_040_001},
		"it was long ago, and the lease is longer": {absence{1_000, 61_000}, 1_020_000, 1_020_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := Job{State: string(Leased), LeaseTTL: ttl, LeaseUntil: c.end}
			changed := c.away.extend(&j)
			if j.LeaseUntil != c.want || changed != (c.want != c.end) {
				t.Errorf("until %d (changed: %v), want %d", j.LeaseUntil, changed, c.want)
			}
			if c.away.extend(&j) {
				t.Error("spared twice for one absence")
			}
			offer := Job{State: string(Queued), OfferUntil: c.end}
			if c.away.extend(&offer); offer.OfferUntil != c.want {
				t.Errorf("offer until %d, want %d", offer.OfferUntil, c.want)
			}
			done := Job{State: string(Submitted), LeaseTTL: ttl, LeaseUntil: c.end}
			if c.away.extend(&done) {
				t.Error("a job without a holder was prolonged")
			}
		})
	}
}
