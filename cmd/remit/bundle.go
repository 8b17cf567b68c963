package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"remit/proof/atomicfile"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/redact"
	"remit/work/sandbox"
)

// packFlags are the flags of remit bundle make and deliver.
type packFlags struct {
	out, layout, report string
	checks, run         []string
	toolchains          []string
	secrets             []string
	strict              bool
}

func (f *packFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "the zip to write (needed; must not exist yet)")
	fl.StringArrayVar(&f.checks, "checks", nil, "file of import checks: one shell command a line, # begins a comment (repeatable)")
	fl.StringArrayVar(&f.run, "run", nil, "test command (repeatable)")
	fl.StringArrayVar(&f.secrets, "allow-secret", nil,
		"pack this file, or what is below this DIR/, although it looks like a secret (repeatable)")
	fl.StringVar(&f.report, "report", "", "the PASS/FAIL report (default PASS.md, FAIL.md or BLOCKED.md beside the zip)")
	fl.BoolVar(&f.strict, "strict", false, "block where the gates imports and tests are not made")
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
}

func (a *app) bundleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bundle", Short: "Self-validating zips of any directory",
		Long: `A portable bundle is a zip with a manifest.txt of all its files, which anybody can check
with ` + "`remit audit`" + ` or sha256sum. make packs a directory, deliver unpacks a bundle
from another person, checks and runs it, and packs again what was checked.

Both audit what they made before it gets its name, and leave a report with the verbatim
output of every command. Commands run in the sandbox, over a fresh extraction, never in
the directory itself.`,
	}
	cmd.AddCommand(a.bundleMakeCommand(), a.bundleDeliverCommand())
	return cmd
}

func (a *app) bundleMakeCommand() *cobra.Command {
	f := new(packFlags)
	cmd := &cobra.Command{
		Use: "make DIR --out FILE.zip", Short: "Make a self-validating zip of a directory", Args: cobra.ExactArgs(1),
		Long: `Make writes the files of DIR and a manifest.txt of them into a zip: the same bytes for the
same names and contents, whatever the modes, times and owner of the files are. What a run
leaves behind (__pycache__, *.pyc, caches of tools) and .git stay out. DIR is not changed.

What an audit would refuse is refused, each with its own code: links, devices, names that
are not the same file everywhere, files that are too large or too many. So is a file that
looks like a secret, by its name (.env, id_rsa) or by what is in it (keys, tokens, the
credentials of this environment); --allow-secret FILE packs it all the same. --layout names
files that must be there: a file with one path a line, or a layout that is shipped
(` + strings.Join(bundle.Layouts(), ", ") + `). Without --checks and --run the bundle is checked with the
commands that it names itself, as in ` + "`remit audit`" + `.`,
		Example: `  remit bundle make build --out build.zip --run 'python3 -m unittest -q'
  remit bundle make work --out work.zip --layout files.txt --checks imports.txt`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.bundleMake(cmd, f, args[0]) },
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.layout, "layout", "", "file of paths that must be there, or the name of a shipped layout")
	return cmd
}

func (a *app) bundleDeliverCommand() *cobra.Command {
	f := new(packFlags)
	cmd := &cobra.Command{
		Use: "deliver FILE.zip --out DELIVERABLE.zip", Short: "Check a bundle, run it, and pack what was checked", Args: cobra.ExactArgs(1),
		Long: `Deliver audits a bundle, runs its commands over fresh extractions, and packs the files that
were checked: not those of a workspace in which something ran, so that no cache and no
by-product is in the deliverable. It is the same zip each time, and that of
` + "`remit bundle make`" + ` for the same files. A bundle that does not pass is not delivered.`,
		Example: `  remit bundle deliver theirs.zip --out deliverable.zip --run 'python3 -m pytest -q'`,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.bundleDeliver(cmd, f, args[0]) },
	}
	f.add(cmd)
	return cmd
}

func (a *app) bundleMake(cmd *cobra.Command, f *packFlags, dir string) error {
	opt, err := f.options(dir)
	if err != nil {
		return err
	}
	pack := f.pack(dir)
	if pack.Required, err = f.required(dir); err != nil {
		return err
	}
	return a.packed(cmd, f, pack, opt)
}

func (a *app) bundleDeliver(cmd *cobra.Command, f *packFlags, file string) error {
	opt, err := f.options(file)
	if err != nil {
		return err
	}
	top, err := os.MkdirTemp("", "remit-deliver-")
	if err != nil {
		return fmt.Errorf("making a place for the bundle: %w", err)
	}
	defer func() { _ = os.RemoveAll(top) }() // a temporary directory
	opt.Extract = filepath.Join(top, "content")
	rep, err := a.packAudit(cmd, f, file, opt)
	if err != nil {
		return err
	}
	if rep.Status != bundle.Pass {
		return a.packReported(cmd, f, rep, nil)
	}
	rep.Extracted = false // it was for the deliverable, and is removed
	made, digest, err := f.place(cmd, f.pack(opt.Extract), func(zip string) (*bundle.Report, error) {
		return bundle.Audit(cmd.Context(), zip, auditOptions(evidence.Trust{}))
	})
	if err != nil {
		return err
	}
	rep.Conclusion = fmt.Sprintf("What was checked is delivered as %s, %s.", filepath.Base(f.out), digest)
	return a.packReported(cmd, f, rep, made)
}

// pack is what is packed, and what is not without a word of the user.
func (f *packFlags) pack(dir string) bundle.Pack {
	secrets := redact.New(nil)
	return bundle.Pack{Dir: dir, Screen: func(name string, content io.Reader) ([]reason.Finding, error) {
		for _, allowed := range f.secrets {
			if name == allowed || strings.HasSuffix(allowed, "/") && strings.HasPrefix(name, allowed) {
				return nil, nil
			}
		}
		found, err := secrets.File(name, content)
		for i := range found {
			if found[i].Path != name { // it is redacted, and not repeated here
				found[i].Hint = "give it another name"
				continue
			}
			found[i].Hint = "take it out of the directory; --allow-secret " + form.ShellWord(name) + " packs it all the same"
		}
		return found, err
	}}
}

// options are those of the audit of a bundle that comes from, or is, source.
func (f *packFlags) options(source string) (opt bundle.Options, err error) {
	if f.out == "" {
		return opt, usagef("--out FILE.zip is needed: where the bundle goes")
	}
	if _, err := os.Stat(source); err != nil {
		return opt, err
	}
	for _, written := range []string{f.out, f.report, f.reportPath(bundle.Pass)} {
		if written != "" && within(written, source) {
			return opt, usagef("%s lies in %s, or is it: a bundle is never written into what it is made of", written, source)
		}
	}
	if _, err := os.Lstat(f.out); err == nil {
		e := reason.Errorf(reason.OutputExists, "the file is already there")
		e.File = f.out
		return opt, e
	}
	for _, s := range []bundle.Status{bundle.Pass, bundle.Fail, bundle.Blocked} {
		if err := replaceable(f.reportPath(s)); err != nil {
			return opt, err
		}
	}
	opt = auditOptions(evidence.Trust{})
	opt.Run, opt.Strict, opt.Named = f.run, f.strict, true
	for _, file := range f.checks {
		commands, err := readCommands(file)
		if err != nil {
			return opt, err
		}
		opt.Checks = append(opt.Checks, commands...)
	}
	opt.LogDir = strings.TrimSuffix(cmp.Or(f.report, f.out), ".zip") + ".logs"
	return opt, nil
}

// reportPath is where the report of an audit that ended so lies.
func (f *packFlags) reportPath(s bundle.Status) string {
	return cmp.Or(f.report, filepath.Join(filepath.Dir(f.out), strings.ToUpper(string(s))+".md"))
}

// reportHead is how every report begins.
const reportHead = "# Audit: "

// replaceable refuses a file that is there and no report.
func replaceable(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil && !errors.Is(err, unix.ELOOP) {
		return err
	}
	defer f.Close()
	head := make([]byte, len(reportHead))
	if _, err := io.ReadFull(f, head); err == nil && string(head) == reportHead {
		return nil
	}
	e := reason.Errorf(reason.OutputExists, "the file is already there, and is no report of an audit")
	e.File = name
	return e.WithHint("give another name with --report FILE")
}

// required are the files that --layout names.
func (f *packFlags) required(dir string) ([]string, error) {
	if f.layout == "" {
		return nil, nil
	}
	if list, ok := bundle.Layout(f.layout); ok {
		return list, nil
	}
	text, err := readFlagFile(f.layout, maxTokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("--layout %s: there is no such file, and the layouts that are shipped are %s", f.layout,
			strings.Join(bundle.Layouts(), ", "))
	}
	if err != nil {
		return nil, err
	}
	list, err := bundle.ParseLayout(text)
	if coded, ok := errors.AsType[*reason.Error](err); ok {
		coded.File = f.layout
	}
	return list, err
}

// packed makes a bundle, audits it with its commands, and reports.
func (a *app) packed(cmd *cobra.Command, f *packFlags, pack bundle.Pack, opt bundle.Options) error {
	var rep *bundle.Report
	made, _, err := f.place(cmd, pack, func(zip string) (*bundle.Report, error) {
		var err error
		if rep, err = a.packAudit(cmd, f, zip, opt); err == nil {
			rep.Path = filepath.Base(f.out)
		}
		return rep, err
	})
	if refused, ok := errors.AsType[*bundle.Refused](err); ok {
		rep = &bundle.Report{Schema: bundle.ReportSchema, Path: filepath.Base(pack.Dir), Profile: bundle.ProfilePortable,
			Commands: []bundle.Command{}}
		rep.Add(bundle.GateResult{Name: bundle.GateWorkspace, Status: worst(refused.Findings), Findings: refused.Findings})
	} else if err != nil && (rep == nil || rep.Status == bundle.Pass) {
		return err
	}
	return a.packReported(cmd, f, rep, made)
}

// worst is the status that findings give a gate.
func worst(found []reason.Finding) bundle.Status {
	for _, f := range found {
		if reason.StatusOf(f.Code) == reason.Fail {
			return bundle.Fail
		}
	}
	return bundle.Blocked
}

// errNotPassed is the error of place for a bundle whose audit does not pass.
var errNotPassed = errors.New("the bundle does not pass its own audit")

// place writes a bundle beside its name, has it audited, and gives it the name only
// if it passes. It returns the digest of the zip.
func (f *packFlags) place(cmd *cobra.Command, pack bundle.Pack,
	audit func(zip string) (*bundle.Report, error)) (made *bundle.Packed, digest string, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(f.out), ".remit-bundle-")
	if err != nil {
		return nil, "", fmt.Errorf("writing %s: %w", f.out, err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // only its other name stays
	zip := filepath.Join(dir, "bundle.zip")
	if err := newFile(zip, func(w io.Writer) error {
		made, err = pack.Write(cmd.Context(), w)
		return err
	}); err != nil {
		return nil, "", err
	}
	rep, err := audit(zip)
	if err != nil {
		return nil, "", err
	}
	if rep.Status != bundle.Pass {
		return nil, "", errNotPassed
	}
	if err := os.Link(zip, f.out); err != nil {
		return nil, "", fmt.Errorf("writing %s: %w", f.out, err)
	}
	return made, rep.ZipSHA256, nil
}

// packAudit audits a bundle with its commands in the sandbox.
func (a *app) packAudit(cmd *cobra.Command, f *packFlags, zip string, opt bundle.Options) (*bundle.Report, error) {
	runner := &auditRunner{home: a.home, open: func() (sandbox.Driver, error) {
		return sandbox.Open(cmd.Context(), a.sandboxOptions("", f.toolchains))
	}}
	opt.Runner = runner
	defer runner.close()
	return bundle.Audit(cmd.Context(), zip, opt)
}

// packReported writes and prints the report, and returns its exit code.
func (a *app) packReported(cmd *cobra.Command, f *packFlags, rep *bundle.Report, made *bundle.Packed) error {
	path := f.reportPath(rep.Status)
	var text bytes.Buffer
	if err := rep.WriteReport(&text); err != nil {
		return err
	}
	if err := atomicfile.Replace(path, text.Bytes(), 0o644); err != nil { // a link is replaced, not followed
		return fmt.Errorf("writing the report: %w", err)
	}
	written := ""
	if rep.Status == bundle.Pass {
		written = f.out
	}
	w := cmd.OutOrStdout()
	var err error
	if a.json {
		err = printJSON(w, struct {
			*bundle.Report
			Written    string         `json:"written,omitempty"`
			Packed     *bundle.Packed `json:"packed,omitempty"`
			ReportFile string         `json:"report_file"`
		}{rep, written, made, path})
	} else if err = printAudit(w, rep); err == nil {
		if made != nil && len(made.LeftOut) > 0 {
			fmt.Fprintf(w, "left out: %s\n", plain(strings.Join(made.LeftOut, ", ")))
		}
		if written != "" {
			fmt.Fprintf(w, "written: %s\n", plain(written))
		}
		_, err = fmt.Fprintf(w, "report: %s\n", plain(path))
	}
	if err == nil && rep.ExitCode != 0 {
		err = exitCode(rep.ExitCode)
	}
	return err
}
