package harness

import (
	"context"
	"fmt"
	"io"

	"remit/work/sandbox"
)

// Runner runs the import checks and tests of an audit in the sandbox, over a
// view of the extracted files that is thrown away. It is a bundle.Runner.
type Runner struct {
	Sandbox sandbox.Driver
	Limits  sandbox.Limits
}

// Run runs one shell command line.
func (r Runner) Run(ctx context.Context, dir, command string, stdout, stderr io.Writer) (int, error) {
	res, err := r.Sandbox.Run(ctx, sandbox.Spec{Lower: dir, Limits: r.Limits,
		Commands: []sandbox.Command{{Argv: []string{"sh", "-c", "--", command}, Stdout: stdout, Stderr: stderr}}})
	if err != nil {
		return 0, err
	}
	c := res.Commands[0]
	switch {
	case !c.Started:
		return 0, fmt.Errorf("the command could not be started in the sandbox")
	case c.TimedOut:
		return 0, fmt.Errorf("the command did not end in time and was stopped")
	case c.OutputExceeded:
		return 0, fmt.Errorf("the command printed more than the output limit and was stopped")
	}
	return c.ExitCode, nil
}
