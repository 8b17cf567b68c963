package verify

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"remit/proof/reason"
	"remit/work/tree"
	"remit/work/verify/results"
)

// A test run proves something only if it could have failed. The control run
// plants tests that must fail, under names that nobody can know before, and
// runs only those. Wherever they fail on the base they must fail on the head:
// an assertion that was made to do nothing, a TestMain or an import that exits
// 0, a hook that turns failures into passes, a process that prints its
// runner's protocol by itself: none of them knows the planted test.
//
// Go gets a file of its own in every directory with tests, Python a few
// functions at the end of a test file, one for each usual way to fail. Only
// commands that call go test, pytest or unittest directly are controlled.

// controlResult is what became of the planted tests of a phase, by command.
type controlResult struct {
	fault    *reason.Finding
	commands []controlCommand
}

type controlCommand struct {
	index    int // of the contract's command
	runner   string
	exit     int
	finished bool
	// outcomes are keyed by the identity with the secret part replaced, so
	// that the phases can be compared.
	outcomes map[string]results.Outcome
	planted  []string // directories (Go) or files (Python)
}

// secret is the part of a planted name that cannot be known before. It is also
// an identifier in Go and Python.
func secret() (string, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("naming the control test: %w", err)
	}
	return "q" + hex.EncodeToString(b[:]), nil
}

const secretMark = "*" // stands for the secret in keys

// controlled runs the control of a phase, if there is something to control.
func (p *Plan) controlled(ctx context.Context, sb Sandbox, r *PhaseResult, laid []tree.Change) error {
	if p.NoControl {
		return nil
	}
	name, err := secret()
	if err != nil {
		return err
	}
	planter, err := newPlanter(p, laid, name)
	if err != nil {
		r.control = &controlResult{fault: &reason.Finding{Code: reason.InfrastructureFault, Detail: "planting control tests: " + err.Error()}}
		return nil
	}
	defer planter.root.Close()
	commands, result := commandsOf(p), &controlResult{}
	for i, c := range r.Commands {
		run, ok := results.Select(p.Commands[i], name)
		if !ok || !c.direct || len(c.PerTest) == 0 {
			continue // it runs as given: the commands behind it may need what it makes
		}
		planted := planter.plant(c.Runner, c.PerTest)
		if len(planted) == 0 {
			continue
		}
		commands[i].run = run
		result.commands = append(result.commands, controlCommand{index: i, runner: c.Runner, planted: planted})
	}
	if len(result.commands) == 0 {
		return nil
	}
	commands = commands[:result.commands[len(result.commands)-1].index+1]
	run, err := p.tryRun(ctx, sb, r.Phase, TreeControl, 1, planter.changes(), commands)
	if err != nil {
		return err
	}
	r.Runs = append(r.Runs, run)
	result.read(&run, name)
	r.control = result
	return nil
}

func (cr *controlResult) read(run *RunResult, name string) {
	cr.fault = run.Fault
	for i := range cr.commands {
		c := &cr.commands[i]
		ran := &run.Commands[c.index]
		c.exit, c.finished = ran.ExitCode, ran.Started && !ran.TimedOut && !ran.OutputExceeded
		c.outcomes = make(map[string]results.Outcome)
		for id, o := range ran.PerTest {
			c.outcomes[strings.ReplaceAll(id, name, secretMark)] = o
		}
	}
}
