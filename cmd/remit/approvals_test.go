package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	_ "modernc.org/sqlite"

	"remit/fixtures/tally"
	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/reason"
)

// expireApprovals lets the time of every approval of this machine be over.
func expireApprovals(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: expire")
	}
	db, err := sql.Open("sqlite", filepath.Join(ts.Getenv("REMIT_HOME"), "authority", "nexus.db"))
	ts.Check(err)
	_, err = db.Exec("UPDATE approval SET expires_at = 1")
	ts.Check(err)
	ts.Check(db.Close())
}

// asking is a run under a contract that asks for an approval.
func (c *change) asking(flags ...string) []string {
	return slices.Concat([]string{"run", "--json", "--repo", c.repo, "--allow", "hello.txt", "--verify", "grep -q better hello.txt", "--require-approval"}, flags,
		[]string{"--", "sh", "-c", "echo better > hello.txt"})
}

func (c *change) asks(want int, flags ...string) (r approvalRan) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.remit(want, c.asking(flags...)...)), &r); err != nil {
		c.t.Fatal(err)
	}
	c.remit(0, "audit", r.Dir)
	return r
}

type approvalRan struct {
	ran
	Approval       string `json:"approval_id"`
	ApprovalStatus string `json:"approval_status"`
	EngineStarted  bool   `json:"engine_process_started"`
}

func (r approvalRan) wants(t *testing.T, code string) {
	t.Helper()
	if len(r.Block) == 0 || r.Block[0].Code != code || r.EngineStarted {
		t.Errorf("blocked by %v (engine started: %t), want %s", r.Block, r.EngineStarted, code)
	}
}

// as runs a command with another token.
func (c *change) as(token string, want int, args ...string) string {
	c.t.Helper()
	other := *c
	other.env = append(slices.Clone(c.env), "REMIT_TOKEN="+token)
	return other.remit(want, args...)
}

// TestApprovalsUnderNexus: a team's authority decides who approves. The
// person who starts runs does not, whatever they say on their own command line.
func TestApprovalsUnderNexus(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	requireSandbox(t)
	n := startNexus(t)
	token := func(name string, grant object) string {
		return n.do(n.admin, "POST", "/v1/tokens", name, grant, http.StatusCreated).text("token")
	}
	alice := token("alice", object{"kind": "user", "owner": "alice", "scopes": []string{"runs:write", "jobs:write", "providers:write", "treasury:write", "read"}})
	lead := token("lead", object{"kind": "user", "owner": "alice", "scopes": []string{"approvals:decide", "read"}})
	both := token("both", object{"kind": "user", "owner": "alice", "scopes": []string{"approvals:decide", "runs:write", "jobs:write", "read"}})
	robot := token("robot", object{"kind": "service", "owner": "alice", "scopes": []string{"approvals:decide", "runs:write", "read"}})
	c := newChange(t)
	c.env = append(c.env, "REMIT_TOKEN="+alice, "REMIT_NEXUS="+n.url)
	provider, home := n.enrol("alice", "one")
	n.do(alice, "PUT", "/v1/providers/"+provider+"/caps", "more", object{"cpu_millis": 8000, "memory_mb": 8192, "disk_mb": 8192, "pids": 1024,
		"timeout_secs": 300, "concurrency": 1, "network": "none"}, http.StatusOK)
	background(t, home, "provider", "start", "--unenforced-caps")
	n.fresh(alice, provider)
	account := n.do(alice, "POST", "/v1/treasury/accounts", "account", object{"limit": 10_000}, http.StatusCreated)
	n.do(n.admin, "POST", "/v1/treasury/fund", "fund", object{"account_id": account.text("account_id"), "amount": 5_000}, http.StatusOK)

	// The runner's own --approve is no approval here, nor is their token's word,
	// a provider's or a service's.
	first := c.asks(3)
	first.wants(t, "approval_missing")
	again := c.asks(3, "--approve")
	again.wants(t, "approval_missing")
	if first.Approval == "" || again.Approval != first.Approval || again.ApprovalStatus != "requested" {
		t.Errorf("asked for %q, then for %q", first.Approval, again.Approval)
	}
	c.remit(3, "approve", "latest", "--yes")
	c.as(robot, 3, "approve", first.Approval, "--yes")
	own, err := os.ReadFile(filepath.Join(home, "provider", "credential"))
	if err != nil {
		t.Fatal(err)
	}
	c.as(strings.TrimSpace(string(own)), 3, "approve", first.Approval, "--yes")
	c.asks(3).wants(t, "approval_missing")

	// The lead's is, and an administrator sees and decides about all.
	if list := c.as(n.admin, 0, "approvals", "--owner", "alice", "--json"); !strings.Contains(list, first.Approval) {
		t.Errorf("the administrator does not see %s: %s", first.Approval, list)
	}
	c.as(lead, 0, "approve", first.Approval, "--yes", "--reason", "read it")
	r := c.asks(0)
	if got := c.receipts(r.ran); !slices.Equal(got[:3], []string{"RunCreated", "ApprovalGranted", "ApprovalConsumed"}) || count(got, "PaymentReleased") != 1 {
		t.Errorf("the approved run has the receipts %v", got)
	}
	if r.ApprovalStatus != "granted" || r.Approval != first.Approval {
		t.Errorf("%+v", r)
	}
	// Another run gets nothing of it, also not directly.
	c.asks(3).wants(t, "approval_consumed")
	use := object{"run_id": r.Run, "contract_sha256": n.do(alice, "GET", "/v1/approvals/"+r.Approval, "", nil, http.StatusOK).text("contract_sha256")}
	n.do(alice, "POST", "/v1/approvals/"+r.Approval+"/consume", "again", use, http.StatusOK) // the same run again
	use["run_id"] = n.do(alice, "POST", "/v1/runs", "thief", object{"repo_ref": filepath.Base(c.repo)}, http.StatusCreated).text("run_id")
	if got := n.do(alice, "POST", "/v1/approvals/"+r.Approval+"/consume", "thief", use, http.StatusConflict).text("code"); got != "approval_consumed" {
		t.Errorf("a second run got %s", got)
	}

	// A token that may decide approves for itself.
	c.env = append(c.env, "REMIT_TOKEN="+both)
	r = c.asks(0, "--approve")
	if got := c.receipts(r.ran); count(got, "ApprovalGranted") != 1 || count(got, "ApprovalConsumed") != 1 {
		t.Errorf("the run that approved itself has the receipts %v", got)
	}

	// A run that waits learns of the denial. A denial is final.
	r = c.waits(func(id string) { c.as(lead, 0, "deny", id, "--yes") })
	r.wants(t, "approval_denied")
	c.asks(3, "--approve").wants(t, "approval_denied")
}

// waits starts a run that waits for a decision, and decides when it does.
func (c *change) waits(decide func(id string)) (r approvalRan) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), program(), c.asking("--wait-approval", "1m")...)
	cmd.Env, cmd.Dir = c.env, c.repo
	var out bytes.Buffer
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said += lines.Text() + "\n"
		if _, rest, waiting := strings.Cut(lines.Text(), "`remit approve "); waiting && strings.Contains(lines.Text(), "is open until") {
			id, _, _ := strings.Cut(rest, "`")
			id, nexus, named := strings.Cut(id, " --nexus ")
			if named != slices.ContainsFunc(c.env, func(v string) bool { return v == "REMIT_NEXUS="+nexus }) {
				c.t.Errorf("the command to decide with names %q", nexus)
			}
			decide(id)
		}
	}
	_ = cmd.Wait() // what it printed tells
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		c.t.Fatalf("%v\n%s\n%s", err, out.String(), said)
	}
	c.remit(0, "audit", r.Dir)
	return r
}

// TestWaitForApproval: a run waits for what a person says on this machine, and
// stops waiting when it is asked to.
func TestWaitForApproval(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	c := newChange(t)
	if r := c.waits(func(id string) { c.remit(0, "approve", id, "--yes") }); r.Status != "pass" || r.ApprovalStatus != "granted" {
		t.Errorf("%+v", r)
	}
	r := c.waits(func(id string) { c.remit(0, "deny", id, "--yes") })
	r.wants(t, "approval_denied")
}

// TestPacketIsTheContract: an approver is shown the contract that they decide
// about, and no text that drives their terminal.
func TestPacketIsTheContract(t *testing.T) {
	t.Parallel()
	text := json.RawMessage(`{"allowed_paths":["src/**"],"mutation_mode":"copied-repo","title":"Fix it"}`)
	good := api.Approval{ApprovalID: "apr_1", ContractSha256: canon.Digest(text), Contract: &text, Status: api.ApprovalStatusRequested,
		RepoRef: "repo\x1b[2J\n  contract     sha256:0", RequestedBy: "user:alice"}
	var out bytes.Buffer
	if err := printPacket(&out, good); err != nil || strings.Contains(out.String(), "\x1b") || strings.Count(out.String(), "\n  contract ") != 1 {
		t.Errorf("%v: %q", err, out.String())
	}
	other := json.RawMessage(`{"allowed_paths":["**"],"mutation_mode":"copied-repo","title":"Fix it"}`)
	for name, shown := range map[string]*json.RawMessage{"another": &other, "none": nil} {
		a := good
		a.Contract = shown
		if err := printPacket(io.Discard, a); reason.CodeOf(err) != reason.DigestMismatch {
			t.Errorf("%s: %v", name, err)
		}
	}
}
