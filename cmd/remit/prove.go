package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/sandbox"
)

// auditFlags are the flags of remit audit.
type auditFlags struct {
	checks, run              []string
	report, profile, sandbox string
	extract, logs            string
	toolchains               []string
}

func (a *app) auditCommand() *cobra.Command {
	f := new(auditFlags)
	cmd := &cobra.Command{
		Use: "audit PATH", Short: "Check a session directory or a bundle zip offline", Args: cobra.ExactArgs(1), ValidArgsFunction: nil,
		Long: `Audit checks integrity, portability, manifest, schemas, the journal's hash chain,
that every artifact is what the journal gives and says what the journal says of it,
and that the patch stays inside the contract. It reports every finding with a stable
code, and what cannot be checked is blocked, never passed.

PATH is a session directory, a session id, or a zip. The profile is detected: bundle
for Remit's own, portable for any self-validating zip with a manifest.txt. --checks
FILE holds import checks (one shell command a line) and --run gives test commands;
both run in the sandbox over a fresh extraction.`,
		Example: `  remit audit latest
  remit audit bundle.zip --report AUDIT.md
  remit audit other.zip --checks imports.txt --run 'python3 -m pytest -q'`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.audit(cmd, f, args[0]) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.checks, "checks", nil, "file of import checks: one shell command a line, # begins a comment (repeatable)")
	fl.StringArrayVar(&f.run, "run", nil, "test command (repeatable)")
	fl.StringVar(&f.report, "report", "", "write the PASS/FAIL report with the verbatim output to this file")
	fl.StringVar(&f.logs, "logs", "", "write the raw output of every command to this directory (default REPORT.logs beside --report)")
	fl.StringVar(&f.profile, "profile", "", "bundle or portable (default: detected)")
	fl.StringVar(&f.extract, "extract", "", "write the checked content to this new directory")
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver for the commands: bwrap (default), none")
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
	return cmd
}

func (a *app) audit(cmd *cobra.Command, f *auditFlags, name string) error {
	opt := auditOptions()
	opt.Profile, opt.Run, opt.Extract, opt.LogDir = bundle.Profile(f.profile), f.run, f.extract, f.logs
	if f.profile != "" && opt.Profile != bundle.ProfileBundle && opt.Profile != bundle.ProfilePortable {
		return usagef("--profile %q: must be bundle or portable", f.profile)
	}
	for _, file := range f.checks {
		commands, err := readCommands(file)
		if err != nil {
			return err
		}
		opt.Checks = append(opt.Checks, commands...)
	}
	if f.report != "" && opt.LogDir == "" && len(opt.Checks)+len(opt.Run) > 0 {
		opt.LogDir = f.report + ".logs"
	}
	target := a.auditPath(name)
	for _, written := range []string{f.report, opt.LogDir, f.extract} {
		if written != "" && within(written, target) {
			return usagef("%s is what is being audited, or lies in it: an audit changes nothing", written)
		}
	}
	if len(opt.Checks)+len(opt.Run) > 0 {
		driver, err := sandbox.Open(cmd.Context(), sandbox.Options{Driver: f.sandbox, StateDir: a.home.SandboxDir(), Toolchains: f.toolchains})
		if err != nil {
			printOne(os.Stderr, err) // the gates that need it are blocked
		} else {
			opt.Runner = harness.Runner{Sandbox: driver, Limits: sandbox.DefaultLimits()}
			if err := a.home.Distrust(driver); err != nil {
				return err
			}
			defer func() { _ = a.home.Distrust(driver) }() // it could be emptied before
		}
	}
	rep, err := bundle.Audit(cmd.Context(), target, opt)
	if err != nil {
		return err
	}
	if f.report != "" {
		if err := writeReport(rep, f.report); err != nil {
			return err
		}
	}
	if a.json {
		err = printJSON(cmd.OutOrStdout(), rep)
	} else {
		err = printAudit(cmd.OutOrStdout(), rep)
	}
	if err == nil && rep.ExitCode != 0 {
		err = exitCode(rep.ExitCode)
	}
	return err
}

// within reports whether path is the file or directory top, or would lie below
// it, whatever links lead there.
func within(path, top string) bool {
	want, err := os.Stat(top)
	if err != nil {
		return false // there is nothing to write into
	}
	at, err := filepath.Abs(path)
	if err != nil {
		return true
	}
	for {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			at = real
		}
		if info, err := os.Stat(at); err == nil && os.SameFile(info, want) {
			return true
		}
		parent := filepath.Dir(at)
		if parent == at {
			return false
		}
		at = parent
	}
}

// auditPath lets a session id stand for its directory.
func (a *app) auditPath(name string) string {
	if _, err := os.Lstat(name); err == nil {
		return name
	}
	if s, err := a.home.Find(name); err == nil {
		return s.Dir
	}
	return name
}

// auditOptions bring the gates that know what the files of a session mean.
func auditOptions() (opt bundle.Options) {
	opt.Gates, opt.Further = harness.AuditGates()
	return opt
}

func writeReport(rep *bundle.Report, name string) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return rep.WriteReport(f)
}

func printAudit(w io.Writer, rep *bundle.Report) error {
	for _, g := range rep.Gates {
		line := fmt.Sprintf("%-8s %s", g.Status, g.Name)
		if g.Reason != "" {
			line += ": " + plain(g.Reason)
		}
		fmt.Fprintln(w, line)
		for _, finding := range g.Findings {
			fmt.Fprintf(w, "         %s\n", plain(finding.String()))
		}
	}
	for _, c := range rep.Commands {
		exit := "did not end"
		if c.ExitCode != nil {
			exit = fmt.Sprintf("exit %d", *c.ExitCode)
		}
		fmt.Fprintf(w, "         %s %s: %s\n", c.Gate, plain(c.Command), exit)
	}
	_, err := fmt.Fprintf(w, "%s  %s (profile %s, %d files, %d bytes)\n", upper(string(rep.Status)), plain(rep.Path), rep.Profile, rep.Entries, rep.Bytes)
	return err
}

// reproduceFlags are shared by remit reproduce and remit verify.
type reproduceFlags struct {
	repo, sandbox string
	toolchains    []string
	repeat        int
	log           string
	fresh         bool // of remit verify
}

func (f *reproduceFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.repo, "repo", "", "a repository that has the baseline commit: it is only read")
	fl.IntVar(&f.repeat, "repeat", 1, "how often the verifier repeats the commands")
	fl.StringVar(&f.log, "log", "", "write the full output of every command to this file")
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver: bwrap (default), none")
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
}

func (a *app) reproduceCommand() *cobra.Command {
	f := new(reproduceFlags)
	cmd := &cobra.Command{
		Use: "reproduce BUNDLE --repo DIR", Short: "Rebuild a change from its bundle alone, and verify it again", Args: cobra.ExactArgs(1),
		Long: `Reproduce audits the bundle, applies its patch to the baseline commit in any clone
of the repository, compares the resulting tree with the recorded one and runs the
verification again on a fresh checkout.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.repo == "" {
				return usagef("say which repository has the baseline: --repo DIR")
			}
			return a.reproduce(cmd, f, a.auditPath(args[0]), false)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	f := new(reproduceFlags)
	cmd := &cobra.Command{
		Use: "verify SESSION|DIR", Short: "Run the verifier on a session again, now", Args: cobra.ExactArgs(1), ValidArgsFunction: a.sessionArgs,
		Long: `Verify applies the session's patch to a fresh checkout of its baseline and runs the
verification commands before and after, as the run did. The session is not changed.

A verdict that was made within a day for the same patch, baseline, commands, verifier,
sandbox and environment is given again without running anything, and says so; --fresh
makes it anew. What is in that cache comes from this command alone, never from a run.
Without a sandbox (--sandbox none) nothing is cached.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.home.Find(args[0])
			if err != nil {
				return err
			}
			if f.repo == "" {
				local, err := a.home.LoadLocal(s.ID)
				if err != nil {
					return err
				}
				if f.repo = local.Repo; f.repo == "" {
					return usagef("this machine does not know the repository of %s: give --repo DIR", s.ID)
				}
			}
			return a.reproduce(cmd, f, s.Dir, true)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.fresh, "fresh", false, "run the verification even if its verdict is cached")
	return cmd
}

// reproduce verifies a session again. cached allows a verdict of the cache.
func (a *app) reproduce(cmd *cobra.Command, f *reproduceFlags, path string, cached bool) (err error) {
	files, closeFiles, err := audited(cmd.Context(), path)
	if err != nil {
		return err
	}
	defer closeFiles()
	driver, err := sandbox.Open(cmd.Context(), sandbox.Options{Driver: f.sandbox, StateDir: a.home.SandboxDir(), Toolchains: f.toolchains})
	if err != nil {
		return err
	}
	log := io.Discard
	if f.log != "" {
		file, err := os.Create(f.log)
		if err != nil {
			return fmt.Errorf("writing the log: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		log = file
	}
	view := newProgress(os.Stderr)
	out, err := harness.Reproduce(cmd.Context(), harness.Reproduction{Evidence: files, Repo: f.repo, Home: a.home, Sandbox: driver, Repeat: f.repeat, Log: log, Progress: view,
		Verdicts: cached, Fresh: f.fresh})
	view.close()
	if err != nil {
		return err
	}
	if a.json {
		err = printJSON(cmd.OutOrStdout(), out)
	} else {
		printReproduced(cmd.OutOrStdout(), out)
	}
	if code := evidence.ExitCode(out.Status); err == nil && code != 0 {
		err = exitCode(code)
	}
	return err
}

func printReproduced(w io.Writer, out *harness.Reproduced) {
	fmt.Fprintf(w, "%s  %s (recorded: %s)\n  baseline  %s\n  patch     %s\n  tree      %s\n", upper(out.Status), out.SessionID, out.RecordedStatus,
		out.BaselineCommit, out.PatchSHA256, out.HeadTree)
	if v := out.Verification; v != nil {
		fmt.Fprintf(w, "  tests     %d fixed, %d kept, %d broken\n", v.Counts.FailToPass, v.Counts.PassToPass, v.Counts.PassToFail)
	}
	if out.Cached {
		fmt.Fprintf(w, "  cached    nothing was run: the verdict is of %s (key %s); --fresh makes it anew\n", out.CachedAt, out.CacheKey)
	}
	for _, finding := range out.Findings {
		fmt.Fprintf(w, "  %s\n", plain(finding.String()))
	}
}

// audited opens the files of a bundle that passes its audit; nothing of one
// that does not is believed.
func audited(ctx context.Context, path string) (fs.FS, func(), error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		opt := auditOptions()
		opt.Profile = bundle.ProfileBundle
		rep, err := bundle.Audit(ctx, path, opt)
		if err != nil {
			return nil, nil, err
		}
		if rep.Status != bundle.Pass {
			return nil, nil, auditRefusal(path, rep)
		}
		return os.DirFS(path), func() {}, nil
	}
	dir, err := os.MkdirTemp("", "remit-bundle-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a place for the bundle: %w", err)
	}
	remove := func() { _ = os.RemoveAll(dir) } // a temporary directory
	content := filepath.Join(dir, "content")
	opt := auditOptions()
	opt.Profile, opt.Extract = bundle.ProfileBundle, content
	rep, err := bundle.Audit(ctx, path, opt)
	if err == nil && rep.Status != bundle.Pass {
		err = auditRefusal(path, rep)
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return os.DirFS(content), remove, nil
}

// auditRefusal carries the first finding of a failed audit.
func auditRefusal(path string, rep *bundle.Report) error {
	for _, g := range rep.Gates {
		if len(g.Findings) > 0 {
			first := g.Findings[0]
			e := reason.Errorf(first.Code, "the audit found: %s", first)
			e.File = path
			return e.WithHint("see all findings with `remit audit %s`", path)
		}
	}
	e := reason.Errorf(reason.GateUnavailable, "the audit did not pass")
	e.File = path
	return e.WithHint("see `remit audit %s`", path)
}
