package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"remit/law/audit"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/session"
)

func (a *app) diffCommand() *cobra.Command {
	var escape bool
	cmd := &cobra.Command{
		Use: "diff SESSION [OTHER]", Short: "Print the patch of a run, or compare two runs", Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.sessionArgs,
		Long: `Diff prints patch.diff of a run. Into a pipe or a file go its bytes, as ` + "`git apply`" + `
takes them: with every terminal escape that an agent put into them, so do not
show such a file with cat. On a terminal, and with --escape anywhere, what is not
printable is shown as \x1b and the like. With two sessions diff prints in which
fields of report.json they differ; the exit code is 0 either way. What is not as it was
sealed is shown all the same, and said on stderr.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return shown(cmd, a.printPatch(cmd.Context(), cmd.OutOrStdout(), s, escape), s)
			}
			other, err := a.home.Find(args[1])
			if err != nil {
				return err
			}
			return shown(cmd, a.compare(cmd.OutOrStdout(), s, other), s, other)
		},
	}
	cmd.Flags().BoolVar(&escape, "escape", false, "show what is not printable as \\x1b and the like, for reading; git apply does not take that")
	return cmd
}

// shown says on stderr, behind what a command has shown of sessions, which of them are not
// what was sealed. One that is not sealed yet has nothing to be held against.
func shown(cmd *cobra.Command, err error, sessions ...session.Session) error {
	for _, s := range sessions {
		if st, broken := s.Inspect(); err != nil || broken == nil && st.Phase != session.Sealed || unread(cmd.OutOrStdout()) {
			continue
		}
		rep, unreadable := bundle.Audit(cmd.Context(), s.Dir, audit.Options())
		if unreadable != nil {
			return unreadable
		}
		for _, g := range rep.Gates {
			if len(g.Findings) > 0 {
				first := g.Findings[0]
				printOne(cmd.ErrOrStderr(), reason.Errorf(first.Code,
					"the evidence of session %s does not verify, so what is shown of it proves nothing: %s: %s", s.ID, first.Path, first.Detail).
					WithHint("see all findings with `remit audit %s`", s.Dir))
				break
			}
		}
	}
	return err
}

func (a *app) printPatch(ctx context.Context, w io.Writer, s session.Session, escape bool) error {
	file, err := s.Open(evidence.PatchFile)
	if errors.Is(err, fs.ErrNotExist) {
		if _, unfinished := finished(s, "no patch"); unfinished != nil {
			return unfinished
		}
	}
	if err != nil {
		return err
	}
	defer file.Close()
	patch := &wanted{ctx, w, file}
	if !a.json {
		if escape {
			shown := &visible{w: w}
			_, err = io.Copy(shown, patch)
			return errors.Join(err, shown.Close())
		}
		_, err = io.Copy(w, patch)
		return err
	}
	text, err := io.ReadAll(patch)
	if err != nil {
		return err
	}
	st, err := s.Inspect()
	if err != nil {
		return err
	}
	return printJSON(w, map[string]any{"session_id": s.ID, "changed_files": st.Report.ChangedFiles, "patch": string(text)})
}

// wanted reads while the command is not interrupted and someone reads what it writes: a
// file may be of any size.
type wanted struct {
	ctx context.Context
	to  io.Writer
	io.Reader
}

func (r *wanted) Read(p []byte) (int, error) {
	switch {
	case r.ctx.Err() != nil:
		return 0, context.Cause(r.ctx)
	case unread(r.to):
		return 0, io.EOF
	}
	return r.Reader.Read(p)
}

// compare prints the fields of two reports that differ.
func (a *app) compare(w io.Writer, s, t session.Session) error {
	differences, err := session.Compare(s, t)
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(w, map[string]any{"sessions": []string{s.ID, t.ID}, "differences": differences})
	}
	if len(differences) == 0 {
		fmt.Fprintln(w, "The two runs agree in everything but their ids and times.")
	}
	for _, d := range differences {
		fmt.Fprintf(w, "%s\n  - %s\n  + %s\n", d.Field, plain(d.A), plain(d.B))
	}
	return nil
}

// logFiles are what remit logs prints, in order.
var logFiles = []string{evidence.BackendDir + "/stdout.log", evidence.BackendDir + "/stderr.log", evidence.TestLogFile}

func (a *app) logsCommand() *cobra.Command {
	var raw, all bool
	cmd := &cobra.Command{
		Use: "logs SESSION", Short: "Print what the engine and the verification commands printed", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.sessionArgs,
		Long: `Logs prints what the engine printed, and each verification command with its result
and output, before and after the change. Go's test JSON is printed as text. Runs
that control the tests, of which some have to fail, are left out; --all prints them.
Control characters are taken out, so that output cannot drive the terminal; --raw
prints every byte of the files as they are in the bundle. Where they are not as they
were sealed, stderr says so.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return shown(cmd, a.printLogs(cmd.OutOrStdout(), s, raw, all), s)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print every byte as it was written")
	cmd.Flags().BoolVar(&all, "all", false, "print the runs that control the tests too")
	return cmd
}

func (a *app) printLogs(w io.Writer, s session.Session, raw, all bool) error {
	doc := map[string]string{}
	for _, name := range logFiles {
		f, err := s.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			return err
		}
		if a.json {
			doc[name] = strings.ToValidUTF8(string(text), "\uFFFD")
			continue
		}
		if runs, ok := runsOf(text); ok && !raw && name == evidence.TestLogFile {
			printTestLog(w, runs, all)
			continue
		}
		if len(text) == 0 && !raw {
			continue
		}
		fmt.Fprintf(w, "==> %s <==\n", name)
		if raw {
			if o, ok := w.(*output); ok {
				o.raw()
			}
			if _, err := w.Write(text); err != nil {
				return err
			}
			continue
		}
		printPlain(w, text)
	}
	if a.json {
		return printJSON(w, doc)
	}
	return nil
}

// exportRun writes the bundle of a run that has just ended into a directory.
func exportRun(s session.Session, dir string) error {
	if err := copySession(s, dir); err != nil {
		return err
	}
	return writeZip(s, filepath.Join(dir, "BUNDLE.zip"))
}

// emptyDir makes a directory or refuses one that has something in it: a file
// that was there before must not look like a part of the bundle.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		e := reason.Errorf(reason.OutputExists, "the directory is not empty")
		e.File = dir
		return e
	}
	return err
}
