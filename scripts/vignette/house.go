package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coder/websocket"
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
func (v *vignette) open(ctx context.Context, s *step) {
	v.startRelay(ctx)
	v.startNexus(ctx, s)
	v.people(ctx, s)
	v.guarded(ctx, s)
	v.fund(ctx, s)
}

func (v *vignette) startRelay(ctx context.Context) {
	relay := need(v.procs.start("relay", v.path("relay"), "bridge", "relay", "--listen", "127.0.0.1:0", "--json"))
	v.relay = relay.announced(ctx).text("url")
}

func (v *vignette) startNexus(ctx context.Context, s *step) {
	args := []string{"serve", "--json", "--listen", "127.0.0.1:0", "--data", v.path("nexus"), "--relay", v.relay}
	want := "sqlite"
	if v.store != "" {
		args, want = append(args, "--store", v.store), "postgres"
	}
	serve := need(v.procs.start("nexus", v.path("home-nexus"), args...))
	said := serve.announced(ctx)
	v.nexus, v.admin = newNexus(said.text("url")), caller{"admin", said.text("admin_token")}
	if v.admin.token == "" {
		giveUp("the store has been used before (it gave no administrator's token): give an empty database")
	}
	var health struct {
		Status   string `json:"status"`
		Store    string `json:"store"`
		ReadOnly bool   `json:"read_only"`
	}
	v.nexus.get(ctx, caller{}, "/readyz", &health)
	s.ok(health.Status == "ok" && health.Store == want && !health.ReadOnly, "the nexus is ready, on "+want, health)
	v.adminToken = v.keepToken("admin", v.admin.token)
}

// people makes credentials for the user and for the owner of the other provider.
func (v *vignette) people(ctx context.Context, s *step) {
	v.alice = caller{"alice", v.newToken(ctx, "user", "alice", "token-alice",
		[]string{"runs:write", "jobs:write", "providers:write", "providers:enrol", "treasury:write", "read"})}
	v.bob = caller{"bob", v.newToken(ctx, "user", "bob", "token-bob", []string{"providers:write", "read"})}
	var who struct {
		Owner  string   `json:"owner"`
		Scopes []string `json:"scopes"`
	}
	v.nexus.get(ctx, v.alice, "/v1/whoami", &who)
	s.ok(who.Owner == "alice" && !slices.Contains(who.Scopes, "admin"), "the user has an identity of her own, and is no administrator", who)
	v.aliceToken = v.keepToken("alice", v.alice.token)
}

// newToken issues a credential of a kind to an owner.
func (v *vignette) newToken(ctx context.Context, kind, owner, key string, scopes []string) string {
	ask := v.admin.post("/v1/tokens", key, object{"kind": kind, "owner": owner, "scopes": scopes})
	return v.nexus.do(ctx, ask, http.StatusCreated, nil).text("token")
}

// keepToken writes a credential to a file for commands, and returns its path.
func (v *vignette) keepToken(name, token string) string {
	path := v.path("tokens", name)
	must(os.MkdirAll(filepath.Dir(path), 0o700))
	must(os.WriteFile(path, []byte(token+"\n"), 0o600))
	return path
}

// guarded shows that authority is not to be had without credential and key, nor
// over a lane (INV-02, INV-03, INV-07).
func (v *vignette) guarded(ctx context.Context, s *step) {
	claim := caller{}.post("/v1/issues/claim", "guarded", object{"issue_ref": "x", "repo_ref": "y"})
	v.nexus.refused(ctx, s, "a mutation without a credential is refused", claim, http.StatusUnauthorized, "unauthenticated")
	claim.as, claim.key = v.alice, ""
	v.nexus.refused(ctx, s, "a mutation without an Idempotency-Key is refused", claim, http.StatusBadRequest,
		"idempotency_key_missing")
	ask := v.bob.post("/v1/runs", "guarded", object{"repo_ref": "y"})
	v.nexus.refused(ctx, s, "a credential without the scope is refused", ask, http.StatusForbidden, "scope_missing")
	a := need(v.nexus.send(ctx, v.bob.post("/v1/lanes/tickets", "guarded", object{"topic": "fleet:user:alice:workers"})))
	s.ok(a.status == http.StatusForbidden || a.status == http.StatusNotFound, "a ticket for another user's lane is refused", a.status,
		string(a.raw))
	_, err := v.nexus.dial(ctx, "fleet:user:alice:workers", "nonsense")
	s.ok(err != nil, "a lane without a ticket is refused", "it opened")
	v.deliversOnly(ctx, s)
}

// deliversOnly sends a message into a lane, which has to close it.
func (v *vignette) deliversOnly(ctx context.Context, s *step) {
	l := v.nexus.follow(ctx, v.alice, "fleet:user:alice:workers")
	defer l.close()
	must(l.ws.Write(ctx, websocket.MessageText, []byte(`{"type": "enable", "provider_id": "any"}`)))
	_, err := l.until(ctx, "its end", func(event) bool { return false })
	s.ok(closedByPolicy(err), "a lane delivers: a message from the client ends it", err)
}

// fund opens the user's budget and puts money into it.
func (v *vignette) fund(ctx context.Context, s *step) {
	opened := v.nexus.do(ctx, v.alice.post("/v1/treasury/accounts", "account", object{"limit": 2 * budget}), http.StatusCreated, nil)
	v.account = opened.text("account_id")
	ask := v.admin.post("/v1/treasury/fund", "fund", object{"account_id": v.account, "amount": budget})
	funded := v.nexus.repeated(ctx, s, "funding the budget twice with one key funds it once", ask, http.StatusOK, nil)
	s.equal("the budget holds what was put into it", number(funded.doc(), "remaining"), int64(budget))
}
