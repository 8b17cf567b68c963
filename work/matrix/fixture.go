package matrix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"remit/law/task"
	"remit/work/engine"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	sessions "remit/work/session"
	"remit/work/shipped"
)

// What the repository of the shipped case greeting holds: a misspelt word, and a
// check that wants it right. The check also runs a hook of the changed tree, if
// there is one.
const (
	greeting = "lib/greeting.txt"
	hook     = "lib/hook.sh"
	outside  = "outside.txt"
	wanted   = "hello"
	check    = "sh check.sh"
)

// correct is the command that makes the right change.
const correct = "echo " + wanted + " > " + greeting

// fixture is the world of one case: a repository, a place for sessions, a task.
type fixture struct {
	dir      string
	contract contractText
}

func (f *fixture) repo() string        { return filepath.Join(f.dir, "repo") }
func (f *fixture) home() sessions.Home { return sessions.Home{Dir: filepath.Join(f.dir, "home")} }
func (f *fixture) patch() string       { return filepath.Join(f.dir, "fix.patch") }

// contractText are the parts of the task that scenarios differ in.
type contractText struct {
	id        string
	noCommand bool
	approval  bool
	model     bool // the engine asks one
	wall      int  // seconds, 0 for the default
	mode      task.MutationMode
}

// parse makes the contract the way a user's is made.
func (c contractText) parse() (*task.Contract, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "task_id: matrix-%s\ntitle: Correct the greeting\ninstructions: Write %s in %s.\n", c.id, wanted, greeting)
	fmt.Fprintf(&b, "allowed_paths: [\"lib/**\"]\nforbidden_actions: [%s]\nmutation_mode: %s\n",
		strings.Join(task.DefaultForbiddenActions(), ", "), max(c.mode, task.CopiedFixture))
	if !c.noCommand {
		fmt.Fprintf(&b, "verification_commands: [%q]\n", check)
	}
	if c.approval {
		b.WriteString("approval_required: true\n")
	}
	if c.model {
		b.WriteString("network: gateway\n")
	}
	if c.wall > 0 {
		fmt.Fprintf(&b, "budget: {wall_seconds: %d}\n", c.wall)
	}
	return task.Parse("matrix.yaml", []byte(b.String()))
}

func newFixture(ctx context.Context, dir string) (*fixture, error) {
	f := &fixture{dir: dir}
	if err := f.writePatch(); err != nil {
		return nil, err
	}
	_, err := shippedGreeting().Write(ctx, f.repo())
	return f, err
}

func shippedGreeting() shipped.Case {
	c, ok := shipped.Named(shipped.Greeting)
	if !ok {
		panic("matrix: the program comes without the case " + shipped.Greeting)
	}
	return c
}

func (f *fixture) writePatch() error {
	if err := os.WriteFile(f.patch(), []byte(shippedGreeting().Patch), 0o644); err != nil {
		return fmt.Errorf("writing the fixture: %w", err)
	}
	return nil
}

// builtIn is the engine that makes the right change without a model; nil for the
// name of an agent.
func (f *fixture) builtIn(name, binary string) engine.Engine {
	switch name {
	case fake.Name:
		return &fake.Engine{Patch: f.patch(), Binary: binary}
	case command.Name:
		return &command.Engine{Argv: []string{"sh", "-c", correct}, Dir: f.dir}
	}
	return nil
}
