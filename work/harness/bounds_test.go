package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine/command"
	"remit/work/sandbox"
	"remit/work/session"
	"remit/work/tree"
)

// realSandbox is the driver of this machine; without one the test is skipped,
// and says so.
func realSandbox(t *testing.T) sandbox.Driver {
	t.Helper()
	d, err := sandbox.Open(t.Context(), sandbox.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	return d
}

// patchOf reads the patch of a session and what its journal says of it.
func patchOf(t *testing.T, s session.Session) (text string, step *journal.Entry) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Dir, evidence.PatchFile))
	if err != nil {
		t.Fatal(err)
	}
	log, err := journal.ReadFile(s.Journal())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log.Entries {
		if e.Name == evidence.StepPatch && e.Status != journal.Started {
			step = &e
		}
	}
	return string(raw), step
}

// TestTooManyChanges: a change of 25,000 files, really made in the sandbox, ends
// the run as failed. It says how many there were, keeps the edit that the agent
// meant, and the bundle of it audits.
func TestTooManyChanges(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	repo := newRepo(t, map[string]string{"z.txt": "a\n"})
	req := newRun(t, repo, nil, nil)
	req.Sandbox = realSandbox(t)
	req.Engine = &command.Engine{Argv: []string{"sh", "-c", "mkdir d && cd d && seq 25000 | split -a 4 -l 1 - f && echo meant >../z.txt"}, Dir: "/"}
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	rep := out.Report
	if rep.Status != evidence.StatusFail || len(rep.Blockers) == 0 || rep.Blockers[0].Code != reason.ChangeTooLarge ||
		!strings.Contains(rep.Blockers[0].Message, "25001 path(s), more than the 20000") {
		t.Errorf("%s: %+v", rep.Status, rep.Blockers)
	}
	patch, step := patchOf(t, out.Session)
	if step == nil || step.Status != journal.Failed || !strings.Contains(patch, "\n+meant\n") || strings.Count(patch, "diff --git ") != keptPaths {
		t.Errorf("the patch has %d files and %d bytes, its step is %+v", strings.Count(patch, "diff --git "), len(patch), step)
	}
	leakFree(t, out.Session)
}

// TestChangeCaps: the cap of a contract counts, for paths and for bytes, and a
// change that reaches it exactly is as good as any.
func TestChangeCaps(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", "c.txt": strings.Repeat("c\n", 600<<10)})
	files := map[string]string{"a.txt": "x\n", "n.txt": "n\n"}
	tests := []struct {
		name   string
		paths  int64
		files  map[string]string
		delete string
		want   reason.Code
		patch  bool
	}{
		{"at the cap", 2, files, "", "", true},
		{"beyond the cap", 1, files, "", reason.ChangeTooLarge, true},
		{"bytes in files", 0, map[string]string{"a.txt": strings.Repeat("x\n", 600<<10)}, "", reason.ChangeTooLarge, false},
		{"bytes in the patch only", 0, nil, "c.txt", reason.ChangeTooLarge, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := &scripted{files: test.files, deletes: test.delete}
			req := newRun(t, repo, d, talker{[]string{"tool"}})
			req.Contract.Limits.ChangedPaths, req.Contract.Limits.PatchMB = test.paths, 1
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			code := out.Report.Blockers[0].Code // this sandbox does not verify, so there is one in any case
			if code != test.want && test.want != "" || code == reason.ChangeTooLarge && test.want == "" {
				t.Errorf("%+v", out.Report.Blockers)
			}
			if patch, _ := patchOf(t, out.Session); (patch != "") != test.patch || test.patch && !strings.Contains(patch, "+x\n") {
				t.Errorf("patch %.200q", patch)
			}
			leakFree(t, out.Session)
		})
	}
}

// TestLostChangesAreNotNoChanges: when the changes could not be read, the
// evidence does not say that there were none.
func TestLostChangesAreNotNoChanges(t *testing.T) {
	t.Parallel()
	lost := reason.Errorf(reason.ArtifactWriteFailure, "sandbox: collect changes: %w", &tree.Incomplete{Seen: 812, Err: errors.New("no space left on device")})
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &scripted{fails: lost}, talker{[]string{"tool"}})
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if _, step := patchOf(t, out.Session); step != nil {
		t.Errorf("a patch was captured: %+v", step)
	}
	b := out.Report.Blockers[0]
	if b.Code != reason.ArtifactWriteFailure || !strings.Contains(b.Message, "after 812 changed path(s)") {
		t.Errorf("%+v", b)
	}
	leakFree(t, out.Session)
}

// TestKeepingWorkOnAFullDisk: the patch is tried again with the room that was
// reserved for the journal, so nothing that writes to the journal goes on beside it.
func TestKeepingWorkOnAFullDisk(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	req := fixing(t, repo, realSandbox(t), "echo x >>a.txt")
	req.Contract.VerificationCommands = []string{"sleep 600"} // the baseline goes on until it is ended
	var tries, ended int
	inTheWay := func(s session.Session) string { return filepath.Join(s.Dir, evidence.PatchFile) }
	req.JournalHook = func(s journal.Step) []journal.Step {
		list, err := req.Home.List()
		switch {
		case err == nil && len(list) == 1 && s.Name == evidence.StepPatch && s.Status == journal.Started:
			if tries++; tries == 1 {
				err = os.WriteFile(inTheWay(list[0]), nil, 0o600)
			} else {
				err = os.Remove(inTheWay(list[0]))
				if ended == 0 {
					t.Error("the baseline is still being verified when the patch is tried again")
				}
			}
		case s.Name == evidence.StepVerifyBase && s.Status != journal.Started:
			ended++
		}
		if err != nil {
			t.Error(err)
		}
		return []journal.Step{s}
	}
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if patch, _ := patchOf(t, out.Session); tries != 2 || ended != 1 || !strings.Contains(patch, "+x\n") {
		t.Errorf("%d tries, %d ends of the baseline, patch %q", tries, ended, patch)
	}
	if b := out.Report.Blockers[0]; b.Code != reason.ArtifactWriteFailure {
		t.Errorf("%+v", b)
	}
	audited(t, out.Session)
}

// TestHostWorkHasADeadline: the time of the host's work follows the contract,
// has a floor, and its end is a code and no mere cancellation.
func TestHostWorkHasADeadline(t *testing.T) {
	t.Parallel()
	r := &run{Request: newRun(t, "", nil, nil)}
	if got := r.hostTime(); got != leastHostTime {
		t.Errorf("%s", got)
	}
	wall := int64(1)
	if r.Contract.Budget.WallSeconds = &wall; r.hostTime() != leastHostTime {
		t.Errorf("%s", r.hostTime())
	}
	if wall = 3600; r.hostTime() != time.Hour {
		t.Errorf("%s", r.hostTime())
	}
	ctx, cancel := r.onHost(t.Context(), "applying the patch")
	defer cancel()
	if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Hour || time.Until(at) < time.Hour/2 {
		t.Errorf("%v, %v", at, ok)
	}
	over, stop := context.WithTimeoutCause(t.Context(), 0, reason.Errorf(reason.Timeout, "applying the patch took longer than 2m0s"))
	defer stop()
	<-over.Done()
	if err := fmt.Errorf("git apply: %w", context.Cause(over)); reason.StatusOf(reason.CodeOf(err)) != reason.Blocked {
		t.Errorf("%v", err)
	}
}

// TestHomeThatCannotBeWritten is refused with its path and a code.
func TestHomeThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := &scripted{}
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n"}), d, talker{[]string{"tool"}})
	req.Home = session.Home{Dir: filepath.Join(file, "home")}
	_, err := Run(t.Context(), req)
	var e *reason.Error
	if !errors.As(err, &e) || e.Code != reason.HomeUnusable || e.File != req.Home.Dir || e.Hint == "" || d.started {
		t.Errorf("%v", err)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) {
		t.Errorf("another cause: %v", err)
	}
}
