package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/nexus/api"
	"remit/proof/bundle"
	"remit/proof/canon"
)

// change is a repository, and a run that makes one good change in it.
type change struct {
	t    *testing.T
	repo string
	home string
	env  []string
}

func newChange(t *testing.T) *change {
	t.Helper()
	c := &change{t: t, repo: gitRepo(t, map[string]string{"hello.txt": "hello\n"}), home: t.TempDir()}
	c.env = append(os.Environ(), "REMIT_HOME="+c.home, "HOME="+c.home)
	return c
}

// remit runs a command and demands its exit code.
func (c *change) remit(want int, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), program(), args...)
	cmd.Env, cmd.Dir = c.env, c.repo
	out, err := cmd.Output()
	if got := cmd.ProcessState.ExitCode(); got != want {
		var stderr []byte
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			stderr = e.Stderr
		}
		c.t.Fatalf("remit %v: exit %d, want %d (%v)\n%s\n%s", args, got, want, err, out, stderr)
	}
	return string(out)
}

// ran is what remit run --json says.
type ran struct {
	Session string `json:"session_id"`
	Dir     string `json:"session_dir"`
	Run     string `json:"nexus_run_id"`
	Status  string `json:"status"`
	Block   []struct {
		Code string `json:"code"`
	} `json:"blockers"`
}

func (c *change) run(want int, flags ...string) ran {
	c.t.Helper()
	args := slices.Concat([]string{"run", "--json", "--repo", c.repo, "--allow", "hello.txt", "--verify", "grep -q better hello.txt"}, flags,
		[]string{"--", "sh", "-c", "echo better > hello.txt"})
	var r ran
	if err := json.Unmarshal([]byte(c.remit(want, args...)), &r); err != nil {
		c.t.Fatal(err)
	}
	return r
}

// receipts lists the types of the receipts in a session's RECEIPT.json.
func (c *change) receipts(r ran) []string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Dir, "RECEIPT.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	var doc struct {
		Receipts []struct {
			Type string `json:"type"`
		} `json:"receipts"`
		Payments []struct {
			Status string `json:"status"`
			Amount int64  `json:"amount_msats"`
		} `json:"payments"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, r := range doc.Receipts {
		out = append(out, r.Type)
	}
	return out
}

var proved = []string{"RunCreated", "DeviceEnrolled", "CapsSet", "BudgetReserved", "JobDispatched", "JobCompleted", "CapsEnforced", "VerificationPassed", "PaymentReleased"}

// TestRunUnderOwnAuthority: without a server the same receipts are there.
func TestRunUnderOwnAuthority(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	requireSandbox(t)
	c := newChange(t)
	r := c.run(0)
	if got := c.receipts(r); !slices.Equal(got, proved) || r.Run == "" {
		t.Errorf("run %q has the receipts %v", r.Run, got)
	}
	c.remit(0, "audit", r.Dir)
	c.remit(0, "export", r.Session, "--to", "branch")
	if got := c.receipts(r); !slices.Equal(got, append(slices.Clone(proved), "ForgeUpdated")) {
		t.Errorf("after the export: %v", got)
	}
	c.remit(0, "audit", r.Dir)
	c.remit(0, "accept", r.Session)
	c.remit(0, "audit", r.Dir)
	// The authority knows the outcome and the digest of the bundle that has it.
	sum := sha256.New()
	if err := bundle.WriteZip(sum, r.Dir); err != nil {
		t.Fatal(err)
	}
	books, err := filepath.Glob(filepath.Join(c.home, "authority", "nexus.db*"))
	if err != nil {
		t.Fatal(err)
	}
	var kept []byte
	for _, name := range books {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, text...)
	}
	if want := `"bundle_sha256":"` + canon.DigestSum(sum) + `","kind":"accepted"`; !bytes.Contains(kept, []byte(want)) {
		t.Errorf("the books of this machine lack %s", want)
	}
	// A change that is not verified is not offered.
	bad := c.run(2, "--verify", "false")
	if got := c.receipts(bad); !slices.Equal(got, []string{"RunCreated"}) {
		t.Errorf("a change that failed has the receipts %v", got)
	}
	c.remit(0, "audit", bad.Dir)
}

// TestRunUnderNexus sends the same run to a server, whose provider gets the
// patched tree over the wire.
func TestRunUnderNexus(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 4, 8)
	requireSandbox(t)
	n := startNexus(t)
	alice := n.do(n.admin, "POST", "/v1/tokens", "alice", object{"kind": "user", "owner": "alice",
		"scopes": []string{"runs:write", "jobs:write", "providers:write", "treasury:write", "read"}}, http.StatusCreated).text("token")
	c := newChange(t)
	c.env = append(c.env, "REMIT_TOKEN="+alice)

	// No prover is online: blocked before the agent has cost anything.
	began := time.Now()
	alone := c.run(3, "--nexus", n.url, "--wait", "1s")
	if waited := time.Since(began); waited < time.Second {
		t.Errorf("the run waited %s for a provider", waited)
	}
	c.refusedAtOnce(alone, "no_eligible_provider")
	c.remit(0, "audit", alone.Dir)
	blocked := n.told(t, alice, alone)
	c.foundByCommand(blocked, "--nexus", n.url, "--blocker", "no_eligible_provider", "--verdict", "blocked")
	n.told(t, alice, c.run(3, "--nexus", n.url, "--require-approval"))
	var refused ran // on the records of this machine, before anything is opened
	if err := json.Unmarshal([]byte(c.remit(3, "run", "--json", "--repo", c.repo, "--nexus", n.url, "--allow", "hello.txt", "--verify", "true", "--engine",
		"codex", "--model-provider", "openai", "--model", "gpt-5.5", "--key-env", "NO_KEY", "--title", "say it better")), &refused); err != nil {
		t.Fatal(err)
	}
	n.told(t, alice, refused)

	provider, home := n.enrol("alice", "one")
	daemon, _ := background(t, home, "provider", "start", "--unenforced-caps")
	n.fresh(alice, provider)
	c.refusedAtOnce(c.run(3, "--nexus", n.url), "caps_exceeded")
	n.do(alice, "PUT", "/v1/providers/"+provider+"/caps", "more", object{"cpu_millis": 8000, "memory_mb": 8192, "disk_mb": 8192, "pids": 1024,
		"timeout_secs": 300, "concurrency": 1, "network": "none"}, http.StatusOK)
	// No account, no proof.
	c.refusedAtOnce(c.run(3, "--nexus", n.url), "insufficient_budget")
	account := n.do(alice, "POST", "/v1/treasury/accounts", "account", object{"limit": 10_000}, http.StatusCreated)
	n.do(n.admin, "POST", "/v1/treasury/fund", "fund", object{"account_id": account.text("account_id"), "amount": 5_000}, http.StatusOK)

	c.refusedAtOnce(c.run(3, "--nexus", n.url, "--max-price-msats", "999"), "no_eligible_provider")

	r := c.run(0, "--nexus", n.url)
	if got := c.receipts(r); !slices.Equal(got, proved) {
		t.Errorf("run %q has the receipts %v", r.Run, got)
	}
	c.remit(0, "audit", r.Dir)
	if got := n.told(t, alice, r); got != r.Run || !slices.Equal(n.dispatchedFor(t, alice, r.Run), []string{"command"}) {
		t.Errorf("the nexus knows %s as %s, with jobs for %v", r.Run, got, n.dispatchedFor(t, alice, r.Run))
	}
	c.foundByCommand(r.Run, "--nexus", n.url, "--engine", "command", "--status", "succeeded", "--text", r.Session[:8])
	if got := n.do(alice, "GET", "/v1/runs/"+r.Run, "", nil, http.StatusOK).text("status"); got != "succeeded" {
		t.Errorf("the run is %s at the nexus", got)
	}
	// The nexus has the sealed bundle, byte for byte.
	zip := filepath.Join(c.home, "bundle.zip")
	c.remit(0, "export", r.Session, "--to", "zip", "--out", zip)
	bundle, err := os.ReadFile(zip)
	if err != nil {
		t.Fatal(err)
	}
	if got := n.download(alice, "/v1/runs/"+r.Run+"/artifacts/"+canon.Digest(bundle)); string(got) != string(bundle) {
		t.Errorf("the nexus has another bundle: %d bytes, here %d", len(got), len(bundle))
	}
	c.remit(0, "export", r.Session, "--to", "branch")
	if got := c.receipts(r); !slices.Equal(got, append(slices.Clone(proved), "ForgeUpdated")) || count(n.receiptTypes(alice, r.Run), "ForgeUpdated") != 1 {
		t.Errorf("after the export: %v here, %v there", got, n.receiptTypes(alice, r.Run))
	}
	c.remit(0, "audit", r.Dir)
	summary := n.do(alice, "GET", "/v1/treasury/summary", "", nil, http.StatusOK)
	totals, _ := summary.body["totals"].(object)
	if totals["released_msats"] != 1000.0 || totals["reserved_msats"] != 0.0 {
		t.Errorf("%s", summary.raw)
	}

	c.endReportedLater(n, alice)
	c.agreedOutcomes(n, alice, r, refused)

	// What passes on this machine and not on the provider's is not proved.
	tool := filepath.Join(c.home, "tool")
	if err := os.MkdirAll(filepath.Join(tool, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	mine := c.run(2, "--nexus", n.url, "--toolchain", tool, "--verify", "test -d "+tool)
	if len(mine.Block) != 1 || mine.Block[0].Code != "verification_failed" {
		t.Errorf("blocked by %v", mine.Block)
	}
	if got := c.receipts(mine); count(got, "VerificationFailed") != 1 || count(got, "PaymentWithheld") != 1 || count(got, "PaymentReleased") != 0 {
		t.Errorf("the unproved change has the receipts %v", got)
	}
	c.remit(0, "audit", mine.Dir)

	// A user who stops waiting for the proof gets the money back, and keeps the work.
	if err := daemon.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Signal(syscall.SIGCONT) })
	c.interrupted(n, alice)
	summary = n.do(alice, "GET", "/v1/treasury/summary", "", nil, http.StatusOK)
	totals, _ = summary.body["totals"].(object)
	if totals["released_msats"] != 2000.0 || totals["withheld_msats"] != 2000.0 || totals["reserved_msats"] != 0.0 {
		t.Errorf("%s", summary.raw)
	}
}

// refusedAtOnce demands a run that its authority has refused: nothing of the
// agent was started, and the authority has no run of it.
func (c *change) refusedAtOnce(r ran, code string) {
	c.t.Helper()
	journal, err := os.ReadFile(filepath.Join(r.Dir, "journal.jsonl"))
	if err != nil {
		c.t.Fatal(err)
	}
	if len(r.Block) == 0 || r.Block[0].Code != code || r.Run != "" || bytes.Contains(journal, []byte(`"name":"engine.run"`)) {
		c.t.Errorf("blocked by %v, want %s; run %q; %s", r.Block, code, r.Run, journal)
	}
}

// endReportedLater takes the nexus away when a run ends. Its issue stays claimed
// until the sealed session is resumed. An export that could not report is
// repeated, too.
func (c *change) endReportedLater(n *nexus, token string) {
	c.t.Helper()
	target, err := url.Parse(n.url)
	if err != nil {
		c.t.Fatal(err)
	}
	var refused atomic.Value
	refused.Store("/finish /journal")
	forward := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse, _ := refused.Load().(string)
		if r.Method == http.MethodPost && slices.ContainsFunc(strings.Fields(refuse), func(end string) bool { return strings.HasSuffix(r.URL.Path, end) }) {
			http.Error(w, "gone", http.StatusInternalServerError)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	c.t.Cleanup(proxy.Close)
	issue := filepath.Join(c.home, "issue.md")
	if err := os.WriteFile(issue, []byte("# Say it better\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	flags := []string{"--nexus", proxy.URL, "--repo-ref", "reported-later", "--issue", issue}
	r := c.run(0, flags...)
	status := func() string { return n.do(token, "GET", "/v1/runs/"+r.Run, "", nil, http.StatusOK).text("status") }
	if got := status(); got != "running" {
		c.t.Fatalf("the run is %s at the nexus: the test would prove nothing", got)
	}
	c.refusedAtOnce(c.run(3, flags...), "conflict")
	refused.Store("")
	c.remit(0, "resume", r.Session)
	if got := status(); got != "succeeded" {
		c.t.Errorf("after resume the run is %s", got)
	}
	n.told(c.t, token, r)
	patch := filepath.Join(c.home, "reported.patch")
	for _, export := range [][]string{{"--to", "branch", "--branch", "reported"}, {"--to", "patch", "--out", patch}} {
		refused.Store("/events")
		c.remit(3, append([]string{"export", r.Session}, export...)...)
		refused.Store("")
		c.remit(0, append([]string{"export", r.Session}, export...)...)
	}
	if got := n.receiptTypes(token, r.Run); count(got, "ForgeUpdated") != 1 || count(got, "ForgeUpdateSkipped") != 1 {
		c.t.Errorf("the exports are in the log as %v", got)
	}
	c.remit(0, "audit", r.Dir)
	// Without the way to the authority nothing is exported at all.
	other := newChange(c.t)
	other.env, other.home, other.repo = append(slices.Clone(c.env), "REMIT_TOKEN="), c.home, c.repo
	other.remit(3, "export", r.Session, "--to", "branch", "--branch", "without-token")
	if _, err := os.Stat(filepath.Join(c.repo, ".git", "refs", "heads", "without-token")); err == nil {
		c.t.Error("a branch was made that the authority does not hear of")
	}
	c.rejectedElsewhere(n, token, r)
}

// rejectedElsewhere rejects a run in the panel: the nexus is asked before its change is
// exported, and nothing is written against its word, or without it.
func (c *change) rejectedElsewhere(n *nexus, token string, r ran) {
	c.t.Helper()
	patch := filepath.Join(c.home, "rejected.patch")
	forms := [][]string{{"--to", "branch", "--branch", "rejected"}, {"--to", "patch", "--out", patch}}
	refused := func(code string, more ...string) {
		c.t.Helper()
		for _, form := range forms {
			if said := c.said(3, slices.Concat([]string{"export", r.Session}, form, more)...); !strings.Contains(said, code) {
				c.t.Errorf("want %s: %s", code, said)
			}
		}
		if _, err := os.Stat(patch); err == nil {
			c.t.Errorf("%s: a patch was written", code)
		}
		if _, err := os.Stat(filepath.Join(c.repo, ".git", "refs", "heads", "rejected")); err == nil {
			c.t.Errorf("%s: a branch was made", code)
		}
	}
	refused("nothing is exported, for the authority of the run is not there", "--nexus", "http://127.0.0.1:1")
	n.do(token, "POST", "/v1/runs/"+r.Run+"/outcome", "panel"+r.Run, object{"kind": "rejected", "note": "not like this", "seal": true}, http.StatusOK)
	refused("outcome_given")
	refused("`remit resume "+r.Session+"` takes that outcome over", "--force")
	c.remit(0, "resume", r.Session)
	refused("not_acceptable")
	for _, form := range forms {
		c.remit(0, slices.Concat([]string{"export", r.Session, "--force"}, form)...)
	}
	c.remit(0, "audit", r.Dir)
}

// agreedOutcomes decides about two runs here and at the nexus, in both orders: home
// and nexus have one outcome, that of the first word, and nothing is recorded while
// the nexus is away.
func (c *change) agreedOutcomes(n *nexus, token string, passed, blocked ran) {
	c.t.Helper()
	decide := func(r ran, status int, ask object) {
		c.t.Helper()
		ask["seal"] = true
		n.do(token, "POST", "/v1/runs/"+r.Run+"/outcome", "panel"+r.Run+ask["kind"].(string), ask, status)
	}
	journal := func(r ran) string {
		text, err := os.ReadFile(filepath.Join(r.Dir, "journal.jsonl"))
		if err != nil {
			c.t.Fatal(err)
		}
		return string(text)
	}
	agree := func(r ran, outcome, words string) {
		c.t.Helper()
		c.remit(0, "audit", r.Dir)
		there := n.do(token, "GET", "/v1/runs/"+r.Run, "", nil, http.StatusOK)
		if !strings.Contains(there.raw, `"outcome":"`+outcome+`"`) || !strings.Contains(journal(r), words) ||
			strings.Count(journal(r), "operator.outcome") != 1 {
			c.t.Errorf("the nexus says %s; here is %s", there.raw, journal(r)[max(0, len(journal(r))-600):])
		}
		// A bundle of the nexus has the very journal that is here.
		zip := n.download(token, "/v1/runs/"+r.Run+"/bundle")
		text, err := bundle.ReadMember(c.t.Context(), bytes.NewReader(zip), int64(len(zip)), "journal.jsonl", 1<<20)
		if err != nil || string(text) != journal(r) {
			c.t.Errorf("the journal of the nexus is another one (%v)", err)
		}
	}
	// Away: nothing is recorded.
	before := journal(passed)
	gone := *c
	c.remit(3, "accept", passed.Session, "--nexus", "http://127.0.0.1:1")
	gone.env = append(slices.Clone(c.env), "REMIT_TOKEN=")
	gone.remit(3, "reject", passed.Session)
	if journal(passed) != before {
		c.t.Error("something is recorded that the nexus does not know")
	}
	// The panel first, and then the other word here.
	decide(passed, http.StatusOK, object{"kind": "accepted", "note": "read in the panel"})
	if said := c.said(3, "reject", passed.Session, "--reason", "no"); !strings.Contains(said, "outcome_given") ||
		!strings.Contains(said, "accepted by user:alice at ") || !strings.Contains(said, "read in the panel") ||
		!strings.Contains(said, "remit resume "+passed.Session) {
		c.t.Errorf("it says %s", said)
	}
	if journal(passed) != before {
		c.t.Error("the refused word is recorded")
	}
	for range 2 {
		c.remit(0, "resume", passed.Session)
		agree(passed, "accepted", `"actor":"user:alice","outcome":"accepted","reason":"read in the panel"`)
	}
	c.remit(3, "accept", passed.Session)
	// The same word of another: its words are recorded, and there is one bundle.
	blocked.Run = n.told(c.t, token, blocked)
	decide(blocked, http.StatusOK, object{"kind": "rejected", "note": "not now"})
	c.remit(0, "reject", blocked.Session, "--reason", "mine")
	agree(blocked, "rejected", `"reason":"not now"`)
	// Here first.
	mine := c.run(3, "--nexus", n.url, "--require-approval")
	mine.Run = n.told(c.t, token, mine)
	c.remit(0, "reject", mine.Session, "--reason", "first")
	agree(mine, "rejected", `"reason":"first"`)
	decide(mine, http.StatusConflict, object{"kind": "rejected"})
	decide(mine, http.StatusConflict, object{"kind": "accepted"})
	c.remit(3, "resume", mine.Session)
	agree(mine, "rejected", `"reason":"first"`)
}

// said is what a command prints as errors, with the exit code demanded.
func (c *change) said(want int, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), program(), args...)
	cmd.Env, cmd.Dir = c.env, c.repo
	out, _ := cmd.CombinedOutput() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != want {
		c.t.Errorf("remit %v: exit %d, want %d\n%s", args, got, want, out)
	}
	return string(out)
}

// interrupted starts a run and interrupts it when its proof is dispatched.
func (c *change) interrupted(n *nexus, token string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), program(), "run", "--json", "--nexus", n.url, "--repo", c.repo, "--repo-ref", "interrupted", "--allow", "hello.txt",
		"--verify", "grep -q better hello.txt", "--", "sh", "-c", "echo better > hello.txt")
	cmd.Env, cmd.Dir = c.env, c.repo
	stderr, err := cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	lines, run := bufio.NewScanner(stderr), ""
	for lines.Scan() {
		if run == "" && strings.Contains(lines.Text(), "budget.settled") {
			run = n.newest(token)
			n.lane(c.t.Context(), token, "run:"+run+":events", func(e api.Event) bool {
				return strings.Contains(string(e.Payload), `"receipt_type":"JobDispatched"`)
			})
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				c.t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // its exit code tells
	var r ran
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || cmd.ProcessState.ExitCode() != 3 || len(r.Block) == 0 || r.Block[0].Code != "cancelled" {
		c.t.Fatalf("exit %d: %v: %s", cmd.ProcessState.ExitCode(), err, out.String())
	}
	if got := c.receipts(r); count(got, "PaymentWithheld") != 1 || count(got, "PaymentReleased") != 0 {
		c.t.Errorf("the interrupted run has the receipts %v", got)
	}
	c.remit(0, "audit", r.Dir)
	if got := n.do(token, "GET", "/v1/runs/"+run, "", nil, http.StatusOK).text("status"); got != "failed" {
		c.t.Errorf("the interrupted run is %s at the nexus", got)
	}
}

// newest is the run that was made last.
func (n *nexus) newest(token string) string {
	n.t.Helper()
	page := n.do(token, "GET", "/v1/runs?limit=1", "", nil, http.StatusOK)
	items, _ := page.body["items"].([]any)
	if len(items) == 0 {
		n.t.Fatalf("no runs: %s", page.raw)
	}
	first, _ := items[0].(object)
	id, _ := first["run_id"].(string)
	return id
}
