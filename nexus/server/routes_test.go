package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
)

// operation is what the contract says about a route.
type operation struct {
	ID         string           `yaml:"operationId"`
	Scope      string           `yaml:"x-scope"`
	Parameters []map[string]any `yaml:"parameters"`
	Security   *[]any           `yaml:"security"`
}

func (o operation) keyed() bool {
	for _, p := range o.Parameters {
		if p["$ref"] == "#/components/parameters/IdempotencyKey" {
			return true
		}
	}
	return false
}

// TestRoutesAreTheContract holds the table against openapi.yaml both ways.
func TestRoutesAreTheContract(t *testing.T) {
	w := one(t, Options{})
	var doc struct {
		Paths map[string]map[string]operation `yaml:"paths"`
	}
	if err := yaml.Unmarshal(api.Spec, &doc); err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, rt := range w.server.table() {
		op, ok := doc.Paths[rt.path][strings.ToLower(rt.method)]
		served[rt.method+" "+rt.path] = true
		if !ok {
			t.Errorf("%s %s is not in the contract", rt.method, rt.path)
			continue
		}
		if op.ID != rt.operation || op.Scope != rt.scope || op.keyed() != rt.mutation {
			t.Errorf("%s %s: operation %q scope %q key %v, the contract says %q %q %v",
				rt.method, rt.path, rt.operation, rt.scope, rt.mutation, op.ID, op.Scope, op.keyed())
		}
		if rt.mutation != (rt.method != http.MethodGet) {
			t.Errorf("%s %s: mutation is %v", rt.method, rt.path, rt.mutation)
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
	parts := strings.Split(w.alice, "_")
	count := 0
	for _, rt := range w.server.table() {
		if rt.scope == scopeNone {
			continue
		}
		count++
		ask := func(token, key string) seen {
			return w.do(call{method: rt.method, path: filled(rt.path), token: token, key: key, contentType: "application/json", body: "{}"})
		}
		for name, token := range map[string]string{
			"none": "", "garbage": "garbage", "empty secret": strings.Join(parts[:3], "_") + "_",
			"other secret": strings.Join(parts[:3], "_") + "_" + strings.Repeat("A", 43),
			"other kind":   "rmt_service_" + parts[2] + "_" + parts[3],
			"other id":     "rmt_user_" + strings.Repeat("0", 24) + "_" + parts[3],
			"huge":         strings.Repeat("x", 4000),
		} {
			if got := ask(token, "k"); got.status != 401 || got.problem.Code != "unauthenticated" || got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with a token that is %s: %d %s", rt.operation, name, got.status, got.body)
			}
		}
		if rt.scope != scopeAny {
			if got := ask(powerless, "k"); got.status != 403 || got.problem.Code != "scope_missing" {
				t.Errorf("%s without the scope: %d %s", rt.operation, got.status, got.body)
			}
		}
		if rt.mutation {
			if got := ask(w.admin, ""); got.status != 400 || got.problem.Code != "idempotency_key_missing" {
				t.Errorf("%s without a key: %d %s", rt.operation, got.status, got.body)
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
