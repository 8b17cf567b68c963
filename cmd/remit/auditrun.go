package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"remit/proof/bundle"
	"remit/work/harness"
	"remit/work/sandbox"
)

// auditRunner runs the commands of an audit. The sandbox is opened for the first
// of them: which commands there are may be known only when the bundle was read.
type auditRunner struct {
	home   harness.Home
	open   func() (sandbox.Driver, error)
	driver sandbox.Driver
	err    error // why there is none
}

// Run runs one command of a bundle.Runner. An error blocks its gate.
func (r *auditRunner) Run(ctx context.Context, dir, command string, stdout, stderr io.Writer) (int, error) {
	if r.driver == nil && r.err == nil {
		if r.driver, r.err = r.open(); r.err != nil {
			printOne(os.Stderr, r.err)
		} else {
			r.err = r.home.Distrust(r.driver)
		}
	}
	if r.err != nil {
		return 0, fmt.Errorf("there is no sandbox: %w", r.err)
	}
	return harness.Runner{Sandbox: r.driver, Limits: sandbox.DefaultLimits()}.Run(ctx, dir, command, stdout, stderr)
}

// close throws away what the commands may have left in a cache.
func (r *auditRunner) close() {
	if r.driver != nil {
		_ = r.home.Distrust(r.driver) // it could be emptied before
	}
}

// namedBy says which file of the bundle names a command, where one does.
func namedBy(c bundle.Command) string {
	if c.NamedBy == "" {
		return ""
	}
	return " (named by the bundle, in " + plain(c.NamedBy) + ")"
}

// printNotMade says aloud that nothing of a bundle was run.
func printNotMade(w io.Writer, rep *bundle.Report) {
	if len(rep.NotMade) > 0 {
		fmt.Fprintf(w, "NOT MADE %s: no command of this bundle was run for it, so nothing shows that it works; name commands with --checks and --run, or let --strict block\n",
			strings.Join(rep.NotMade, ", "))
	}
}
