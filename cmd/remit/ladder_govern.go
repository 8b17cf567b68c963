package main

import (
	"cmp"
	"context"
	"os"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/law/task"
	"remit/nexus/requester"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/harness"
	"remit/work/prove"
	"remit/work/route"
	"remit/work/session"
)

// copyStage is the stage that opens ordinary runs: on a copy of a repository.
func copyStage() int { return ladder.StageFor(task.CopiedRepo) }

// govern is what the stages stand on whose runs deliver their change.
func (a *app) govern(cmd *cobra.Command, f *proveFlags, policy *task.Policy, opt *prove.Options) error {
	g := prove.Govern{Operator: operator(), Accepted: f.accept, Policy: policy}
	if f.approve {
		g.Approver = g.Operator
	}
	g.Put = func(repo string, policy *task.Policy) (func(*harness.Request), error) {
		return a.underAuthority(repo, g.Approver, policy)
	}
	g.Tell = func(ctx context.Context, home session.Home, s session.Session) {
		if err := home.Amend(ctx, s, requester.New(a.ownAuthority(""))); err != nil {
			printOne(os.Stderr, err)
		}
	}
	g.Others = func(ctx context.Context) []prove.Other { return a.otherAgents(ctx, f, opt, policy.SignedRecords()) }
	if opt.Agent != nil {
		if rec, err := route.Records(a.home.Dir, policy.SignedRecords(), nil).Source(opt.Engine); err == nil && rec != nil {
			g.License = rec.License
		}
	}
	if err := refuseSecret("--accept", f.accept); err != nil {
		return err
	}
	opt.Govern = g
	return nil
}

// underAuthority puts runs over a repository before the authority of this machine, as
// remit run does.
func (a *app) underAuthority(repo, approver string, policy *task.Policy) (func(*harness.Request), error) {
	ref, err := (&runFlags{repo: repo}).repositoryAt("")
	if err != nil {
		return nil, err
	}
	return func(req *harness.Request) {
		req.Authority, req.Approver, req.RepoRef, req.Unclaimed = requester.New(a.ownAuthority(approver)), approver, ref, true
		if policy.SignedRecords() {
			req.CheckGrant = a.checkGrant
		}
	}, nil
}

// otherAgents are the agents of this program that an engine is compared with. Each
// asks the pair that is proved; one that is not there, or not admitted, says why.
func (a *app) otherAgents(ctx context.Context, f *proveFlags, opt *prove.Options, signed bool) []prove.Other {
	var all []prove.Other
	for _, name := range engineNames() {
		if !eligibility.AdmissionRequired(name) {
			continue
		}
		programs := []string{""}
		if name == acp.Name {
			programs = acp.Known()
		}
		for _, program := range programs {
			if name == opt.Engine && program == opt.Program {
				continue
			}
			o := prove.Other{Name: name, Program: program}
			if err := a.otherAgent(ctx, f, &o, signed); err != nil {
				o.Blocked = cmp.Or(reason.CodeOf(err), reason.ProviderUnavailable)
			}
			all = append(all, o)
		}
	}
	return all
}

func (a *app) otherAgent(ctx context.Context, f *proveFlags, o *prove.Other, signed bool) error {
	e, err := engineNamed(o.Name, o.Program)
	if o.Name == acp.Name {
		e, err = acpNamed([]string{o.Program}, "", "")
	}
	if err != nil {
		return err
	}
	if o.Identity, err = e.Identity(ctx); err != nil {
		return err
	}
	o.Agent, _ = e.(engine.Modelled) // every engine with an admission asks one
	records := route.Records(a.home.Dir, signed, admission.Facts{admission.OnEngineDigest: o.Identity.SHA256})
	admitted, _ := route.Admission(records, o.Identity)
	if o.Admission = admitted; admitted.SourceStatus != string(eligibility.ModelAdmitted) {
		return reason.Errorf(reason.SourceNotAdmitted, "%s", admitted.Detail)
	}
	if f.scripted || f.model.model == "" {
		return nil // the scripted model, as its own proofs may have it
	}
	if o.Route, err = f.model.route(e, records, nil); err == nil && o.Route.Status != eligibility.ModelAdmitted {
		err = reason.Errorf(reason.ModelNotAdmitted, "%s", o.Route.Detail)
	}
	return err
}

// targetPolicy is the policy of the repository that a proof is made on, nil for none.
func targetPolicy(ctx context.Context, repo string) (*task.Policy, error) {
	if repo == "" {
		return nil, nil
	}
	policy, notes, err := policyOf(ctx, repo, "", true)
	if err == nil {
		tellPolicy(os.Stderr, notes)
	}
	return policy, err
}
