package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
)

var key = store.Key{Principal: "usr_1", Method: "POST", Route: "/v1/runs", Key: "k-1"}

// TestIdempotency: a stored response comes back byte for byte, for its scope.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		s := open()
		want := store.Response{Status: 201, ContentType: "application/json", Body: []byte("{\"a\":1}\n\x00\xff"), ETag: `"1"`,
			Location: "/v1/runs/run_1"}
		update(t, s, func(tx *store.Tx) error {
			if c, err := tx.Idempotency(key); c != nil || err != nil {
				t.Errorf("new key: %v, %v", c, err)
			}
			return tx.SaveIdempotency(key, "sha256:1", want)
		})
		check := func(tx *store.Tx) error {
			c, err := tx.Idempotency(key)
			if err != nil || c == nil || c.RequestSHA256 != "sha256:1" || !reflect.DeepEqual(*c.Response, want) {
				t.Errorf("claim %+v, %v", c, err)
			}
			for name, change := range map[string]func(*store.Key){
				"principal": func(k *store.Key) { k.Principal = "usr_2" },
				"method":    func(k *store.Key) { k.Method = "PUT" },
				"route":     func(k *store.Key) { k.Route = "/v1/jobs" },
				"key":       func(k *store.Key) { k.Key = "k-2" },
			} {
				other := key
				change(&other)
				if c, err := tx.Idempotency(other); c != nil || err != nil {
					t.Errorf("other %s: %v, %v", name, c, err)
				}
			}
			return nil
		}
		update(t, s, check)
		view(t, s, check)
		err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.SaveIdempotency(key, "sha256:2", want) })
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("second answer: %v", err)
		}
		empty := key
		empty.Key = "empty"
		update(t, s, func(tx *store.Tx) error { return tx.SaveIdempotency(empty, "sha256:3", store.Response{Status: 204}) })
		view(t, s, func(tx *store.Tx) error {
			c, err := tx.Idempotency(empty)
			if c == nil || c.Response.Status != 204 || len(c.Response.Body) != 0 {
				t.Errorf("empty answer: %+v", c)
			}
			return err
		})
	})
}

// TestIdempotencyRace: of many requests with one key, one has an effect, and
// the others get its answer or hear that it is in flight.
func TestIdempotencyRace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		stores := []*store.Store{open()}
		if stores[0].Dialect() == "postgres" {
			stores = append(stores, open())
		}
		const clients, rounds = 16, 5
		var effects, replays, inFlight atomic.Int64
		for round := range rounds {
			k := key
			k.Key = fmt.Sprint(round)
			var wg sync.WaitGroup
			for c := range clients {
				wg.Go(func() {
					var ran, flying bool
					err := stores[c%len(stores)].Update(t.Context(), func(tx *store.Tx) error {
						ran, flying = false, false
						claim, err := tx.Idempotency(k)
						if err != nil || claim != nil {
							flying = claim != nil && claim.Response == nil
							return err
						}
						ran = true
						if _, err := tx.Append(store.Event{Stream: "effects", Type: "effect"}); err != nil {
							return err
						}
						return tx.SaveIdempotency(k, "sha256:1", store.Response{Status: 201})
					})
					switch {
					case err != nil:
						t.Errorf("client %d: %v", c, err)
					case ran:
						effects.Add(1)
					case flying:
						inFlight.Add(1)
					default:
						replays.Add(1)
					}
				})
			}
			wg.Wait()
		}
		if effects.Load() != rounds || len(readAll(t, stores[0], "effects")) != rounds {
			t.Errorf("%d effects, want %d (%d replays, %d in flight)", effects.Load(), rounds, replays.Load(), inFlight.Load())
		}
	})
}

// TestIdempotencyPrune: old answers are forgotten, a few at a time.
func TestIdempotencyPrune(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		s := open()
		for i := range 5 {
			k := key
			k.Key = fmt.Sprint(i)
			update(t, s, func(tx *store.Tx) error { return tx.SaveIdempotency(k, "sha256:1", store.Response{Status: 200}) })
			clock.Advance(time.Hour)
		}
		before := clock.Now().Add(-150 * time.Minute).UnixMilli() // three are older
		for _, want := range []int64{2, 1, 0} {
			update(t, s, func(tx *store.Tx) error {
				if n, err := tx.PruneIdempotency(before, 2); n != want || err != nil {
					t.Errorf("removed %d, want %d: %v", n, want, err)
				}
				return nil
			})
		}
	})
}

// TestTokens: put, read, revoke, use once.
func TestTokens(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		s := open()
		now := clock.Now().UnixMilli()
		once := store.Token{ID: "tok_1", Kind: "provider", Principal: "prv_1", Owner: "usr_1", SHA256: "sha256:1",
			Scopes: []string{"jobs", "lanes"}, ExpiresAt: now + 1000, OneTime: true}
		lasting := store.Token{ID: "tok_2", Kind: "user", Principal: "usr_1", Owner: "usr_1", SHA256: "sha256:2"}
		late := once
		late.ID = "tok_3"
		update(t, s, func(tx *store.Tx) error {
			return errors.Join(tx.PutToken(once), tx.PutToken(lasting), tx.PutToken(late))
		})
		view(t, s, func(tx *store.Tx) error {
			got, err := tx.Token("tok_1")
			want := once
			want.CreatedAt = now
			if !reflect.DeepEqual(got, want) || !got.Live(now) || got.Live(now+1000) {
				t.Errorf("token %+v, want %+v", got, want)
			}
			if all, err := tx.TokensOf("usr_1", "", store.TokensAfter{}, 10); len(all) != 3 || err != nil {
				t.Errorf("%d tokens of the owner: %v", len(all), err)
			}
			if _, err := tx.Token("tok_9"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("unknown token: %v", err)
			}
			return err
		})
		var used atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				err := s.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.ConsumeToken("tok_1"); return err })
				if err == nil {
					used.Add(1)
				} else if reason.CodeOf(err) != reason.TokenExpired {
					t.Errorf("consume: %v", err)
				}
			})
		}
		wg.Wait()
		if used.Load() != 1 {
			t.Errorf("used %d times", used.Load())
		}
		clock.Advance(time.Second)
		for id, want := range map[string]reason.Code{"tok_2": reason.TokenExpired, "tok_3": reason.TokenExpired} {
			err := s.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.ConsumeToken(id); return err })
			if reason.CodeOf(err) != want {
				t.Errorf("consume %s: %v", id, err)
			}
		}
		for range 2 {
			update(t, s, func(tx *store.Tx) error { return tx.RevokeToken("tok_2") })
			clock.Advance(time.Minute)
		}
		view(t, s, func(tx *store.Tx) error {
			got, err := tx.Token("tok_2")
			if got.RevokedAt != now+1000 || got.Live(tx.Now()) {
				t.Errorf("revoked at %d, want %d", got.RevokedAt, now+1000)
			}
			return err
		})
		for name, fail := range map[string]func(*store.Tx) error{
			"same id":     func(tx *store.Tx) error { return tx.PutToken(once) },
			"revoke none": func(tx *store.Tx) error { return tx.RevokeToken("tok_9") },
			"odd scope":   func(tx *store.Tx) error { return tx.PutToken(store.Token{ID: "tok_4", Scopes: []string{"a b"}}) },
		} {
			if err := s.Update(t.Context(), fail); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}
