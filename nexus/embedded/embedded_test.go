package embedded_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"remit/law/job"
	"remit/law/task"
	"remit/nexus/embedded"
	"remit/nexus/requester"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"
)

const tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

func claimOf(session string) job.Claim {
	return job.Claim{Key: session, RepoRef: "repo", PolicyBundleID: "p.v1", Metadata: map[string]string{"session_id": session}}
}

func proofOf(commands ...string) job.Proof {
	disk := uint32(64)
	p := job.Proof{Tree: tree, Request: job.SandboxRunRequest{Sandbox: job.Sandbox{ImageDigest: "host",
		Resources: job.Resources{DiskMB: &disk}}},
		Pack: func(context.Context, io.Writer) (string, error) {
			panic("nothing is packed for a provider that is here")
		},
		Here: job.SandboxRunResponse{EnvInfo: job.EnvInfo{ImageDigest: "host"}, Status: job.Success, Artifacts: []job.Artifact{},
			Provenance: job.Provenance{ModelID: "none"},
			Caps:       &job.CapsApplied{CPUMillis: 1000, MemoryMB: 512, TimeoutSecs: 1800, Network: job.NetworkNone}, Usage: &job.Usage{WallMillis: 5}}}
	for _, c := range commands {
		p.Request.Commands = append(p.Request.Commands, job.Command{Cmd: c})
		p.Here.Runs = append(p.Here.Runs, job.Run{Cmd: c, StdoutSHA256: canon.Digest(nil), StderrSHA256: canon.Digest(nil)})
	}
	return p
}

func types(receipts []record.Recorded) []string {
	var out []string
	for _, r := range receipts {
		out = append(out, r.Type)
	}
	return out
}

func machine(dir string) *requester.Requester {
	return requester.New((&embedded.Machine{Dir: dir, Version: "test"}).Connect)
}

// TestRunIsProved takes a run through the authority of the machine, then again
// as a process that was killed does: nothing happens twice.
func TestRunIsProved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "authority")
	want := []string{"RunCreated", "DeviceEnrolled", "CapsSet", "BudgetReserved", "JobDispatched", "JobCompleted", "CapsEnforced", "VerificationPassed", "PaymentReleased"}
	var first record.Settlement
	for life := range 2 {
		q := machine(dir)
		opened, err := q.Open(t.Context(), claimOf("s1"))
		if err != nil || !slices.Contains(types(opened), "RunCreated") {
			t.Fatalf("open: %v %v", types(opened), err)
		}
		s, receipts, err := q.Prove(t.Context(), proofOf("go test ./...", "go vet ./..."))
		if err != nil {
			t.Fatal(err)
		}
		if got := types(receipts); !slices.Equal(got, want) {
			t.Errorf("receipts %v, want %v", got, want)
		}
		if !s.Passed || s.Status != "released" || s.SettledMsats != s.ReservedMsats || s.SettledMsats < 1 || s.Executed != record.ExecutedHere || s.VerificationReceiptSHA256 == "" {
			t.Errorf("%+v", s)
		}
		if life == 0 {
			first = s
		} else if s != first {
			t.Errorf("the second life settled %+v, the first %+v", s, first)
		}
		if err := q.Close(t.Context(), true, nil); err != nil {
			t.Error(err)
		}
	}
	st, err := store.Open(t.Context(), "sqlite:"+filepath.Join(dir, "nexus.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.View(t.Context(), func(tx *store.Tx) error {
		broken, err := treasury.Invariants(tx)
		if len(broken) > 0 {
			t.Error(broken)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestUnsayable: what no job can say was verified all the same.
func TestUnsayable(t *testing.T) {
	t.Parallel()
	q := machine(filepath.Join(t.TempDir(), "authority"))
	if _, err := q.Open(t.Context(), claimOf("s1")); err != nil {
		t.Fatal(err)
	}
	s, _, err := q.Prove(t.Context(), proofOf(strings.Repeat("x", job.MaxCmdBytes+1)))
	if err != nil || s.Passed || s.Reason != "job_invalid" || s.Executed != record.ExecutedHere || s.SettledMsats != 0 {
		t.Errorf("%+v %v", s, err)
	}
}

// TestFailureIsNotPaid: a response that the rules do not accept is withheld.
func TestFailureIsNotPaid(t *testing.T) {
	t.Parallel()
	q := machine(filepath.Join(t.TempDir(), "authority"))
	if _, err := q.Open(t.Context(), claimOf("s1")); err != nil {
		t.Fatal(err)
	}
	p := proofOf("false")
	p.Here.Runs[0].ExitCode, p.Here.Status = 1, job.Failed
	s, receipts, err := q.Prove(t.Context(), p)
	if err != nil || s.Passed || s.Status != "withheld" || s.SettledMsats != 0 {
		t.Errorf("%+v %v", s, err)
	}
	if got := types(receipts); !slices.Contains(got, "PaymentWithheld") || slices.Contains(got, "PaymentReleased") {
		t.Error(got)
	}
}

// packet is what a person is asked about.
func packet(t *testing.T, id string) job.Packet {
	t.Helper()
	c, err := task.FromIssue([]byte("# "+id+"\n"), "test", nil)
	if err == nil {
		c, err = task.Narrow(c, task.Flags{Allow: []string{"src/**"}, Verify: []string{"true"}, ApprovalRequired: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return job.Packet{Contract: text, ContractSHA256: canon.Digest(text), RepoRef: "repo"}
}

// TestApproval: the machine's authority approves when its operator says so, for
// one run, which may ask as often as it likes.
func TestApproval(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "authority")
	p := packet(t, "one")
	ask := func(q *requester.Requester, p job.Packet, status string) job.Approval {
		t.Helper()
		a, err := q.Ask(t.Context(), p)
		if err != nil || a.Status != status {
			t.Fatalf("%+v %v, want %s", a, err, status)
		}
		return a
	}
	first := ask(machine(dir), p, job.ApprovalRequested)
	granting := p
	granting.Grant = true
	// What runs has no credential for it.
	if a := ask(machine(dir), granting, job.ApprovalRequested); a.ID != first.ID || reason.CodeOf(a.Refused) != reason.ScopeMissing {
		t.Errorf("%+v", a)
	}
	operator := requester.New((&embedded.Machine{Dir: dir, Version: "test", Operator: "local-operator:me"}).Connect)
	a := ask(operator, granting, job.ApprovalGranted)
	if a.ID != first.ID || a.DecidedBy != "local-operator:me" || a.RequestedBy != "user:local" {
		t.Errorf("%+v", a)
	}
	for range 2 { // the second is that of a process that was killed after the first
		q := machine(dir)
		if _, err := q.Open(t.Context(), claimOf("s1")); err != nil {
			t.Fatal(err)
		}
		receipts, err := q.Use(t.Context(), a)
		if got := types(receipts); err != nil || !slices.Equal(got, []string{"RunCreated", "ApprovalGranted", "ApprovalConsumed"}) {
			t.Errorf("%v %v", got, err)
		}
	}
	thief := machine(dir)
	if _, err := thief.Open(t.Context(), claimOf("s2")); err != nil {
		t.Fatal(err)
	}
	if _, err := thief.Use(t.Context(), a); reason.CodeOf(err) != reason.ApprovalConsumed {
		t.Errorf("another run: %v", err)
	}
	next := ask(machine(dir), p, job.ApprovalRequested)
	if next.ID == a.ID || next.Before == nil || next.Before.ID != a.ID || next.Before.Status != job.ApprovalConsumed {
		t.Errorf("the next one: %+v", next)
	}
	elsewhere := p
	elsewhere.RepoRef = "other"
	if _, err := machine(dir).Ask(t.Context(), elsewhere); reason.CodeOf(err) != reason.Conflict {
		t.Errorf("another repository: %v", err)
	}
	if b := ask(machine(dir), packet(t, "two"), job.ApprovalRequested); b.ID == next.ID || b.Before != nil {
		t.Errorf("another contract: %+v", b)
	}
}

// TestManyAtOnce: runs of one user go on at the same time.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "authority")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			q := machine(dir)
			c := claimOf(fmt.Sprintf("s%d", i))
			c.RepoRef = c.Key
			c.IssueRef = "#1"
			if _, err := q.Open(t.Context(), c); err != nil {
				t.Error(err)
				return
			}
			s, _, err := q.Prove(t.Context(), proofOf("true"))
			if err != nil || !s.Passed {
				t.Errorf("%+v %v", s, err)
			}
			if err := q.Close(t.Context(), true, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkRun(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "authority")
	for i := 0; b.Loop(); i++ {
		q := machine(dir)
		if _, err := q.Open(b.Context(), claimOf(fmt.Sprint(i))); err != nil {
			b.Fatal(err)
		}
		if _, _, err := q.Prove(b.Context(), proofOf("true")); err != nil {
			b.Fatal(err)
		}
		if err := q.Close(b.Context(), true, nil); err != nil {
			b.Fatal(err)
		}
	}
}
