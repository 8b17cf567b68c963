package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/canon"
)

// flow is a run from the first token to the payment, as a list of requests.
type flow struct {
	*world
	calls    []call
	answers  []seen
	provider string // id
	token    string // of the provider
	run, job string
}

// say sends a mutation and remembers it.
func (f *flow) say(c call, status int) seen {
	f.t.Helper()
	c.key = fmt.Sprintf("key-%d", len(f.calls))
	got := f.do(c).want(f.t, status, "")
	if got.replayed {
		f.t.Fatalf("%s %s was replayed at first", c.method, c.path)
	}
	f.calls, f.answers = append(f.calls, c), append(f.answers, got)
	return got
}

func (f *flow) post(path, token, body string, status int) seen {
	f.t.Helper()
	return f.say(post(path, token, "", body), status)
}

const caps = `{"cpu_millis":2000,"memory_mb":1024,"disk_mb":100,"pids":64,"timeout_secs":120,"concurrency":2,"network":"none"}`

const sandboxRun = `{"sandbox":{"provider":"local","image_digest":"host"},"repo":{"source":"/r","git_ref":"abc"},"commands":[{"cmd":"go test ./..."}]}`

// join registers and enables a provider of alice.
func (f *flow) join() {
	f.t.Helper()
	account := f.post("/v1/treasury/accounts", f.alice, `{"limit":1000000}`, 201).field(f.t, "account_id")
	f.post("/v1/treasury/fund", f.admin, fund(account, 500_000), 200)
	registration := f.post("/v1/tokens", f.alice, `{"kind":"registration"}`, 201).field(f.t, "token")
	joined := f.post("/v1/providers", registration, `{"name":"box","version":"1.0","capabilities":["oa.sandbox_run.v1","remit.engine_run.v1"],"price_msats":1000}`, 201)
	var out api.ProviderRegistered
	if err := json.Unmarshal([]byte(joined.body), &out); err != nil {
		f.t.Fatal(err)
	}
	if out.Provider.Enabled || out.Provider.Caps != nil {
		f.t.Errorf("a new provider is on, or has caps: %s", joined.body)
	}
	f.provider, f.token = out.Provider.ProviderID, out.Token
	f.say(call{method: "PUT", path: "/v1/providers/" + f.provider + "/caps", token: f.alice, contentType: "application/json", body: caps}, 200)
	f.post("/v1/providers/"+f.provider+"/enable", f.alice, "", 200)
	f.post("/v1/providers/"+f.provider+"/heartbeat", f.token, `{"version":"1.0"}`, 200)
}

// work makes a run with one job, which the provider does.
func (f *flow) work() {
	f.t.Helper()
	f.run = f.post("/v1/runs", f.alice, `{"repo_ref":"git@example.com:r","issue_ref":"#1","metadata":{"branch":"fix"}}`, 201).field(f.t, "run_id")
	f.job = f.post("/v1/runs/"+f.run+"/jobs", f.alice, `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`, 201).field(f.t, "job_id")
	var leases api.LeaseList
	got := f.post("/v1/jobs/lease", f.token, `{"max":3}`, 200)
	if err := json.Unmarshal([]byte(got.body), &leases); err != nil || len(leases.Leases) != 1 || leases.Leases[0].Job.JobID != f.job {
		f.t.Fatalf("%v: %s", err, got.body)
	}
	fence := leases.Leases[0].Fence
	path := "/v1/jobs/" + f.job
	f.post(path+"/renew", f.token, fmt.Sprintf(`{"fence":%d}`, fence), 200)
	f.post(path+"/log", f.token, fmt.Sprintf(`{"fence":%d,"stream":"stdout","offset":0,"text":"ok\n"}`, fence), 200)
	content := "full output"
	digest := canon.Digest([]byte(content))
	f.say(call{method: "PUT", path: fmt.Sprintf("%s/artifacts/%s?fence=%d&name=stdout.0", path, digest, fence), token: f.token,
		contentType: "application/octet-stream", body: content}, 201)
	empty := canon.Digest(nil)
	f.post(path+"/complete", f.token, fmt.Sprintf(`{"fence":%d,"response":{"env_info":{"image_digest":"host"},"runs":[{"cmd":"go test ./...","exit_code":0,"duration_ms":5,"stdout_sha256":%q,"stderr_sha256":%q}],"artifacts":[{"path":"stdout.0","sha256":%q,"size_bytes":%d}],"status":"success","provenance":{"model_id":"none"}}}`,
		fence, digest, empty, digest, len(content)), 200)
	settled := f.post(path+"/settle", f.alice, "", 200)
	if settled.field(f.t, "settlement_status") != "released" {
		f.t.Errorf("not paid: %s", settled.body)
	}
	f.post("/v1/runs/"+f.run+"/events", f.alice, `{"event_type":"receipt","payload":{"receipt_type":"ForgeUpdated","payload":{"branch":"fix","commit":"c","pr_ref":"#2"}}}`, 201)
	f.post("/v1/runs/"+f.run+"/finish", f.alice, `{"status":"succeeded"}`, 200)
	f.post("/v1/runs/"+f.run+"/outcome", f.alice, `{"kind":"accepted"}`, 200)
	f.post("/v1/lanes/tickets", f.alice, `{"topic":"run:`+f.run+`:events"}`, 201)
	f.post("/v1/providers/"+f.provider+"/disable", f.alice, `{"reason":"the end"}`, 200)
}

// heads sums up all that the flow has written.
func (f *flow) heads() string {
	f.t.Helper()
	var b strings.Builder
	err := f.store.View(f.t.Context(), func(tx *store.Tx) error {
		for _, stream := range []string{
			authority.RunStream(f.run), authority.FleetStream("alice"), authority.OfferStream(f.provider),
			authority.AccountStream("alice"), authority.ProviderStream(f.provider),
		} {
			head, _, err := tx.Head(stream)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %d\n", stream, head)
		}
		tokens, err := tx.TokensOf("alice", "", store.TokensAfter{}, 100)
		fmt.Fprintf(&b, "tokens %d\n", len(tokens))
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return b.String()
}

// TestEveryMutationReplays walks a whole run, then sends every request of it
// again, twice: late, after the state has moved on, and to another replica. All
// answers are the first ones, and nothing has changed.
func TestEveryMutationReplays(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f := &flow{world: w}
		f.join()
		f.work()
		before := f.heads()
		for round := range 2 {
			for i, c := range f.calls {
				again := f.do(c)
				if again.status != f.answers[i].status || again.body != f.answers[i].body || !again.replayed {
					t.Errorf("round %d: %s %s: %d replayed=%v\nfirst %s\nagain %s", round, c.method, c.path, again.status, again.replayed, f.answers[i].body, again.body)
				}
				for _, h := range []string{"Content-Type", "Etag", "Location"} {
					if again.header.Get(h) != f.answers[i].header.Get(h) {
						t.Errorf("%s %s: %s was %q, is %q", c.method, c.path, h, f.answers[i].header.Get(h), again.header.Get(h))
					}
				}
			}
			if after := f.heads(); after != before {
				t.Errorf("replays had effects:\n%s\n%s", before, after)
			}
			f.start(Options{})
		}
	})
}

// TestOthersSeeNothing looks at alice's things as bob, and acts on them.
func TestOthersSeeNothing(t *testing.T) {
	w := one(t, Options{})
	f := &flow{world: w}
	f.join()
	f.work()
	for _, path := range []string{
		"/v1/runs/" + f.run, "/v1/runs/" + f.run + "/events", "/v1/runs/" + f.run + "/receipts", "/v1/runs/" + f.run + "/jobs",
		"/v1/jobs/" + f.job, "/v1/providers/" + f.provider, "/v1/metrics?run_id=" + f.run,
		"/v1/jobs/" + f.job + "/artifacts/" + canon.Digest([]byte("full output")),
	} {
		w.do(get(path, w.alice)).want(t, 200, "")
		w.do(get(path, w.bob)).want(t, 404, "not_found")
	}
	w.do(get("/v1/treasury/summary?owner=alice", w.bob)).want(t, 403, "forbidden")
	w.do(get("/v1/treasury/summary?owner=alice", w.admin)).want(t, 200, "")
	for i, c := range []call{
		post("/v1/runs/"+f.run+"/finish", w.bob, "", `{"status":"failed"}`),
		post("/v1/runs/"+f.run+"/cancel", w.bob, "", ""),
		post("/v1/runs/"+f.run+"/events", w.bob, "", `{"event_type":"note","payload":{"text":"x"}}`),
		post("/v1/runs/"+f.run+"/jobs", w.bob, "", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`),
		post("/v1/jobs/"+f.job+"/cancel", w.bob, "", ""),
		post("/v1/jobs/"+f.job+"/settle", w.bob, "", ""),
		post("/v1/providers/"+f.provider+"/enable", w.bob, "", ""),
		post("/v1/providers/"+f.provider+"/disable", w.bob, "", ""),
		{method: "PUT", path: "/v1/providers/" + f.provider + "/caps", token: w.bob, contentType: "application/json", body: caps},
	} {
		c.key = fmt.Sprintf("bob-%d", i)
		if got := w.do(c); got.status != 404 {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
		}
	}
	for _, topic := range []string{"run:" + f.run + ":events", "fleet:user:alice:workers", "jobs:" + f.provider} {
		w.do(post("/v1/lanes/tickets", w.bob, "t-"+topic, `{"topic":"`+topic+`"}`)).want(t, 404, "lane_unknown")
	}
}

// TestTheOwnerIsTheCredentials names another owner in every body that has one.
func TestTheOwnerIsTheCredentials(t *testing.T) {
	w := one(t, Options{})
	f := &flow{world: w}
	f.join()
	run := w.do(post("/v1/runs", w.alice, "own", `{"repo_ref":"r","owner":"alice"}`)).want(t, 201, "").field(t, "run_id")
	for i, c := range []call{
		post("/v1/devices", w.alice, "", `{"name":"d","owner":"bob"}`),
		post("/v1/providers", w.alice, "", `{"name":"d","version":"1","capabilities":["oa.sandbox_run.v1"],"price_msats":1,"owner":"bob"}`),
		post("/v1/issues/claim", w.alice, "", `{"issue_ref":"#1","repo_ref":"r","owner":"bob"}`),
		post("/v1/runs", w.alice, "", `{"repo_ref":"r","owner":"bob"}`),
		post("/v1/runs/"+run+"/jobs", w.alice, "", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`,"owner":"bob"}`),
		post("/v1/treasury/accounts", w.alice, "", `{"limit":5,"owner":"bob"}`),
		post("/v1/treasury/accounts", w.admin, "", `{"limit":5,"owner":"bob"}`),
		post("/v1/tokens", w.alice, "", `{"kind":"registration","owner":"bob"}`),
	} {
		c.key = fmt.Sprintf("liar-%d", i)
		if got := w.do(c); got.status != 403 || got.problem.Code != "forbidden" || api.Value(got.problem.Field) != "owner" {
			t.Errorf("%s: %d %s", c.path, got.status, got.body)
		}
	}
}

// TestClientsDoNotWriteMoney appends what only the authority may.
func TestClientsDoNotWriteMoney(t *testing.T) {
	w := one(t, Options{})
	run := w.do(post("/v1/runs", w.alice, "run", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
	for i, body := range []string{
		`{"event_type":"payment","payload":{"amount_msats":1}}`,
		`{"event_type":"verification","payload":{"exit_code":0}}`,
		`{"event_type":"run.finished","payload":{"status":"succeeded"}}`,
		`{"event_type":"receipt","payload":{"receipt_type":"PaymentReleased","payload":{"amount_msats":1}}}`,
		`{"event_type":"receipt","payload":{"receipt_type":"VerificationPassed","payload":{}}}`,
		`{"event_type":"note","payload":{"text":"x"},"event_key":"payment:abc:released"}`,
	} {
		got := w.do(post("/v1/runs/"+run+"/events", w.alice, fmt.Sprintf("e-%d", i), body))
		if got.status != 403 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
}

// TestStateMachinesMoveOnWhatWasSeen uses ETag and If-Match.
func TestStateMachinesMoveOnWhatWasSeen(t *testing.T) {
	w := one(t, Options{})
	made := w.do(post("/v1/runs", w.alice, "run", `{"repo_ref":"r"}`)).want(t, 201, "")
	run, tag := made.field(t, "run_id"), made.header.Get("Etag")
	if seen := w.do(get("/v1/runs/"+run, w.alice)); seen.header.Get("Etag") != tag || tag == "" {
		t.Errorf("ETag %q, then %q", tag, seen.header.Get("Etag"))
	}
	cached := get("/v1/runs/"+run, w.alice)
	cached.header = map[string][]string{"If-None-Match": {tag}}
	if got := w.do(cached); got.status != 304 || got.body != "" {
		t.Errorf("%d %q", got.status, got.body)
	}
	w.do(post("/v1/runs/"+run+"/events", w.alice, "note", `{"event_type":"note","payload":{"text":"x"}}`)).want(t, 201, "")
	late := post("/v1/runs/"+run+"/finish", w.alice, "finish", `{"status":"succeeded"}`)
	late.header = map[string][]string{"If-Match": {tag}}
	w.do(late).want(t, 412, "precondition_failed")
	late.key, late.header = "finish-2", map[string][]string{"If-Match": {"W/x"}}
	w.do(late).want(t, 400, "request_invalid")
	late.key, late.header = "finish-3", map[string][]string{"If-Match": {w.do(get("/v1/runs/"+run, w.alice)).header.Get("Etag")}}
	w.do(late).want(t, 200, "")
	w.do(post("/v1/runs/"+run+"/events", w.alice, "late", `{"event_type":"note","payload":{"text":"y"}}`)).want(t, 409, "run_closed")
}

// TestRegistrationIsForOneProvider uses a registration token twice.
func TestRegistrationIsForOneProvider(t *testing.T) {
	w := one(t, Options{})
	token := w.do(post("/v1/tokens", w.alice, "t", `{"kind":"registration"}`)).want(t, 201, "").field(t, "token")
	w.do(get("/v1/whoami", token)).want(t, 403, "forbidden")
	w.do(post("/v1/devices", token, "d", `{"name":"d"}`)).want(t, 403, "forbidden")
	body := `{"name":"box","version":"1.0","capabilities":["oa.sandbox_run.v1"],"price_msats":1000}`
	first := w.do(post("/v1/providers", token, "k", body)).want(t, 201, "")
	if again := w.do(post("/v1/providers", token, "k", body)).want(t, 201, ""); again.body != first.body || !again.replayed {
		t.Errorf("a lost answer is lost: %s", again.body)
	}
	w.do(post("/v1/providers", token, "k2", body)).want(t, 401, "token_expired")
	w.do(get("/v1/providers", token)).want(t, 401, "token_expired")

	// The reserve pool needs a scope that alice does not have.
	w.do(post("/v1/tokens", w.alice, "p", `{"kind":"registration","scopes":["providers:pool"]}`)).want(t, 403, "scope_missing")
	w.do(post("/v1/providers", w.alice, "p", strings.Replace(body, `"box"`, `"pool","reserve_pool":true`, 1))).want(t, 403, "scope_missing")
}

// TestANewRegistrationEndsTheOldCredential enrols the same machine again.
func TestANewRegistrationEndsTheOldCredential(t *testing.T) {
	w := one(t, Options{})
	f := &flow{world: w}
	f.join()
	body := `{"provider_id":"` + f.provider + `","name":"box","version":"1.1","capabilities":["oa.sandbox_run.v1"],"price_msats":900}`
	w.do(post("/v1/providers", w.bob, "again", body)).want(t, 404, "not_found")
	fresh := w.do(post("/v1/providers", w.alice, "again", body)).want(t, 201, "").field(t, "token")
	w.do(post("/v1/providers/"+f.provider+"/heartbeat", f.token, "h", `{"version":"1.1"}`)).want(t, 401, "token_expired")
	w.do(post("/v1/providers/"+f.provider+"/heartbeat", fresh, "h", `{"version":"1.1"}`)).want(t, 200, "")
}
