package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/session"
)

// sessionRow is one line of remit list.
type sessionRow struct {
	SessionID string `json:"session_id"`
	Phase     string `json:"phase"` // running, interrupted, unsealed, sealed, or damaged
	Status    string `json:"status"`
	Outcome   string `json:"operator_outcome"`
	CaseID    string `json:"case_id"`
	Engine    string `json:"backend"`
	Repo      string `json:"repository,omitempty"` // where it is on this machine
	Title     string `json:"title,omitempty"`
	StartedAt string `json:"run_started_at"`
	StoppedAt string `json:"stopped_at,omitempty"` // the last step of a run that did not end
	Problem   string `json:"problem,omitempty"`
	Dir       string `json:"session_dir"`
}

func (a *app) sessionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the sessions on this machine", Args: cobra.NoArgs, Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			sessions, err := a.home.List()
			if err != nil {
				return err
			}
			rows := make([]sessionRow, 0, len(sessions))
			for _, s := range sessions {
				rows = append(rows, a.listOne(s))
			}
			slices.Reverse(rows) // the newest first, as in `remit runs list`
			if a.json {
				return printJSON(cmd.OutOrStdout(), rows)
			}
			return printList(cmd.OutOrStdout(), rows)
		},
	}
}

// listOne never fails: a damaged session is a line that says so.
func (a *app) listOne(s session.Session) sessionRow {
	row := sessionRow{SessionID: s.ID, Dir: s.Dir}
	if local, err := a.home.LoadLocal(s.ID); err == nil { // beside the session: it may be gone
		row.Repo = local.Repo
		row.Title, _ = evidence.TitleOf(local.Contract)
	}
	st, err := s.Inspect()
	if err != nil {
		row.Phase, row.Problem = "damaged", err.Error()
		return row
	}
	row.Phase = st.Phase
	if st.Report != nil {
		row.CaseID, row.Engine, row.StartedAt, row.Outcome = st.Report.CaseID, st.Report.Backend, st.Report.RunStartedAt,
			st.Report.OperatorOutcome
	}
	switch st.Phase {
	case session.Running, session.Interrupted:
		row.StoppedAt = st.At
	default:
		row.Status = st.Report.Status
	}
	return row
}

func printList(w io.Writer, rows []sessionRow) error {
	if len(rows) == 0 {
		fmt.Fprintln(w, "No sessions. Start one with `remit run`.")
		return nil
	}
	return printTable(w, "", "SESSION\tSTATUS\tOUTCOME\tENGINE\tSTARTED\tREPOSITORY\tTITLE", rows, func(r sessionRow) string {
		status := r.Status
		switch r.Phase {
		case session.Sealed:
		case session.Unsealed:
			status += " (unsealed)"
		case "damaged":
			status = "damaged: " + plain(r.Problem)
		default:
			status = r.Phase + " at " + r.StoppedAt
		}
		repo := ""
		if r.Repo != "" {
			repo = filepath.Base(r.Repo)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", plain(r.SessionID), plain(status), plain(r.Outcome), plain(r.Engine),
			plain(r.StartedAt), plain(repo), cut(plain(r.Title)))
	})
}

// maxTitle is how much of a title a line of remit list has.
const maxTitle = 48

func cut(title string) string {
	if runes := []rune(title); len(runes) > maxTitle {
		return string(runes[:maxTitle-1]) + "…"
	}
	return title
}

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show SESSION", Short: "Show what came of a run", Args: cobra.ExactArgs(1), ValidArgsFunction: a.sessionArgs,
		Long: `Show prints the status, the blockers, the changed files and the verification of a
run. SESSION is an id, the beginning or end of one, "latest", which is the newest one of
this machine, of whichever repository, or a session directory. The exit code is that of
the run; an interrupted run is blocked.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			st, err := s.Inspect()
			if err != nil {
				return err
			}
			return a.show(cmd.OutOrStdout(), st)
		},
	}
}

func (a *app) show(w io.Writer, st *session.State) error {
	if st.Report == nil {
		return reason.Errorf(reason.Interrupted, "session %s has an empty journal: the run was stopped before its first step", st.ID)
	}
	code := evidence.ExitCode(st.Report.Status)
	ended := st.Phase == session.Sealed || st.Phase == session.Unsealed
	if st.Phase != session.Sealed && code == 0 {
		code = evidence.ExitCode(evidence.StatusBlocked) // nothing counts as passed that no audit accepts
	}
	if a.json {
		approval, _ := session.ApprovalOf(st.Log.Entries)
		doc := struct {
			runResult
			Phase     string `json:"phase"`
			StoppedAt string `json:"stopped_at,omitempty"`
			TornBytes int64  `json:"torn_bytes,omitempty"`
		}{runResult{Report: st.Report, SessionDir: st.Dir, ExitCode: code, NexusRunID: session.NexusRun(st.Log.Entries), ApprovalID: approval}, st.Phase, "", st.Log.TornBytes}
		if st.Phase == session.Sealed {
			doc.signed(io.Discard, st.Session)
		}
		if !ended {
			doc.StoppedAt = st.At
		}
		if err := printJSON(w, doc); err != nil {
			return err
		}
	} else {
		if ended {
			printReport(w, st.Session, a.namingNexus(st.Session, st.Report))
			if st.Phase == session.Sealed {
				saySigned(w, io.Discard, st.Session)
			}
		} else {
			printUnfinished(w, st)
		}
		if st.Phase == session.Unsealed {
			fmt.Fprintln(w, "\nThe evidence is not sealed: there is no manifest, and `remit audit` will not accept it.\nUntil `remit resume` has sealed it, it counts as blocked.")
		}
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

func printUnfinished(w io.Writer, st *session.State) {
	if st.Phase == session.Running {
		fmt.Fprintf(w, "RUNNING  %s\n  now at   %s\n", plain(st.ID), plain(st.At))
	} else {
		fmt.Fprintf(w, "INTERRUPTED  %s\n  stopped at  %s, entry %d of the journal\n  No verdict: nothing of this run counts as passed.\n",
			plain(st.ID), plain(st.At), len(st.Log.Entries)-1)
		if st.Log.TornBytes > 0 {
			fmt.Fprintf(w, "  torn        the last line of the journal was cut off (%d bytes)\n", st.Log.TornBytes)
		}
	}
	fmt.Fprintf(w, "  evidence    %s\n", plain(st.Dir))
}

// hintOf is what to do about a blocker of a run: its own hint, else the code's.
func hintOf(rep *evidence.Report, b evidence.Blocker) string {
	info, _ := reason.Lookup(b.Code)
	// What is printed can be typed as it stands.
	return strings.ReplaceAll(cmp.Or(b.Hint, info.HintFor(rep.Checked != nil)), "SESSION", rep.SessionID)
}

// printReport prints a run for a person.
func printReport(w io.Writer, s session.Session, rep *evidence.Report) {
	fmt.Fprintf(w, "%s  %s\n", strings.ToUpper(plain(rep.Status)), plain(rep.SessionID))
	if rep.FailureReason != nil {
		fmt.Fprintf(w, "  reason    %s\n", plain(*rep.FailureReason))
		for _, b := range rep.Blockers[min(1, len(rep.Blockers)):] {
			fmt.Fprintf(w, "            %s: %s\n", plain(string(b.Code)), plain(b.Message))
		}
		if hint := hintOf(rep, rep.Blockers[0]); hint != "" {
			fmt.Fprintf(w, "  hint      %s\n", plain(hint))
		}
	}
	printParent(w, rep)
	fmt.Fprintf(w, "  engine    %s\n", plain(rep.Backend))
	printChecked(w, rep)
	printModel(w, rep)
	fmt.Fprintf(w, "  changed   %d file(s)\n", len(rep.ChangedFiles))
	for i, path := range rep.ChangedFiles {
		if i == 20 {
			fmt.Fprintf(w, "            … and %d more\n", len(rep.ChangedFiles)-i)
			break
		}
		fmt.Fprintf(w, "            %s\n", plain(path))
	}
	for _, v := range rep.Verification {
		verdict := "PASS"
		if !v.Passed {
			verdict = "FAIL"
		}
		tests := ""
		if v.Tests != nil {
			tests = fmt.Sprintf(", %d passed, %d failed, %d skipped", v.Tests.Passed, v.Tests.Failed, v.Tests.Skipped)
		}
		fmt.Fprintf(w, "  %-8s  %s  %s (exit %d%s)\n", plain(v.Phase), verdict, plain(v.Command), v.ExitCode, tests)
	}
	if failed := failedBeside(rep); failed != "" {
		fmt.Fprintf(w, "  check     %s; the commands themselves passed on the changed tree\n", plain(failed))
	}
	printTests(w, rep)
	touched := "proved untouched"
	if rep.SourceRepositoryMutated {
		touched = "CHANGED DURING THE RUN"
	} else if rep.SourceChangedMeanwhile != nil {
		touched = rep.SourceChangedMeanwhile.Sentence()
	} else if _, unknown := rep.NotApplicable["source_repository_mutated"]; unknown {
		touched = "not looked at: nothing was started"
		if rep.EngineProcessStarted {
			touched = "not looked at: the run was cut off; its engine had a copy"
		}
	}
	if e := rep.Environment; e != nil {
		for _, s := range e.Sentences() {
			fmt.Fprintf(w, "  beside    %s\n", plain(strings.ReplaceAll(s, "`", "")))
		}
	}
	if rep.BranchPolicy != nil {
		fmt.Fprintf(w, "  delivery  %s\n", plain(rep.DeliverySentence()))
	}
	fmt.Fprintf(w, "  source    %s\n  outcome   %s\n  bundle    %s\n", plain(touched), plain(rep.OperatorOutcome), plain(s.Dir))
}

// failedBeside names the check that keeps a run from passing whose commands all passed on
// the changed tree, so that the two do not contradict each other; "" for any other run.
func failedBeside(rep *evidence.Report) string {
	passed := false
	for _, v := range rep.Verification {
		if v.Phase == "head" && !v.Passed {
			return ""
		}
		passed = passed || v.Phase == "head"
	}
	if !passed || rep.Status == evidence.StatusPass || len(rep.Blockers) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is why the run is %s", rep.Blockers[0].Code, strings.ToUpper(rep.Status))
}

// printParent says which session a run continues, and by which way it came there.
func printParent(w io.Writer, rep *evidence.Report) {
	p := rep.Parent
	if p == nil {
		return
	}
	fmt.Fprintf(w, "  continues %s (%s)\n", plain(p.SessionID), plain(p.Status))
	if len(p.Chain) > 1 {
		fmt.Fprintf(w, "  chain     %s\n", plain(strings.Join(append(slices.Clone(p.Chain), rep.SessionID), " → ")))
	}
}

// printChecked says which change was checked, and who git says has made it.
func printChecked(w io.Writer, rep *evidence.Report) {
	c := rep.Checked
	if c == nil {
		return
	}
	what := "patch " + c.PatchSHA256
	if c.HeadCommit != "" {
		what = fmt.Sprintf("commit %s, %d commit(s)", c.HeadCommit, c.Commits)
	}
	fmt.Fprintf(w, "  checked   %s\n", plain(what))
	if c.PullRequest != "" {
		fmt.Fprintf(w, "            %s\n", plain(c.PullRequest))
	}
	for i, by := range c.Authors {
		if i == 5 {
			fmt.Fprintf(w, "            … and %d more\n", len(c.Authors)-i)
			break
		}
		fmt.Fprintf(w, "  author    %s\n", plain(by.Name+" <"+by.Email+">"))
	}
}

// shownUnobserved bounds the parts of a change that are listed on a terminal.
const shownUnobserved = 10

// printTests says what the verification found out about its own tests, where it
// looked.
func printTests(w io.Writer, rep *evidence.Report) {
	if rep.Control == nil {
		return
	}
	fmt.Fprintf(w, "  control   %s\n  new tests %s\n", plain(rep.Control.Sentence()), plain(rep.NewTests.Sentence()))
	unnoticed := rep.Observation.Sentence()
	if rep.Observation != nil && rep.Observation.Tried > 0 {
		unnoticed += ": parts of the change that no test notices"
	}
	fmt.Fprintf(w, "  unnoticed %s\n", plain(unnoticed))
	if rep.Observation != nil {
		for i, h := range rep.Observation.Unobserved {
			if i == shownUnobserved {
				fmt.Fprintf(w, "            … and %d more\n", len(rep.Observation.Unobserved)-i)
				break
			}
			fmt.Fprintf(w, "            %s\n", plain(h.Place()))
		}
	}
	for i, name := range rep.UntrackedTests {
		if i == shownUnobserved {
			fmt.Fprintf(w, "            … and %d more\n", len(rep.UntrackedTests)-i)
			break
		}
		fmt.Fprintf(w, "  left out  %s: no commit has it\n", plain(name))
	}
}

// printModel says what the model cost, and how the engine ended if that was not
// its own end.
func printModel(w io.Writer, rep *evidence.Report) {
	if l := rep.Lifecycle; l != nil {
		why := "its time was over"
		if l.Stopped == evidence.StoppedIdle {
			why = "it gave no sign of life"
		}
		allowed := "the contract does not allow that"
		if l.Rule == evidence.LifecycleAllow {
			allowed = "the contract allows that for a change that verifies"
		}
		fmt.Fprintf(w, "  stopped   after %s, because %s; %s\n", time.Duration(l.AfterMS)*time.Millisecond, why, allowed)
	}
	u := rep.Usage
	if u.CostKnown == nil || rep.ModelProvider == nil || rep.Model == nil {
		return
	}
	cost := fmt.Sprintf("$%d.%06d", u.CostMicroUSD/1_000_000, u.CostMicroUSD%1_000_000)
	if !*u.CostKnown {
		cost = unknownCost(u)
	}
	fmt.Fprintf(w, "  model     %s of %s: %d request(s), %d tokens, %s\n", plain(*rep.Model), plain(*rep.ModelProvider),
		u.Requests, u.Tokens, cost)
}

// unknownCost says as much of a cost as is known, and why it is not all. A report
// does not say whether there was a price: it shows in what was counted.
func unknownCost(u evidence.MeteredUsage) string {
	switch {
	case u.CostMicroUSD > 0:
		return fmt.Sprintf("at least $%d.%06d: what some of it cost is not known", u.CostMicroUSD/1_000_000, u.CostMicroUSD%1_000_000)
	case u.Tokens == 0:
		return "a cost that is not known: what was used was not reported"
	}
	return "a cost that is not known: no price that holds for it is (--prices)"
}
