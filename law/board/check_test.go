//test:plain-package It only reads files: there is one goroutine.

package board

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"remit/proof/canon"
	"remit/proof/reason"
)

var today = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const record = `---
name: brief
tier: local
status: validated
owner: jp
source: conversation
created: 2026-05-31
last_reviewed: 2026-06-01
lifecycle_classification: planning
core_promotion_status: not-promoted
description: What is to be built.
---

# Brief

Local planning only. Runtime default
activation remains false.

- focused check status: pass
`

const passReport = `{"schema":"remit.audit.v1","status":"pass"}`

// folderOf writes files, and a workboard whose items stand in the text.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// sound are the files of a folder without a finding.
func sound() map[string]string {
	return map[string]string{
		"brief.md":      record,
		"out/pass.json": passReport,
		WorkboardFile: fmt.Sprintf(`required_statements:
  - Runtime default activation remains false.
items:
  - id: W-1
    title: The brief
    type: AFK
    status: validated
    validator: remit records check .
    evidence:
      - path: brief.md
        sha256: %s
      - path: out/pass.json
        sha256: %s
        claims: pass
  - id: W-2
    title: The next
    type: HITL
    status: candidate
    blocked_by: [W-1]
    validator: remit health
`, canon.Digest([]byte(record)), canon.Digest([]byte(passReport))),
	}
}

func TestSoundFolder(t *testing.T) {
	t.Parallel()
	rep, err := Check(folderOf(t, sound()), today)
	if err != nil || !rep.OK || rep.Status != "pass" || rep.ExitCode != 0 || len(rep.Findings) > 0 {
		t.Fatalf("%v %+v", err, rep)
	}
	if rep.Checked != (Checked{Files: 3, Records: 1, Items: 2, Evidence: 2}) {
		t.Errorf("%+v", rep.Checked)
	}
}

// TestFindings plants one fault at a time and expects it by file, line, rule and
// code.
func TestFindings(t *testing.T) {
	t.Parallel()
	key := "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	for _, test := range []struct {
		name, file, old, replaced string
		line                      int // of the finding, -1: any
		at                        string
		rule                      string
		code                      reason.Code
	}{
		{"no front matter", "brief.md", "---\nname", "name", 1, "", "record.front_matter", reason.RecordInvalid},
		{"open front matter", "brief.md", "built.\n---\n", "built.\n", 1, "", "record.front_matter", reason.RecordInvalid},
		{"missing field", "brief.md", "owner: jp\n", "", 2, "", "record.fields", reason.RecordInvalid},
		{"unknown field", "brief.md", "tier: local", "tier: local\ncolour: red", 4, "", "record.fields", reason.RecordInvalid},
		{"field twice", "brief.md", "tier: local", "tier: local\ntier: local", 4, "", "record.fields", reason.RecordInvalid},
		{"empty field", "brief.md", "owner: jp", `owner: ""`, 5, "", "record.fields", reason.RecordInvalid},
		{"anchor", "brief.md", "owner: jp", "owner: &a jp", 5, "", "record.front_matter", reason.RecordInvalid},
		{"unknown status", "brief.md", "status: validated", "status: done", 4, "", "record.fields", reason.RecordInvalid},
		{"promoted", "brief.md", "not-promoted", "promoted", 10, "", "record.fields", reason.RecordInvalid},
		{"no day", "brief.md", "2026-06-01", "yesterday", 8, "", "record.fields", reason.RecordInvalid},
		{"reviewed before it was created", "brief.md", "2026-06-01", "2026-05-01", 8, "", "record.fields", reason.RecordInvalid},
		{"from the future", "brief.md", "2026-06-01", "2027-06-01", 8, "", "record.fields", reason.RecordInvalid},
		{"old review", "brief.md", "created: 2026-05-31\nlast_reviewed: 2026-06-01", "created: 2024-05-31\nlast_reviewed: 2025-06-01", 8, "", "record.review", reason.ReviewOverdue},
		{"past its review", "brief.md", "tier: local", "tier: local\nreview_by: 2026-11-20", 9, "", "record.review", reason.ReviewOverdue},
		{"statement gone", "brief.md", "remains false", "remains off", 13, "", "record.statement", reason.StatementMissing},
		{"activated", "brief.md", "- focused", "- `runtime_default_activation`: true\n- focused", 19, "", "record.activation", reason.RecordInvalid},
		{"key in a record", "brief.md", "- focused", key + "\n- focused", 19, "", "secret.shape", reason.SecretLeak},
		{"key in the workboard", WorkboardFile, "The next", key, 16, "", "secret.shape", reason.SecretLeak},
		{"no workboard", WorkboardFile, "", "", 0, "", "workboard.there", reason.WorkboardInvalid},
		{"no YAML", WorkboardFile, "items:", "items: [", -1, "", "workboard.syntax", reason.WorkboardInvalid},
		{"no statements", WorkboardFile, "  - Runtime default activation remains false.\n", "", 1, "", "workboard.fields", reason.WorkboardInvalid},
		{"unknown type", WorkboardFile, "type: HITL", "type: MAYBE", 17, "", "workboard.fields", reason.WorkboardInvalid},
		{"no validator", WorkboardFile, "    validator: remit health\n", "", 15, "", "workboard.fields", reason.WorkboardInvalid},
		{"id twice", WorkboardFile, "id: W-2", "id: W-1", 15, "", "workboard.id", reason.WorkboardInvalid},
		{"unknown blocker", WorkboardFile, "[W-1]", "[W-9]", 19, "", "workboard.blocked_by", reason.WorkboardInvalid},
		{"cycle", WorkboardFile, "validator: remit records check .", "validator: x\n    blocked_by: [W-2]", 9, "", "workboard.cycle", reason.WorkboardCycle},
		{"waits for itself", WorkboardFile, "[W-1]", "W-2", 19, "", "workboard.cycle", reason.WorkboardCycle},
		{"validated behind a candidate", WorkboardFile, "validator: remit records check .", "validator: x\n    blocked_by: [W-2]", 7, "", "workboard.order", reason.BlockerNotValidated},
		{"item past its review", WorkboardFile, "validator: remit health", "validator: x\n    review_by: 2026-01-01", 21, "", "workboard.review", reason.ReviewOverdue},
		{"pointer out of the folder", WorkboardFile, "path: brief.md", "path: ../brief.md", 10, "", "evidence.pointer", reason.EvidenceMissing},
		{"pointer to nothing", WorkboardFile, "path: brief.md", "path: gone.md", 10, "", "evidence.pointer", reason.EvidenceMissing},
		{"digest", "out/pass.json", `"pass"`, `"pass" `, 12, WorkboardFile, "evidence.pointer", reason.EvidenceChanged},
		{"no digest", WorkboardFile, "sha256: sha256:", "sha256: md5:", 10, "", "workboard.fields", reason.WorkboardInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			files := sound()
			if changed := strings.Replace(files[test.file], test.old, test.replaced, 1); test.old == "" {
				delete(files, test.file)
			} else if changed == files[test.file] {
				t.Fatal("nothing was planted")
			} else {
				files[test.file] = changed
			}
			rep, err := Check(folderOf(t, files), today)
			if err != nil {
				t.Fatal(err)
			}
			file := test.file
			if test.at != "" {
				file = test.at
			}
			if rep.OK || rep.ExitCode != 2 || !slices.ContainsFunc(rep.Findings, func(f Finding) bool {
				return f.File == file && (test.line < 0 || f.Line == test.line) && f.Rule == test.rule && f.Code == test.code && f.Message != ""
			}) {
				t.Errorf("%+v", rep)
			}
			for _, f := range rep.Findings {
				if info, known := reason.Lookup(f.Code); !known || info.Status != reason.Fail {
					t.Errorf("%s is no code of a failure", f.Code)
				}
				if strings.Contains(f.Message, key) {
					t.Errorf("the finding repeats the key: %s", f.Message)
				}
			}
		})
	}
}

// TestPassNeedsAReport: what only looks like a pass report backs no claim.
func TestPassNeedsAReport(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"fail":         `{"schema":"remit.audit.v1","status":"fail"}`,
		"no schema":    `{"status":"pass"}`,
		"other schema": `{"schema":"acme.v1","status":"pass"}`,
		"twice":        `{"schema":"remit.audit.v1","status":"fail","status":"pass"}`,
		"other case":   `{"schema":"remit.audit.v1","status":"fail","Status":"pass"}`,
		"inside":       `{"schema":"remit.audit.v1","status":"fail","x":{"status":"pass"}}`,
		"not ok":       `{"schema":"remit.ladder.proof.v1","status":"pass","ok":false}`,
		"incomplete":   `{"schema":"remit.matrix.v1","status":"pass","complete":false}`,
		"blockers":     `{"schema":"remit.report.v1","status":"pass","blockers":[{}]}`,
		"no JSON":      `pass`,
	} {
		files := sound()
		files["out/pass.json"] = text
		files[WorkboardFile] = strings.Replace(files[WorkboardFile], canon.Digest([]byte(passReport)), canon.Digest([]byte(text)), 1)
		rep, err := Check(folderOf(t, files), today)
		if err != nil {
			t.Fatal(err)
		}
		var rules []string
		for _, f := range rep.Findings {
			if f.Code == reason.PassWithoutReport {
				rules = append(rules, f.Rule)
			}
		}
		slices.Sort(rules)
		if want := []string{"evidence.pass", "record.pass", "workboard.pass"}; !slices.Equal(rules, want) {
			t.Errorf("%s: %q, want %q\n%+v", name, rules, want, rep.Findings)
		}
	}
	files := sound() // a record that no item names
	files["other.md"] = strings.Replace(record, "name: brief", "name: other", 1)
	rep, err := Check(folderOf(t, files), today)
	if err != nil || len(rep.Findings) != 2 || rep.Findings[0].Rule != "record.validated" || rep.Findings[1].Rule != "record.pass" {
		t.Errorf("%v %+v", err, rep)
	}
}

// TestHostileFolders: links, pipes, size, depth and shape end in findings, soon.
func TestHostileFolders(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside.md")
	if err := os.WriteFile(outside, []byte(record), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(t *testing.T, dir string) error{
		"link to a file": func(_ *testing.T, dir string) error { return os.Symlink(outside, filepath.Join(dir, "link.md")) },
		"link to a directory": func(_ *testing.T, dir string) error {
			return os.Symlink(filepath.Dir(outside), filepath.Join(dir, "more"))
		},
		"link to itself": func(_ *testing.T, dir string) error { return os.Symlink(".", filepath.Join(dir, "loop")) },
		"pipe":           func(_ *testing.T, dir string) error { return syscall.Mkfifo(filepath.Join(dir, "pipe.md"), 0o644) },
		"large record": func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, "large.md"), bytes.Repeat([]byte("x"), MaxRecordBytes+1), 0o644)
		},
		"endless file": func(_ *testing.T, dir string) error {
			f, err := os.Create(filepath.Join(dir, "sparse.bin"))
			if err == nil {
				err = f.Truncate(1 << 40)
				f.Close()
			}
			return err
		},
		"deep": func(_ *testing.T, dir string) error {
			return os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", MaxDepth+2)), 0o755)
		},
		"no text": func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, "x.md"), []byte("---\nname: \x00\xff\n---\n"), 0o644)
		},
		"deep YAML": func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, "x.md"), []byte("---\nname: "+strings.Repeat("[", 100_000)+"\n---\n"), 0o644)
		},
		"key in JSON": func(_ *testing.T, dir string) error {
			text := `{"a":[{"client_secret":"of the house"}]}`
			files := sound()
			board := strings.Replace(files[WorkboardFile], "    evidence:\n", "    evidence:\n      - path: out/more.json\n        sha256: "+canon.Digest([]byte(text))+"\n", 1)
			if err := os.WriteFile(filepath.Join(dir, WorkboardFile), []byte(board), 0o644); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "out", "more.json"), []byte(text), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folderOf(t, sound())
			if err := plant(t, dir); err != nil {
				t.Fatal(err)
			}
			rep, err := Check(dir, today)
			if err != nil || rep.OK {
				t.Fatalf("%v %+v", err, rep)
			}
			for _, f := range rep.Findings {
				if strings.Contains(f.Message, "of the house") {
					t.Errorf("%+v", f)
				}
			}
		})
	}
	if _, err := Check(filepath.Join(t.TempDir(), "none"), today); reason.CodeOf(err) != reason.FileUnusable {
		t.Errorf("%v", err)
	}
}

// TestManyFindings: a report has a bound, and says how much it left out.
func TestManyFindings(t *testing.T) {
	t.Parallel()
	files := sound()
	files[WorkboardFile] = "required_statements: [a]\nitems:\n" + strings.Repeat("  - id: W-1\n", 500)
	rep, err := Check(folderOf(t, files), today)
	if err != nil || len(rep.Findings) != MaxFindings || rep.Omitted == 0 {
		t.Errorf("%v: %d findings, %d more", err, len(rep.Findings), rep.Omitted)
	}
}

func FuzzRecords(f *testing.F) {
	f.Add([]byte(record), []byte(sound()[WorkboardFile]))
	f.Fuzz(func(t *testing.T, rec, work []byte) {
		out := &findings{}
		if r := front("x.md", rec, out); r != nil {
			r.check(today, out)
			r.statements([]string{"a"}, out)
			r.claimsPass()
		} else if len(out.list) == 0 {
			t.Error("a record was refused without a finding")
		}
		if b := parseWorkboard(work, out); b != nil {
			b.check(today, out)
		}
		secretKey(rec)
		saysPass(rec)
	})
}
