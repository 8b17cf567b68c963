//test:plain-package It only computes: there is one goroutine.

package authority_test

import (
	"errors"
	"testing"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
	"remit/proof/record"
)

// A receipt is written once, and every reader can see whether it was changed.
func TestWrite(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.SQLite(t), store.Options{})
	alice := authority.Principal{ID: "user:alice", Owner: "alice"}
	write := func(value int) (r record.Receipt, e store.Event, err error) {
		err = s.Update(t.Context(), func(tx *store.Tx) error {
			r, e, err = authority.Write(tx, authority.AccountStream("alice"), alice, record.CapsSet, "k", map[string]any{"n": value})
			return err
		})
		return r, e, err
	}
	first, event, err := write(1)
	if err != nil || !first.Sealed() || event.Seq != 1 {
		t.Fatalf("wrote %+v at %d: %v", first, event.Seq, err)
	}
	if again, e, err := write(1); err != nil || again.SHA256 != first.SHA256 || e.ID != event.ID {
		t.Errorf("again %+v, %v", again, err)
	}
	if _, _, err := write(2); !errors.Is(err, store.ErrConflict) {
		t.Errorf("other content: %v", err)
	}
	read, ok := authority.ReadReceipt(event)
	if !ok || !read.Sealed() {
		t.Fatalf("read %+v", read)
	}
	for _, change := range []func(*record.Receipt){
		func(r *record.Receipt) { r.Type = record.ProviderEnabled },
		func(r *record.Receipt) { r.Principal = "user:bob" },
		func(r *record.Receipt) { r.Key = "other" },
		func(r *record.Receipt) { r.Payload = []byte(`{"n":2}`) },
	} {
		changed := read
		if change(&changed); changed.Sealed() {
			t.Errorf("%+v passes for sealed", changed)
		}
	}
}

func TestPrincipal(t *testing.T) {
	t.Parallel()
	p := authority.Principal{ID: "provider:prv_1", Owner: "alice", Kind: authority.Provider, Scopes: []string{authority.ScopeWork}}
	if p.ProviderID() != "prv_1" || p.Admin() || !p.Owns("alice") || p.Owns("bob") || p.Owns("") {
		t.Errorf("provider %+v", p)
	}
	if err := p.Require(authority.ScopeJobs); reason.CodeOf(err) != reason.ScopeMissing {
		t.Errorf("scope: %v", err)
	}
	if err := (authority.Principal{Scopes: []string{authority.ScopeAdmin}}).Require(authority.ScopeJobs); reason.CodeOf(err) != reason.Unauthenticated {
		t.Errorf("no principal: %v", err)
	}
	if user := (authority.Principal{ID: "provider:prv_1", Kind: authority.User}); user.ProviderID() != "" {
		t.Error("a user passes for a provider by its name")
	}
	if s := authority.Sweeper(); !s.Owns("anybody") || s.Require(authority.ScopeTreasury) != nil {
		t.Errorf("sweeper %+v", s)
	}
}
