package harness

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/secret"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/session"
)

// parentOf is a session as what the next run continues.
func parentOf(t *testing.T, s session.Session) *Parent {
	t.Helper()
	log, err := journal.ReadFile(s.Journal())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := evidence.VerdictReceipt(log.Entries)
	if err != nil {
		t.Fatal(err)
	}
	var receipt evidence.Receipt
	if err := json.Unmarshal(raw, &receipt); err != nil {
		t.Fatal(err)
	}
	return &Parent{Facts: *evidence.ParentOf(&receipt, canon.Digest(raw), evidence.MeteredUsage{}), Patch: filepath.Join(s.Dir, evidence.PatchFile)}
}

// next is the request for a run that continues a session with a line of shell.
func next(t *testing.T, req Request, s session.Session, line string) Request {
	t.Helper()
	req.Parent = parentOf(t, s)
	hangs(t, &req, line, false, 0, 60)
	return req
}

// ran is a run and its end.
func ran(t *testing.T, req Request) *Outcome {
	t.Helper()
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	audited(t, out.Session)
	return out
}

// TestFollowUp: the engine starts from the earlier change, the patch is the whole
// change, and the bundle shows where the work began.
func TestFollowUp(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	repo := newRepo(t, map[string]string{"a.txt": "bad\n", "b.txt": "b\n", "gone.txt": "x\n"})
	req := newRun(t, repo, nil, nil)
	hangs(t, &req, "echo wrong >a.txt; ln -s a.txt link; rm gone.txt; echo '*.log' >.gitignore", false, 0, 60)
	req.Contract.AllowSymlinks = true
	first := ran(t, req)
	if first.Report.Status != evidence.StatusFail {
		t.Fatalf("%s: %+v", first.Report.Status, first.Report.Blockers)
	}
	// What the engine sees is the first change, and what it leaves is added to it.
	second := ran(t, next(t, req, first.Session, "test -L link && ! test -e gone.txt && grep -q wrong a.txt && echo good >a.txt && rm link && echo y >gone.txt && echo new >c.txt"))
	rep := second.Report
	if rep.Status != evidence.StatusPass || !slices.Equal(rep.ChangedFiles, []string{".gitignore", "a.txt", "c.txt", "gone.txt"}) {
		t.Fatalf("%s: %v %+v", rep.Status, rep.ChangedFiles, rep.Blockers)
	}
	if p := rep.Parent; p == nil || p.SessionID != first.Session.ID || p.Status != evidence.StatusFail || !slices.Equal(p.Chain, []string{first.Session.ID}) {
		t.Errorf("the parent is %+v", rep.Parent)
	}
	kept, err := os.ReadFile(filepath.Join(second.Session.Dir, evidence.ParentPatchFile))
	if patch, _ := patchOf(t, first.Session); err != nil || string(kept) != patch {
		t.Errorf("%v: the patch of the parent is kept as %q", err, kept)
	}
	// The verification is that of the whole change, from the bundle alone.
	again, err := Reproduce(t.Context(), Reproduction{Evidence: os.DirFS(second.Session.Dir), Repo: repo, Home: session.Home{Dir: t.TempDir()}, Sandbox: req.Sandbox})
	if err != nil || again.Status != evidence.StatusPass || again.HeadTree == rep.Parent.HeadTree {
		t.Errorf("%v: %+v", err, again)
	}
	// Where it began is held to the patch that it keeps of its parent.
	forged := t.TempDir()
	if err := os.CopyFS(forged, os.DirFS(second.Session.Dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(forged, evidence.ParentPatchFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err = Reproduce(t.Context(), Reproduction{Evidence: os.DirFS(forged), Repo: repo, Home: session.Home{Dir: t.TempDir()}, Sandbox: req.Sandbox})
	if err != nil || again.Status == evidence.StatusPass || again.Findings[0].Code != reason.TreeMismatch || again.Findings[0].Path != evidence.ParentPatchFile {
		t.Errorf("%v: another beginning: %+v", err, again)
	}
	third := ran(t, next(t, req, second.Session, "echo newer >c.txt"))
	if p := third.Report.Parent; third.Report.Status != evidence.StatusPass || !slices.Equal(p.Chain, []string{first.Session.ID, second.Session.ID}) {
		t.Errorf("%s: %+v", third.Report.Status, p)
	}
}

// TestFollowUpWithoutChange: the earlier change alone is none of the follow-up, and
// neither is the baseline.
func TestFollowUpWithoutChange(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "bad\n"}), nil, nil)
	hangs(t, &req, "echo good >a.txt", false, 0, 60)
	first := ran(t, req)
	for line, says := range map[string]string{"true": "changed nothing of what session", "echo good >a.txt": "changed nothing of what session", "echo bad >a.txt": "took back all"} {
		out := ran(t, next(t, req, first.Session, line))
		if rep := out.Report; rep.Status != evidence.StatusFail || rep.Blockers[0].Code != reason.NoDiff || !strings.Contains(rep.Blockers[0].Message, says) {
			t.Errorf("%s: %s %+v", line, rep.Status, rep.Blockers)
		}
	}
	allowed := next(t, req, first.Session, "true")
	allowed.Contract.ExpectDiff = false
	if out := ran(t, allowed); out.Report.Status != evidence.StatusPass || !slices.Equal(out.Report.ChangedFiles, []string{"a.txt"}) {
		t.Errorf("%s: %+v", out.Report.Status, out.Report.Blockers)
	}
}

// TestFollowUpIsJudgedWhole: what the earlier run was refused for is refused again,
// although the engine of the follow-up did not touch it, until it is taken back.
func TestFollowUpIsJudgedWhole(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "bad\n", "b.txt": "b\n"}), nil, nil)
	req.Contract.ForbiddenPaths = []string{"secret/**", "*.key"}
	hangs(t, &req, "ln -s /etc/passwd link; echo x >my.key; echo good >a.txt", false, 0, 60)
	first := ran(t, req)
	if first.Report.Status != evidence.StatusFail || first.Report.AllowedWritesPassed {
		t.Fatalf("%s: %+v", first.Report.Status, first.Report.Blockers)
	}
	still := ran(t, next(t, req, first.Session, "echo more >b.txt"))
	if rep := still.Report; rep.Status != evidence.StatusFail || rep.AllowedWritesPassed || len(rep.Blockers) != len(first.Report.Blockers) {
		t.Errorf("%s: %+v", rep.Status, rep.Blockers)
	}
	if out := ran(t, next(t, req, still.Session, "rm link my.key")); out.Report.Status != evidence.StatusPass {
		t.Errorf("%s: %+v", out.Report.Status, out.Report.Blockers)
	}
	// Two changes that fit are too large together.
	req.Contract.ForbiddenPaths, req.Contract.Limits.ChangedPaths = nil, 3
	hangs(t, &req, "echo good >a.txt; echo 1 >c.txt", false, 0, 60)
	two := ran(t, req)
	out := ran(t, next(t, req, two.Session, "echo 2 >d.txt; echo 3 >e.txt"))
	if rep := out.Report; rep.Blockers[0].Code != reason.ChangeTooLarge {
		t.Errorf("%s: %+v", rep.Status, rep.Blockers)
	}
}

// TestForgedStart: nothing is started from a patch that is not the one which the
// run names, or that shows what is held out.
func TestForgedStart(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	held := "the held-out test\n"
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "bad\n"}), nil, nil)
	hangs(t, &req, "printf '"+strings.TrimSuffix(held, "\n")+"\\n' >seen.txt", false, 0, 60)
	first := ran(t, req)
	for name, tc := range map[string]struct {
		change func(*Request)
		code   reason.Code
	}{
		"another patch": {func(r *Request) {
			r.Parent.Patch = filepath.Join(t.TempDir(), "patch")
			if err := os.WriteFile(r.Parent.Patch, []byte("diff --git a/a.txt b/a.txt\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, reason.ArtifactDigest},
		"another tree": {func(r *Request) { r.Parent.Facts.HeadTree = strings.Repeat("1", 40) }, reason.TreeMismatch},
		"no patch":     {func(r *Request) { r.Parent.Patch += ".gone" }, reason.InfrastructureFault},
		"held out": {func(r *Request) {
			c := *r.Contract
			c.Dir = t.TempDir()
			if err := os.WriteFile(filepath.Join(c.Dir, "hidden"), []byte(held), 0o600); err != nil {
				t.Fatal(err)
			}
			c.HeldOutTests = []task.HeldOutTest{{Path: "hidden", Source: "hidden", SHA256: canon.Digest([]byte(held))}}
			r.Contract = &c
		}, reason.HeldOutVisible},
	} {
		r := next(t, req, first.Session, "echo good >a.txt")
		tc.change(&r)
		out, err := Run(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if rep := out.Report; rep.Status == evidence.StatusPass || rep.EngineProcessStarted || rep.Blockers[0].Code != tc.code {
			t.Errorf("%s: %s %+v", name, rep.Status, rep.Blockers)
		}
		audited(t, out.Session)
	}
}

// TestSecretInTheStart: a credential of today in a patch of yesterday is taken out,
// and nothing is started from what is left.
func TestSecretInTheStart(t *testing.T) {
	t.Parallel()
	value := credential(3)
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "bad\n"}), nil, nil)
	hangs(t, &req, "echo good "+value+" >a.txt", false, 0, 60)
	first := ran(t, req)
	r := next(t, req, first.Session, "echo good >b.txt")
	r.Credentials = append(r.Credentials, secret.Value{Name: "T", Value: value})
	out, err := Run(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	leakFree(t, out.Session, value)
	if rep := out.Report; rep.Blockers[0].Code != reason.SecretLeak || rep.EngineProcessStarted {
		t.Errorf("%s: %+v", rep.Status, rep.Blockers)
	}
}

// TestFollowUpThatDied: a follow-up that is cut off at any entry of its journal
// comes to an end that both verifiers accept.
func TestFollowUpThatDied(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "bad\n"}), nil, nil)
	hangs(t, &req, "echo wrong >a.txt", false, 0, 60)
	first := ran(t, req)
	whole := ran(t, next(t, req, first.Session, "echo good >a.txt"))
	log, err := journal.ReadFile(whole.Session.Journal())
	if err != nil {
		t.Fatal(err)
	}
	for _, until := range []string{evidence.StepRunOpened, evidence.StepArtifact, evidence.StepWorkspace, evidence.StepWrites} {
		cut := cutSession(t, req.Home, whole.Session, log.Entries, until)
		out, err := Resume(t.Context(), Resumption{Home: req.Home, Session: cut, Sandbox: req.Sandbox})
		if err != nil {
			t.Fatalf("%s: %v", until, err)
		}
		audited(t, out.Session)
		if out.Report.Parent == nil || (out.Report.Status == evidence.StatusPass) != (until == evidence.StepWrites) {
			t.Errorf("cut off after %s: %s %+v", until, out.Report.Status, out.Report.Blockers)
		}
	}
}
