package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"remit/law/job"
	"remit/nexus/api"
)

// nexus is a `remit serve` as a process.
type nexus struct {
	t     *testing.T
	url   string
	admin string
}

// startNexus is a nexus with nothing in it, and its administrator.
func startNexus(t *testing.T, args ...string) *nexus {
	t.Helper()
	p := serveNexus(t, args...)
	if p.Token == "" {
		t.Fatal("a fresh nexus has no administrator")
	}
	return &nexus{t, p.URL, p.Token}
}

// answer is what a request got.
type answer struct {
	status   int
	replayed bool
	body     map[string]any
	raw      string
}

func (a answer) text(field string) string { s, _ := a.body[field].(string); return s }

// do sends one request with a key, and fails the test unless the status fits.
func (n *nexus) do(token, method, path, key string, body any, want int) answer {
	n.t.Helper()
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			n.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, bytes.NewReader(b))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if method != http.MethodGet {
		req.Header.Set(api.HeaderKey, key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	var raw bytes.Buffer
	if _, err := raw.ReadFrom(resp.Body); err != nil {
		n.t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, replayed: resp.Header.Get(api.HeaderReplayed) == "true", raw: raw.String()}
	if err := json.Unmarshal(raw.Bytes(), &a.body); err != nil {
		n.t.Fatalf("%s %s: %v: %s", method, path, err, raw.String())
	}
	if a.status != want {
		n.t.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, want, raw.String())
	}
	return a
}

type object = map[string]any

// enrol registers a provider as its operator does, sets its caps and enables
// it, and returns its id and home.
func (n *nexus) enrol(owner, name string) (id, home string) {
	n.t.Helper()
	home = n.t.TempDir()
	grant := n.do(n.admin, "POST", "/v1/tokens", "registration-"+name, object{"kind": "registration", "owner": owner}, http.StatusCreated)
	file := filepath.Join(home, "token")
	if err := os.WriteFile(file, []byte(grant.text("token")), 0o600); err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.CommandContext(n.t.Context(), program(), "provider", "join", "--json", "--nexus", n.url, "--token-file", file, "--name", name)
	cmd.Env = append(os.Environ(), "REMIT_HOME="+home, "HOME="+home)
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("join: %v: %s", err, out)
	}
	var p api.Provider
	if err := json.Unmarshal(out, &p); err != nil || p.Enabled {
		n.t.Fatalf("a new provider must be off: %v: %s", err, out)
	}
	status := exec.CommandContext(n.t.Context(), program(), "provider", "status")
	status.Env = cmd.Env
	if out, err := status.CombinedOutput(); err != nil || !strings.Contains(string(out), "none set") || !strings.Contains(string(out), "disabled") || !strings.Contains(string(out), "status      stopped") {
		n.t.Errorf("status: %v: %s", err, out)
	}
	n.do(n.admin, "PUT", "/v1/providers/"+p.ProviderID+"/caps", "caps-"+name, object{"cpu_millis": 2000, "memory_mb": 1024, "disk_mb": 512, "pids": 256,
		"timeout_secs": 120, "concurrency": 1, "network": "none"}, http.StatusOK)
	n.do(n.admin, "POST", "/v1/providers/"+p.ProviderID+"/enable", "enable-"+name, nil, http.StatusOK)
	return p.ProviderID, home
}

// lane reads the events of a topic until found says so.
func (n *nexus) lane(ctx context.Context, token, topic string, found func(api.Event) bool) {
	n.t.Helper()
	ticket := n.do(token, "POST", "/v1/lanes/tickets", api.NewKey(), object{"topic": topic}, http.StatusCreated)
	c, _, err := websocket.Dial(ctx, strings.Replace(n.url, "http", "ws", 1)+"/v1/lanes/"+topic+"?after_seq=0",
		&websocket.DialOptions{Subprotocols: []string{api.LaneProtocol, api.TicketPrefix + ticket.text("ticket")}})
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(1 << 20)
	last := int64(0)
	for {
		_, msg, err := c.Read(ctx)
		if err != nil {
			n.t.Fatalf("the lane %s ended: %v", topic, err)
		}
		var f api.LaneFrame
		if err := json.Unmarshal(msg, &f); err != nil {
			n.t.Fatal(err)
		}
		if f.Event == nil {
			continue
		}
		if f.Event.Seq != last+1 {
			n.t.Fatalf("%s: event %d after %d", topic, f.Event.Seq, last)
		}
		last = f.Event.Seq
		if found(*f.Event) {
			return
		}
	}
}

// fresh waits until a provider of the token's owner has shown that it lives.
func (n *nexus) fresh(token, provider string) {
	n.t.Helper()
	owner := n.do(token, "GET", "/v1/whoami", "", nil, http.StatusOK).text("owner")
	n.lane(n.t.Context(), token, "fleet:user:"+owner+":workers", func(e api.Event) bool {
		var seen struct {
			Provider  string `json:"provider_id"`
			Heartbeat string `json:"heartbeat_state"`
		}
		_ = json.Unmarshal(e.Payload, &seen) // not every event is about a heartbeat
		return seen.Provider == provider && seen.Heartbeat == "fresh"
	})
}

// download reads content that is no JSON.
func (n *nexus) download(token, path string) []byte {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, n.url+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		n.t.Fatalf("GET %s: status %d, %v", path, resp.StatusCode, err)
	}
	return b
}

// receiptTypes lists the receipts of a run in order.
func (n *nexus) receiptTypes(token, run string) []string {
	n.t.Helper()
	page := n.do(token, "GET", "/v1/runs/"+run+"/receipts?limit=100", "", nil, http.StatusOK)
	var out []string
	items, _ := page.body["items"].([]any)
	for _, item := range items {
		m, _ := item.(object)
		for _, field := range []string{"receipt_type", "type"} {
			if s, ok := m[field].(string); ok {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

// TestIssueToPayment takes an issue through an authority, a provider on the same
// machine and the books, as processes that only meet over sockets.
func TestIssueToPayment(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	n := startNexus(t)
	alice := n.do(n.admin, "POST", "/v1/tokens", "alice", object{"kind": "user", "owner": "alice",
		"scopes": []string{"runs:write", "jobs:write", "providers:write", "treasury:write", "read"}}, http.StatusCreated).text("token")
	repo := gitRepo(t, map[string]string{"hello.txt": "hello\n"})
	provider, home := n.enrol("alice", "one")
	background(t, home, "provider", "start", "--unenforced-caps", "--source", repo)
	n.fresh(alice, provider)
	account := n.do(alice, "POST", "/v1/treasury/accounts", "account", object{"limit": 10_000}, http.StatusCreated)
	n.do(n.admin, "POST", "/v1/treasury/fund", "fund", object{"account_id": account.text("account_id"), "amount": 5_000}, http.StatusOK)

	run := func(name, command string) (id, jobID string) {
		issue := "issue/" + name
		n.do(alice, "POST", "/v1/issues/claim", "claim-"+name, object{"issue_ref": issue, "repo_ref": "repo"}, http.StatusCreated)
		id = n.do(alice, "POST", "/v1/runs", "run-"+name, object{"repo_ref": "repo", "issue_ref": issue}, http.StatusCreated).text("run_id")
		request := object{"job_type": job.SandboxRun, "request": object{
			"sandbox": object{"image_digest": "host", "provider": "local"}, "repo": object{"source": repo}, "commands": []object{{"cmd": command}}}}
		first := n.do(alice, "POST", "/v1/runs/"+id+"/jobs", "dispatch-"+name, request, http.StatusCreated)
		again := n.do(alice, "POST", "/v1/runs/"+id+"/jobs", "dispatch-"+name, request, http.StatusCreated)
		if !again.replayed || again.raw != first.raw {
			t.Errorf("the repeated dispatch was not answered with the stored response: %s", again.raw)
		}
		if first.text("provider_id") != provider || first.text("reservation_id") == "" {
			t.Fatalf("dispatched to another provider, or without a reservation: %s", first.raw)
		}
		jobID = first.text("job_id")
		n.lane(t.Context(), alice, "run:"+id+":events", func(e api.Event) bool {
			var r struct {
				Type string `json:"receipt_type"`
			}
			_ = json.Unmarshal(e.Payload, &r) // events of other types have none
			return r.Type == "JobCompleted" || r.Type == "JobFailed"
		})
		return id, jobID
	}
	settle := func(name, jobID, status string) {
		first := n.do(alice, "POST", "/v1/jobs/"+jobID+"/settle", "settle-"+name, nil, http.StatusOK)
		again := n.do(alice, "POST", "/v1/jobs/"+jobID+"/settle", "settle-"+name, nil, http.StatusOK)
		if first.text("settlement_status") != status || again.raw != first.raw || !again.replayed {
			t.Errorf("%s: settled as %s", name, first.raw)
		}
	}
	good, goodJob := run("good", "test -f hello.txt")
	settle("good", goodJob, "released")
	bad, badJob := run("bad", "false")
	settle("bad", badJob, "withheld")

	for id, want := range map[string][]string{
		good: {"RunCreated", "BudgetReserved", "JobDispatched", "JobCompleted", "CapsEnforced", "VerificationPassed", "PaymentReleased"},
		bad:  {"RunCreated", "BudgetReserved", "JobDispatched", "VerificationFailed", "PaymentWithheld"},
	} {
		got := n.receiptTypes(alice, id)
		for _, receipt := range want {
			if c := count(got, receipt); c != 1 {
				t.Errorf("run %s has %d receipts %s: %v", id, c, receipt, got)
			}
		}
	}
	summary := n.do(alice, "GET", "/v1/treasury/summary", "", nil, http.StatusOK)
	var books struct {
		Totals struct {
			Released int64 `json:"released_msats"`
			Withheld int64 `json:"withheld_msats"`
			Reserved int64 `json:"reserved_msats"`
		} `json:"totals"`
	}
	if err := json.Unmarshal([]byte(summary.raw), &books); err != nil || books.Totals.Released != 1000 || books.Totals.Withheld != 1000 || books.Totals.Reserved != 0 {
		t.Errorf("%v: %s", err, summary.raw)
	}

	// The job asked for no disk and no number of processes: it got the owner's caps.
	type receipt struct {
		Type    string `json:"receipt_type"`
		Payload struct {
			Caps job.CapsApplied `json:"caps"`
		} `json:"payload"`
	}
	var proof struct {
		Items []receipt `json:"items"`
	}
	logged := n.do(alice, "GET", "/v1/runs/"+good+"/receipts", "", nil, http.StatusOK)
	if err := json.Unmarshal([]byte(logged.raw), &proof); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(proof.Items, func(r receipt) bool { return r.Type == "CapsEnforced" })
	if i < 0 {
		t.Fatal(logged.raw)
	}
	if c := proof.Items[i].Payload.Caps; c.DiskMB != 0 && c.DiskMB != 512 || c.Pids != 0 && c.Pids != 256 { // 0: not enforced here
		t.Errorf("the job ran with %+v", c)
	}

	// Its requester sees it too.
	var page api.ProviderPage
	if code, text := n.remit(alice, &page, "provider", "status", "--nexus", n.url, "--json"); code != 0 || len(page.Items) != 1 || page.Items[0].ProviderID != provider {
		t.Errorf("exit %d: %s", code, text)
	}
	for _, args := range [][]string{{"--nexus", n.url}, {"--nexus", n.url, provider}} {
		if code, text := n.remit(alice, nil, append([]string{"provider", "status"}, args...)...); code != 0 || !strings.Contains(text, provider) || !strings.Contains(text, "running") {
			t.Errorf("exit %d: %s", code, text)
		}
	}

	// Switched off, it gets nothing more.
	n.do(alice, "POST", "/v1/providers/"+provider+"/disable", "off", object{}, http.StatusOK)
	late := n.do(alice, "POST", "/v1/runs", "run-late", object{"repo_ref": "repo"}, http.StatusCreated).text("run_id")
	refused := n.do(alice, "POST", "/v1/runs/"+late+"/jobs", "dispatch-late", object{"job_type": job.SandboxRun, "request": object{
		"sandbox": object{"image_digest": "host"}, "repo": object{"source": repo}, "commands": []object{{"cmd": "true"}}}}, http.StatusConflict)
	if code := refused.text("code"); code != "no_eligible_provider" && code != "provider_disabled" {
		t.Errorf("%s", refused.raw)
	}
	n.do(alice, "POST", "/v1/runs/"+good+"/finish", "finish", object{"status": "succeeded"}, http.StatusOK)
}

func count(list []string, want string) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s != want }))
}
