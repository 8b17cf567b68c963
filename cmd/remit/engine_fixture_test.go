package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"remit/proof/evidence"
)

const (
	shipped     = "../../fixtures/r1-slugify-punctuation/python"
	shippedFile = "slugify.py"
)

// fixtureRow is an agent that repairs a shipped fixture, with its issue as the
// task, and whose evidence both verifiers judge.
var fixtureRow = engineRow{
	name: "repairs a shipped fixture", every: adapters, want: want{status: evidence.StatusPass, changed: true}, changed: shippedFile,
	policy: object{"verification_commands": []string{"python3 -m unittest -v"}},
	files: func(t *testing.T) map[string]string {
		all := map[string]string{}
		entries, err := os.ReadDir(filepath.Join(shipped, "repo"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(shipped, "repo", e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all[e.Name()] = string(text)
		}
		return all
	},
	args: func(*drive) []string { return []string{"--issue", filepath.Join(shipped, "ISSUE.md")} },
	turns: func(d *drive) []object {
		was, fixed := fixedFile(d.T, shipped, shippedFile)
		look := does(d.agent.shell("(sh -c 'sleep 999; exit 1' /workspace/" + d.marker + " >/dev/null 2>&1 &); cat " + shippedFile))
		return slices.Concat([]object{look}, d.agent.write(shippedFile, was, fixed), []object{does(d.agent.shell("python3 -m unittest"))})
	},
	check: func(d *drive) { d.repaired() },
}

// repaired: a test turned green, each call of the agent is in the receipt with
// its outcome, the change that was proved is paid, and the bundle stands on its
// own.
func (d *drive) repaired() {
	d.Helper()
	var rc evidence.Receipt
	if err := evidence.DecodeReceipt(d.file(evidence.ReceiptFile), &rc); err != nil {
		d.Error(err)
	}
	calls := len(d.row.turns(d))
	if len(rc.ToolCalls) != calls || rc.Verification.VerificationDelta < 1 || rc.Status != evidence.StatusPass || len(rc.Payments) == 0 {
		d.Errorf("%d tool calls of %d, delta %d, status %s, %d payments", len(rc.ToolCalls), calls, rc.Verification.VerificationDelta, rc.Status, len(rc.Payments))
	}
	for _, c := range rc.ToolCalls {
		if !c.OK {
			d.Errorf("call %s of %s failed", c.ID, c.Tool)
		}
	}
	if d.rep.Usage.Requests != int64(calls)+2 { // the gateway's own, and the last word
		d.Errorf("%d requests for %d calls", d.rep.Usage.Requests, calls)
	}
	zip := d.bundle()
	if out, err := d.agent.remit(d.T, d.home, "audit", zip).CombinedOutput(); err != nil {
		d.Errorf("audit: %v\n%s", err, out)
	}
	if python, err := exec.LookPath("python3"); err != nil {
		d.Errorf("no python3: the second verifier did not judge the bundle")
	} else if out, err := exec.Command(python, filepath.Join("..", "..", "vectors", "verify.py"), zip).CombinedOutput(); err != nil {
		d.Errorf("verify.py: %v\n%s", err, out)
	}
}
