package harness

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"remit/law/job"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
	"remit/work/session"
)

// clerk is an authority that has one answer about approvals.
type clerk struct {
	answer   job.Approval
	askErr   error
	openErr  error
	findErr  error
	sought   int
	useErrs  []error // of one use after the other; then it is used
	dies     bool    // the process, when the approval has just been used
	asked    []job.Packet
	receipts []record.Recorded
	claims   []job.Claim
	closeErr error
	closed   bool
	amendErr error
	amended  []job.Amendment
}

func (c *clerk) write(kind, principal string, payload map[string]any) {
	r, err := record.NewReceipt(kind, principal, kind, payload)
	if err != nil {
		panic(err)
	}
	c.receipts = append(c.receipts, record.Recorded{Receipt: r, Seq: int64(len(c.receipts) + 1), RecordedAt: time.Now()})
}

func (c *clerk) Ask(ctx context.Context, p job.Packet) (job.Approval, error) {
	c.asked = append(c.asked, p)
	a := c.answer
	a.ContractSHA256 = p.ContractSHA256
	if p.Wait > 0 {
		p.Waiting(a)
		<-ctx.Done()
	}
	return a, c.askErr
}

func (c *clerk) Open(_ context.Context, cl job.Claim) ([]record.Recorded, error) {
	c.claims = append(c.claims, cl)
	if c.openErr == nil && len(c.receipts) == 0 {
		c.write("RunCreated", "user:alice", map[string]any{"run_id": "run_" + cl.Key, "repo_ref": cl.RepoRef})
	}
	return c.receipts, c.openErr
}

// Find knows the run that Open has made, however it ended.
func (c *clerk) Find(context.Context, string) (string, error) {
	c.sought++
	if len(c.receipts) == 0 {
		return "", c.findErr
	}
	return "run_" + c.claims[0].Key, c.findErr
}

func (c *clerk) Use(_ context.Context, a job.Approval) ([]record.Recorded, error) {
	if len(c.useErrs) > 0 {
		err := c.useErrs[0]
		c.useErrs = c.useErrs[1:]
		return c.receipts, err
	}
	says := map[string]any{"approval_id": a.ID, "contract_sha256": a.ContractSHA256, "mutation_mode": "copied-repo", "actor": a.DecidedBy}
	c.write("ApprovalGranted", a.DecidedBy, says)
	says["actor"], says["run_id"] = "user:alice", "run_1"
	c.write("ApprovalConsumed", "user:alice", says)
	if c.dies {
		panic("killed")
	}
	return c.receipts, nil
}

func (*clerk) Prove(context.Context, job.Proof) (record.Settlement, []record.Recorded, error) {
	panic("nothing of these runs is verified")
}

func (c *clerk) Close(context.Context, bool, func(io.Writer) error) error {
	c.closed = c.closeErr == nil
	return c.closeErr
}

func (c *clerk) Amend(_ context.Context, a job.Amendment) error {
	if c.amendErr == nil {
		c.amended = append(c.amended, a)
	}
	return c.amendErr
}

func approvalThat(status string) job.Approval {
	a := job.Approval{ID: "apr_1", Status: status, RequestedBy: "user:alice", ExpiresAt: "2126-01-01T00:00:00.000Z"}
	if status != job.ApprovalRequested {
		a.DecidedBy, a.DecidedAt = "user:lead", "2026-01-01T00:00:00.000Z"
	}
	return a
}

func followed(status string) job.Approval {
	a, before := approvalThat(job.ApprovalRequested), approvalThat(status)
	before.ID = "apr_0"
	a.Before = &before
	return a
}

// needing is a run whose contract asks for an approval.
func needing(t *testing.T, repo string, c *clerk, d *scripted) Request {
	t.Helper()
	req := newRun(t, repo, d, talker{argv: []string{"tool"}})
	narrowed, err := task.Narrow(req.Contract, task.Flags{ApprovalRequired: true})
	if err != nil {
		t.Fatal(err)
	}
	req.Contract, req.Authority, req.RepoRef = narrowed, c, "repo"
	return req
}

// TestAuthorityApproves: what an authority says decides whether anything is
// started, and whatever goes wrong on the way starts nothing.
func TestAuthorityApproves(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	granted, used := approvalThat(job.ApprovalGranted), reason.Errorf(reason.ApprovalConsumed, "used by another run")
	away := reason.Errorf(reason.StoreUnavailable, "not there")
	for name, test := range map[string]struct {
		c      clerk
		change func(*Request)
		want   reason.Code // of the first blocker; "" is a run that went on
		status string
		asked  int
	}{
		"granted":                       {clerk{answer: granted}, nil, "", "granted", 1},
		"no decision yet":               {clerk{answer: approvalThat(job.ApprovalRequested)}, nil, reason.ApprovalMissing, "requested", 1},
		"denied":                        {clerk{answer: approvalThat(job.ApprovalDenied)}, nil, reason.ApprovalDenied, "denied", 1},
		"used before":                   {clerk{answer: followed(job.ApprovalConsumed)}, nil, reason.ApprovalConsumed, "requested", 1},
		"ran out":                       {clerk{answer: followed(job.ApprovalExpired)}, nil, reason.ApprovalExpired, "requested", 1},
		"a state of another version":    {clerk{answer: approvalThat("granted-ish")}, nil, reason.ApprovalMissing, "requested", 1},
		"out of reach":                  {clerk{askErr: away, answer: granted}, nil, reason.StoreUnavailable, "requested", 1},
		"no run":                        {clerk{openErr: away, answer: granted}, nil, reason.StoreUnavailable, "requested", 1},
		"used, and no answer":           {clerk{useErrs: []error{away}, answer: granted}, nil, reason.StoreUnavailable, "requested", 1},
		"an error without a code":       {clerk{useErrs: []error{fmt.Errorf("odd")}, answer: granted}, nil, reason.InfrastructureFault, "requested", 1},
		"another run was faster":        {clerk{useErrs: []error{used}, answer: granted}, nil, reason.ApprovalConsumed, "requested", 1},
		"faster, and approves itself":   {clerk{useErrs: []error{used, used}, answer: granted}, approver, "", "granted", 3},
		"denied between the two":        {clerk{useErrs: []error{reason.Errorf(reason.ApprovalDenied, "no")}, answer: granted}, approver, reason.ApprovalDenied, "denied", 1},
		"over between the two":          {clerk{useErrs: []error{reason.Errorf(reason.ApprovalExpired, "late")}, answer: granted}, nil, reason.ApprovalExpired, "requested", 1},
		"the runner's word is none":     {clerk{answer: refusing()}, approver, reason.ApprovalMissing, "requested", 1},
		"would not begin anyway":        {clerk{answer: granted}, func(r *Request) { r.Disabled = true }, reason.EngineNotEnabled, "requested", 0},
		"nothing would prove it":        {clerk{answer: granted}, func(r *Request) { r.Contract.VerificationCommands = nil }, reason.ApprovalMissing, "requested", 0},
		"nothing asks for one":          {clerk{answer: approvalThat(job.ApprovalRequested)}, func(r *Request) { r.Contract.ApprovalRequired = false }, "", "not-required", 0},
		"denied by who started the run": {clerk{answer: granted}, func(r *Request) { r.Denier = "user:x" }, reason.ApprovalDenied, "denied", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &scripted{}
			req := needing(t, repo, &test.c, d)
			if test.change != nil {
				test.change(&req)
			}
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			rep := out.Report
			first := reason.Code("")
			if len(rep.Blockers) > 0 {
				first = rep.Blockers[0].Code
			}
			if d.started != (test.want == "") || test.want != "" && (first != test.want || rep.Status != string(reason.StatusOf(test.want))) {
				t.Errorf("started %t, %s: %+v, want %q", d.started, rep.Status, rep.Blockers, test.want)
			}
			if rep.ApprovalStatus != test.status || len(test.c.asked) != test.asked {
				t.Errorf("approval is %s, want %s; asked %d times, want %d", rep.ApprovalStatus, test.status, len(test.c.asked), test.asked)
			}
			for _, p := range test.c.asked {
				if canon.Digest(p.Contract) != p.ContractSHA256 || p.RepoRef != "repo" || p.Grant != (req.Approver != "") {
					t.Errorf("asked with %+v", p)
				}
			}
			if len(test.c.receipts) > 0 && !test.c.closed {
				t.Error("the authority does not hear that the run has ended")
			}
			leakFree(t, out.Session)
		})
	}
}

func approver(r *Request) { r.Approver = "local-operator:x" }

func refusing() job.Approval {
	a := approvalThat(job.ApprovalRequested)
	a.Refused = reason.Errorf(reason.ScopeMissing, "no scope")
	return a
}

// TestStopWaiting: the one who gives up waiting leaves a request that is open, and a
// run that says so.
func TestStopWaiting(t *testing.T) {
	t.Parallel()
	d, c := &scripted{}, &clerk{answer: approvalThat(job.ApprovalRequested)}
	req := needing(t, newRepo(t, map[string]string{"a.txt": "a\n"}), c, d)
	ctx, stop := context.WithCancel(t.Context())
	req.WaitApproval, req.Progress = time.Hour, waiting(stop)
	out, err := Run(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	var codes []reason.Code
	for _, b := range out.Report.Blockers {
		codes = append(codes, b.Code)
	}
	if d.started || !slices.Equal(codes, []reason.Code{reason.ApprovalMissing, reason.GateMissing, reason.Cancelled}) {
		t.Errorf("started %t, blocked by %v", d.started, codes)
	}
	if id, open := approvalIn(t, out.Session); id != "apr_1" || !open {
		t.Errorf("the evidence names approval %q, open: %t", id, open)
	}
	leakFree(t, out.Session)
}

func approvalIn(t *testing.T, s session.Session) (string, bool) {
	t.Helper()
	log, err := journal.ReadFile(s.Journal())
	if err != nil {
		t.Fatal(err)
	}
	return session.ApprovalOf(log.Entries)
}

// waiting is called when a run begins to wait.
type waiting func()

func (w waiting) Step(name, status, _ string) {
	if name == evidence.StepApprovalRequested && status == "waiting" {
		w()
	}
}
func (waiting) Output(string) {}

// TestKilledWithItsApproval: a run that dies between using its approval and
// journalling that is closed with the authority's receipts, and starts nothing.
func TestKilledWithItsApproval(t *testing.T) {
	t.Parallel()
	d, c := &scripted{}, &clerk{answer: approvalThat(job.ApprovalGranted), dies: true}
	req := needing(t, newRepo(t, map[string]string{"a.txt": "a\n"}), c, d)
	func() {
		defer func() { _ = recover() }()
		_, err := Run(t.Context(), req)
		t.Errorf("the run ended: %v", err)
	}()
	sessions, err := req.Home.List()
	if err != nil || len(sessions) != 1 {
		t.Fatal(sessions, err)
	}
	out, err := Resume(t.Context(), Resumption{Home: req.Home, Session: sessions[0], Sandbox: d, Authority: c})
	if err != nil {
		t.Fatal(err)
	}
	if d.started || out.Report.Status != evidence.StatusBlocked || len(out.Report.Blockers) != 1 || out.Report.Blockers[0].Code != reason.Interrupted {
		t.Errorf("started %t, %s: %+v", d.started, out.Report.Status, out.Report.Blockers)
	}
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range log.Entries {
		if e.Name == evidence.StepReceipt {
			n++
		}
	}
	if n != 3 || !c.closed {
		t.Errorf("%d receipts in the evidence, the authority heard of the end: %t", n, c.closed)
	}
	leakFree(t, out.Session)
}
