package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"remit/proof/reason"
	"remit/work/verify/results"
)

// The base phase depends on nothing of the patch, so it can be kept and used
// for the next patch against the same baseline. A record holds all that Judge
// reads of it, the planted tests included. Only a phase that says the same
// when it is run again may be kept; see Reusable.

// MaxRecord bounds the record of a phase.
const MaxRecord = 16 << 20

type recordedPhase struct {
	Runs    []recordedRun    `json:"runs"`
	Control *recordedControl `json:"control"`
}

type recordedRun struct {
	RunResult
	Commands []recordedCommand `json:"commands"` // in the place of those of RunResult
}

type recordedCommand struct {
	CommandResult
	Tests     map[string]results.Outcome `json:"per_test"`
	Direct    bool                       `json:"direct"`
	Complete  bool                       `json:"complete"`
	Transient []string                   `json:"transient"`
}

type recordedControl struct {
	Commands []recordedControlCommand `json:"commands"`
}

type recordedControlCommand struct {
	Index    int                        `json:"index"`
	Runner   string                     `json:"runner"`
	Exit     int                        `json:"exit"`
	Outcomes map[string]results.Outcome `json:"outcomes"`
	Planted  []string                   `json:"planted"`
}

// Reusable says why a phase may not stand for another run of the same
// commands over the same tree, nil when it may. What depends on more than the
// tree is not kept: an infrastructure fault, a limit that was reached, a signal,
// repetitions that disagree, and a command that failed without saying which
// tests did: it may have lacked a module that is there the next time.
func (r *PhaseResult) Reusable() error {
	if len(r.Findings) > 0 || len(r.Runs) == 0 {
		return errors.New("the phase has findings, or did not run")
	}
	first := map[string]*RunResult{}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Fault != nil || run.OOMKilled || len(run.Rewritten) > 0 {
			return fmt.Errorf("the run of tree %s has a fault, or changed its tests", run.Tree)
		}
		for j := range run.Commands {
			c := &run.Commands[j]
			if !c.Started || c.Signal != "" || c.TimedOut || c.OutputExceeded {
				return fmt.Errorf("%q was not run to its end", c.Command)
			}
			if run.Tree != TreeControl && !c.Passed && !c.settled() {
				return fmt.Errorf("%q failed, and its tests do not say why", c.Command)
			}
		}
		if earlier := first[run.Tree]; earlier == nil {
			first[run.Tree] = run
		} else if !sameOutcome(earlier, run) {
			return errors.New("the repetitions disagree")
		}
	}
	if c := r.control; c != nil {
		if c.fault != nil || slices.ContainsFunc(c.commands, func(c controlCommand) bool { return !c.finished }) {
			return errors.New("the control run has a fault")
		}
	}
	return nil
}

// settled says whether a failed command failed because of tests that it names.
func (c *CommandResult) settled() bool {
	if !c.complete || c.Tests == nil || c.Tests.Passed+c.Tests.Failed == 0 || c.Tests.Failed == 0 {
		return false
	}
	for id := range c.transient {
		if c.PerTest[id] == results.Fail {
			return false
		}
	}
	return true
}

func sameOutcome(a, b *RunResult) bool {
	return slices.EqualFunc(a.Commands, b.Commands, func(x, y CommandResult) bool {
		return x.ExitCode == y.ExitCode && x.Passed == y.Passed && maps.Equal(x.PerTest, y.PerTest)
	})
}

// Same says whether two base phases came to the same result.
func (r *PhaseResult) Same(other *PhaseResult) bool {
	return slices.EqualFunc(r.Runs, other.Runs, func(a, b RunResult) bool { return a.Tree == b.Tree && (a.Tree == TreeControl || sameOutcome(&a, &b)) })
}

// Record encodes a base phase that is Reusable.
func (r *PhaseResult) Record() ([]byte, error) {
	if err := r.Reusable(); err != nil {
		return nil, err
	}
	if r.Phase != PhaseBase {
		return nil, fmt.Errorf("phase %s cannot be recorded", r.Phase)
	}
	var out recordedPhase
	for _, run := range r.Runs {
		kept := recordedRun{RunResult: run}
		for _, c := range run.Commands {
			kept.Commands = append(kept.Commands, recordedCommand{c, c.PerTest, c.direct, c.complete, slices.Sorted(maps.Keys(c.transient))})
		}
		out.Runs = append(out.Runs, kept)
	}
	if r.control != nil {
		out.Control = &recordedControl{}
		for _, c := range r.control.commands {
			out.Control.Commands = append(out.Control.Commands, recordedControlCommand{c.index, c.runner, c.exit, c.outcomes, c.planted})
		}
	}
	text, err := json.Marshal(out)
	if err == nil && len(text) > MaxRecord {
		err = fmt.Errorf("the record has %d bytes, the limit is %d", len(text), MaxRecord)
	}
	return text, err
}

// ReadRecord decodes a base phase and refuses what Base would not return for
// the commands, or Record not keep.
func ReadRecord(text []byte, commands []string) (*PhaseResult, error) {
	if len(text) > MaxRecord {
		return nil, reason.Errorf(reason.SchemaInvalid, "a record of %d bytes, the limit is %d", len(text), MaxRecord)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var in recordedPhase
	if err := dec.Decode(&in); err != nil {
		return nil, reason.Errorf(reason.SchemaInvalid, "reading the record of a phase: %w", err)
	}
	r := &PhaseResult{Phase: PhaseBase, Repeats: 1}
	for _, kept := range in.Runs {
		run := kept.RunResult
		run.Commands = nil
		for _, c := range kept.Commands {
			c.PerTest, c.direct, c.complete = c.Tests, c.Direct, c.Complete
			if c.PerTest != nil {
				c.transient = map[string]bool{}
			}
			for _, id := range c.Transient {
				c.transient[id] = true
			}
			run.Commands = append(run.Commands, c.CommandResult)
		}
		if run.Tree == TreeControl {
			r.Runs = append(r.Runs, run)
		} else {
			r.add(run)
		}
	}
	if in.Control != nil {
		r.control = &controlResult{}
		for _, c := range in.Control.Commands {
			r.control.commands = append(r.control.commands, controlCommand{c.Index, c.Runner, c.Exit, true, c.Outcomes, c.Planted})
		}
	}
	return r, r.checkRecord(commands)
}

// checkRecord holds a decoded phase to the form that Base gives it.
func (r *PhaseResult) checkRecord(commands []string) error {
	if err := r.Reusable(); err != nil {
		return reason.Errorf(reason.SchemaInvalid, "the record of a phase: %w", err)
	}
	wrong := len(r.Runs) > 2 || r.Runs[0].Tree != TreeBase || r.Runs[0].Repetition != 1 || len(r.Runs) == 2 && r.Runs[1].Tree != TreeControl ||
		!slices.EqualFunc(r.Commands, commands, func(c CommandResult, given string) bool { return c.Command == given })
	if r.control != nil {
		for _, c := range r.control.commands {
			wrong = wrong || c.index < 0 || c.index >= len(commands)
		}
		wrong = wrong || len(r.Runs) != 2
	}
	if wrong {
		return reason.Errorf(reason.SchemaInvalid, "the record of a phase is not one of these commands")
	}
	return nil
}
