package main

import (
	"fmt"
	"io"

	"remit/proof/evidence"
	"remit/work/harness"
)

// report prints what came of the run and returns its exit code.
func (a *app) report(w io.Writer, out *harness.Outcome, dir string) error {
	if dir != "" {
		if err := exportRun(out.Session, dir); err != nil {
			return err
		}
	}
	nexusRun, err := out.Session.NexusRun()
	if err != nil {
		return err
	}
	if a.json {
		if err := printJSON(w, runResult{out.Report, out.Session.Dir, evidence.ExitCode(out.Report.Status), nexusRun}); err != nil {
			return err
		}
	} else {
		printReport(w, out.Session, out.Report)
		printNext(w, out)
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
}

func printNext(w io.Writer, out *harness.Outcome) {
	id := out.Session.ID
	fmt.Fprintf(w, "\nNext:\n  remit diff %s\n  remit logs %s\n  remit audit %s\n", id, id, out.Session.Dir)
	if out.Report.Status == evidence.StatusPass {
		fmt.Fprintf(w, "  remit accept %s && remit export %s --to branch\n", id, id)
	}
}
