package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"remit/law/audit"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/work/harness"
	"remit/work/sandbox"
	"remit/work/session"
)

// auditFlags are the flags of remit audit.
type auditFlags struct {
	checks, run              []string
	report, profile, sandbox string
	extract, logs            string
	toolchains               []string
	repo, expect, commit     string
	provenance               string
	allowedSigners           string
	revokedKeys              string
	requireSigned, strict    bool
}

func (a *app) auditCommand() *cobra.Command {
	f := new(auditFlags)
	cmd := &cobra.Command{
		Use: "audit PATH | audit --commit REV --repo R", Short: "Check a session directory or a bundle zip offline", Args: f.words,
		ValidArgsFunction: nil,
		Long: `Audit checks integrity, portability, manifest, schemas, the journal's hash chain,
that every artifact is what the journal gives and says what the journal says of it,
and that the patch stays inside the contract. It reports every finding with a stable
code, and what cannot be checked is blocked, never passed.

PATH is a session directory, a session id, or a zip. The profile is detected: bundle
for Remit's own, portable for any self-validating zip with a manifest.txt. --checks
FILE holds import checks (one shell command a line) and --run gives test commands;
both run in the sandbox over a fresh extraction. Without them a portable bundle is
checked with what it names itself: the lines "imports: COMMAND" and "tests: COMMAND"
of its audit-commands.txt, or, where it has a pytest.ini, by importing its Python
packages and running pytest. A gate for which nothing is named is NOT MADE;
--strict blocks on that.

A PASS says that the evidence is complete and agrees with itself. Who vouches for it
is said only for a signature by a key that you trust: --allowed-signers FILE, or the
list of ` + "`remit keys trust`" + `. The statements of ` + "`remit export --to attestation`" + ` are
checked as well, each against the evidence and its key; what a key of --revoked-keys or
` + "`remit keys revoke`" + ` has signed fails. --repo CLONE rebuilds the change besides and runs its
verification again, as ` + "`remit reproduce`" + ` does. --expect DIGEST looks for a digest that
a commit, a pull request or a message names, and says after which entry of the journal
it was that of the receipt: entries that came later do not matter.

--commit REV --repo R looks for the note of a commit in place of a bundle: who vouches
for its tree, and which receipt has the evidence. Where PATH is a released binary, or with
--provenance FILE, it is held against the signed statement of where it is from.`,
		Example: `  remit audit latest
  remit audit bundle.zip --report AUDIT.md
  remit audit bundle.zip --allowed-signers ~/team.signers --repo ~/src/project
  remit audit bundle.zip --expect sha256:…
  remit audit --commit HEAD --repo . --allowed-signers ~/team.signers
  remit audit ./remit_v1.2.3_linux_amd64 --allowed-signers ./allowed_signers
  remit audit other.zip --checks imports.txt --run 'python3 -m pytest -q'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.commit != "":
				return a.auditNote(cmd, f)
			case f.provenance != "" || isProgram(args[0]):
				return a.auditBinary(cmd, f, args[0])
			}
			return a.audit(cmd, f, args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.checks, "checks", nil, "file of import checks: one shell command a line, # begins a comment (repeatable)")
	fl.StringArrayVar(&f.run, "run", nil, "test command (repeatable)")
	fl.BoolVar(&f.strict, "strict", false, "block where the gates imports and tests are not made")
	fl.StringVar(&f.report, "report", "", "write the PASS/FAIL report with the verbatim output to this file")
	fl.StringVar(&f.logs, "logs", "", "write the raw output of every command to this directory (default REPORT.logs beside --report)")
	fl.StringVar(&f.profile, "profile", "", "bundle or portable (default: detected)")
	fl.StringVar(&f.extract, "extract", "", "write the checked content to this new directory")
	fl.StringVar(&f.repo, "repo", "", "rebuild the change in this clone and verify it again")
	fl.StringVar(&f.commit, "commit", "", "audit the note of this commit of --repo, which remit export --to note has made")
	fl.StringVar(&f.provenance, "provenance", "", "audit PATH as a released binary, by its provenance in this file (default: PATH.intoto.jsonl, of remit keys attest)")
	fl.StringVar(&f.expect, "expect", "", "fail unless this SHA-256 digest was once that of the bundle's receipt")
	fl.StringVar(&f.allowedSigners, "allowed-signers", "", "file of keys that you trust (ssh-keygen): fail unless one of them has signed")
	fl.StringVar(&f.revokedKeys, "revoked-keys", "", "file of public keys whose signatures count no more (default: the list of remit keys revoke)")
	fl.BoolVar(&f.requireSigned, "require-signed", false, "fail unless a key that you trust has signed")
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver for the commands: bwrap (default), none")
	chooseDriver(cmd)
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
	return cmd
}

// words wants a PATH or a commit.
func (f *auditFlags) words(cmd *cobra.Command, args []string) error {
	switch {
	case f.commit != "" && len(args) > 0:
		return usagef("--commit audits the note of a commit: give it without PATH")
	case f.commit == "" && len(args) == 0:
		return usagef("%s takes PATH, or --commit REV: no word was given", cmd.CommandPath())
	}
	return cobra.MaximumNArgs(1)(cmd, args)
}

func (a *app) audit(cmd *cobra.Command, f *auditFlags, name string) error {
	target := a.auditPath(cmd.Context(), name)
	if err := a.auditable(name, target); err != nil {
		return err
	}
	opt, err := a.auditChoices(f, target)
	if err != nil {
		return err
	}
	runner := &auditRunner{home: a.home, open: func() (sandbox.Driver, error) {
		return sandbox.Open(cmd.Context(), a.sandboxOptions(f.sandbox, f.toolchains))
	}}
	opt.Runner = runner
	defer runner.close()
	if f.repo != "" {
		var remove func()
		if opt.Extract, remove, err = extraction(target); err != nil {
			return err
		}
		defer remove()
	}
	rep, err := bundle.Audit(cmd.Context(), target, opt)
	if err != nil {
		return err
	}
	var again *harness.Reproduced
	if f.repo != "" {
		again = a.rebuild(cmd.Context(), f, rep, cmp.Or(opt.Extract, target))
		rep.Extracted = false // it was for the reproduction, and is removed
	}
	if rep.Conclusion = conclusion(rep, name, again); rep.Conclusion != "" {
		rep.Conclusion += a.trustAdvice(rep, name)
	}
	return a.audited(cmd.OutOrStdout(), f, rep, again)
}

// ofBundle is a flag that was given and makes sense for a bundle of Remit only,
// "" for none.
func (f *auditFlags) ofBundle() string {
	switch {
	case f.allowedSigners != "":
		return "--allowed-signers"
	case f.requireSigned:
		return "--require-signed"
	case f.revokedKeys != "":
		return "--revoked-keys"
	case f.expect != "":
		return "--expect"
	case f.repo != "":
		return "--repo"
	}
	return ""
}

// audited prints the report and returns its exit code.
func (a *app) audited(w io.Writer, f *auditFlags, rep *bundle.Report, again *harness.Reproduced) (err error) {
	if f.report != "" {
		if err := writeReport(rep, f.report); err != nil {
			return err
		}
	}
	if a.json {
		err = printJSON(w, struct {
			*bundle.Report
			Reproduction *harness.Reproduced `json:"reproduction,omitempty"`
		}{rep, again})
	} else {
		err = printAudit(w, rep)
	}
	if err == nil && rep.ExitCode != 0 {
		err = exitCode(rep.ExitCode)
	}
	return err
}

// auditChoices are the options that the flags give.
func (a *app) auditChoices(f *auditFlags, target string) (opt bundle.Options, err error) {
	trust, err := a.trust(f, target)
	if err != nil {
		return opt, err
	}
	opt = auditOptions(trust)
	opt.Profile, opt.Run, opt.Extract, opt.LogDir = bundle.Profile(f.profile), f.run, f.extract, f.logs
	// What a bundle names itself is as hostile as the bundle.
	opt.Strict, opt.Named = f.strict, f.sandbox != sandbox.DriverNone
	if f.profile != "" && opt.Profile != bundle.ProfileBundle && opt.Profile != bundle.ProfilePortable {
		return opt, usagef("--profile %q: must be bundle or portable", f.profile)
	}
	if asked := f.ofBundle(); asked != "" {
		// Detecting the profile would let a zip without receipt and journal pass
		// by what was asked for.
		if opt.Profile == bundle.ProfilePortable {
			return opt, usagef("%s asks for a bundle, and --profile portable looks into none", asked)
		}
		opt.Profile = bundle.ProfileBundle
	}
	if f.repo != "" && f.extract != "" {
		return opt, usagef("--repo and --extract: give one of them; an extraction is handed out before anything is rebuilt")
	}
	if f.expect != "" {
		digest, err := expected(f.expect)
		if err != nil {
			return opt, err
		}
		opt.Further = append(opt.Further, bundle.Gate(evidence.Expected{Digest: digest}.Gate()))
	}
	for _, file := range f.checks {
		commands, err := readCommands(file)
		if err != nil {
			return opt, err
		}
		opt.Checks = append(opt.Checks, commands...)
	}
	if f.report != "" && opt.LogDir == "" && len(opt.Checks)+len(opt.Run) > 0 {
		opt.LogDir = f.report + ".logs"
	}
	for _, written := range []string{f.report, opt.LogDir, f.extract} {
		if written != "" && within(written, target) {
			return opt, usagef("%s is what is being audited, or lies in it: an audit changes nothing", written)
		}
	}
	return opt, nil
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
func (a *app) auditPath(ctx context.Context, name string) string {
	if _, err := os.Lstat(name); err == nil {
		return name
	}
	if s, err := a.find(ctx, name); err == nil {
		return s.Dir
	}
	return name
}

// auditOptions bring the gates that know what the files of a session mean.
func auditOptions(trust evidence.Trust) (opt bundle.Options) {
	_, opt.Further = audit.Gates()
	for _, g := range trust.Gates() {
		opt.Gates = append(opt.Gates, bundle.Gate(g))
	}
	opt.RunStatus = evidence.RunStatus
	return opt
}

func writeReport(rep *bundle.Report, name string) (err error) {
	if !strings.HasPrefix(name, "/dev/") { // as /dev/stdout is
		if err := bundle.RefuseLink(name); err != nil {
			return err
		}
	}
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
			if finding.Hint != "" {
				fmt.Fprintf(w, "           hint: %s\n", plain(finding.Hint))
			}
		}
	}
	for _, c := range rep.Commands {
		exit := "did not end"
		if c.ExitCode != nil {
			exit = fmt.Sprintf("exit %d", *c.ExitCode)
		}
		fmt.Fprintf(w, "         %s %s: %s%s\n", c.Gate, plain(c.Command), exit, namedBy(c))
	}
	printNotMade(w, rep)
	_, err := fmt.Fprintf(w, "%s  %s (profile %s, %d files, %d bytes)\n", plain(rep.Verdict()), plain(rep.Path), rep.Profile,
		rep.Entries, rep.Bytes)
	if rep.Conclusion != "" {
		_, err = fmt.Fprintln(w, plain(rep.Conclusion))
	}
	return err
}

// auditRunner runs the commands of an audit. The sandbox is opened for the first
// of them: which commands there are may be known only when the bundle was read.
type auditRunner struct {
	home   session.Home
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
