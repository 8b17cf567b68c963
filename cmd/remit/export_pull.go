package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"remit/forge"
	"remit/forge/pull"
	"remit/forge/push"
	"remit/law/task"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/proof/record"
	"remit/work/git"
	"remit/work/redact"
	"remit/work/session"
	"remit/work/workspace"
)

// pullFlags are the flags of an export to a forge.
type pullFlags struct {
	forgeFlags
	base     string
	noBundle bool
	labels   []string
}

func (p *pullFlags) add(cmd *cobra.Command) {
	p.addForge(cmd)
	fl := cmd.Flags()
	fl.StringVar(&p.base, "base", "", "the branch that the pull request is for (default: the default one of the repository)")
	fl.StringArrayVar(&p.labels, "label", nil, "label that the pull request gets; it is made where the repository has none (repeatable)")
	fl.BoolVar(&p.noBundle, "no-bundle", false, "do not send the bundle, so that reviewers have to get it from you")
}

// pulled is what an export to a forge prints.
type pulled struct {
	pull.Result
	Branch    string   `json:"branch"`
	Commit    string   `json:"commit"`
	BundleRef string   `json:"bundle_ref,omitempty"`
	Pushed    []string `json:"pushed"` // refs
	// Capabilities are those of the forge, with the names of its operations.
	Capabilities pull.Capabilities `json:"capabilities"`
}

// exportPull brings the pull request of a session up to date with it: a draft while
// the outcome is open, ready when it is accepted, closed when it is rejected.
func (a *app) exportPull(cmd *cobra.Command, f *exportFlags, s session.Session, rep *evidence.Report) error {
	repo, branch, err := a.branchIn(f, s)
	if err != nil {
		return err
	}
	source, err := workspace.OpenSource(cmd.Context(), repo)
	if err != nil {
		return err
	}
	state := pull.Draft
	actions := []string{"push", "pr_open"}
	switch {
	case rep.OperatorOutcome == session.Rejected && !f.force:
		state, actions = pull.Closed, []string{"push", "close"} // the bundle says what became of it
	case rep.OperatorOutcome == session.Accepted:
		state = pull.Ready
	}
	if err := mayExport(cmd.Context(), source, actions); err != nil {
		return err
	}
	f.pull.kind = f.to
	client, err := f.pull.client(cmd, source)
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
	request, err := forge.Prepare(cmd.Context(), s.Dir, repo, sign)
	if err != nil {
		return err
	}
	defer request.Close()
	if f.branch == "" && rep.Parent != nil {
		if branch, err = a.branchOfChain(cmd.Context(), client, rep, repo, request.Commit, state); err != nil {
			return err
		}
	}
	out := pulled{Branch: branch, Commit: request.Commit, Pushed: []string{}, Capabilities: client.Capabilities()}
	if !f.pull.noBundle {
		out.BundleRef = forge.BundleRef(s.ID)
	}
	if state != pull.Closed {
		if err := out.push(cmd.Context(), client, request, "refs/heads/"+branch, request.Commit, func(there string) (bool, error) {
			found, err := client.Find(cmd.Context(), branch)
			return err == nil && a.replaces(cmd.Context(), found, there, repo, rep), err
		}); err != nil {
			return err
		}
	}
	export, err := pullOf(cmd.Context(), client, source, request, s, rep, out)
	if err != nil {
		return err
	}
	export.State, export.Labels = state, f.pull.labels
	if export.Base = f.pull.base; export.Base == "" && state != pull.Closed {
		if export.Base, err = client.DefaultBranch(cmd.Context()); err != nil {
			return err
		}
	}
	if out.Result, err = client.Sync(cmd.Context(), export); err != nil {
		return err
	}
	if state != pull.Closed {
		if err := tell(exportKey(out.Commit, branch), record.ForgeUpdated,
			record.Export{Branch: branch, Commit: out.Commit, PRRef: out.URL}); err != nil {
			return err
		}
	}
	// The bundle goes last, because it records the messages that were sent before. The
	// reviewers of a rejected change get it, too.
	if out.BundleRef != "" && out.Number > 0 {
		wrapped, err := request.Bundle(cmd.Context(), func(w io.Writer) error { return bundle.WriteZip(w, s.Dir) })
		if err == nil {
			err = out.push(cmd.Context(), client, request, out.BundleRef, wrapped, func(string) (bool, error) { return true, nil })
		}
		if err != nil {
			return err
		}
	}
	return a.printPulled(cmd, out)
}

// mayExport asks the policy of HEAD, which an agent cannot change, for each action.
func mayExport(ctx context.Context, source *workspace.Source, actions []string) error {
	policy, err := committedPolicy(ctx, source, task.DefaultBase)
	if err != nil {
		return err
	}
	var missing []string
	for _, action := range actions {
		if !policy.MayExport(action) {
			missing = append(missing, action)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	e := reason.Errorf(reason.ForgeNotAllowed, "the policy of HEAD does not allow %s", strings.Join(missing, " and "))
	e.File = task.PolicyFile
	if policy != nil {
		missing = append(slices.Clone(policy.Export.Actions), missing...)
	}
	return e.WithHint("write export: {actions: [%s]} into %s, and commit it", strings.Join(missing, ", "), task.PolicyFile)
}

// push sends a commit and lets a ref name it. moves says whether it may name another
// one before.
func (out *pulled) push(ctx context.Context, client *pull.Client, request *forge.Request, ref, commit string,
	moves func(there string) (bool, error)) error {
	remote := remoteOf(client)
	var sent bool
	err := client.Again(ctx, func() error {
		refs, err := remote.Refs(ctx)
		if err != nil {
			return err
		}
		there := refs.Names[ref]
		if there == commit { // already, or the answer to a push was lost
			return nil
		}
		may := there == ""
		if !may {
			if may, err = moves(there); err != nil {
				return err
			}
		}
		if !may {
			return reason.Errorf(reason.ForgeConflict, "%s at the forge is at %.12s, and this change is %.12s", ref, there, commit).
				WithHint("choose another name with --branch; nothing of others is written over")
		}
		sent = true
		update := push.Update{Ref: ref, Old: cmp.Or(there, refs.Format.Zero()), New: commit}
		return remote.Push(ctx, request.Store(), refs, []push.Update{update})
	})
	if err == nil && sent {
		out.Pushed = append(out.Pushed, ref)
	}
	return err
}

// pullOf writes what the pull request says.
func pullOf(ctx context.Context, client *pull.Client, source *workspace.Source, request *forge.Request, s session.Session,
	rep *evidence.Report, out pulled) (pull.Export, error) {
	summary, err := s.Read(evidence.SummaryFile)
	if err != nil {
		return pull.Export{}, fmt.Errorf("reading the summary: %w", err)
	}
	outcome := fmt.Sprintf("Remit: %s. Outcome: %s.", request.Status.Description, rep.OperatorOutcome)
	return pull.Export{Branch: out.Branch, Commit: out.Commit, Title: request.Title, Session: s.ID, Status: request.Status, Checks: request.Checks,
		Body: pull.Body(string(summary), aboutIssue(ctx, client.Address, source, s)+checkText(client.Address, s.ID, request, out), request.Meta), Comment: outcome}, nil
}

// aboutIssue names the issue of the task where that is at the same repository. That a
// merge closes it is a word that the policy has to allow.
func aboutIssue(ctx context.Context, address pull.Address, source *workspace.Source, s session.Session) string {
	var contract struct {
		Issue *struct {
			Number int    `json:"number"`
			URL    string `json:"url"`
		} `json:"issue"`
	}
	text, err := s.Read(evidence.ContractFile)
	if err != nil || json.Unmarshal(text, &contract) != nil || contract.Issue == nil ||
		contract.Issue.URL != address.Issue(contract.Issue.Number) {
		return ""
	}
	word := "For"
	if mayExport(ctx, source, []string{"issue_close"}) == nil {
		word = "Closes"
	}
	return fmt.Sprintf("%s #%d.\n\n", word, contract.Issue.Number)
}

// replaces reports whether the commit of a branch may be replaced: its pull request is a
// draft still, and names a session of this home that is about the same task, and that
// gives this commit.
func (a *app) replaces(ctx context.Context, found *pull.Found, there, repo string, rep *evidence.Report) bool {
	if found == nil || found.State != pull.Draft {
		return false
	}
	s, err := a.home.Find(found.Metadata.SessionID)
	if err != nil || s.ID != found.Metadata.SessionID {
		return false
	}
	st, err := s.Inspect()
	if err != nil || st.Report == nil || st.Report.CaseID != rep.CaseID {
		return false
	}
	sign, err := a.signer(ctx, s, false) // what was signed is kept
	if err != nil {
		return false
	}
	request, err := forge.Prepare(ctx, s.Dir, repo, sign)
	if err != nil {
		return false
	}
	defer request.Close()
	return request.Commit == there
}

// branchOfChain is the branch of a session that this one follows up, where it is at the
// forge as that session left it, or has this change already: the same pull request goes
// on. Without one it is that of the session itself.
func (a *app) branchOfChain(ctx context.Context, client *pull.Client, rep *evidence.Report, repo, commit string,
	state pull.State) (string, error) {
	own := "remit/" + rep.SessionID
	var refs push.Refs
	err := client.Again(ctx, func() (err error) {
		refs, err = remoteOf(client).Refs(ctx)
		return err
	})
	if err != nil || refs.Names["refs/heads/"+own] != "" {
		return own, err
	}
	for _, id := range slices.Backward(rep.Parent.Chain) {
		earlier := "remit/" + id
		there := refs.Names["refs/heads/"+earlier]
		if there == "" {
			continue
		}
		found, err := client.Find(ctx, earlier)
		if err != nil {
			return own, err
		}
		if there == commit || found != nil && found.Metadata.SessionID == rep.SessionID ||
			state != pull.Closed && a.replaces(ctx, found, there, repo, rep) {
			return earlier, nil
		}
	}
	return own, nil
}

// checkText says how a reviewer checks the change without the person who exports it: that
// the evidence holds, that the branch still has what was verified, and that it passes.
func checkText(address pull.Address, id string, request *forge.Request, out pulled) string {
	get := "Ask for the bundle of session `" + id + "`, then in a clone of this repository:\n\n```sh\n"
	if out.BundleRef != "" {
		get = "In a clone of this repository:\n\n```sh\n" +
			"git fetch " + address.Git() + " " + out.BundleRef + "\ngit show FETCH_HEAD:" + forge.BundleFile + " > " + forge.BundleFile + "\n"
	}
	return "## Check it yourself\n\n" + get +
		"remit audit " + forge.BundleFile + " --expect " + request.Meta.ReceiptDigest + "\n" +
		"git fetch " + address.Git() + " " + form.ShellWord("refs/heads/"+out.Branch) + "\n" +
		"remit reproduce " + forge.BundleFile + ` --repo . --head "$(git rev-parse FETCH_HEAD)"` + "\n```\n\nThe text of this page is a copy; the bundle is the evidence."
}

func (a *app) printPulled(cmd *cobra.Command, out pulled) error {
	if a.json {
		return printJSON(cmd.OutOrStdout(), out)
	}
	if out.Number == 0 {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "there is no pull request of branch %s: nothing to close\n", out.Branch)
		return err
	}
	did := "nothing had to be changed"
	if all := append(out.Pushed, out.Done...); len(all) > 0 {
		did = strings.Join(all, ", ")
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is %s (%s)\n", plain(out.URL), out.State, did)
	return err
}

// repositoryOf is the repository of an export: the one that was named, or that the
// run started from.
func (a *app) repositoryOf(f *exportFlags, s session.Session) (string, error) {
	if f.repo != "" {
		return f.repo, nil
	}
	local, err := a.home.LoadLocal(s.ID)
	if err == nil && local.Repo == "" {
		err = usagef("this machine does not know the repository of %s: give --repo DIR", s.ID)
	}
	return local.Repo, err
}

// branchOr is the name of the branch of an export.
func (f *exportFlags) branchOr(s session.Session) (string, error) {
	branch := cmp.Or(f.branch, "remit/"+s.ID)
	if !git.ValidBranch(branch) {
		return "", usagef("--branch %q: git takes no such name for a branch (git help check-ref-format)", branch)
	}
	return branch, redact.RefuseRecord("the name of the branch", branch)
}
