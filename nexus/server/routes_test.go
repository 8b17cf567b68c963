package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
)

// TestRoutesAreTheContract: the server serves each operation of openapi.yaml
// once, and nothing else. api.TestOperations holds the operations against it.
func TestRoutesAreTheContract(t *testing.T) {
	w := one(t, Options{})
	var doc struct {
		Paths map[string]map[string]struct {
			ID string `yaml:"operationId"`
		} `yaml:"paths"`
	}
	if err := yaml.Unmarshal(api.Spec, &doc); err != nil {
		t.Fatal(err)
	}
	scopes := []string{scopeNone, scopeAny, authority.ScopeAdmin, authority.ScopeRuns, authority.ScopeJobs, authority.ScopeProviders,
		authority.ScopeEnrol, authority.ScopeWork, authority.ScopeTreasury, authority.ScopeApprove, authority.ScopeRead}
	served := map[string]bool{}
	for _, rt := range w.server.table() {
		if at := rt.Method + " " + rt.Path; served[at] || doc.Paths[rt.Path][strings.ToLower(rt.Method)].ID != rt.ID {
			t.Errorf("%s is served twice, or is not %s of the contract", at, rt.ID)
		}
		served[rt.Method+" "+rt.Path] = true
		if !slices.Contains(scopes, rt.Scope) {
			t.Errorf("%s wants the scope %q, which no credential has", rt.ID, rt.Scope)
		}
		if rt.Scope == scopeNone && rt.special == nil {
			t.Errorf("%s has no scope, and no handler that checks the credential", rt.ID)
		}
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			if !served[strings.ToUpper(method)+" "+path] {
				t.Errorf("%s %s is in the contract and is not served", method, path)
			}
		}
	}
}

// filled is a path with something in its wildcards.
func filled(path string) string {
	return strings.NewReplacer("{digest}", "sha256:"+strings.Repeat("0", 64), "{", "", "}", "").Replace(path)
}

// TestEveryMutationWantsACredentialAndAKey is INV-02 and INV-07 on each route:
// it is called without a token, with wrong ones, without the scope, without key.
func TestEveryMutationWantsACredentialAndAKey(t *testing.T) {
	w := one(t, Options{})
	powerless := w.mint(identity.Grant{Kind: authority.User, Principal: "user:eve", Owner: "eve", Scopes: []string{"nothing"}})
	parts := strings.SplitN(w.alice, "_", 4) // the secret has underscores of its own
	count := 0
	for _, rt := range w.server.table() {
		if rt.Scope == scopeNone {
			continue
		}
		count++
		ask := func(token, key string) seen {
			return w.do(call{method: rt.Method, path: filled(rt.Path), token: token, key: key, contentType: "application/json", body: "{}"})
		}
		for name, token := range map[string]string{
			"none": "", "garbage": "garbage", "empty secret": strings.Join(parts[:3], "_") + "_",
			"other secret": strings.Join(parts[:3], "_") + "_" + strings.Repeat("A", 43),
			"other kind":   "rmt_service_" + parts[2] + "_" + parts[3],
			"other id":     "rmt_user_" + strings.Repeat("0", 24) + "_" + parts[3],
			"huge":         strings.Repeat("x", 4000),
		} {
			if got := ask(token, "k"); got.status != 401 || got.problem.Code != "unauthenticated" || got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with a token that is %s: %d %s", rt.ID, name, got.status, got.body)
			}
		}
		if rt.Scope != scopeAny {
			if got := ask(powerless, "k"); got.status != 403 || got.problem.Code != "scope_missing" {
				t.Errorf("%s without the scope: %d %s", rt.ID, got.status, got.body)
			}
		}
		if rt.Mutates() {
			if got := ask(w.admin, ""); got.status != 400 || got.problem.Code != "idempotency_key_missing" {
				t.Errorf("%s without a key: %d %s", rt.ID, got.status, got.body)
			}
		}
	}
	if count < 25 {
		t.Errorf("%d routes: the test proves little", count)
	}
}

// TestWhatIsNotThere asks for nothing and with the wrong method.
func TestWhatIsNotThere(t *testing.T) {
	w := one(t, Options{})
	w.do(get("/v1/nothing", w.alice)).want(t, 404, "not_found")
	w.do(get("/debug/pprof/", w.alice)).want(t, 404, "not_found")
	got := w.do(call{method: "DELETE", path: "/v1/runs", token: w.alice})
	if got.status != 405 || got.problem.Status != 405 || got.header.Get("Allow") != "GET, POST" {
		t.Errorf("%d Allow %q", got.status, got.header.Get("Allow"))
	}
	if got := w.do(get("/v1/lanes/fleet:user:alice:workers", w.alice)); got.status == 200 {
		t.Error("a lane was answered without WebSocket")
	}
}
