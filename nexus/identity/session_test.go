package identity_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/reason"
	"remit/proof/record"
)

func openSession(t *testing.T, st *store.Store, token string) identity.Caller {
	t.Helper()
	var c identity.Caller
	err := st.Update(t.Context(), func(tx *store.Tx) (err error) {
		c, err = identity.OpenSession(tx, token)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func verifySession(t *testing.T, st *store.Store, secret string) (c identity.Caller, err error) {
	t.Helper()
	err = st.View(t.Context(), func(tx *store.Tx) (err error) {
		c, err = identity.VerifySession(tx, secret)
		return err
	})
	return c, err
}

var alice = identity.Grant{Kind: authority.User, Principal: "user:alice", Owner: "alice", Scopes: []string{"read"}}

// TestSession opens a session and tries its secret, whole and changed.
func TestSession(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		st := open()
		token, row := mint(t, st, alice)
		opened := openSession(t, st, token)
		secret := identity.SessionSecret(token, opened.Session.ID)
		c, err := verifySession(t, st, secret)
		if err != nil || c.ID != "user:alice" || c.Owner != "alice" || c.TokenID != row.ID || !slices.Equal(c.Scopes, row.Scopes) ||
			c.Kind != authority.Panel {
			t.Fatalf("%+v %v", c, err)
		}
		if c.Session.CSRF == "" || c.Session.CSRF != opened.Session.CSRF || strings.Contains(secret, c.Session.CSRF) {
			t.Errorf("CSRF token %q", c.Session.CSRF)
		}
		other := openSession(t, st, token)
		if other.Session.ID == c.Session.ID || other.Session.CSRF == c.Session.CSRF {
			t.Error("two sessions of a token are alike")
		}
		for i := range secret {
			changed := []byte(secret)
			changed[i] ^= 1
			if _, err := verifySession(t, st, string(changed)); reason.CodeOf(err) != reason.Unauthenticated {
				t.Errorf("byte %d: %v", i, err)
			}
		}
		// Neither passes for the other.
		if _, err := verifySession(t, st, token); reason.CodeOf(err) != reason.Unauthenticated {
			t.Errorf("a token as a session: %v", err)
		}
		if _, err := verify(t, st, secret); reason.CodeOf(err) != reason.Unauthenticated {
			t.Errorf("a session as a token: %v", err)
		}
		if _, err := verifySession(t, st, identity.SessionSecret(token,
			other.Session.ID[:23]+"x")); reason.CodeOf(err) != reason.Unauthenticated {
			t.Errorf("a session that was not opened: %v", err)
		}
		// What is sealed in a session opens in that session.
		sealed, err := c.Seal("place", []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Open("place", sealed); reason.CodeOf(err) != reason.Forbidden {
			t.Errorf("got %v", err)
		}
		if plain, err := opened.Open("place", sealed); err != nil || string(plain) != "x" {
			t.Errorf("%q %v", plain, err)
		}
		keptOut(t, st, token, secret, c.Session.CSRF)
	})
}

// keptOut looks for secrets in all that is stored.
func keptOut(t *testing.T, st *store.Store, secrets ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup")
	if err := st.Backup(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(string(all), secret[len(secret)-43:]) { // 32 bytes in base64url
			t.Errorf("the store holds %q", secret)
		}
	}
}

// TestSessionEnds ends sessions in every way.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	day := identity.Grant{Kind: authority.User, Principal: "user:alice", Owner: "alice", TTL: 24 * time.Hour}
	hour := day
	hour.TTL = time.Hour
	see := func(t *testing.T, st *store.Store, c identity.Caller) {
		if err := st.Update(t.Context(), func(tx *store.Tx) error { return tx.SeeSession(c.Session.ID) }); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name  string
		grant identity.Grant
		lasts time.Duration // with a request every ten minutes
		used  bool
	}{
		{"without a request", day, identity.SessionIdle, false},
		{"busy", day, identity.SessionLife, true},
		{"with its token", hour, time.Hour, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			st := storetest.Open(t, storetest.SQLite(t), store.Options{Clock: clock.Now})
			token, _ := mint(t, st, test.grant)
			c := openSession(t, st, token)
			secret := identity.SessionSecret(token, c.Session.ID)
			if lasts := time.Duration(c.ExpiresAt-clock.Now().UnixMilli()) * time.Millisecond; test.used && lasts != test.lasts {
				t.Errorf("it says that it lasts %s, want %s", lasts, test.lasts)
			}
			const step = 10 * time.Minute
			for at := time.Duration(0); at < test.lasts; at += step {
				if _, err := verifySession(t, st, secret); err != nil {
					t.Fatalf("after %s: %v", at, err)
				}
				if test.used {
					see(t, st, c)
				}
				clock.Advance(min(step, test.lasts-at) - time.Millisecond)
				if _, err := verifySession(t, st, secret); err != nil {
					t.Fatalf("just before %s: %v", at+step, err)
				}
				clock.Advance(time.Millisecond)
			}
			if _, err := verifySession(t, st, secret); reason.CodeOf(err) != reason.TokenExpired {
				t.Errorf("after %s: %v", test.lasts, err)
			}
			if err := st.View(t.Context(), func(tx *store.Tx) error {
				return identity.Live(tx, c.Credential())
			}); reason.CodeOf(err) != reason.TokenExpired {
				t.Errorf("it is live: %v", err)
			}
		})
	}
}

// TestSessionEndsWithItsToken revokes a token, and ends a session by itself.
func TestSessionEndsWithItsToken(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, open func() *store.Store) {
		st := open()
		token, row := mint(t, st, alice)
		first, second := openSession(t, st, token), openSession(t, st, token)
		live := func(c identity.Caller) error {
			return st.View(t.Context(), func(tx *store.Tx) error { return identity.Live(tx, c.Credential()) })
		}
		for range 2 { // again changes nothing, and leaves one receipt
			if err := st.Update(t.Context(), func(tx *store.Tx) error { _, err := identity.EndSession(tx, first); return err }); err != nil {
				t.Fatal(err)
			}
		}
		if c, err := verifySession(t, st, identity.SessionSecret(token, first.Session.ID)); err != nil || !c.Used {
			t.Errorf("%+v %v", c, err)
		}
		if err := live(first); reason.CodeOf(err) != reason.TokenExpired {
			t.Errorf("got %v", err)
		}
		if err := live(second); err != nil {
			t.Error(err)
		}
		if err := st.Update(t.Context(), func(tx *store.Tx) error { return tx.RevokeToken(row.ID) }); err != nil {
			t.Fatal(err)
		}
		for _, c := range []identity.Caller{first, second} {
			if _, err := verifySession(t, st, identity.SessionSecret(token, c.Session.ID)); reason.CodeOf(err) != reason.TokenExpired {
				t.Errorf("got %v", err)
			}
			if err := live(c); reason.CodeOf(err) != reason.TokenExpired {
				t.Errorf("got %v", err)
			}
		}
		if err := st.Update(t.Context(), func(tx *store.Tx) error {
			_, err := identity.OpenSession(tx, token)
			return err
		}); reason.CodeOf(err) != reason.TokenExpired {
			t.Errorf("a session of a dead token: %v", err)
		}
		types := map[string]int{}
		if err := st.View(t.Context(), func(tx *store.Tx) error {
			events, err := tx.Events(authority.AccountStream("alice"), 0, 100)
			for _, e := range events {
				r, ok := authority.ReadReceipt(e)
				if !ok || !r.Sealed() || r.Principal != "user:alice" {
					t.Errorf("%+v", r)
				}
				types[r.Type]++
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if types[record.SessionOpened] != 2 || types[record.SessionEnded] != 1 || len(types) != 2 {
			t.Errorf("receipts %v", types)
		}
	})
}

// TestWhoOpensSessions tries credentials that no browser should have.
func TestWhoOpensSessions(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, storetest.SQLite(t), store.Options{})
	for _, g := range []identity.Grant{
		{Kind: authority.Provider, Owner: "alice", Scopes: []string{authority.ScopeWork}},
		{Kind: authority.Service, Owner: "alice"}, {Kind: authority.Registration, Owner: "alice", OneTime: true},
		{Kind: identity.Ticket, Owner: "alice", OneTime: true}, {Kind: authority.User, Owner: "alice", OneTime: true},
	} {
		token, _ := mint(t, st, g)
		if err := st.Update(t.Context(), func(tx *store.Tx) error {
			_, err := identity.OpenSession(tx, token)
			return err
		}); reason.CodeOf(err) != reason.Forbidden {
			t.Errorf("%s: %v", g.Kind, err)
		}
	}
	token, _ := mint(t, st, alice)
	c := openSession(t, st, token)
	secret := identity.SessionSecret(token, c.Session.ID)
	if err := st.Update(t.Context(), func(tx *store.Tx) error {
		_, err := identity.OpenSession(tx, secret)
		return err
	}); reason.CodeOf(err) != reason.Unauthenticated {
		t.Errorf("a session out of a session: %v", err)
	}
}

// TestSessionsAreBounded opens too many, with a good token and with one that
// leaked.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	storetest.EachClock(t, func(t *testing.T, clock *storetest.Clock, open func() *store.Store) {
		st := open()
		good, _ := mint(t, st, alice)
		leaked, _ := mint(t, st, alice)
		bobs, _ := mint(t, st, identity.Grant{Kind: authority.User, Principal: "user:bob", Owner: "bob"})
		bob := openSession(t, st, bobs)
		mine := make([]identity.Caller, identity.MaxSessions-1)
		for i := range mine {
			mine[i] = openSession(t, st, good)
			clock.Advance(time.Second)
		}
		for range 3 * identity.MaxSessions {
			openSession(t, st, leaked)
			clock.Advance(time.Second)
		}
		used := func(token string, c identity.Caller) bool {
			c, err := verifySession(t, st, identity.SessionSecret(token, c.Session.ID))
			if err != nil {
				t.Fatal(err)
			}
			return c.Used
		}
		for i, c := range mine {
			if used(good, c) {
				t.Errorf("session %d was pushed out by another token's", i)
			}
		}
		count := func() (n int) {
			if err := st.View(t.Context(), func(tx *store.Tx) error {
				list, err := tx.OpenSessions("user:alice")
				n = len(list)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := count(); n != identity.MaxSessions {
			t.Errorf("%d sessions", n)
		}
		// One's own: the one that was used longest ago goes.
		if err := st.Update(t.Context(), func(tx *store.Tx) error { return tx.SeeSession(mine[0].Session.ID) }); err != nil {
			t.Fatal(err)
		}
		openSession(t, st, good)
		if used(good, mine[0]) || !used(good, mine[1]) || used(good, mine[2]) || count() != identity.MaxSessions {
			t.Errorf("the wrong one went; %d are open", count())
		}
		if used(bobs, bob) {
			t.Error("another principal's session went")
		}
	})
}

// FuzzVerifySession holds that no text but a session's own is its secret.
func FuzzVerifySession(f *testing.F) {
	st := storetest.Open(f, storetest.SQLite(f), store.Options{})
	var secret string
	if err := st.Update(f.Context(), func(tx *store.Tx) error {
		token, _, err := identity.Mint(tx, alice)
		if err != nil {
			return err
		}
		c, err := identity.OpenSession(tx, token)
		if err == nil {
			secret = identity.SessionSecret(token, c.Session.ID)
		}
		return err
	}); err != nil {
		f.Fatal(err)
	}
	f.Add(secret[:len(secret)-1])
	f.Add("rmt_session__")
	f.Fuzz(func(t *testing.T, try string) {
		if try == secret {
			return
		}
		if _, err := verifySession(t, st, try); reason.CodeOf(err) != reason.Unauthenticated {
			t.Fatalf("%q: %v", try, err)
		}
	})
}
