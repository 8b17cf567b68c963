package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"remit/law/secret"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/session"
)

// coworker is a progress view that does something once, when the engine ended.
type coworker struct {
	t    *testing.T
	work func()
}

func (c *coworker) Step(name, status, _ string) {
	if name == evidence.StepEngine && status != "started" && c.work != nil {
		c.work()
		c.work = nil
	}
}

func (*coworker) Output(string) {}

// meanwhileIn runs an engine that mends a.txt while the source is worked in.
func meanwhileIn(t *testing.T, repo string, d sandbox.Driver, work func(), values ...secret.Value) (Request, *Outcome) {
	t.Helper()
	req := fixing(t, repo, d, "echo good >>a.txt")
	req.Credentials, req.Progress = values, &coworker{t, work}
	_, req.ExplicitNone = d.(unconfined)
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return req, out
}

// atWork is what a person does in their repository in a minute, and what an
// attacker would do who found a way out.
func atWork(t *testing.T, repo string) func() {
	return func() {
		t.Helper()
		shell := exec.Command("sh", "-c", `set -e
			echo more >>a.txt; git add a.txt
			echo scratch >notes.txt; git status --porcelain >/dev/null; : >"$(printf 'odd\377\n\033[31m')"
			mkdir zz; for i in $(seq 60); do : >zz/$i; done
			printf '#!/bin/sh\n' >.git/hooks/pre-commit
			git config user.name t; git config user.email t@example.com
			git update-ref refs/remotes/origin/main HEAD
			git commit -qm work --allow-empty --no-verify; git branch other`)
		shell.Dir = repo
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// TestWorkInTheSourceMeanwhile: a person at work in their own repository turns
// no good run into a failure. What changed is recorded, bounded, with its time,
// and the run is accepted and reproduced like any other.
func TestWorkInTheSourceMeanwhile(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	const token = "sk-proj-Zq8vR2mL5tW9xK3nB7cF"
	work := atWork(t, repo)
	req, out := meanwhileIn(t, repo, realSandbox(t), func() {
		work()
		if err := os.WriteFile(filepath.Join(repo, token), nil, 0o600); err != nil {
			t.Error(err)
		}
	}, secret.Value{Name: "T", Value: token})
	rep := out.Report
	if rep.Status != evidence.StatusPass || rep.SourceRepositoryMutated || rep.SourceChangedMeanwhile == nil {
		t.Fatalf("%s %+v, %+v", rep.Status, rep.Blockers, rep.SourceChangedMeanwhile)
	}
	m := rep.SourceChangedMeanwhile
	seen := map[string]string{}
	for _, d := range m.Changes {
		seen[d.What] = d.At
		if len(d.What) > maxDifference+3 || strings.ContainsAny(d.What, "\x1b\n") || !utf8.ValidString(d.What) {
			t.Errorf("%q is not fit to be read", d.What)
		}
	}
	for _, what := range []string{"index", "worktree: notes.txt", "hooks: pre-commit", "config: config", "refs: refs/heads/other", "refs: refs/remotes/origin/main"} {
		if at, ok := seen[what]; !ok || at < m.From[:len("2006-01-02T15:04:05")] || at > m.To {
			t.Errorf("%q is at %q, want it in %s to %s: %+v", what, at, m.From, m.To, m.Changes)
		}
	}
	if len(m.Changes) > 60 || !slices.ContainsFunc(m.Changes, func(d evidence.SourceDifference) bool { return strings.HasSuffix(d.What, " more") && d.At == "" }) {
		t.Errorf("%d changes of a flood of files", len(m.Changes))
	}
	if !m.RunsPrograms() || m.KeptOutBy != sandbox.DriverBwrap {
		t.Errorf("%+v", m)
	}
	audited(t, out.Session)
	leakFree(t, out.Session, token)
	again, err := Reproduce(t.Context(), Reproduction{Evidence: os.DirFS(out.Session.Dir), Repo: repo, Home: req.Home, Sandbox: req.Sandbox})
	if err != nil || again.Status != evidence.StatusPass || again.RecordedStatus != evidence.StatusPass {
		t.Errorf("%+v, %v", again, err)
	}
	if rep, err := out.Session.Decide(t.Context(), session.Accepted, "", "tester", time.Now); err != nil || rep.OperatorOutcome != session.Accepted {
		t.Errorf("%+v, %v", rep, err)
	}
}

// TestSourceOfAnUnconfinedRun: without a sandbox the run could have done it
// itself, so that it fails as ever.
func TestSourceOfAnUnconfinedRun(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	_, out := meanwhileIn(t, repo, unconfined{realSandbox(t)}, atWork(t, repo))
	rep := out.Report
	if rep.Status != evidence.StatusFail || !rep.SourceRepositoryMutated || rep.SourceChangedMeanwhile != nil || rep.Blockers[0].Code != reason.SourceRepositoryMutated {
		t.Errorf("%s %+v, %+v", rep.Status, rep.Blockers, rep.SourceChangedMeanwhile)
	}
	audited(t, out.Session)
}

// TestSourceIsGone: a work tree that its owner removed meanwhile is recorded as
// what could not be looked at, and claims nothing.
func TestSourceIsGone(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	aside := repo + ".aside"
	t.Cleanup(func() { _ = os.RemoveAll(aside) })
	// Looked at the source, the run needs its objects until the change is verified.
	req := fixing(t, repo, realSandbox(t), "echo good >>a.txt")
	req.Progress = &atStep{evidence.StepVerifyHead, func() {
		if err := os.Rename(repo, aside); err != nil {
			t.Error(err)
		}
	}}
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	m := out.Report.SourceChangedMeanwhile
	if out.Report.Status != evidence.StatusPass || m == nil || len(m.Changes) != 1 || !strings.HasPrefix(m.Changes[0].What, "not looked at again: ") || strings.Contains(m.Changes[0].What, repo) {
		t.Errorf("%s %+v, %+v", out.Report.Status, out.Report.Blockers, m)
	}
	audited(t, out.Session)
}

// atStep does something when a step ends.
type atStep struct {
	name string
	work func()
}

func (a *atStep) Step(name, status, _ string) {
	if name == a.name && status != "started" {
		a.work()
	}
}

func (*atStep) Output(string) {}

// TestResumedSourceMeanwhile: between a crash and the resume the source is worked in
// the repository. A run that is resumed without a sandbox proves nothing then.
func TestResumedSourceMeanwhile(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	d := realSandbox(t)
	req, out := meanwhileIn(t, repo, d, nil)
	if out.Report.SourceChangedMeanwhile != nil {
		t.Fatalf("nothing changed: %+v", out.Report.SourceChangedMeanwhile)
	}
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		t.Fatal(err)
	}
	atWork(t, repo)()
	for _, until := range []string{evidence.StepWrites, evidence.StepVerification} {
		cut := cutSession(t, req.Home, out.Session, log.Entries, until)
		again, err := Resume(t.Context(), Resumption{Home: req.Home, Session: cut, Sandbox: d})
		if err != nil {
			t.Fatal(err)
		}
		if m := again.Report.SourceChangedMeanwhile; again.Report.Status != evidence.StatusPass || m == nil || !m.RunsPrograms() {
			t.Errorf("cut off after %s: %s %+v, %+v", until, again.Report.Status, again.Report.Blockers, m)
		}
		audited(t, cut)
	}
	cut := cutSession(t, req.Home, out.Session, log.Entries, evidence.StepWrites)
	again, err := Resume(t.Context(), Resumption{Home: req.Home, Session: cut, Sandbox: unconfined{d}})
	if err != nil || again.Report.Status == evidence.StatusPass || again.Report.SourceChangedMeanwhile != nil {
		t.Errorf("without a sandbox: %+v, %v", again.Report, err)
	}
}
