package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/law/board"
	"remit/law/ladder"
	"remit/law/task"
	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/session"
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
	at := func() (session.Home, error) { return session.Home{Dir: home}, nil }
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

// guardOf runs the guard over a repository.
func guardOf(t *testing.T, home, repo string) (code int, g ladder.Guard) {
	t.Helper()
	code, out := judged(t, home, "ladder", "guard", "--repo", repo)
	if err := json.Unmarshal(out, &g); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return code, g
}

// TestGuard: whatever is open or unclear blocks, and the guard changes nothing.
func TestGuard(t *testing.T) {
	t.Parallel()
	repo, home := gitRepo(t, map[string]string{"a.txt": "a\n"}), t.TempDir()
	before := snapshotOf(t, repo)
	code, g := guardOf(t, home, repo)
	if code != 0 || !g.Passed() || g.RouteAdmission != ladder.RouteAdmissible || g.BlockedReason != nil || g.NextAllowedAction != ladder.NextOpen ||
		g.Reserved || g.RuntimeDefault || g.CorePromotionStatus != ladder.NotPromoted || !g.IdleRequired || !g.NoWorktreeRequired || !g.DoNotTouch {
		t.Fatalf("%d %+v", code, g)
	}
	if after := snapshotOf(t, repo); after != before {
		t.Errorf("the guard changed the repository:\n%s\n%s", before, after)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("the guard made %v (%v)", entries, err)
	}
	for _, test := range []struct {
		name  string
		plant func(t *testing.T, repo, home string)
		check string
		code  reason.Code
	}{
		{"uncommitted change", func(t *testing.T, repo, _ string) { writeText(t, filepath.Join(repo, "a.txt"), "b\n") }, ladder.GuardTree, reason.ConflictingWork},
		{"merge", func(t *testing.T, repo, _ string) { writeText(t, filepath.Join(repo, ".git", "MERGE_HEAD"), "x\n") }, ladder.GuardTree, reason.ConflictingWork},
		{"index lock", func(t *testing.T, repo, _ string) { writeText(t, filepath.Join(repo, ".git", "index.lock"), "") }, ladder.GuardTree, reason.ConflictingWork},
		{"worktree", func(t *testing.T, repo, _ string) {
			gitIn(t, repo, "worktree", "add", "-q", "-b", "other", filepath.Join(t.TempDir(), "other"))
		}, ladder.GuardWorktrees, reason.ConflictingWork},
		{"worktree that is gone", func(t *testing.T, repo, _ string) {
			writeText(t, filepath.Join(repo, ".git", "worktrees", "x", "gitdir"), filepath.Join(t.TempDir(), "gone", ".git")+"\n")
		}, ladder.GuardOwnership, reason.ConflictingWork},
		{"worktree without a place", func(t *testing.T, repo, _ string) {
			writeText(t, filepath.Join(repo, ".git", "worktrees", "x", "gitdir"), "")
		}, ladder.GuardOwnership, reason.OwnershipUnclear},
		{"session", func(t *testing.T, repo, home string) {
			writeText(t, filepath.Join(home, ".autopilot", "sessions", "20260101T000000Z-x", "journal.jsonl"), "")
			if err := (session.Home{Dir: home}).SaveLocal("20260101T000000Z-x", session.Local{Repo: filepath.Join(repo, ".")}); err != nil {
				t.Fatal(err)
			}
		}, ladder.GuardSessions, reason.ConflictingWork},
		{"session of an unknown repository", func(t *testing.T, _, home string) {
			writeText(t, filepath.Join(home, ".autopilot", "sessions", "20260101T000000Z-x", "journal.jsonl"), "")
		}, ladder.GuardSessions, reason.OwnershipUnclear},
		{"run at the authority", func(t *testing.T, repo, home string) {
			atAuthority(t, repo, home, func(c *api.Client, ref string) error {
				_, err := newRun(t.Context(), c, api.RunRequest{RepoRef: ref})
				return err
			})
		}, ladder.GuardJobs, reason.ConflictingWork},
		{"open approval", func(t *testing.T, repo, home string) {
			contract, err := task.Parse("task.yaml", []byte(aTask))
			if err != nil {
				t.Fatal(err)
			}
			text, err := contract.Canonical()
			if err != nil {
				t.Fatal(err)
			}
			atAuthority(t, repo, home, func(c *api.Client, ref string) error {
				_, err := api.RequestApproval.Do(t.Context(), c, api.NewKey(), api.None{}, api.ApprovalRequest{Contract: string(text), RepoRef: ref})
				return err
			})
		}, ladder.GuardApprovals, reason.ConflictingWork},
		{"authority that cannot be asked", func(t *testing.T, _, home string) {
			writeText(t, filepath.Join(home, "authority", "nexus.db"), "no database\n")
		}, ladder.GuardJobs, reason.OwnershipUnclear},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			repo, home := gitRepo(t, map[string]string{"a.txt": "a\n"}), t.TempDir()
			test.plant(t, repo, home)
			code, g := guardOf(t, home, repo)
			if code != 3 || g.Passed() || g.RouteAdmission != ladder.RouteNotAdmitted || *g.BlockedReason != test.code || g.NextAllowedAction != ladder.NextWait {
				t.Fatalf("%d %+v", code, g)
			}
			for _, c := range g.Checks {
				if (c.Name == test.check) == (c.Status == ladder.CheckClear) && test.name != "worktree that is gone" {
					t.Errorf("%s is %s\n%+v", c.Name, c.Status, g.OpenWork)
				}
			}
		})
	}
}

const aTask = `task_id: t-1
title: A task
instructions: Do it.
risk_class: low
allowed_paths: [a.txt]
forbidden_paths: []
forbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, authority_mutation]
mutation_mode: copied-repo
approval_required: true
verification_commands: ["true"]
`

// atAuthority does something at the authority of a home, which calls the
// repository by a name.
func atAuthority(t *testing.T, repo, home string, do func(c *api.Client, ref string) error) {
	t.Helper()
	conn, err := (&app{home: session.Home{Dir: home}}).ownAuthority("")(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ref, err := (&runFlags{repo: repo}).repositoryAt("")
	if err == nil {
		err = do(conn.Client, ref)
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// gitIn runs git in a repository, and returns what it prints.
func gitIn(t *testing.T, repo string, words ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", repo}, words...)...)
	cmd.Env = plainEnv()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", words, err, out)
	}
	return strings.TrimSpace(string(out))
}

// snapshotOf lists every file of a directory with its size, mode and time.
func snapshotOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	if err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		fmt.Fprintln(&b, name, info.Mode(), info.Size(), info.ModTime())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
