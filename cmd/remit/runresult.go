package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/harness"
)

// report prints what came of the run and returns its exit code.
func (a *app) report(w io.Writer, out *harness.Outcome, dir string, times *harness.Timeline) error {
	if dir != "" {
		if err := exportRun(out.Session, dir); err != nil {
			return err
		}
	}
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		return err
	}
	approval, open := harness.ApprovalOf(log.Entries)
	if a.json {
		doc := runResult{Report: out.Report, SessionDir: out.Session.Dir, ExitCode: evidence.ExitCode(out.Report.Status), NexusRunID: harness.NexusRun(log.Entries), ApprovalID: approval, Timing: times.Spans()}
		doc.signed(os.Stderr, out.Session)
		if err := printJSON(w, doc); err != nil {
			return err
		}
	} else {
		printReport(w, out.Session, out.Report)
		saySigned(w, os.Stderr, out.Session)
		printNext(w, out)
		if open {
			a.printToDecide(w, out.Session, approval)
		}
		printTimeline(w, times)
	}
	if code := evidence.ExitCode(out.Report.Status); code != 0 {
		return exitCode(code)
	}
	return nil
}

// runResult is the JSON document of remit run and remit show.
type runResult struct {
	*evidence.Report
	SessionDir string `json:"session_dir"`
	ExitCode   int    `json:"exit_code"`
	NexusRunID string `json:"nexus_run_id,omitempty"` // the run's id at the authority
	ApprovalID string `json:"approval_id,omitempty"`  // that the authority was asked for
	SignedBy   string `json:"signed_by,omitempty"`    // fingerprint of the key that has signed the bundle
	Unsigned   string `json:"unsigned,omitempty"`     // why none has
	// Timing is where the time of this run went, with --timing.
	Timing []harness.Span `json:"timing,omitempty"`
}

// timeline is nil without --timing.
func (f *runFlags) timeline() *harness.Timeline {
	if !f.timing {
		return nil
	}
	return harness.NewTimeline(processStart)
}

// printTimeline prints one line a step of the run, in milliseconds.
func printTimeline(w io.Writer, times *harness.Timeline) {
	if times == nil {
		return
	}
	fmt.Fprintf(w, "\nTimeline (ms; steps side by side overlap):\n%9s %9s\n", "start", "took")
	for _, s := range times.Spans() {
		fmt.Fprintf(w, "%9.1f %9.1f  %s\n", s.StartMS, s.TookMS, s.Name)
	}
	fmt.Fprintf(w, "%9.1f %9s  end\n", times.Elapsed(), "")
}

// signed fills in who has signed the bundle, or why it has no signature.
func (r *runResult) signed(warn io.Writer, s harness.Session) {
	var err error
	if r.SignedBy, err = s.Signature(); err != nil {
		r.Unsigned = err.Error()
		warnUnsigned(warn, err)
	}
}

// printToDecide says how to go on from a run that nobody had approved.
func (a *app) printToDecide(w io.Writer, s harness.Session, approval string) {
	local, err := a.home.LoadLocal(s.ID)
	if err == nil && local.Nexus != "" {
		approval += " --nexus " + local.Nexus
	}
	fmt.Fprintf(w, "  remit approve %s   # or deny; then start the run again: this session is sealed\n", plain(approval))
}

func printNext(w io.Writer, out *harness.Outcome) {
	id, remit := out.Session.ID, shellWord(calledAs(os.Args[0]))
	fmt.Fprintln(w, "\nNext:")
	if len(out.Report.ChangedFiles) > 0 {
		fmt.Fprintf(w, "  %s diff %s\n", remit, id)
	}
	fmt.Fprintf(w, "  %[1]s logs %[2]s\n  %[1]s audit %[3]s\n", remit, id, shellWord(out.Session.Dir))
	switch {
	case out.Report.Status != evidence.StatusPass || out.Report.OperatorOutcome == harness.Rejected:
	case out.Report.OperatorOutcome == harness.Accepted:
		fmt.Fprintf(w, "  %s export %s --to branch\n", remit, id)
	default:
		fmt.Fprintf(w, "  %[1]s accept %[2]s && %[1]s export %[2]s --to branch\n", remit, id)
	}
}

// calledAs is how this program can be called again: by its name where the PATH
// leads to it, else as it was called.
func calledAs(arg0 string) string {
	const name = "remit"
	found, err := exec.LookPath(name)
	if err != nil {
		return arg0
	}
	self, err := os.Executable()
	if err != nil {
		return arg0
	}
	a, errA := os.Stat(found)
	b, errB := os.Stat(self)
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		return arg0
	}
	return name
}
