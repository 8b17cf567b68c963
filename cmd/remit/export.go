package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/forge"
	"remit/forge/pull"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/proof/record"
	"remit/work/session"
)

// exportFlags are the flags of remit export.
type exportFlags struct {
	to, out, repo, branch string
	force, noSign         bool
	nexus                 nexusFlags
	pull                  pullFlags
	nostr                 nostrFlags
}

// exportTargets are the values of --to.
var exportTargets = []string{"zip", "dir", "patch", "branch", "junit", "sarif", "otlp", "atif", "swebench", "attestation", "note",
	"attestations", string(pull.GitHub), string(pull.Gitea), "nip34"}

func (a *app) exportCommand() *cobra.Command {
	f := new(exportFlags)
	cmd := &cobra.Command{
		Use: "export SESSION --to FORM", Short: "Hand out the bundle of a run, or its change",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.sessionArgs,
		Long: `Export writes
  zip     the Verified Patch Bundle: the same bytes on every machine
  dir     a copy of the session directory, at OUT/.autopilot/sessions/ID
  patch   the change as a mail patch for git am, with the receipt's digest
  branch  the change as a commit on a new branch of the repository; HEAD, index and
          work tree are not touched, and an existing branch is never moved
  junit   the verification as JUnit XML
  sarif   what speaks against the change as SARIF 2.1.0: a result for each blocker, whose
          rule is its reason code, and a note for each part that no test notices
  otlp    the run as a trace of OpenTelemetry, in OTLP-JSON, with the GenAI conventions
  atif    the run as a trajectory in ATIF 1.4
  swebench  a directory with the change as a prediction of SWE-bench, and its report
  attestation  four in-toto statements about the change (SLSA provenance, test result,
          verification result, SLSA verification summary), each a DSSE envelope signed by the
          key of this machine; they are added to the bundle, and every audit checks them
  note    receipt and statements as a git note of the exported commit, in ` + evidence.NotesRef + `;
          ` + "`remit audit --commit REV --repo R`" + ` checks it, and no other note is written over
  attestations  the statements beside the exported commit, each in a ref of its own
          below refs/attestations/COMMIT/, as git-attest has them; the same audit finds
          them where the commit has no note
  github  a pull request at GitHub: the branch, the bundle beside it, a draft with the
          summary, a commit status and one comment; after ` + "`remit accept`" + ` the same
          command makes it ready, after ` + "`remit reject`" + ` it closes it
  gitea   the same at a Gitea or Forgejo
  nip34   the same as events of Nostr, signed by a key of yours and published to --relay

What became of the change at the forge is a receipt: branch adds ForgeUpdated, patch
ForgeUpdateSkipped, to the run's log at its authority and to the evidence, which is
sealed anew. The authority gets the new bundle, too. What is exported names the receipt
as it was at the verdict: ` + "`remit audit BUNDLE --expect DIGEST`" + ` finds it in every later
bundle of the run.

branch, github and gitea sign the commit where your own configuration of git asks for it
(commit.gpgSign, with gpg.format openpgp or ssh): that of the user and the system, never
that of a repository. You are its committer then, and the author is the machine.

patch, branch, github, gitea and nip34 ask for a run that passed; patch and branch for one
that was not rejected, too. --force exports another one, marked. Of a run of a nexus they
ask the nexus for its outcome first: while it is away, or has an outcome that this copy
has not, nothing is exported.

github, gitea and nip34 are allowed by export.actions in remit.yaml of HEAD: push, pr_open,
close, relay_publish (docs/forges.md). Token and key stay in this process.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			find := a.find
			if slices.Contains([]string{"branch", "github", "gitea", "nip34"}, f.to) {
				find = a.findOwn
			}
			s, err := find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.export(cmd, f, s)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.to, "to", "zip", "zip, dir, patch, branch, junit, sarif, otlp, atif, swebench, attestation, note, attestations, github, gitea or nip34")
	fl.StringVar(&f.out, "out", "", "file or directory to write (default: named after the session, here; a note says so where that is in a repository; - for stdout with patch, junit, sarif, otlp and atif)")
	fl.StringVar(&f.repo, "repo", "", "the repository that gets the branch (default: the one the run started from)")
	fl.StringVar(&f.branch, "branch", "", "name of the new branch (default remit/SESSION)")
	f.pull.add(cmd)
	f.nostr.add(cmd)
	f.nexus.addOr(cmd, "the one that the run began with")
	fl.BoolVar(&f.noSign, "no-sign", false, "do not sign the commit, although your own configuration of git says so (commit.gpgSign)")
	fl.BoolVar(&f.force, "force", false, "export the change of a run that did not pass")
	if err := cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions(exportTargets, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined three lines above
	}
	return cmd
}

func (a *app) export(cmd *cobra.Command, f *exportFlags, s session.Session) error {
	st, err := finished(s, "no bundle to export")
	if err != nil {
		return err
	}
	if !f.force {
		if err := exportable(s, f.to, st.Report); err != nil {
			return err
		}
	}
	// What is handed out carries our word for it, so nothing is that an audit
	// would not let through: a session directory can be edited like any other.
	_, closeFiles, err := auditedFiles(cmd.Context(), s.Dir)
	if err != nil {
		return err
	}
	defer closeFiles()
	switch f.to {
	case "zip":
		return a.exported(cmd, f.outOr(s.ID+".zip"), func(name string) error { return writeZip(s, name) })
	case "dir":
		dir := filepath.Join(f.outOr("."), ".autopilot", "sessions", s.ID)
		return a.exported(cmd, dir, func(name string) error {
			if err := emptyDir(name); err != nil {
				return err
			}
			return copySession(s, name)
		})
	case "patch":
		tell, err := a.forgeTold(cmd, f, s)
		if err != nil {
			return err
		}
		if err := a.exportText(cmd, f.outOr(s.ID+".patch"), func(w io.Writer) error { return forge.Patch(w, s.Dir) }); err != nil {
			return err
		}
		return tell("forge-skipped:patch", record.ForgeUpdateSkipped, record.NoExport{Reason: "exported as a patch"})
	case "junit", "sarif", "otlp", "atif":
		return a.exportText(cmd, f.outOr(s.ID+suffixOf(f.to)), func(w io.Writer) error { return bundleExports[f.to](w, s.Dir) })
	case "swebench":
		return a.exported(cmd, f.outOr(s.ID+".swebench"), func(dir string) error {
			if err := emptyDir(dir); err != nil {
				return err
			}
			prediction := newFile(filepath.Join(dir, "predictions.jsonl"), func(w io.Writer) error { return forge.SWEBenchPrediction(w, s.Dir) })
			return errors.Join(prediction, newFile(filepath.Join(dir, "report.json"),
				func(w io.Writer) error { return forge.SWEBenchReport(w, s.Dir) }))
		})
	case "attestation":
		return a.exportAttestation(cmd, f, s)
	case "note", "attestations":
		return a.exportNote(cmd, f, s)
	case "branch":
		return a.exportBranch(cmd, f, s)
	case string(pull.GitHub), string(pull.Gitea):
		return a.exportPull(cmd, f, s, st.Report)
	case "nip34":
		return a.exportNIP34(cmd, f, s, st)
	}
	return usagef("--to %q: must be one of %s", f.to, strings.Join(exportTargets, ", "))
}

func (f *exportFlags) outOr(name string) string {
	if f.out != "" {
		return f.out
	}
	return name
}

// exported runs write and tells what was written.
func (a *app) exported(cmd *cobra.Command, name string, write func(string) error) error {
	if err := write(name); err != nil {
		return err
	}
	sayUntracked(cmd.ErrOrStderr(), name)
	if a.json {
		return printJSON(cmd.OutOrStdout(), map[string]string{"written": name})
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), name)
	return err
}

// sayUntracked says of what was written that it lies in a work tree of git, where the
// next `git add` takes it along and a run finds the tree dirty.
func sayUntracked(w io.Writer, name string) {
	path, err := filepath.Abs(name)
	if err != nil {
		return // the file is written; this is only a word about it
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			fmt.Fprintf(w, "note: %s lies in the repository %s, where git does not track it; another --out keeps it out of there\n",
				plain(name), plain(dir))
			return
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

func (a *app) exportText(cmd *cobra.Command, name string, write func(io.Writer) error) error {
	if name == "-" && a.json {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			return err
		}
		return printJSON(cmd.OutOrStdout(), map[string]string{"written": name, "text": text.String()})
	}
	if name == "-" {
		return write(cmd.OutOrStdout())
	}
	return a.exported(cmd, name, func(name string) error {
		err := newFile(name, write)
		if reason.CodeOf(err) == reason.OutputExists && holds(name, write) {
			return nil // by an export that was cut off, or could not tell the authority
		}
		return err
	})
}

// holds reports whether a file has the content that write writes, and no more.
func holds(name string, write func(io.Writer) error) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return false
	}
	if write(matcher{f}) != nil {
		return false
	}
	n, err := f.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, io.EOF)
}

// matcher takes what its reader has, and nothing else.
type matcher struct{ r io.Reader }

func (m matcher) Write(p []byte) (int, error) {
	got := make([]byte, len(p))
	if _, err := io.ReadFull(m.r, got); err != nil {
		return 0, err
	}
	if !bytes.Equal(got, p) {
		return 0, errors.New("other content")
	}
	return len(p), nil
}

// branchIn is the repository that an export goes to, and the branch there.
func (a *app) branchIn(f *exportFlags, s session.Session) (repo, branch string, err error) {
	if repo, err = a.repositoryOf(f, s); err == nil {
		branch, err = f.branchOr(s)
	}
	return repo, branch, err
}

func (a *app) exportBranch(cmd *cobra.Command, f *exportFlags, s session.Session) error {
	repo, branch, err := a.branchIn(f, s)
	if err != nil {
		return err
	}
	tell, err := a.forgeTold(cmd, f, s)
	if err != nil {
		return err
	}
	var sign forge.Sign
	if !f.noSign {
		if sign, err = a.signer(cmd.Context(), s, true); err != nil {
			return err
		}
	}
	commit, err := forge.Branch(cmd.Context(), s.Dir, repo, branch, sign)
	if err != nil {
		return err
	}
	if a.json {
		err = printJSON(cmd.OutOrStdout(), map[string]string{"branch": branch, "commit": commit})
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "branch %s is at %s\n", branch, commit)
	}
	if err != nil {
		return err
	}
	// The same commit may be exported to several branches, each with its receipt.
	return tell(exportKey(commit, branch), record.ForgeUpdated, record.Export{Branch: branch, Commit: commit, PRRef: "refs/heads/" + branch})
}

// exportKey names an export to a branch at the authority.
func exportKey(commit, branch string) string {
	return "forge-updated:" + commit + ":" + strings.TrimPrefix(canon.Digest([]byte(branch)), "sha256:")
}

// forgeTold returns what records at the authority what became of a change that
// it agreed to, and adds the receipt to the evidence. The authority is asked for
// the outcome of the run before the change is exported; the receipt comes after.
func (a *app) forgeTold(cmd *cobra.Command, f *exportFlags, s session.Session) (func(key, receipt string, payload any) error, error) {
	st, err := s.Inspect()
	if err != nil {
		return nil, err
	}
	run := session.NexusRun(st.Log.Entries)
	if run == "" || st.Report.Status != evidence.StatusPass {
		return func(string, string, any) error { return nil }, nil
	}
	authority, err := a.authorityOf(cmd, &f.nexus, s.ID)
	if err == nil {
		err = sameOutcome(cmd.Context(), authority, run, s.ID, st.Report)
	}
	if err != nil {
		return nil, notAsked(err, s.ID, "nothing is exported")
	}
	return func(key, receipt string, payload any) error {
		receipts, err := authority.Tell(cmd.Context(), run, key, receipt, payload)
		if err == nil {
			if err = s.AddReceipts(receipts, time.Now); err != nil {
				return err
			}
			warnResealed(os.Stderr, s)
			err = a.home.Amend(cmd.Context(), s, authority)
		}
		if err != nil {
			err = fmt.Errorf("the change is exported, but the authority does not know of it: %w", err)
			if reason.CodeOf(err) == "" {
				return err
			}
			if reason.CodeOf(err) == reason.OutcomeGiven {
				return reason.Errorf(reason.OutcomeGiven, "%w", err).
					WithHint("`remit resume %s` takes over the outcome that the authority has; what is exported stays as it is", s.ID)
			}
			return reason.Errorf(reason.CodeOf(err), "%w", err).
				WithHint("give the same command again when it can be reached: what is exported stays as it is")
		}
		return nil
	}, nil
}

// sameOutcome refuses to go on under an outcome that the authority does not have, or
// while it has one that is not recorded here.
func sameOutcome(ctx context.Context, authority session.Authority, run, id string, rep *evidence.Report) error {
	given, err := authority.Decided(ctx, run)
	if err != nil || given == nil || given.Outcome == rep.OperatorOutcome {
		return err
	}
	if rep.OperatorOutcome != evidence.Pending {
		return given.Stands(run).WithHint("nothing is exported; this copy was %s, but the authority's outcome counts for the run",
			rep.OperatorOutcome)
	}
	return given.Stands(run).WithHint("nothing is exported; `remit resume %s` takes that outcome over into this copy, then give the same command again", id)
}

func writeZip(s session.Session, name string) error {
	return newFile(name, func(w io.Writer) error { return bundle.WriteZip(w, s.Dir) })
}

// newFile writes a file that must not exist yet; a failure leaves none.
func newFile(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		e := reason.Errorf(reason.OutputExists, "the file is already there")
		e.File = name
		return e
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if err = errors.Join(write(f), f.Close()); err != nil {
		_ = os.Remove(name) // half a file is worse than none
	}
	return err
}

// copySession copies the files of a sealed session, as its manifest lists them.
func copySession(s session.Session, dir string) error {
	return os.CopyFS(dir, os.DirFS(s.Dir))
}
