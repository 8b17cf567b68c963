package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"remit/fixtures/osscase"
	"remit/fixtures/tally"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// runFixture runs remit in a fixture's repository and returns the report.
func runFixture(t *testing.T, home, repo, task string, extra ...string) runResult {
	t.Helper()
	cmd := cli(t, home, append([]string{"run", "--json", "--repo", repo, "--task", task, "--engine", "fake"}, extra...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var rep runResult
	if err := json.Unmarshal(out, &rep); err != nil {
		t.Fatalf("%v: stdout %q, stderr %s", err, out, exit.Stderr)
	}
	return rep
}

// passFixture takes a case through the pipeline with its known fix, checks what
// it must have fixed, and lets both verifiers judge the bundle. It returns the
// bundle.
func passFixture(t *testing.T, home, repo, task, patch string) string {
	t.Helper()
	rep := runFixture(t, home, repo, task, "--fake-patch", patch)
	if rep.Status != evidence.StatusPass {
		t.Fatalf("status %s: %v", rep.Status, rep.Blockers)
	}
	if rep.VerificationDelta < 1 {
		t.Errorf("verification_delta %d: the fix must turn a failing test", rep.VerificationDelta)
	}
	zip := filepath.Join(t.TempDir(), "bundle.zip")
	for _, words := range [][]string{{"audit", "latest"}, {"export", "latest", "--to", "zip", "--out", zip}, {"audit", zip}} {
		if out, err := cli(t, home, words...).CombinedOutput(); err != nil {
			t.Errorf("remit %v: %v\n%s", words, err, out)
		}
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine: the second verifier did not judge the bundle")
	}
	for _, what := range []string{zip, rep.SessionDir} {
		if out, err := exec.Command(python, filepath.Join("..", "..", "vectors", "verify.py"), what).CombinedOutput(); err != nil {
			t.Errorf("verify.py: %v\n%s", err, out)
		}
	}
	return zip
}

// withoutFix runs the case without a change: that is no_diff.
func withoutFix(t *testing.T, home, repo, task string) {
	t.Helper()
	rep := runFixture(t, home, repo, task)
	if rep.Status != evidence.StatusFail || !slices.ContainsFunc(rep.Blockers, func(b evidence.Blocker) bool { return b.Code == reason.NoDiff }) {
		t.Errorf("without a fix: status %s, %v", rep.Status, rep.Blockers)
	}
}

// inDemo is the fixture of make run: TestBlocksPaste takes it through the pipeline,
// reproduces it and lets both verifiers judge its bundle.
const inDemo = "r1-string-slugify_go"

// TestFixtures takes every shipped fixture through the pipeline: with its known
// fix it passes. One is reproduced from its bundle as well, and run without a
// change; what that finds does not depend on the bug.
func TestFixtures(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	warmGoCache(t)
	tasks, err := filepath.Glob("../../fixtures/r1-*/*/task.yaml")
	if err != nil || len(tasks) != 6 {
		t.Fatalf("%d fixtures, %v; want 6", len(tasks), err)
	}
	for i, task := range tasks {
		if !tally.ByTurn(t, i, 6) {
			continue
		}
		dir := filepath.Dir(task)
		name := filepath.Base(filepath.Dir(dir)) + "_" + filepath.Base(dir)
		if name == inDemo && !testing.Short() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := t.TempDir()
			if err := os.CopyFS(repo, os.DirFS(filepath.Join(dir, "repo"))); err != nil {
				t.Fatal(err)
			}
			commitAll(t, repo)
			home := t.TempDir() // one, so that the baseline is verified once
			zip := passFixture(t, home, repo, task, filepath.Join(dir, "fix.patch"))
			if name != "r1-string-slugify_python" {
				return
			}
			if out, err := cli(t, home, "reproduce", zip, "--repo", repo).CombinedOutput(); err != nil {
				t.Errorf("remit reproduce: %v\n%s", err, out)
			}
			withoutFix(t, home, repo, task)
		})
	}
}

// TestOpenSourceCase takes a real bug of a real module, from the Go module
// proxy, through the pipeline.
func TestOpenSourceCase(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	requireSandbox(t)
	warmGoCache(t)
	cases, err := filepath.Glob("../../fixtures/oss-*/case.yaml")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no case: %v", err)
	}
	for _, file := range cases {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			c, err := osscase.Load(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if _, err := c.Build(t.Context(), dir); errors.Is(err, osscase.ErrUnreachable) {
				t.Skipf("the module proxy cannot be reached: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			home, repo, task := t.TempDir(), filepath.Join(dir, "repo"), filepath.Join(dir, "task.yaml") // one home, so that the baseline is verified once
			passFixture(t, home, repo, task, filepath.Join(dir, "fix.patch"))
			withoutFix(t, home, repo, task)
		})
	}
}
