package panel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"remit/proof/evidence"
	textform "remit/proof/form"
	"remit/proof/journal"
	"remit/proof/reason"
)

// commandEnd is how a verification command ended, before the change and with it.
type commandEnd struct{ Command, Base, Head string }

const notRun = "not run"

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
			i, d.Ends = len(d.Ends), append(d.Ends, commandEnd{Command: run.Command, Base: notRun, Head: notRun})
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
	case d.NotRun > 0:
		return fmt.Sprintf("With what it had changed until then, %s that ran before did not run; it is kept.", count(d.NotRun, "test"))
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

// Unseen reports that the change of a run that has some was not tried.
func (d *runPage) Unseen() bool {
	return d.Verified == nil && len(d.Changed) > 0 && len(d.Blockers) > 0 && d.Summary.Nexus == nil &&
		!slices.ContainsFunc(d.Ends, func(c commandEnd) bool { return c.Head != notRun })
}

// Where an engine prints, and how much of that is quoted: its end.
var streams = []string{"backend/stderr.log", "backend/stdout.log"}

const (
	quotedLines = 6
	quotedBytes = 1000
)

// lastWords quotes how the output of an engine ends that has said nothing else, of a
// run that did not pass.
func (p *Panel) lastWords(ctx context.Context, d *runPage) error {
	if len(d.Agent) > 0 || len(d.Blockers) == 0 {
		return nil
	}
	for _, name := range streams {
		if !d.Has(name) {
			continue
		}
		f, n, same, err := p.open(ctx, d.Session, name)
		if reason.CodeOf(err) == reason.NotFound {
			d.NotSealed = append(d.NotSealed, name) // it was recorded
			continue
		}
		if err != nil {
			return err
		}
		_, err = f.Seek(max(0, n-quotedBytes), io.SeekStart)
		text, err2 := io.ReadAll(io.LimitReader(f, quotedBytes))
		if err := errors.Join(err, err2, f.Close()); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if !same {
			d.NotSealed = append(d.NotSealed, name)
		}
		lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(text), "")), "\n")
		if said := strings.Join(lines[max(0, len(lines)-quotedLines):], "\n"); said != "" {
			d.Agent, d.Printed = append(d.Agent, said), true
		}
	}
	return nil
}

// Has reports whether a file that a reason names has a page of its own.
func (d *runPage) Has(name string) bool {
	return d.Summary.Nexus == nil && slices.ContainsFunc(d.Artifacts, func(a artifact) bool { return a.Path == name })
}
