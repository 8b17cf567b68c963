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
	"remit/work/depend"
	"remit/work/harness"
	"remit/work/sandbox"
)

// reproduceFlags are shared by remit reproduce and remit verify.
type reproduceFlags struct {
	repo, sandbox string
	toolchains    []string
	repeat        int
	log           string
	fresh         bool   // of remit verify
	head          string // of remit reproduce
}

func (f *reproduceFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.repo, "repo", "", "a repository that has the baseline commit: it is only read")
	fl.IntVar(&f.repeat, "repeat", 1, "how often the verifier repeats the commands")
	fl.StringVar(&f.log, "log", "", "write the full output of every command to this file")
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver: bwrap (default), none")
	chooseDriver(cmd)
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
}

func (a *app) reproduceCommand() *cobra.Command {
	f := new(reproduceFlags)
	cmd := &cobra.Command{
		Use: "reproduce BUNDLE --repo DIR", Short: "Rebuild a change from its bundle alone, and verify it again", Args: cobra.ExactArgs(1),
		Long: `Reproduce audits the bundle, applies its patch to the baseline commit in any clone
of the repository, compares the resulting tree with the recorded one and runs the
verification again on a fresh checkout. --head REV fails unless the commit REV, such as
the head of a pull request as it is at the forge, has that tree: a branch can have moved.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.repo == "" {
				return usagef("say which repository has the baseline: --repo DIR")
			}
			return a.reproduce(cmd, f, a.auditPath(cmd.Context(), args[0]), false)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.head, "head", "", "fail unless this commit of --repo has the tree that was verified")
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
			s, err := a.find(cmd.Context(), args[0])
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
	files, closeFiles, err := auditedFiles(cmd.Context(), path)
	if err != nil {
		return err
	}
	defer closeFiles()
	driver, err := sandbox.Open(cmd.Context(), a.sandboxOptions(f.sandbox, f.toolchains))
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
	out, err := harness.Reproduce(cmd.Context(), harness.Reproduction{Evidence: files, Repo: f.repo, Head: f.head, Home: a.home,
		Sandbox: driver, Repeat: f.repeat, Log: log, Progress: view, Verdicts: cached, Fresh: f.fresh, Registries: a.registries()})
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
	fmt.Fprintf(w, "%s  %s (recorded: %s)\n  baseline  %s\n  patch     %s\n  tree      %s\n", upper(out.Status), out.SessionID,
		out.RecordedStatus, out.BaselineCommit, out.PatchSHA256, out.HeadTree)
	if v := out.Verification; v != nil {
		fmt.Fprintf(w, "  tests     %d fixed, %d kept, %d broken\n", v.Counts.FailToPass, v.Counts.PassToPass, v.Counts.PassToFail)
	}
	if out.Cached {
		fmt.Fprintf(w, "  cached    nothing was run: the verdict is of %s (key %s); --fresh makes it anew\n", out.CachedAt, out.CacheKey)
	}
	if e := out.Environment; e != nil {
		for _, l := range e.Layers {
			fmt.Fprintf(w, "  layer     %s of %s, %s\n", plain(l.Ecosystem), plain(l.Dir), depend.Short(l.Key))
		}
		for _, d := range e.Differences {
			fmt.Fprintf(w, "  DIFFERS   %s\n", plain(d))
		}
	}
	for _, finding := range out.Findings {
		fmt.Fprintf(w, "  %s\n", plain(finding.String()))
	}
}

// auditedFiles opens the files of a bundle that passes its audit; nothing of one
// that does not is believed.
func auditedFiles(ctx context.Context, path string) (fs.FS, func(), error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		opt := auditOptions(evidence.Trust{})
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
	opt := auditOptions(evidence.Trust{})
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
