package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"remit/law/ladder"
	"remit/work/matrix"
)

// TestMatrixWithoutSandbox fails closed: where nothing can be tried the exit
// code is 3, the report says why of every row, and the summary repeats it.
func TestMatrixWithoutSandbox(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cmd := cli(t, home, "ladder", "matrix", "--engine", "command", "--json")
	cmd.Env = append(slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }), "PATH=/nonexistent")
	out, _ := cmd.Output() // the exit code is looked at
	var rep matrix.Report
	if err := json.Unmarshal(out, &rep); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code := cmd.ProcessState.ExitCode(); code != 3 || rep.ExitCode != 3 || rep.Status != "blocked" || rep.Held != 0 || rep.Total != 12 {
		t.Errorf("exit %d, report %s %d, %d of %d", code, rep.Status, rep.ExitCode, rep.Held, rep.Total)
	}
	for _, row := range rep.Rows {
		if row.Tried || row.Held || !strings.Contains(row.Cases[0].Reason, "sandbox_unavailable") {
			t.Errorf("%s: %+v", row.Name, row.Cases[0])
		}
	}
	text, err := cli(t, home, "ladder", "status", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var status ladder.Status
	if err := json.Unmarshal(text, &status); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	i := slices.IndexFunc(status.Engines, func(e ladder.EngineStatus) bool { return e.Engine == "command" })
	if i < 0 || status.Engines[i].Matrix == nil || status.Engines[i].Matrix.Status != "blocked" || status.Engines[i].Matrix.Held != 0 {
		t.Errorf("status:\n%s", text)
	}
}

// TestStatusRefusesBadRecords keeps a damaged record from being shown.
func TestStatusRefusesBadRecords(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "ladder", "fake")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "matrix.json"), []byte(`{"schema":"remit.matrix.v1"`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := cli(t, home, "ladder", "status").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "matrix.json") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLadderDocument keeps the tables of docs/ladder.md equal to the data.
func TestLadderDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/ladder.md")
	if err != nil {
		t.Fatal(err)
	}
	line := func(format ...string) *regexp.Regexp {
		var parts []string
		for _, p := range format {
			parts = append(parts, regexp.QuoteMeta(p))
		}
		return regexp.MustCompile(`(?m)^` + strings.Join(parts, ".*") + `.*$`)
	}
	for _, r := range ladder.Rows() {
		codes := []string{"`" + string(r.Code) + "`"}
		for _, c := range r.Cases {
			if c.Code != "" {
				codes = append(codes, "`"+string(c.Code)+"`")
			}
		}
		want := line("| `"+r.Name+"` |", "| "+string(r.Status)+" | "+strings.Join(codes, "; ")+" | `"+r.Event+"` |")
		if !want.Match(text) {
			t.Errorf("docs/ladder.md has no row like %s", want)
		}
	}
	for _, s := range ladder.Stages() {
		want := line("| " + string(rune('0'+s.Number)) + " | " + s.Name + " | " + s.MutationScope + " |")
		if !want.Match(text) {
			t.Errorf("docs/ladder.md has no stage like %s", want)
		}
	}
}
