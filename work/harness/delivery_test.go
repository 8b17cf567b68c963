package harness

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine/command"
	"remit/work/gateway"
	"remit/work/session"
)

// lane is an engine that has to prove itself: a command that could ask a model.
type lane struct{ *command.Engine }

func (lane) Wire() string { return "chat" }

func (l lane) Identity(ctx context.Context) (evidence.EngineIdentity, error) {
	id, err := l.Engine.Identity(ctx)
	id.Name = "lane"
	return id, err
}

// delivering is a run in a mode that delivers its change, with all its gates open.
func delivering(t *testing.T, repo string, mode task.MutationMode, script string) Request {
	t.Helper()
	server := httptest.NewServer(&answering{})
	t.Cleanup(server.Close)
	req := fixing(t, repo, realSandbox(t), script)
	req.Engine = lane{&command.Engine{Argv: []string{"sh", "-c", script}, Dir: "/"}}
	req.Contract.MutationMode, req.Contract.Network = mode, task.NetworkGateway
	req.Admission = Admission{Enabled: true, SourceStatus: sourceAdmitted, ProvenMode: task.ScopedRealRepo}
	req.Model = &ModelRoute{Upstream: gateway.Upstream{Provider: "acme", Class: gateway.Local, BaseURL: server.URL + "/v1"}, Model: "large-1", Status: "admitted"}
	req.Approver = "local-operator:x"
	if mode.Exceeds(task.SandboxRepo) {
		req.Target = TargetAdmission{Admitted: true, Status: "admitted"}
	}
	return req
}

func proofOf(t *testing.T, s session.Session, name string) map[string]any {
	t.Helper()
	var out map[string]any
	raw, err := os.ReadFile(filepath.Join(s.Dir, evidence.ProofsDir, name+".json"))
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Errorf("proof %s: %v", name, err)
	}
	return out
}

// TestDeliveryIntoADisposableRepository: the verified change is one commit on one
// branch of a repository that the run made; the user's own is as it was. Both
// verifiers take the session, before and after it is rejected.
func TestDeliveryIntoADisposableRepository(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	req := delivering(t, repo, task.SandboxRepo, "echo b >>a.txt")
	state := func() string { return gitIn(t, repo, "for-each-ref") + gitIn(t, repo, "status", "--porcelain") }
	before := state()
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	rep, s := out.Report, out.Session
	if rep.Status != evidence.StatusPass || rep.Delivered == nil || rep.BranchPolicy == nil || rep.ApprovalStatus != "granted" {
		t.Fatalf("%s: %+v, %+v", rep.Status, rep.Blockers, rep.Delivered)
	}
	dir := req.Home.DisposableDir(s.ID)
	if got := gitIn(t, dir, "for-each-ref", "--format=%(objectname) %(refname)"); strings.TrimSpace(got) != rep.Delivered.Commit+" refs/heads/remit/"+s.ID {
		t.Errorf("refs: %s", got)
	}
	if got := gitIn(t, dir, "show", rep.Delivered.Branch+":a.txt"); got != "a\nb\n" {
		t.Errorf("delivered %q", got)
	}
	if after := state(); after != before || rep.SourceRepositoryMutated {
		t.Errorf("the user's repository: %s\n%s", before, after)
	}
	if rep.DisposableRepositoryDir != "$REMIT_HOME/disposable/"+s.ID || !strings.HasPrefix(rep.TargetRepository, "sha256:") || rep.Delivered.BaselineCommit != string(openedWith(t, s).BaselineCommit) {
		t.Errorf("%+v", rep)
	}
	actions := proofOf(t, s, "forbidden-actions")["actions"].([]any)
	if len(actions) != len(task.DefaultForbiddenActions()) || slices.ContainsFunc(actions, func(a any) bool { return a.(map[string]any)["could_happen"] != false }) {
		t.Errorf("forbidden actions: %v", actions)
	}
	for name, field := range map[string]string{"branch-policy": "branch", "approval": "granted", "target-admission": "why", "disposal": "kept_until"} {
		if proofOf(t, s, name)[field] == nil {
			t.Errorf("proof %s has no %s", name, field)
		}
	}
	audited(t, s)
	rep, err = s.Decide(t.Context(), session.Rejected, "no", "tester", time.Now)
	if err != nil || rep.Delivered == nil || !rep.Delivered.Removed {
		t.Fatalf("%v: %+v", err, rep)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the disposable repository is still there: %v", err)
	}
	audited(t, s)
}

// openedWith is what the run opened with.
func openedWith(t *testing.T, s session.Session) (opened evidence.RunOpened) {
	t.Helper()
	log, err := journal.ReadFile(s.Journal())
	if err == nil {
		err = json.Unmarshal(log.Entries[0].Inputs, &opened)
	}
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// TestDeliveryIntoTheTarget: an admitted repository differs by the branch and its
// reflog only. A rejection takes the branch back where it was left, else nothing.
func TestDeliveryIntoTheTarget(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	req := delivering(t, repo, task.OwnedNoncriticalRepo, "echo b >>a.txt")
	refs := gitIn(t, repo, "for-each-ref")
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	s, d := out.Session, out.Report.Delivered
	if out.Report.Status != evidence.StatusPass || d == nil || d.Repository != evidence.TargetRepository {
		t.Fatalf("%s: %+v, %+v", out.Report.Status, out.Report.Blockers, d)
	}
	if got := gitIn(t, repo, "status", "--porcelain"); got != "" {
		t.Errorf("status: %s", got)
	}
	if got := gitIn(t, repo, "for-each-ref"); got != refs+d.Commit+" commit\trefs/heads/"+d.Branch+"\n" {
		t.Errorf("refs: %s, were %s", got, refs)
	}
	audited(t, s)
	gitIn(t, repo, "checkout", "-q", d.Branch)
	if _, err := s.Decide(t.Context(), session.Rejected, "", "tester", time.Now); reason.CodeOf(err) != reason.RefMoved {
		t.Errorf("checked out: %v", err)
	}
	gitIn(t, repo, "checkout", "-q", "-")
	moved := strings.TrimSpace(gitIn(t, repo, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit-tree", "-m", "more", "-p", d.Commit, d.Tree))
	gitIn(t, repo, "update-ref", "refs/heads/"+d.Branch, moved)
	if _, err := s.Decide(t.Context(), session.Rejected, "", "tester", time.Now); reason.CodeOf(err) != reason.RefMoved {
		t.Errorf("moved: %v", err)
	}
	if st, err := s.Inspect(); err != nil || st.Report.OperatorOutcome != "pending" {
		t.Errorf("%v: %+v", err, st.Report.OperatorOutcome)
	}
	gitIn(t, repo, "update-ref", "refs/heads/"+d.Branch, d.Commit)
	if rep, err := s.Decide(t.Context(), session.Rejected, "", "tester", time.Now); err != nil || !rep.Delivered.Removed {
		t.Errorf("%v: %+v", err, rep)
	}
	if got := gitIn(t, repo, "for-each-ref"); got != refs {
		t.Errorf("refs: %s, were %s", got, refs)
	}
	audited(t, s)
}

// TestNothingIsDelivered: without an approval nothing is made; what is not a pass
// reaches no branch, and its disposable repository is thrown away.
func TestNothingIsDelivered(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	for name, test := range map[string]struct {
		change   func(*Request)
		want     reason.Code
		disposed bool
	}{
		"no approval":       {func(r *Request) { r.Approver = "" }, reason.ApprovalMissing, false},
		"denied":            {func(r *Request) { r.Denier = "local-operator:y" }, reason.ApprovalDenied, false},
		"not admitted":      {func(r *Request) { r.Contract.MutationMode = task.OwnedNoncriticalRepo }, reason.TargetNotAdmitted, false},
		"not verified":      {func(r *Request) { r.Contract.VerificationCommands = []string{"false"} }, reason.VerificationFailed, true},
		"outside its paths": {func(r *Request) { r.Contract.AllowedPaths = []string{"b/**"} }, reason.DisallowedFileChange, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := delivering(t, repo, task.SandboxRepo, "echo b >>a.txt")
			test.change(&req)
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if b := out.Report.Blockers; len(b) == 0 || out.Report.Delivered != nil || !slices.ContainsFunc(b, func(b evidence.Blocker) bool { return b.Code == test.want }) {
				t.Errorf("%+v, delivered %+v, want %s", b, out.Report.Delivered, test.want)
			}
			if got := proofOf(t, out.Session, "disposal")["disposed"]; got != test.disposed {
				t.Errorf("disposed: %v", got)
			}
			if left, err := os.ReadDir(filepath.Join(req.Home.Dir, "disposable")); err == nil && len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			audited(t, out.Session)
		})
	}
	if got := gitIn(t, repo, "for-each-ref", "refs/heads/remit"); got != "" {
		t.Errorf("refs: %s", got)
	}
}

// TestDeliveryOfARunThatDied: a run that was cut off while it delivered makes the
// same commit again, and finds its branch done.
func TestDeliveryOfARunThatDied(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	req := delivering(t, repo, task.SandboxRepo, "echo b >>a.txt")
	out, err := Run(t.Context(), req)
	if err != nil || out.Report.Delivered == nil {
		t.Fatalf("%v: %+v", err, out)
	}
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		t.Fatal(err)
	}
	cut := cutSession(t, req.Home, out.Session, log.Entries, evidence.StepDelivered)
	again, err := Resume(t.Context(), Resumption{Home: req.Home, Session: cut, Sandbox: req.Sandbox})
	if err != nil {
		t.Fatal(err)
	}
	if d := again.Report.Delivered; again.Report.Status != evidence.StatusPass || d == nil || *d != *out.Report.Delivered {
		t.Errorf("%s: %+v, %+v", again.Report.Status, again.Report.Blockers, d)
	}
	audited(t, again.Session)
}
