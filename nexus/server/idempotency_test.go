package server

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"remit/nexus/api"
	"remit/nexus/store"
	"remit/nexus/treasury"
)

// budget opens an account for alice and returns its id.
func (w *world) budget() string {
	w.t.Helper()
	return w.do(post("/v1/treasury/accounts", w.alice, "open-budget", `{"limit":1000000}`)).want(w.t, 201, "").field(w.t, "account_id")
}

func (w *world) funded(account string) int64 {
	w.t.Helper()
	var a treasury.Account
	err := w.store.View(w.t.Context(), func(tx *store.Tx) (err error) {
		a, err = tx.LedgerAccount(account)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return a.CreditsPosted
}

func fund(account string, amount int) string {
	return fmt.Sprintf(`{"account_id":%q,"amount":%d}`, account, amount)
}

// TestReplayIsByteForByte keeps the first promise of INV-07.
func TestReplayIsByteForByte(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		account := w.budget()
		first := w.do(post("/v1/treasury/fund", w.admin, "k1", fund(account, 500))).want(t, 200, "")
		if first.replayed {
			t.Error("the first answer claims to be a replay")
		}
		// The state moves on; the answer to the first request does not.
		w.do(post("/v1/treasury/fund", w.admin, "k2", fund(account, 70))).want(t, 200, "")
		again := w.do(post("/v1/treasury/fund", w.admin, "k1", fund(account, 500))).want(t, 200, "")
		if !again.replayed || again.body != first.body {
			t.Errorf("replayed=%v\n%s\n%s", again.replayed, first.body, again.body)
		}
		if got := w.funded(account); got != 570 {
			t.Errorf("funded %d, want 570", got)
		}
	})
}

// TestReplayOnAnotherReplica repeats a request after a restart.
func TestReplayOnAnotherReplica(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		account := w.budget()
		first := w.do(post("/v1/treasury/fund", w.admin, "k1", fund(account, 500))).want(t, 200, "")
		w.start(Options{})
		again := w.do(post("/v1/treasury/fund", w.admin, "k1", fund(account, 500))).want(t, 200, "")
		if !again.replayed || again.body != first.body || w.funded(account) != 500 {
			t.Errorf("replayed=%v funded=%d", again.replayed, w.funded(account))
		}
	})
}

// TestKeyRules breaks the use of keys in every way.
func TestKeyRules(t *testing.T) {
	w := one(t, Options{})
	account := w.budget()
	body := fund(account, 5)
	w.do(post("/v1/treasury/fund", w.admin, "k", body)).want(t, 200, "")
	tests := []struct {
		name   string
		call   call
		status int
		code   string
	}{
		{"no key", post("/v1/treasury/fund", w.admin, "", body), 400, "idempotency_key_missing"},
		{"other body", post("/v1/treasury/fund", w.admin, "k", fund(account, 6)), 422, "idempotency_key_reused"},
		{"other spelling of the body", post("/v1/treasury/fund", w.admin, "k", body+" "), 422, "idempotency_key_reused"},
		{"other query", post("/v1/treasury/fund?x=1", w.admin, "k", body), 422, "idempotency_key_reused"},
		{"too long", post("/v1/treasury/fund", w.admin, strings.Repeat("k", 256), body), 400, "request_invalid"},
		{"a space", post("/v1/treasury/fund", w.admin, "a b", body), 400, "request_invalid"},
		{"not ASCII", post("/v1/treasury/fund", w.admin, "schlüssel", body), 400, "request_invalid"},
		{"another route", post("/v1/treasury/accounts", w.admin, "k", `{"limit":7}`), 201, ""},
		{"another principal", post("/v1/treasury/accounts", w.bob, "open-budget", `{"limit":7}`), 201, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { w.do(test.call).want(t, test.status, test.code) })
	}
	twice := post("/v1/treasury/fund", w.admin, "", body)
	twice.header = http.Header{api.HeaderKey: {"k", "k2"}}
	w.do(twice).want(t, 400, "request_invalid")
	if got := w.funded(account); got != 5 {
		t.Errorf("funded %d, want 5", got)
	}
}

// TestConcurrentKeyHasOneEffect lets many ask at once with one key.
func TestConcurrentKeyHasOneEffect(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		account := w.budget()
		answers := make([]seen, 24)
		errs := make([]error, len(answers))
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i], errs[i] = w.try(post("/v1/treasury/fund", w.admin, "same", fund(account, 11))) })
		}
		all.Wait()
		var body string
		fresh := 0
		for i, a := range answers {
			switch {
			case errs[i] != nil:
				t.Fatal(errs[i])
			case a.status == 409 && a.problem.Code == "idempotency_in_flight":
			case a.status == 200:
				if body == "" {
					body = a.body
				}
				if a.body != body {
					t.Errorf("two answers: %s and %s", body, a.body)
				}
				if !a.replayed {
					fresh++
				}
			default:
				t.Errorf("got %d: %s", a.status, a.body)
			}
		}
		if fresh != 1 || w.funded(account) != 11 {
			t.Errorf("%d effects, funded %d", fresh, w.funded(account))
		}
	})
}

// TestRefusalsAreRepeated stores deterministic 4xx, and nothing else.
func TestRefusalsAreRepeated(t *testing.T) {
	w := one(t, Options{})
	missing := treasury.AccountID("carol", treasury.Msat, treasury.Budget)
	first := w.do(post("/v1/treasury/fund", w.admin, "k1", fund(missing, 5))).want(t, 404, "not_found")
	carol := w.mint(personGrant("carol"))
	w.do(post("/v1/treasury/accounts", carol, "k", `{"limit":100}`)).want(t, 201, "")
	again := w.do(post("/v1/treasury/fund", w.admin, "k1", fund(missing, 5))).want(t, 404, "not_found")
	if !again.replayed || again.body != first.body {
		t.Errorf("replayed=%v\n%s\n%s", again.replayed, first.body, again.body)
	}

	bad := w.do(post("/v1/treasury/fund", w.admin, "k2", `{"account_id":1}`)).want(t, 400, "request_invalid")
	if again := w.do(post("/v1/treasury/fund", w.admin, "k2", `{"account_id":1}`)); !again.replayed || again.body != bad.body {
		t.Errorf("a malformed body was judged twice: %s", again.body)
	}
}

// TestRefusalsGiveTheirKeyBack: another request may take the key of one that was
// refused and changed nothing, in the same moment too; it is the request of the key
// from then on.
func TestRefusalsGiveTheirKeyBack(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		account := w.budget()
		wrong := post("/v1/treasury/fund", w.admin, "k", fund("acc_none", 5))
		for _, refused := range []struct {
			call   call
			status int
			code   string
		}{
			{wrong, 404, "not_found"},
			{post("/v1/treasury/fund", w.admin, "k", `{"account_id":1}`), 400, "request_invalid"},
			{post("/v1/treasury/fund", w.admin, "k", fund(account, -1)), 400, "request_invalid"},
			{wrong, 404, "not_found"},
		} {
			if got := w.do(refused.call).want(t, refused.status, refused.code); got.replayed {
				t.Errorf("%s is the answer to another request", got.body)
			}
			if again := w.do(refused.call).want(t, refused.status, refused.code); !again.replayed {
				t.Errorf("%s is not replayed", again.body)
			}
		}
		statuses := make([]int, 8)
		var all sync.WaitGroup
		for i := range statuses {
			all.Go(func() {
				got, err := w.try(post("/v1/treasury/fund", w.admin, "k", fund(account, 10+i)))
				if err != nil {
					t.Error(err)
				}
				statuses[i] = got.status
			})
		}
		all.Wait()
		done := 0
		for i, status := range statuses {
			switch status {
			case 200:
				if done++; w.funded(account) != int64(10+i) {
					t.Errorf("funded %d by the request for %d", w.funded(account), 10+i)
				}
			case 409, 422:
			default:
				t.Errorf("status %d", status)
			}
		}
		if done != 1 {
			t.Errorf("%d requests were done under one key: %v", done, statuses)
		}
		w.do(wrong).want(t, 422, "idempotency_key_reused")
	})
}

// TestRefusedTransferKeepsItsKey: a refusal that is recorded is the answer to its key
// for good: the transfer has the id that comes from it.
func TestRefusedTransferKeepsItsKey(t *testing.T) {
	w := one(t, Options{})
	account := w.budget()
	err := w.store.Update(t.Context(), func(tx *store.Tx) error { _, err := treasury.CloseAccount(tx, account); return err })
	if err != nil {
		t.Fatal(err)
	}
	w.do(post("/v1/treasury/fund", w.admin, "k", fund(account, 5))).want(t, 409, "account_closed")
	w.do(post("/v1/treasury/fund", w.admin, "k", fund(account, 6))).want(t, 422, "idempotency_key_reused")
}

// TestPassingRefusalsAreNotStored repeats a request that was refused for the
// caller's sake, or the server's.
func TestPassingRefusalsAreNotStored(t *testing.T) {
	w := one(t, Options{})
	account := w.budget()
	ask := post("/v1/treasury/fund", w.admin, "k1", fund(account, 5))
	noToken := ask
	noToken.token = ""
	w.do(noToken).want(t, 401, "unauthenticated")
	poor := ask
	poor.token = w.alice
	w.do(poor).want(t, 403, "scope_missing")

	freeze := func(fn func(*store.Tx) error) {
		if err := w.store.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	freeze(func(tx *store.Tx) error { return tx.FreezeLedger("for the test") })
	w.do(ask).want(t, 503, "read_only_mode")
	w.do(get("/v1/treasury/summary", w.alice)).want(t, 200, "")
	freeze(treasury.Reopen)
	if got := w.do(ask).want(t, 200, ""); got.replayed {
		t.Error("a passing refusal was stored")
	}
}

// TestReadOnlyModeStillReplays answers what was done before the freeze.
func TestReadOnlyModeStillReplays(t *testing.T) {
	w := one(t, Options{})
	account := w.budget()
	first := w.do(post("/v1/treasury/fund", w.admin, "k1", fund(account, 5))).want(t, 200, "")
	if err := w.store.Update(t.Context(), func(tx *store.Tx) error { return tx.FreezeLedger("for the test") }); err != nil {
		t.Fatal(err)
	}
	if again := w.do(post("/v1/treasury/fund", w.admin, "k1", fund(account, 5))).want(t, 200, ""); again.body != first.body {
		t.Errorf("got %s", again.body)
	}
	w.do(post("/v1/treasury/fund", w.admin, "k2", fund(account, 5))).want(t, 503, "read_only_mode")
}

// TestSecretsAreSealed looks for a token in the stored answer, and asks for it
// with another credential of the same principal.
func TestSecretsAreSealed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ask := post("/v1/tokens", w.admin, "k1", `{"kind":"user","owner":"dora"}`)
		first := w.do(ask).want(t, 201, "")
		secret := first.field(t, "token")
		again := w.do(ask).want(t, 201, "")
		if !again.replayed || again.body != first.body {
			t.Errorf("replayed=%v\n%s\n%s", again.replayed, first.body, again.body)
		}
		err := w.store.View(t.Context(), func(tx *store.Tx) error {
			claim, err := tx.Idempotency(store.Key{Principal: "user:admin", Method: "POST", Route: "/v1/tokens", Key: "k1"})
			if err != nil {
				return err
			}
			if strings.Contains(string(claim.Response.Body), secret) {
				t.Error("the stored answer holds the secret")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		other := ask
		other.token = w.mint(AdminGrant())
		w.do(other).want(t, 403, "forbidden")
		w.do(get("/v1/whoami", secret)).want(t, 200, "")
	})
}
