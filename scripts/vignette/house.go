package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// options are what the script decides.
type options struct {
	dir     string // where everything of this run lies
	program string // the built program
	store   string // postgres://…, or "" for SQLite
	fixture string // directory of the case: ISSUE.md, fix.patch
	repo    string // the case as a repository: its issue on the branch main, its fix on the branch fixed
	target  string // the file that the fix changes
	verify  string // the command that tells a fixed tree from a broken one
	most    time.Duration
}

// vignette is one walk through the issue-to-payment story.
type vignette struct {
	options
	record
	started time.Time

	procs *processes
	nexus *nexus
	relay string // URL of the relay

	admin, alice, bob caller
	aliceToken        string // file
	adminToken        string // file
	account           string // alice's budget
	a, b              *provider
	fleet             *lane // alice's presence lane
	issueRef, repoRef string

	happy   *happyRun
	figures figures
	runs    []*run // that were made over the API, in order
	tally   tally  // what the settlements have said
}

// budget is what alice's account is funded with, in msats.
const budget = 50_000

// tally counts what the vignette has seen with its own eyes, so that figures of
// the authority are held against something.
type tally struct {
	verified, passed map[string]int64 // jobs by provider
	released         map[string]int64 // msats by provider
	withheld         int64            // msats
}

func (t *tally) add(s settlement) {
	if t.verified == nil {
		t.verified, t.passed, t.released = map[string]int64{}, map[string]int64{}, map[string]int64{}
	}
	t.verified[s.ProviderID]++
	if s.Passed {
		t.passed[s.ProviderID]++
	}
	if s.Status == "released" {
		t.released[s.ProviderID] += s.AmountMsats
	} else {
		t.withheld += s.AmountMsats
	}
}

// total adds up a count by name.
func total(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// path is a place in the directory of this run.
func (v *vignette) path(names ...string) string {
	return filepath.Join(append([]string{v.dir}, names...)...)
}

// open starts relay and nexus and makes the people of the story.
func (v *vignette) open(ctx context.Context, s *step) error {
	if err := v.startRelay(ctx); err != nil {
		return err
	}
	if err := v.startNexus(ctx, s); err != nil {
		return err
	}
	if err := v.people(ctx, s); err != nil {
		return err
	}
	if err := v.guarded(ctx, s); err != nil {
		return err
	}
	return v.fund(ctx, s)
}

func (v *vignette) startRelay(ctx context.Context) error {
	relay, err := v.procs.start("relay", v.path("relay"), "bridge", "relay", "--listen", "127.0.0.1:0", "--json")
	if err != nil {
		return err
	}
	var said struct {
		URL string `json:"url"`
	}
	if err := relay.announced(ctx, &said); err != nil {
		return err
	}
	v.relay = said.URL
	return nil
}

func (v *vignette) startNexus(ctx context.Context, s *step) error {
	args := []string{"serve", "--json", "--listen", "127.0.0.1:0", "--data", v.path("nexus"), "--relay", v.relay}
	want := "sqlite"
	if v.store != "" {
		args, want = append(args, "--store", v.store), "postgres"
	}
	serve, err := v.procs.start("nexus", v.path("home-nexus"), args...)
	if err != nil {
		return err
	}
	var said struct {
		URL   string `json:"url"`
		Token string `json:"admin_token"`
	}
	if err := serve.announced(ctx, &said); err != nil {
		return err
	}
	if said.Token == "" {
		return fmt.Errorf("the store has been used before (it gave no administrator's token): give an empty database")
	}
	v.nexus = newNexus(said.URL)
	v.admin = caller{"admin", said.Token}
	var health struct {
		Status   string `json:"status"`
		Store    string `json:"store"`
		ReadOnly bool   `json:"read_only"`
	}
	if _, err := v.nexus.get(ctx, caller{}, "/readyz", &health); err != nil {
		return err
	}
	s.ok(health.Status == "ok" && health.Store == want && !health.ReadOnly, "the nexus is ready, on "+want, health)
	return v.keepToken("admin", v.admin.token, &v.adminToken)
}

// people makes credentials for the user and for the owner of the other provider.
func (v *vignette) people(ctx context.Context, s *step) error {
	for _, p := range []struct {
		as     *caller
		name   string
		scopes []string
	}{
		{&v.alice, "alice", []string{"runs:write", "jobs:write", "providers:write", "providers:enrol", "treasury:write", "read"}},
		{&v.bob, "bob", []string{"providers:write", "read"}},
	} {
		var issued struct {
			Token string `json:"token"`
		}
		ask := request{as: v.admin, method: http.MethodPost, path: "/v1/tokens", key: "token-" + p.name,
			body: object{"kind": "user", "owner": p.name, "scopes": p.scopes}}
		if _, err := v.nexus.do(ctx, ask, http.StatusCreated, &issued); err != nil {
			return err
		}
		*p.as = caller{p.name, issued.Token}
	}
	var who struct {
		Owner  string   `json:"owner"`
		Scopes []string `json:"scopes"`
	}
	if _, err := v.nexus.get(ctx, v.alice, "/v1/whoami", &who); err != nil {
		return err
	}
	s.ok(who.Owner == "alice" && !slices.Contains(who.Scopes, "admin"), "the user has an identity of her own, and is no administrator", who)
	return v.keepToken("alice", v.alice.token, &v.aliceToken)
}

// keepToken writes a credential where commands read it.
func (v *vignette) keepToken(name, token string, path *string) error {
	*path = v.path("tokens", name)
	if err := os.MkdirAll(filepath.Dir(*path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(*path, []byte(token+"\n"), 0o600)
}

// guarded shows that authority is not to be had without credential and key, nor
// over a lane (INV-02, INV-03, INV-07).
func (v *vignette) guarded(ctx context.Context, s *step) error {
	claim := request{method: http.MethodPost, path: "/v1/issues/claim", key: "guarded", body: object{"issue_ref": "x", "repo_ref": "y"}}
	if err := v.nexus.refused(ctx, s, "a mutation without a credential is refused", claim, http.StatusUnauthorized,
		"unauthenticated"); err != nil {
		return err
	}
	claim.as, claim.key = v.alice, ""
	if err := v.nexus.refused(ctx, s, "a mutation without an Idempotency-Key is refused", claim, http.StatusBadRequest,
		"idempotency_key_missing"); err != nil {
		return err
	}
	ask := request{as: v.bob, method: http.MethodPost, path: "/v1/runs", key: "guarded", body: object{"repo_ref": "y"}}
	if err := v.nexus.refused(ctx, s, "a credential without the scope is refused", ask, http.StatusForbidden, "scope_missing"); err != nil {
		return err
	}
	ask = request{as: v.bob, method: http.MethodPost, path: "/v1/lanes/tickets", key: "guarded",
		body: object{"topic": "fleet:user:alice:workers"}}
	a, err := v.nexus.send(ctx, ask)
	if err != nil {
		return err
	}
	s.ok(a.status == http.StatusForbidden || a.status == http.StatusNotFound, "a ticket for another user's lane is refused", a.status,
		string(a.raw))
	_, err = v.nexus.dial(ctx, "fleet:user:alice:workers", "nonsense")
	s.ok(err != nil, "a lane without a ticket is refused", "it opened")
	return v.deliversOnly(ctx, s)
}

// deliversOnly sends a message into a lane, which has to close it.
func (v *vignette) deliversOnly(ctx context.Context, s *step) error {
	l, err := v.nexus.follow(ctx, v.alice, "fleet:user:alice:workers")
	if err != nil {
		return err
	}
	defer l.close()
	message, err := json.Marshal(object{"type": "enable", "provider_id": "any"})
	if err != nil {
		return err
	}
	if err := l.say(ctx, message); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	_, err = l.until(ctx, "its end", func(event) bool { return false })
	s.ok(closedByPolicy(err), "a lane delivers: a message from the client ends it", err)
	return nil
}

// fund opens the user's budget and puts money into it.
func (v *vignette) fund(ctx context.Context, s *step) error {
	var account struct {
		ID        string `json:"account_id"`
		Remaining int64  `json:"remaining"`
	}
	ask := request{as: v.alice, method: http.MethodPost, path: "/v1/treasury/accounts", key: "account", body: object{"limit": 2 * budget}}
	if _, err := v.nexus.do(ctx, ask, http.StatusCreated, &account); err != nil {
		return err
	}
	v.account = account.ID
	ask = request{as: v.admin, method: http.MethodPost, path: "/v1/treasury/fund", key: "fund",
		body: object{"account_id": account.ID, "amount": budget}}
	if _, err := v.nexus.repeated(ctx, s, "funding the budget twice with one key funds it once", ask, http.StatusOK, &account); err != nil {
		return err
	}
	s.equal("the budget holds what was put into it", account.Remaining, int64(budget))
	return nil
}
