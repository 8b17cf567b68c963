package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/law/board"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/harness"
)

const aRecord = `---
name: brief
tier: local
status: validated
owner: ann
source: the first meeting
created: 2026-05-31
last_reviewed: 2026-06-01
review_by: 9999-01-01
lifecycle_classification: planning
core_promotion_status: not-promoted
description: What is to be built.
---
Nothing is activated by this text.
`

// recordsAt writes a folder of records without a finding.
func recordsAt(t *testing.T, dir string) {
	t.Helper()
	report := `{"schema":"remit.audit.v1","status":"pass"}`
	for name, text := range map[string]string{
		"brief.md":  aRecord,
		"pass.json": report,
		board.WorkboardFile: "required_statements: [Nothing is activated by this text.]\nitems:\n  - id: W-1\n    title: The brief\n    type: AFK\n    status: validated\n" +
			"    validator: remit records check .\n    evidence:\n      - {path: brief.md, sha256: '" + canon.Digest([]byte(aRecord)) + "'}\n" +
			"      - {path: pass.json, sha256: '" + canon.Digest([]byte(report)) + "', claims: pass}\n",
	} {
		writeText(t, filepath.Join(dir, name), text)
	}
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// judged runs a command that has a verdict, in process: its exit code and document.
func judged(t *testing.T, home string, args ...string) (code int, document []byte) {
	t.Helper()
	at := func() (harness.Home, error) { return harness.Home{Dir: home}, nil }
	root := newRootAt(at, nil)
	var out bytes.Buffer
	root.SetOut(&out)
	speakJSON(root)
	root.SetArgs(append([]string{"--json"}, args...))
	if err := execute(t.Context(), root, at); err != nil {
		if verdict, ok := errors.AsType[exitCode](err); ok {
			return int(verdict), out.Bytes()
		}
		code = printError(io.Discard, err)
		if err := printJSON(&out, documentOf(err, code)); err != nil {
			t.Fatal(err)
		}
	}
	return code, out.Bytes()
}

// TestRecordsCheck: the command judges by its exit code, and prints no key.
func TestRecordsCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recordsAt(t, dir)
	var rep board.Report
	if code, out := judged(t, t.TempDir(), "records", "check", dir); code != 0 || json.Unmarshal(out, &rep) != nil || !rep.OK || rep.Checked.Records != 1 {
		t.Fatalf("%d\n%s", code, out)
	}
	key := "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	writeText(t, filepath.Join(dir, "notes.txt"), "the key is\n"+key+"\n")
	code, out := judged(t, t.TempDir(), "records", "check", dir)
	if json.Unmarshal(out, &rep) != nil || code != 2 || rep.ExitCode != 2 || strings.Contains(string(out), key) ||
		!slices.ContainsFunc(rep.Findings, func(f board.Finding) bool { return f.File == "notes.txt" && f.Line == 2 && f.Code == reason.SecretLeak }) {
		t.Errorf("%d\n%s", code, out)
	}
	if code, _ := judged(t, t.TempDir(), "records", "check", filepath.Join(dir, "none")); code != 3 {
		t.Errorf("a folder that is not there: %d", code)
	}
}
