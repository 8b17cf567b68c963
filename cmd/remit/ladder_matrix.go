package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"remit/law/ladder"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/engine/fake"
	"remit/work/matrix"
	"remit/work/sandbox"
)

func (a *app) ladderMatrixCommand() *cobra.Command {
	var rows []string
	f := &ladderEngine{}
	cmd := &cobra.Command{
		Use: "matrix --engine NAME [-- AGENT ARG…]", Short: "Bring about the twelve failures, and check how each run ends",
		Long: `Matrix wraps an engine so that it really fails in one way after another (a full
disk, a process that sleeps past its limit, a lost event, …), runs the pipeline over
a small repository of its own, and reads from the session on disk whether the run
ended as it must: status, first blocker, event, exit code, artifacts with digests
and times, source untouched, audit. An agent is the real one; its model is a scripted
one in this process, so that a matrix costs nothing and needs no key.

Exit code 0 when every row holds, 2 when one does not, 3 when one could not be tried
on this machine. A complete matrix is kept below REMIT_HOME, for status to name;
the sessions are thrown away.`,
		Example: `  remit ladder matrix --engine fake
  remit ladder matrix --engine command --row timeout --row artifact-write-failure --json
  remit ladder matrix --engine codex
  remit ladder matrix --engine acp -- codex-acp`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.command = args
			return a.ladderMatrix(cmd, f, rows)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&rows, "row", nil, "only this row (repeatable): "+strings.Join(ladder.RowNames(), ", "))
	complete(cmd, "row", ladder.RowNames())
	return cmd
}

// ladderEngine names the engine that a command of the ladder runs.
type ladderEngine struct {
	name, bin, wire string
	command         []string // of the agent behind acp
}

func (f *ladderEngine) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.bin, "bin", "", "where the agent's program is, if not in a known place")
	f.addTo(cmd)
}

// addTo adds the flags to a command that has --bin for its model.
func (f *ladderEngine) addTo(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.name, "engine", fake.Name, "engine: "+strings.Join(engineNames(), ", "))
	fl.StringVar(&f.wire, "acp-wire", "", "what the agent of acp speaks to its model, if Remit does not know it: "+
		strings.Join(acp.Wires(), ", "))
	complete(cmd, "engine", engineNames())
	complete(cmd, "acp-wire", acp.Wires())
}

// agent is the engine that asks a model, nil for one that is built in.
func (f *ladderEngine) agent() (engine.Modelled, error) {
	switch {
	case f.name != acp.Name && (len(f.command) > 0 || f.wire != ""):
		return nil, usagef("the command behind two dashes, and --acp-wire, are for engine acp")
	case slices.Contains(matrix.BuiltIn(), f.name) && f.bin != "":
		return nil, usagef("--bin: engine %s needs no agent", f.name)
	case slices.Contains(matrix.BuiltIn(), f.name):
		return nil, nil
	}
	e, err := engineNamed(f.name, f.bin)
	if f.name == acp.Name {
		e, err = acpNamed(f.command, f.bin, f.wire)
	}
	if err != nil {
		return nil, err
	}
	agent, ok := e.(engine.Modelled)
	if !ok {
		return nil, reason.Errorf(reason.EngineUnknown, "engine %q asks no model and is not built in", f.name)
	}
	return agent, nil
}

func (a *app) ladderMatrix(cmd *cobra.Command, f *ladderEngine, rows []string) error {
	agent, err := f.agent()
	if err != nil {
		return err
	}
	for _, name := range rows {
		if _, ok := ladder.ClassNamed(name); !ok {
			return usagef("--row %q: the rows are %s", name, strings.Join(ladder.RowNames(), ", "))
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	driver, err := sandbox.Open(cmd.Context(), a.sandboxOptions("", nil))
	if err != nil {
		if reason.CodeOf(err) != reason.SandboxUnavailable {
			return err
		}
		printOne(os.Stderr, err) // no row can be tried, and the report says so
		driver = nil
	}
	view := newProgress(os.Stderr)
	rep, err := matrix.Run(cmd.Context(), matrix.Options{Engine: f.name, Agent: agent, Binary: self, Sandbox: driver, Rows: rows, Build: build(),
		OnCase: func(row string, c matrix.CaseResult) { view.Step(row+"/"+c.Name, stepStatus(c.Verdict), c.Reason) }})
	view.close()
	if err != nil {
		return err
	}
	if rep.Complete && cmd.Context().Err() == nil {
		if err := rep.Save(a.home.Dir); err != nil {
			return err
		}
	}
	if a.json {
		err = printJSON(cmd.OutOrStdout(), rep)
	} else {
		err = printMatrix(cmd.OutOrStdout(), rep)
	}
	if err == nil && rep.ExitCode != 0 {
		err = exitCode(rep.ExitCode)
	}
	return err
}

func printMatrix(w io.Writer, rep *matrix.Report) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "ROW\tEXPECTED\tGOT\tHELD")
	for _, row := range rep.Rows {
		for _, c := range row.Cases {
			e := c.Expected
			fmt.Fprintf(tw, "%s/%s\t%s %s\t%s\t%s\n", row.Name, c.Name, e.Status, e.Code, gotText(c), heldText(c.Verdict))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, row := range rep.Rows {
		for _, c := range row.Cases {
			if c.Verdict != matrix.Held {
				fmt.Fprintf(w, "\n%s/%s is %s: %s\n", row.Name, c.Name, c.Verdict, plain(c.Reason))
			}
		}
	}
	_, err := fmt.Fprintf(w, "\n%s  engine %s: %d of %d rows hold\n", upper(rep.Status), rep.Engine.Name, rep.Held, rep.Total)
	return err
}

func gotText(c matrix.CaseResult) string {
	switch {
	case c.Got == nil && c.Verdict == matrix.Broken:
		return "no evidence"
	case c.Got == nil:
		return c.Verdict
	}
	return fmt.Sprintf("%s %s", c.Got.Status, c.Got.Code)
}

// stepStatus is a verdict as the progress view knows the end of a step.
func stepStatus(verdict string) string {
	switch verdict {
	case matrix.Held:
		return "completed"
	case matrix.Broken:
		return "failed"
	case matrix.NotTried:
		return "blocked"
	}
	return "skipped"
}

func heldText(verdict string) string {
	switch verdict {
	case matrix.Held:
		return "yes"
	case matrix.Broken:
		return "NO"
	}
	return "-"
}
