package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/deliver"
	"remit/work/workspace"
)

// noteHint says how a note comes into a repository: git clone fetches none. The commit
// names its session, which is believed where that is one of this machine.
func (a *app) noteHint(ctx context.Context, source *workspace.Source, commit evidence.NotedCommit) string {
	made := ""
	if s, err := a.home.Find(commit.Session()); err == nil && s.ID == commit.Session() {
		made = "; `remit export " + s.ID + " --to note` makes one"
	}
	fetch := "`git fetch origin " + evidence.NotesRef + ":" + evidence.NotesRef + "`"
	if at, err := source.Names(evidence.NotesRef); err == nil && at != "" {
		return fetch + " gets those that came since" + cmp.Or(made, "; or the commit was not made by Remit")
	}
	return "a clone has no notes: " + fetch + " gets them" +
		cmp.Or(made, "; where the change was made, `remit export SESSION --to note` makes one")
}

// auditNote audits the note of a commit, or the attestations beside it: who vouches for
// it. The evidence is in the bundle, which the receipt leads to.
func (a *app) auditNote(cmd *cobra.Command, f *auditFlags) error {
	if f.repo == "" {
		return usagef("--commit %s: --repo R says of which repository", f.commit)
	}
	for flag, given := range map[string]bool{"--checks": len(f.checks) > 0, "--run": len(f.run) > 0, "--extract": f.extract != "",
		"--expect": f.expect != "", "--profile": f.profile != ""} {
		if given {
			return usagef("%s is about a bundle, and --commit about the note of a commit", flag)
		}
	}
	trust, err := a.trust(f, "")
	if err != nil {
		return err
	}
	source, err := workspace.OpenSource(cmd.Context(), f.repo)
	if err != nil {
		return err
	}
	base, err := source.Resolve(cmd.Context(), f.commit)
	if err != nil {
		return err
	}
	commit := evidence.NotedCommit{ID: base.Commit, Tree: base.Tree}
	if commit.Text, err = source.CommitText(cmd.Context(), base.Commit); err != nil {
		return err
	}
	text, err := deliver.Note(cmd.Context(), source, evidence.NotesRef, base.Commit)
	if err != nil {
		return err
	}
	rep := &bundle.Report{Schema: bundle.ReportSchema, Path: base.Commit, Profile: "note", Bytes: int64(len(text)), Entries: 1,
		Commands: []bundle.Command{}}
	var shown *evidence.NoteAudit
	if text != nil {
		shown = trust.AuditNote(text, commit)
	} else {
		beside, err := deliver.Attestations(cmd.Context(), source, base.Commit)
		if err != nil {
			return err
		}
		rep.Entries = len(beside)
		if len(beside) == 0 {
			rep.Add(bundle.GateResult{Name: "note", Status: bundle.Fail,
				Findings: []reason.Finding{{Gate: "note", Code: reason.NoteMissing, Path: evidence.NotesRef,
					Detail: "commit " + base.Commit + " has neither a note nor attestations", Hint: a.noteHint(cmd.Context(), source, commit)}}})
			return a.audited(cmd.OutOrStdout(), f, rep, nil)
		}
		for _, envelope := range beside {
			rep.Bytes += int64(len(envelope))
		}
		rep.Profile, shown = "attestations", trust.AuditAttestations(beside, commit)
	}
	for _, g := range shown.Gates {
		gate := bundle.GateResult{Name: g.Name, Status: bundle.Pass, Reason: g.Why, Findings: g.Found, Signers: g.Signers}
		switch {
		case len(g.Found) > 0:
			gate.Status, gate.Reason = worst(g.Found), ""
		case g.Skipped:
			gate.Status = bundle.Skipped
		}
		rep.Add(gate)
	}
	if rep.Status == bundle.Pass {
		rep.RunStatus = shown.RunStatus
		rep.Conclusion = fmt.Sprintf("%s The evidence is in the bundle: `remit audit BUNDLE --expect %s`.", vouchers(rep), shown.Receipt)
	}
	return a.audited(cmd.OutOrStdout(), f, rep, nil)
}
