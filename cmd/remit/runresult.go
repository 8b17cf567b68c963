package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine/acp"
	"remit/work/harness"
	"remit/work/session"
)

// report prints what came of the run and returns its exit code.
func (a *app) report(w io.Writer, out *harness.Outcome, dir string, times *harness.Timeline, expected *session.Forecast) error {
	if dir != "" {
		if err := exportRun(out.Session, dir); err != nil {
			return err
		}
		sayUntracked(os.Stderr, dir)
	}
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		return err
	}
	approval, open := session.ApprovalOf(log.Entries)
	if a.json {
		doc := runResult{Report: out.Report, SessionDir: out.Session.Dir, ExitCode: evidence.ExitCode(out.Report.Status),
			NexusRunID: session.NexusRun(log.Entries), ApprovalID: approval, Timing: times.Spans(), Forecast: expected}
		doc.signed(os.Stderr, out.Session)
		if doc.PolicyChange, err = policyChanges(out.Session); err != nil {
			return err
		}
		if err := printJSON(w, doc); err != nil {
			return err
		}
	} else {
		printReport(w, out.Session, a.namingNexus(out.Session, out.Report))
		saySigned(w, os.Stderr, out.Session)
		printExpected(w, expected, out.Report)
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
	// Forecast is what the last runs of the repository took before this one.
	Forecast *session.Forecast `json:"forecast,omitempty"`
	// PolicyChange is what a checked change makes of remit.yaml.
	PolicyChange *policyChange `json:"policy_change,omitempty"`
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
func (r *runResult) signed(warn io.Writer, s session.Session) {
	var err error
	if r.SignedBy, err = s.Signature(); err != nil {
		r.Unsigned = err.Error()
		warnUnsigned(warn, err)
	}
}

// toDecide finds the command that decides about an approval.
var toDecide = form.Lazy("(`remit approve apr_[^ `]+)`")

// namingNexus has the reasons of a report name the nexus that knows the approval,
// as a person needs it: the evidence does not say where it is.
func (a *app) namingNexus(s session.Session, rep *evidence.Report) *evidence.Report {
	local, err := a.home.LoadLocal(s.ID)
	if err != nil || local.Nexus == "" || rep.FailureReason == nil {
		return rep
	}
	name := func(text string) string {
		return toDecide().ReplaceAllStringFunc(text, func(found string) string { return strings.TrimSuffix(found, "`") + " --nexus " + local.Nexus + "`" })
	}
	said, why := *rep, name(*rep.FailureReason)
	said.FailureReason, said.Blockers = &why, slices.Clone(rep.Blockers)
	for i := range said.Blockers {
		said.Blockers[i].Message, said.Blockers[i].Hint = name(said.Blockers[i].Message), name(said.Blockers[i].Hint)
	}
	return &said
}

// printToDecide says how to go on from a run that was not approved.
func (a *app) printToDecide(w io.Writer, s session.Session, approval string) {
	local, err := a.home.LoadLocal(s.ID)
	if err == nil && local.Nexus != "" {
		approval += " --nexus " + local.Nexus
	}
	fmt.Fprintf(w, "  remit approve %s   # or deny; then start the run again: this session is sealed\n", plain(approval))
}

func printNext(w io.Writer, out *harness.Outcome) {
	id, remit := out.Session.ID, form.ShellWord(calledAs(os.Args[0]))
	fmt.Fprintln(w, "\nNext:")
	if len(out.Report.ChangedFiles) > 0 {
		fmt.Fprintf(w, "  %s diff %s\n", remit, id)
	}
	fmt.Fprintf(w, "  %[1]s logs %[2]s\n  %[1]s audit %[3]s\n", remit, id, form.ShellWord(out.Session.Dir))
	if continuable(out.Report) {
		fmt.Fprintf(w, "  %s run --continue %s --message TEXT   # have it changed further\n", remit, id)
	}
	switch {
	case out.Report.Checked != nil: // it is where it belongs already
		fmt.Fprintf(w, "  %[1]s export %[2]s --to zip --out %[2]s.zip\n", remit, id)
	case out.Report.Status != evidence.StatusPass || out.Report.OperatorOutcome == session.Rejected:
	case out.Report.OperatorOutcome == session.Accepted:
		fmt.Fprintf(w, "  %s export %s --to branch\n", remit, id)
	case out.Report.Delivered != nil:
		fmt.Fprintf(w, "  %[1]s accept %[2]s   # or reject, which removes the branch again\n", remit, id)
	default:
		fmt.Fprintf(w, "  %[1]s accept %[2]s && %[1]s export %[2]s --to branch\n", remit, id)
	}
}

// continuable reports whether a follow-up of a run needs no more than a message: its
// engine asks a model, and it left a change.
func continuable(rep *evidence.Report) bool {
	return rep.Checked == nil && rep.Status != evidence.StatusBlocked && len(rep.ChangedFiles) > 0 &&
		eligibility.AdmissionRequired(rep.Backend) && rep.Backend != acp.Name
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

// opening is what a user does to open the gates that stopped a run: lines for
// the policy, commands, and flags for the next try.
type opening struct {
	policy, commands, flags []string
}

// admitting finds the command of a hint.
var admitting = form.Lazy("`(remit admit [^`]*)`")

// proving finds the command of a hint that proves an engine.
var proving = form.Lazy("`(remit ladder prove [^`]*)`")

// withFlags completes the command that proves an engine with the words that say
// where this run's agent and model are: the evidence does not say that.
func (f *runFlags) withFlags(rep *evidence.Report, args []string) *evidence.Report {
	more := f.model.words()
	if f.acpWire != "" {
		more += " --acp-wire " + f.acpWire
	}
	if f.sandbox != "" {
		more += " --sandbox " + f.sandbox
	}
	if f.engine == acp.Name && len(args) > 0 {
		args = append([]string{"--"}, args...)
	} else {
		args = nil
	}
	complete := func(text string) string {
		return proving().ReplaceAllStringFunc(text, func(found string) string {
			command, stage, _ := strings.Cut(strings.Trim(found, "`"), " --through ")
			command += more + " --through " + stage
			for _, word := range args {
				command += " " + form.ShellWord(word)
			}
			return "`" + command + "`"
		})
	}
	said := *rep
	said.Blockers = slices.Clone(rep.Blockers)
	for i := range said.Blockers {
		said.Blockers[i].Hint = complete(said.Blockers[i].Hint)
	}
	return &said
}

// Lines of a policy that let an engine run, and let it ask a model.
const gatewayNetwork = "network: gateway"

func enabling(engine string) string { return fmt.Sprintf("engines: {%s: {enabled: true}}", engine) }

// openingOf reads it out of the blockers of a run. An engine that the policy
// switches off by name is not switched on by a hint, and neither is a decision
// against a build or a model undone.
func (f *runFlags) openingOf(rep *evidence.Report) (o opening, closed int) {
	for _, b := range rep.Blockers {
		if b.Evidence != evidence.EligibilityFile || b.Code == reason.GateMissing {
			continue
		}
		closed++
		switch b.Code {
		case reason.EngineNotEnabled:
			if b.Hint != "" && strings.HasPrefix(b.Hint, "set ") {
				o.policy = append(o.policy, enabling(rep.Backend))
			}
		case reason.NetworkNotAllowed:
			o.policy = append(o.policy, gatewayNetwork)
		case reason.ModeExceedsStage:
			if m := proving().FindStringSubmatch(b.Hint); m != nil {
				o.commands = append(o.commands, m[1])
			}
		case reason.ApprovalMissing:
			o.flags = append(o.flags, "--approve")
		case reason.SourceNotAdmitted, reason.ModelNotAdmitted, reason.ModelMismatch:
			if m := admitting().FindStringSubmatch(b.Hint); m != nil && strings.HasPrefix(b.Hint, "once ") {
				o.commands = append(o.commands, f.withProgram(m[1]))
			}
		}
	}
	return o, closed
}

// withProgram has a decision be about the program that the user named: evidence
// does not say where that is.
func (f *runFlags) withProgram(command string) string {
	const source = "remit admit source --engine "
	if f.model.bin == "" || !strings.HasPrefix(command, source) {
		return command
	}
	engine, rest, _ := strings.Cut(strings.TrimPrefix(command, source), " ")
	return source + engine + " --bin " + form.ShellWord(f.model.bin) + " " + strings.TrimPrefix(rest, "--bin PROGRAM ")
}

// printOpening prints what opens all gates at once, as one block to paste. A run
// that was refused before the policy was read has lines that read it when they are
// pasted.
func (f *runFlags) printOpening(w io.Writer, rep *evidence.Report) {
	o, closed := f.openingOf(rep)
	if closed < 2 || len(o.policy)+len(o.commands)+len(o.flags) == 0 {
		return // the hint says it
	}
	fmt.Fprintf(w, "\n%d gates are closed. This opens them; read it before you paste it:\n", closed)
	file := filepath.Join(f.repo, task.PolicyFile)
	var text []byte
	if _, unread := rep.NotApplicable["policy_sha256"]; !unread {
		text, _ = os.ReadFile(file) // without one, nothing is in it
	} else if f.task == "" && eligibility.AdmissionRequired(rep.Backend) {
		for _, line := range []string{enabling(rep.Backend), gatewayNetwork} {
			key, _, _ := strings.Cut(line, ":")
			fmt.Fprintf(w, "  grep -qs '^%s *:' %[2]s || echo %[3]s >>%[2]s\n", key, plain(form.ShellWord(file)), form.ShellWord(line))
		}
	}
	for _, line := range o.policy {
		key, _, _ := strings.Cut(line, ":")
		stated := regexp.MustCompile(`(?m)^` + key + `\s*:`).Match(text)
		switch {
		case key != "engines" && f.task != "":
			fmt.Fprintf(w, "  # in %s: %s\n", plain(f.task), line)
		case stated:
			fmt.Fprintf(w, "  # in %s: %s\n", plain(file), line)
		default:
			fmt.Fprintf(w, "  echo %s >>%s\n", form.ShellWord(line), plain(form.ShellWord(file)))
		}
	}
	for _, command := range o.commands {
		fmt.Fprintf(w, "  %s\n", plain(command))
	}
	again := "# then run again"
	if len(o.flags) > 0 {
		again += " with " + strings.Join(o.flags, " ")
	}
	fmt.Fprintf(w, "  %s\n", again)
}
