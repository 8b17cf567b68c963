//test:plain-package One goroutine asks the store here; nexus/server runs the same code in many, with the detector.

package identity_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
)

func verify(t *testing.T, st *store.Store, text string) (c identity.Caller, err error) {
	t.Helper()
	err = st.View(t.Context(), func(tx *store.Tx) (err error) {
		c, err = identity.Verify(tx, text)
		return err
	})
	return c, err
}

func mint(t *testing.T, st *store.Store, g identity.Grant) (text string, token store.Token) {
	t.Helper()
	err := st.Update(t.Context(), func(tx *store.Tx) (err error) {
		text, token, err = identity.Mint(tx, g)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text, token
}

// TestVerify makes tokens and tries them, whole and changed.
func TestVerify(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		st := open()
		text, token := mint(t, st, identity.Grant{Kind: authority.User, Principal: "user:alice", Owner: "alice", Scopes: []string{"read"},
			TTL: time.Minute})
		if strings.Contains(token.SHA256, text) || len(token.SHA256) != 64 {
			t.Errorf("stored %q", token.SHA256)
		}
		c, err := verify(t, st, text)
		if err != nil || c.ID != "user:alice" || c.Owner != "alice" || !c.Has("read") || c.Has("runs:write") || c.Admin() {
			t.Fatalf("%+v %v", c, err)
		}
		for i := range text {
			changed := []byte(text)
			changed[i] ^= 1
			if _, err := verify(t, st, string(changed)); reason.CodeOf(err) != reason.Unauthenticated {
				t.Errorf("byte %d: %v", i, err)
			}
		}
		clock.Advance(time.Minute)
		if _, err := verify(t, st, text); reason.CodeOf(err) != reason.TokenExpired {
			t.Errorf("got %v", err)
		}

		text, token = mint(t, st, identity.Grant{Kind: authority.Registration, Owner: "alice", OneTime: true})
		if token.Principal != "registration:"+token.ID {
			t.Errorf("principal %q", token.Principal)
		}
		if err := st.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.ConsumeToken(token.ID); return err }); err != nil {
			t.Fatal(err)
		}
		if c, err := verify(t, st, text); err != nil || !c.Used {
			t.Errorf("a used token: %+v %v", c, err)
		}
		if err := st.Update(t.Context(), func(tx *store.Tx) error { return tx.RevokeToken(token.ID) }); err != nil {
			t.Fatal(err)
		}
		if _, err := verify(t, st, text); reason.CodeOf(err) != reason.TokenExpired {
			t.Errorf("got %v", err)
		}
	})
}

// TestSeal opens sealed answers with the right token, another one, and at
// another place.
func TestSeal(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, storetest.SQLite(t), store.Options{})
	grant := identity.Grant{Kind: authority.User, Principal: "user:alice", Owner: "alice"}
	first, _ := mint(t, st, grant)
	second, _ := mint(t, st, grant)
	a, err := verify(t, st, first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := verify(t, st, second)
	if err != nil {
		t.Fatal(err)
	}
	plain := []byte("the answer")
	sealed, err := a.Seal("place", plain)
	if err != nil || bytes.Contains(sealed, plain) {
		t.Fatalf("%q %v", sealed, err)
	}
	if got, err := a.Open("place", sealed); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("%q %v", got, err)
	}
	for name, try := range map[string]func() ([]byte, error){
		"another token":  func() ([]byte, error) { return b.Open("place", sealed) },
		"another place":  func() ([]byte, error) { return a.Open("elsewhere", sealed) },
		"cut":            func() ([]byte, error) { return a.Open("place", sealed[:len(sealed)-1]) },
		"nothing at all": func() ([]byte, error) { return a.Open("place", nil) },
	} {
		if _, err := try(); reason.CodeOf(err) != reason.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzVerify holds that no text but a token's own is a credential.
func FuzzVerify(f *testing.F) {
	st := storetest.Open(f, storetest.SQLite(f), store.Options{})
	var text string
	if err := st.Update(f.Context(), func(tx *store.Tx) (err error) {
		text, _, err = identity.Mint(tx, identity.Grant{Kind: authority.User, Principal: "user:alice", Owner: "alice"})
		return err
	}); err != nil {
		f.Fatal(err)
	}
	f.Add(text[:len(text)-1])
	f.Add("rmt_user__")
	f.Fuzz(func(t *testing.T, try string) {
		if try == text {
			return
		}
		if _, err := verify(t, st, try); reason.CodeOf(err) != reason.Unauthenticated {
			t.Fatalf("%q: %v", try, err)
		}
	})
}
