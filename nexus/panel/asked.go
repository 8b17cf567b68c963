package panel

import (
	"fmt"
	"slices"
	"strings"

	"remit/proof/evidence"
	textform "remit/proof/form"
	"remit/proof/journal"
	"remit/proof/reason"
)

// commandEnd is how a verification command ended, before the change and with it.
type commandEnd struct{ Command, Base, Head string }

// shownCommands bounds how many commands a page names.
const shownCommands = 12

// ends adds how the commands of a phase ended: the last time, if they were repeated.
func (d *runPage) ends(o evidence.VerifyPhase, head bool) {
	for _, run := range o.Runs {
		i := slices.IndexFunc(d.Ends, func(c commandEnd) bool { return c.Command == run.Command })
		if i < 0 {
			if len(d.Ends) == shownCommands {
				continue
			}
			i, d.Ends = len(d.Ends), append(d.Ends, commandEnd{Command: run.Command, Base: "not run", Head: "not run"})
		}
		end := &d.Ends[i].Base
		if head {
			end = &d.Ends[i].Head
		}
		switch {
		case run.Passed:
			*end = "passed"
		default:
			*end = fmt.Sprintf("exit %d", run.ExitCode)
		}
	}
}

// Same reports that the command failed before the change as it does with it, so that
// the change need not be why.
func (c commandEnd) Same() bool { return c.Base == c.Head && c.Base != "passed" }

// Unread reports that no single test was read on either side.
func (v *verified) Unread() bool {
	return len(v.Fixed)+len(v.Broken)+len(v.Missing)+v.Kept+len(v.Failing)+len(v.Ribbon.Columns) == 0
}

// typed is a command as one types it.
func typed(argv []string) string {
	var out []string
	for _, word := range argv {
		out = append(out, textform.ShellWord(word))
	}
	return clip(askedChars, strings.Join(out, " "))
}

// stopped are the reasons for which an engine was stopped whose change was judged all
// the same.
var stopped = []reason.Code{reason.Timeout, reason.LifecycleTimeout, reason.BudgetExhausted}

// left says what an engine that was stopped had done until then.
func (d *runPage) left() string {
	switch {
	case d.Broken > 0:
		return fmt.Sprintf("What it had changed until then breaks %s that passed before; it is kept.", count(d.Broken, "test"))
	case d.Verified != nil && len(d.Verified.Failing) > 0:
		return fmt.Sprintf("With what it had changed until then, %s; it is kept.", failAgain(len(d.Verified.Failing)+d.Verified.FailingMore))
	case d.Fixed > 0:
		return fmt.Sprintf("What it had changed until then fixes %s and breaks none; it is kept.", count(d.Fixed, "test"))
	}
	return "What it had changed until then is kept."
}

func failAgain(n int) string {
	if n == 1 {
		return "1 case still fails"
	}
	return count(n, "case") + " still fail"
}

// cutOff says where a run without an end stopped.
func (d *runPage) cutOff() string {
	text := "The run was cut off"
	for _, e := range slices.Backward(d.Journal) {
		if name := stepNames[e.Name]; name != "" && e.Status == journal.Started {
			text += fmt.Sprintf(" during the step %s, which began %s after the run", name, took(instant(e.StartedAt).Sub(d.Started)))
			break
		}
	}
	return text + ". Nothing of it counts as passed."
}

// Unseen says why the change of a run that has some was not tried.
func (d *runPage) Unseen() bool {
	return d.Verified == nil && len(d.Changed) > 0 && len(d.Blockers) > 0 && d.Summary.Nexus == nil && len(d.Ends) == 0
}

// Has reports whether a file that a reason names has a page of its own.
func (d *runPage) Has(name string) bool {
	return d.Summary.Nexus == nil && slices.ContainsFunc(d.Artifacts, func(a artifact) bool { return a.Path == name })
}
