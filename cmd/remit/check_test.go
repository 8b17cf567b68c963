package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// The repository of the merge requests: one function with a fault that its test does
// not see.
var checkFiles = map[string]string{
	"shop/__init__.py":  "",
	"shop/price.py":     "def total(prices, percent):\n    \"\"\"The sum of prices, less percent of it.\"\"\"\n    return sum(prices) - percent\n",
	"shop/text.py":      "def shout(word):\n    return word.upper()\n",
	"tests/__init__.py": "",
	"tests/test_price.py": `import unittest

from shop.price import total
from shop.text import shout


class Price(unittest.TestCase):
    def test_no_discount(self):
        self.assertEqual(total([1, 2], 0), 3)

    def test_shout(self):
        self.assertEqual(shout("a"), "A")
`,
}

const (
	fixedPrice = "def total(prices, percent):\n    \"\"\"The sum of prices, less percent of it.\"\"\"\n    return sum(prices) * (100 - percent) / 100\n"
	newTest    = "import unittest\n\nfrom shop.price import total\n\n\nclass Discount(unittest.TestCase):\n    def test_discount(self):\n        self.assertEqual(total([100, 100], 10), 180)\n"
)

// mergeRequest is a change and what a check says of it, in a repository that has a
// remit.yaml (configured) and in one that has none (bare).
type mergeRequest struct {
	name             string
	make             func(t *testing.T, repo string)
	staged           bool // by make itself
	flags            []string
	policy           string // further lines of its remit.yaml
	configured, bare outcome
	shows            func(t *testing.T, got runResult)
}

// outcome is an exit code, and the code of the first blocker, one of these.
type outcome struct {
	exit  int
	codes []reason.Code
}

func failsAs(codes ...reason.Code) outcome { return outcome{2, codes} }

var passes = outcome{}

// write changes files of the work tree.
func write(t *testing.T, repo string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(repo, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// good is the change that everything else is added to.
func good(t *testing.T, repo string) {
	t.Helper()
	write(t, repo, "shop/price.py", fixedPrice, "tests/test_discount.py", newTest)
}

// mergeRequests are ten, with known verdicts. docs/check.md has the same table.
var mergeRequests = []mergeRequest{
	{name: "good", make: good, configured: passes, bare: passes, shows: func(t *testing.T, got runResult) {
		if got.NewTests == nil || len(got.NewTests.FailWithout) != 1 || got.Observation == nil || len(got.Observation.Unobserved) != 0 {
			t.Errorf("new tests %+v, observation %+v", got.NewTests, got.Observation)
		}
	}},
	{name: "useless test", make: func(t *testing.T, repo string) {
		write(t, repo, "shop/price.py", fixedPrice, "tests/test_discount.py", strings.Replace(newTest, "total([100, 100], 10), 180", "total([], 0), 0", 1))
	}, policy: "verify: {require: [observed]}\n", configured: failsAs(reason.ChangeUnobserved), bare: passes, shows: func(t *testing.T, got runResult) {
		if got.NewTests == nil || len(got.NewTests.FailWithout) != 0 || got.Observation == nil || len(got.Observation.Unobserved) != 1 {
			t.Errorf("new tests %+v, observation %+v", got.NewTests, got.Observation)
		}
	}},
	{name: "cheat", make: func(t *testing.T, repo string) {
		write(t, repo, "shop/text.py", "def shout(word):\n    return word\n",
			"tests/test_price.py", strings.Replace(checkFiles["tests/test_price.py"], `"A")`, `"a")`, 1))
	}, configured: failsAs(reason.VerifierTampering, reason.VerificationFailed), bare: failsAs(reason.VerifierTampering, reason.VerificationFailed)},
	{name: "protected path", make: func(t *testing.T, repo string) {
		good(t, repo)
		write(t, repo, ".github/workflows/ci.yml", "on: push\n")
	}, configured: outcome{3, []reason.Code{reason.ReviewRequired}}, bare: outcome{3, []reason.Code{reason.ReviewRequired}}, shows: func(t *testing.T, got runResult) {
		if len(got.Blockers) != 1 || len(got.Verification) != 2 || !got.Verification[1].Passed || got.NewTests == nil || len(got.NewTests.FailWithout) != 1 {
			t.Errorf("the tests were not judged: %+v, %+v", got.Blockers, got.Verification)
		}
	}},
	{name: "secret", make: func(t *testing.T, repo string) {
		good(t, repo)
		write(t, repo, "shop/key.py", "TOKEN = \"ghp_"+"Zq7Wm2Xk9Rt4Lp8Vc3Bn"+"6Hd1Jf5Gs0YuTeIo"+"\"\n")
	}, configured: failsAs(reason.SecretLeak), bare: failsAs(reason.SecretLeak)},
	{name: "dependency change", make: func(t *testing.T, repo string) {
		good(t, repo)
		write(t, repo, "requirements.txt", "leftpad==1.0\n", "shop/text.py", "import leftpad\n\n\ndef shout(word):\n    return leftpad.pad(word.upper())\n")
	}, configured: failsAs(reason.VerificationFailed), bare: failsAs(reason.VerificationFailed)},
	{name: "flaky", make: func(t *testing.T, repo string) {
		write(t, repo, "shop/price.py", fixedPrice, "tests/test_discount.py", strings.Replace(newTest, "    def test_discount",
			"    def test_luck(self):\n        import os\n        self.assertEqual(os.urandom(1)[0] % 4, 0)\n\n    def test_discount", 1))
	}, flags: []string{"--repeat", "6"}, configured: failsAs(reason.FlakyVerification, reason.VerificationFailed), bare: failsAs(reason.FlakyVerification, reason.VerificationFailed)},
	{name: "binary", make: func(t *testing.T, repo string) {
		good(t, repo)
		write(t, repo, "shop/logo.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\xff\xfe")
	}, configured: passes, bare: passes, shows: func(t *testing.T, got runResult) {
		if patch, err := os.ReadFile(filepath.Join(got.SessionDir, evidence.PatchFile)); err != nil || !strings.Contains(string(patch), "GIT binary patch") {
			t.Errorf("patch.diff: %v\n%s", err, patch)
		}
	}},
	{name: "rename", make: func(t *testing.T, repo string) {
		good(t, repo)
		if err := os.Rename(filepath.Join(repo, "shop/text.py"), filepath.Join(repo, "shop/words.py")); err != nil {
			t.Fatal(err)
		}
		write(t, repo, "shop/text.py", "from shop.words import shout\n\n__all__ = [\"shout\"]\n")
	}, configured: passes, bare: passes},
	{name: "huge", staged: true, make: func(t *testing.T, repo string) {
		// By the index alone: written, so many files cost more than all other checks.
		write(t, repo, "x", "x")
		blob := gitIn(t, repo, "hash-object", "-w", "x")
		var index strings.Builder
		for i := range 20_001 {
			fmt.Fprintf(&index, "100644 %s\tshop/data/%d/%d.txt\n", blob, i%200, i)
		}
		write(t, repo, "x", index.String())
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", `cd "$1" && git update-index --index-info <x && rm x`, "sh", repo).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}, configured: failsAs(reason.ChangeTooLarge), bare: failsAs(reason.ChangeTooLarge)},
}

// TestTenMergeRequests checks ten merge requests with known verdicts, with remit.yaml
// and without any configuration.
func TestTenMergeRequests(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 8)
	requireSandbox(t)
	for _, configured := range []bool{true, false} {
		files := maps.Clone(checkFiles)
		if configured {
			files["remit.yaml"] = "allowed_paths: [shop/**, tests/**, requirements.txt]\nverification_commands: [python3 -m unittest]\n"
		}
		for i, mr := range mergeRequests {
			if configured {
				i++ // a run does not try the same ones both ways
			}
			if !tally.ByTurn(t, i, 3) {
				continue
			}
			files := maps.Clone(files)
			if configured {
				files["remit.yaml"] += mr.policy
			}
			t.Run(fmt.Sprintf("%s configured %t", mr.name, configured), func(t *testing.T) {
				t.Parallel()
				repo, home := gitRepo(t, files), t.TempDir()
				gitIn(t, repo, "branch", "-M", "trunk")
				gitIn(t, repo, "checkout", "-qb", "feature")
				mr.make(t, repo)
				if !mr.staged {
					gitIn(t, repo, "add", "-A")
				}
				gitIn(t, repo, "commit", "-qm", mr.name)
				gitIn(t, repo, "checkout", "-q", "trunk")
				untouched(t, repo)
				want := mr.bare
				if configured {
					want = mr.configured
				}
				got := checks(t, home, repo, want, append([]string{"--base", "trunk", "--head", "feature"}, mr.flags...)...)
				if got.Checked == nil || got.Backend != evidence.NoEngine || want.exit != 2 && (len(got.Checked.Authors) != 1 || got.Checked.Authors[0].Email != "t@example.com") {
					t.Errorf("engine %s, checked %+v", got.Backend, got.Checked)
				}
				if mr.shows != nil {
					mr.shows(t, got)
				}
				audited(t, home, got.SessionDir)
			})
		}
	}
}

// checks runs remit check and holds its end against what it has to be.
func checks(t *testing.T, home, repo string, want outcome, flags ...string) runResult {
	t.Helper()
	cmd := cli(t, home, append([]string{"check", "--json", "--repo", repo}, flags...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	text, _ := cmd.Output() // its exit code is looked at
	var got runResult
	if err := json.Unmarshal(text, &got); err != nil || got.Report == nil {
		t.Fatalf("%v: %s\n%s", err, text, &errs)
	}
	code := reason.Code("")
	if len(got.Blockers) > 0 {
		code = got.Blockers[0].Code
	}
	if exit := cmd.ProcessState.ExitCode(); exit != want.exit || exit != 0 && !slices.Contains(want.codes, code) {
		t.Fatalf("exit %d, %s %+v; want %d, one of %v\n%s", exit, got.Status, got.Blockers, want.exit, want.codes, &errs)
	}
	return got
}

// audited has both verifiers look at a session.
func audited(t *testing.T, home, dir string) {
	t.Helper()
	if out, err := cli(t, home, "audit", dir).CombinedOutput(); err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
	if python, err := exec.LookPath("python3"); err == nil {
		if out, err := exec.CommandContext(t.Context(), python, filepath.Join("..", "..", "vectors", "verify.py"), dir).CombinedOutput(); err != nil {
			t.Errorf("verify.py: %v\n%s", err, out)
		}
	}
}

// TestCheckNarrows: each flag that asks for less than the policy of the base is refused
// with what a check can do about it, which has no task file and no --continue.
func TestCheckNarrows(t *testing.T) {
	t.Parallel()
	c, err := task.FromIssue([]byte("# A change\n"), "command line", &task.Policy{Tests: task.TestsProtect, Verify: task.Verify{Observe: task.ObserveAll}, VerificationCommands: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	wide := task.OwnedNoncriticalRepo
	_, err = task.Narrow(c, task.Flags{Allow: []string{"**"}, Tests: task.TestsFree, MutationMode: &wide, Verification: task.Verify{Observe: task.ObserveOff}})
	var problems task.Problems
	if !errors.As(hintOfCheck(err), &problems) || len(problems) != 3 {
		t.Fatalf("%v", err)
	}
	for _, p := range problems {
		if p.Code != reason.ContractNarrowing || !strings.Contains(p.Hint, "remit.yaml of the base") {
			t.Errorf("%v: %q", p, p.Hint)
		}
	}
}
