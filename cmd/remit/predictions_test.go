package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/forge/swebench"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// patchOf is what git says of an edit of one file of a repository, which is undone.
func patchOf(t *testing.T, repo, file, old, new string) string {
	t.Helper()
	text := fileText(t, filepath.Join(repo, file))
	if !strings.Contains(text, old) {
		t.Fatalf("%s lacks %q", file, old)
	}
	write(t, repo, file, strings.Replace(text, old, new, 1))
	patch := gitIn(t, repo, "diff") + "\n"
	gitIn(t, repo, "checkout", "-q", ".")
	return patch
}

// TestPredictions: each prediction of a file is judged as remit check judges a patch, and
// the report puts each into the list that it belongs to.
func TestPredictions(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	requireSandbox(t)
	files := map[string]string{"shop/__init__.py": "", "shop/price.py": checkFiles["shop/price.py"], "tests/__init__.py": "",
		"tests/test_price.py": strings.Replace(newTest, "Discount", "Price", 1)}
	base := gitRepo(t, files)
	first := gitIn(t, base, "rev-parse", "HEAD")
	write(t, base, "later", "x") // the instances are for the commit before it
	gitIn(t, base, "add", "-A")
	gitIn(t, base, "commit", "-qm", "later")
	repos := t.TempDir()
	if err := os.Rename(base, filepath.Join(repos, "acme__shop")); err != nil {
		t.Fatal(err)
	}
	base = filepath.Join(repos, "acme__shop")
	good := patchOf(t, base, "shop/price.py", "sum(prices) - percent", "sum(prices) * (100 - percent) / 100")
	cases := []struct {
		id    string
		patch any
		exit  int
		code  reason.Code
	}{
		{"good", strings.TrimSuffix(good, "\n"), 0, ""}, // as many a model writes it
		{"empty", "", 2, reason.NoDiff},
		{"none", nil, 2, reason.NoDiff},
		{"wrong", patchOf(t, base, "shop/price.py", "sum(prices) - percent", "sum(prices) - 3 * percent"), 2, reason.VerificationFailed},
		{"cheat", patchOf(t, base, "tests/test_price.py", "180", "190"), 2, reason.VerifierTampering},
		{"mail", "From 0 Mon Sep 17 00:00:00 2001\nFrom: Linus <l@example.com>\n\n" + good, 0, ""},
		{"outside", strings.ReplaceAll(good, "shop/price.py", "../price.py"), 2, reason.PatchInvalid},
		{"stale", strings.Replace(good, "percent of it", "percent off it", 1), 2, reason.PatchInvalid},
		{"hook", strings.ReplaceAll(good, "shop/price.py", ".git/hooks/pre-commit"), 2, reason.ProtectedPath},
		{"elsewhere", good, 3, reason.PredictionsInvalid},
	}
	untouched(t, base)
	var predictions, instances strings.Builder
	for _, c := range cases {
		line, err := json.Marshal(map[string]any{"instance_id": c.id, "model_name_or_path": "acme/" + c.id, "model_patch": c.patch, "model": "not read"})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&predictions, "%s\n", line)
		if c.id != "elsewhere" {
			fmt.Fprintf(&instances, "{\"instance_id\":%q,\"repo\":\"acme/shop\",\"base_commit\":%q,\"test_patch\":\"not read\"}\n", c.id, first)
		}
	}
	fmt.Fprintf(&instances, "{\"instance_id\":\"left\",\"repo\":\"acme/shop\",\"base_commit\":%q}\n", first)
	write(t, repos, "preds.jsonl", predictions.String(), "rows.jsonl", instances.String())
	out := filepath.Join(t.TempDir(), "out")
	cmd := cli(t, t.TempDir(), "run", "--json", "--predictions", filepath.Join(repos, "preds.jsonl"), "--instances", filepath.Join(repos, "rows.jsonl"), "--repos", repos, "--out", out)
	text, _ := cmd.Output() // its exit code is looked at
	var doc predictionsDocument
	if err := json.Unmarshal(text, &doc); err != nil || cmd.ProcessState.ExitCode() != 2 || doc.ExitCode != 2 || len(doc.Instances) != len(cases) {
		t.Fatalf("exit %d, %v: %s", cmd.ProcessState.ExitCode(), err, text)
	}
	for i, c := range cases {
		got := doc.Instances[i]
		if got.InstanceID != c.id || got.ExitCode != c.exit || got.Code != c.code || got.Model != "acme/"+c.id {
			t.Errorf("%s: %+v, want %d %s", c.id, got, c.exit, c.code)
		}
	}
	var file swebench.RunReport
	if err := json.Unmarshal([]byte(fileText(t, filepath.Join(out, "report.json"))), &file); err != nil {
		t.Fatal(err)
	}
	for name, lists := range map[string][2][]string{"resolved": {file.ResolvedIDs, {"good", "mail"}}, "unresolved": {file.UnresolvedIDs, {"cheat", "wrong"}},
		"empty": {file.EmptyPatchIDs, {"empty", "none"}}, "error": {file.ErrorIDs, {"elsewhere", "hook", "outside", "stale"}}, "incomplete": {file.IncompleteIDs, {"left"}}} {
		if !slices.Equal(lists[0], lists[1]) {
			t.Errorf("%s: %v, want %v", name, lists[0], lists[1])
		}
	}
	if file.SchemaVersion != 2 || file.SubmittedInstances != len(cases) || file.CompletedInstances != 4 || file.TotalInstances != len(cases)+1 {
		t.Errorf("counts: %+v", file)
	}
	rep, err := evidence.ReadReport([]byte(fileText(t, filepath.Join(out, "good", evidence.ReportFile))))
	if err != nil || rep.CaseID != "good" || rep.Checked == nil || !slices.Equal(rep.Checked.Authors, []evidence.Author{{Name: "acme/good"}}) {
		t.Errorf("the session of the good one: %v, %+v", err, rep)
	}
	audited(t, t.TempDir(), filepath.Join(out, "good", "BUNDLE.zip"))
}

// TestPredictionFlags: nothing of a run with an engine goes with the predictions of a file.
func TestPredictionFlags(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--repos .":             "--predictions",
		"--predictions p.jsonl": "--repos DIR",
		"--predictions p.jsonl --repos . --engine codex":     "no engine",
		"--predictions p.jsonl --repos . --allow **":         "no engine",
		"--predictions p.jsonl --repos . --issue i.md":       "no engine",
		"--predictions p.jsonl --repos . --approve":          "no engine",
		"--predictions p.jsonl --repos . --repeat 0":         "--repeat 0",
		"--predictions p.jsonl --repos . -- ./fix.sh":        "no command",
		"--predictions p.jsonl --repos . --base HEAD~1":      "its rules from the base",
		"--predictions p.jsonl --repos . --nexus http://a.b": "no engine",
	} {
		plainWords(t, usageText(t, append([]string{"run"}, strings.Fields(line)...)...), want)
	}
}
