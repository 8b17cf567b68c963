package harness

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine/command"
	"remit/work/session"
)

// hangs is an engine that runs a line of shell.
func hangs(t *testing.T, req *Request, line string, allow bool, idle, wall int64) {
	t.Helper()
	req.Sandbox = realSandbox(t)
	req.Engine = &command.Engine{Argv: []string{"sh", "-c", line}, Dir: "/"}
	if req.Contract.VerificationCommands = []string{"grep -q good a.txt"}; allow {
		req.Contract.Lifecycle.TimeoutAfterValidPatch = task.LifecycleAllow
	}
	if req.Contract.Budget.WallSeconds = &wall; idle > 0 {
		req.Contract.Budget.IdleSeconds = &idle
	}
}

// TestLifecycle: what becomes of a run whose engine had to be stopped depends on
// its change and on its contract, and on nothing that the engine says.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 8)
	repo := newRepo(t, map[string]string{"a.txt": "bad\n"})
	const fix = "echo good >a.txt; "
	tests := []struct {
		name, line string
		allow      bool
		idle, wall int64
		status     string
		codes      string // of the blockers
		said       string // stopped, of the report
		marker     string
	}{
		{"hangs after its work", fix + "trap '' TERM INT; sleep 600", false, 0, 2, "blocked", "lifecycle_timeout_after_valid_patch", "wall", "provider-lifecycle-timeout.txt"},
		{"talks all the time, and that is allowed", fix + "while :; do echo x; sleep 0.2; done", true, 60, 2, "pass", "", "wall", ""},
		{"falls silent, and that is allowed", fix + "echo done; exec sleep 600", true, 2, 60, "pass", "", "idle", ""},
		{"its work is wrong", "echo worse >a.txt; exec sleep 600", true, 2, 60, "blocked", "timeout verification_failed", "idle", "provider-timeout.txt"},
		{"it did what it may not", fix + "echo x >forbidden; exec sleep 600", true, 2, 60, "blocked", "timeout disallowed_file_change", "idle", "provider-timeout.txt"},
		{"it left what is no patch", fix + "mkfifo p; exec sleep 600", true, 2, 60, "blocked", "timeout dirty_ending_tree", "idle", "provider-timeout.txt"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			req := newRun(t, repo, nil, nil)
			req.Contract.ForbiddenPaths = []string{"forbidden"}
			hangs(t, &req, test.line, test.allow, test.idle, test.wall)
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			rep := out.Report
			var codes []string
			for _, b := range rep.Blockers {
				codes = append(codes, string(b.Code))
			}
			if got := strings.Join(codes, " "); rep.Status != test.status || got != test.codes {
				t.Errorf("%s: %s, want %s: %s", rep.Status, got, test.status, test.codes)
			}
			l := rep.Lifecycle
			if (l == nil) != (test.said == "") || l != nil && (l.Stopped != test.said || l.Allowed != (test.status == "pass") || l.Verified != (test.status == "pass" || codes[0] != "timeout")) {
				t.Errorf("said: %+v", l)
			}
			patch, _ := patchOf(t, out.Session)
			if strings.HasPrefix(test.line, fix) != strings.Contains(patch, "+good") {
				t.Errorf("the work is not kept as it was: %q", patch)
			}
			summary, err := os.ReadFile(filepath.Join(out.Session.Dir, evidence.SummaryFile))
			if err != nil || strings.Contains(string(summary), "did not end by itself") != (test.said != "") {
				t.Errorf("%v\n%s", err, summary)
			}
			if _, err := os.Stat(filepath.Join(out.Session.Dir, evidence.BackendDir, test.marker)); err != nil {
				t.Error(err)
			}
			leakFree(t, out.Session)
			if test.codes == "" || test.codes == string(reason.LifecycleTimeout) {
				resumedToo(t, req, out)
			}
		})
	}
}

// resumedToo: a run that is cut off after its engine was stopped comes to the
// same end when it is taken up again.
func resumedToo(t *testing.T, req Request, out *Outcome) {
	t.Helper()
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		t.Fatal(err)
	}
	for _, until := range []string{evidence.StepWrites, evidence.StepLifecycle} {
		cut := cutSession(t, req.Home, out.Session, log.Entries, until)
		again, err := Resume(t.Context(), Resumption{Home: req.Home, Session: cut, Sandbox: req.Sandbox})
		if err != nil {
			t.Fatalf("%s: %v", until, err)
		}
		switch rep := again.Report; {
		case until == evidence.StepLifecycle && out.Report.Status == evidence.StatusPass:
			if rep.Status != evidence.StatusBlocked || rep.Blockers[0].Code != reason.Interrupted {
				t.Errorf("cut off at its verdict: %s %+v", rep.Status, rep.Blockers)
			}
		case rep.Status != out.Report.Status || rep.Lifecycle == nil || *rep.Lifecycle != *out.Report.Lifecycle:
			t.Errorf("cut off after %s: %s %+v, %+v", until, rep.Status, rep.Blockers, rep.Lifecycle)
		}
		leakFree(t, cut)
	}
}

// TestIdleIsNotCancel: an engine that is cancelled is that, also with a limit on
// silence.
func TestIdleIsNotCancel(t *testing.T) {
	t.Parallel()
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "bad\n"}), nil, nil)
	hangs(t, &req, "echo good >a.txt; echo ready; exec sleep 600", true, 300, 300)
	ctx, cancel := context.WithCancel(t.Context())
	req.Progress = onOutput(func(line string) {
		if line == "ready" {
			cancel()
		}
	})
	out, err := Run(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if rep := out.Report; rep.Status != evidence.StatusBlocked || rep.Blockers[0].Code != reason.Cancelled || rep.Lifecycle != nil {
		t.Errorf("%s: %+v, %+v", rep.Status, rep.Blockers, rep.Lifecycle)
	}
}

type onOutput func(string)

func (onOutput) Step(string, string, string) {}
func (f onOutput) Output(line string)        { f(line) }

// cutSession is a session as it was when its machine stopped right after a step.
func cutSession(t *testing.T, home session.Home, s session.Session, entries []journal.Entry, until string) session.Session {
	t.Helper()
	return cutAfter(t, home, s, 1+slices.IndexFunc(entries, func(e journal.Entry) bool { return e.Name == until }))
}

// cutAfter is a session as it was when its journal had so many entries.
func cutAfter(t *testing.T, home session.Home, s session.Session, n int) session.Session {
	t.Helper()
	id := s.ID
	dir := filepath.Join(t.TempDir(), id)
	if err := os.CopyFS(dir, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(s.Journal())
	if err != nil {
		t.Fatal(err)
	}
	kept := strings.SplitAfter(string(lines), "\n")[:n]
	cut := session.Session{ID: id, Dir: dir}
	if err := os.WriteFile(cut.Journal(), []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := home.LoadLocal(id); err != nil {
		t.Fatal(err)
	}
	return cut
}
