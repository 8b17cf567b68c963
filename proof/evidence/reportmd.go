package evidence

import (
	"fmt"
	"strings"
)

// reportMarkdown makes report.md: the report for a person who audits a run.
func (r *run) reportMarkdown() []byte {
	rep := r.reportFields()
	var b strings.Builder
	fmt.Fprintf(&b, "# Run report: %s\n\n**Status: %s**\n\n", r.title(), strings.ToUpper(rep.Status))
	row := func(k, v string) { fmt.Fprintf(&b, "| %s | %s |\n", k, strings.ReplaceAll(plainLine(v), "|", `\|`)) }
	b.WriteString("| what | value |\n|---|---|\n")
	row("session", code(r.session))
	row("case", code(rep.CaseID))
	row("run id", code(rep.RunID))
	row("started", rep.RunStartedAt)
	row("finished", rep.RunFinishedAt)
	row("engine", code(r.opened.Engine.Name+" "+r.opened.Engine.Version))
	if r.opened.DecidedOn == "" {
		row("baseline", code(string(r.opened.BaselineCommit)))
	} else {
		row("baseline", "none: "+r.unopened())
	}
	if rep.Parent != nil {
		row("continues", code(rep.Parent.SessionID)+" ("+rep.Parent.Status+"), patch "+code(rep.Parent.PatchSHA256)+", kept as "+code(ParentPatchFile))
	}
	row("mutation", rep.MutationMode+" ("+rep.AllowedMutationScope+")")
	row("approval", rep.ApprovalStatus)
	if rep.PolicySHA256 != "" {
		row("policy as applied", code(rep.PolicySHA256))
	}
	row("sandbox", r.opened.Host.Sandbox.Driver+" "+r.opened.Host.Sandbox.Version+", "+r.opened.Host.Sandbox.Layer)
	if len(r.opened.Host.Sandbox.NotEnforced) > 0 {
		row("**not enforced here**", strings.Join(r.opened.Host.Sandbox.NotEnforced, ", "))
	}
	row("source repository touched", fmt.Sprint(rep.SourceRepositoryMutated))
	if s := rep.SourceChangedMeanwhile; s != nil {
		row("source repository", s.Sentence())
	}
	if rep.BranchPolicy != nil {
		row("delivery", rep.DeliverySentence())
	}
	if rep.Environment != nil {
		for _, s := range rep.Environment.Sentences() {
			row("environment", s)
		}
	}
	row("operator outcome", rep.OperatorOutcome)
	if rep.Lifecycle != nil {
		fmt.Fprintf(&b, "\n%s\n", rep.Lifecycle.sentence())
	}
	if len(rep.Blockers) > 0 {
		b.WriteString("\n## Blockers\n\n")
		for _, k := range rep.Blockers {
			fmt.Fprintf(&b, "- `%s`: %s (see `%s`)\n", k.Code, r.prose(k.Message), k.Evidence)
		}
	}
	b.WriteString("\n## Changed files\n\n")
	if len(rep.ChangedFiles) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString("| path | operation | added | removed |\n|---|---|---|---|\n")
		for _, f := range r.patch.Files {
			fmt.Fprintf(&b, "| %s | %s | %d | %d |\n", strings.ReplaceAll(code(f.Path), "|", `\|`), f.Op, f.Added, f.Removed)
		}
	}
	if r.patch != nil && len(r.patch.Ignored) > 0 {
		fmt.Fprintf(&b, "\nLeft out by the baseline's ignore rules: %s.\n", names(r.patch.Ignored))
	}
	b.WriteString("\n## Verification\n\n")
	if len(rep.Verification) == 0 {
		b.WriteString("Not run.\n")
	} else {
		b.WriteString("| phase | command | exit | passed | tests | ms |\n|---|---|---|---|---|---|\n")
		for _, c := range rep.Verification {
			tests := "unknown"
			if c.Tests != nil {
				tests = fmt.Sprintf("%d passed, %d failed, %d skipped", c.Tests.Passed, c.Tests.Failed, c.Tests.Skipped)
			}
			phase := c.Phase
			if c.Cached {
				phase += ", of " + c.CachedAt + " (cached)"
			}
			fmt.Fprintf(&b, "| %s | %s | %d | %t | %s | %d |\n", phase, strings.ReplaceAll(code(c.Command), "|", `\|`), c.ExitCode, c.Passed, tests, c.DurationMS)
		}
	}
	if r.stated() {
		fmt.Fprintf(&b, "\n## The tests themselves\n\n- Control: %s\n- New or edited tests: %s\n- Parts of the change that no test notices: %s\n",
			r.controlled(rep.Control), r.newTests(rep.NewTests), r.unobserved(rep.Observation))
		if len(rep.UntrackedTests) > 0 {
			fmt.Fprintf(&b, "- Not part of this run, since no commit has them: %s\n", names(rep.UntrackedTests))
		}
	}
	if r.engine != nil && len(r.engine.Caps) > 0 {
		b.WriteString("\n## Resource limits of the engine\n\n| limit | value | enforced | by | observed |\n|---|---|---|---|---|\n")
		for _, c := range r.engine.Caps {
			fmt.Fprintf(&b, "| %s | %d | %t | %s | %d |\n", c.Name, c.Limit, c.Enforced, c.How, c.Observed)
		}
	}
	return []byte(b.String())
}
