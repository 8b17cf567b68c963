package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine/workos"
	"remit/work/route"
)

func (a *app) admitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "admit", Short: "Decide which engine builds, models and repositories a run may be made with",
		Long: `Admit keeps what was decided about the source of an engine, which is one build of
it, about a model, which is one pair of provider and model, and about a target,
which is one repository that a run may deliver a change to. A flag asks for an
engine and a pair; the record is what admits them. The engines that are built in
(command, fake) need none. The decisions behind an admission are records too
(remit admit decision).

A record below REMIT_HOME keeps all decisions, the latest counts. When what an
engine executes has changed, its record is stale and admits nothing until a person
decides again. So is one of which a review trigger fired (--review-on), or whose time
is over (--review-by). Every record is signed with the key of this machine.`,
		Example: `  remit admit source --engine codex --decision admitted --license Apache-2.0 \
    --reason 'read the release notes'
  remit admit model --provider openai --model gpt-5.5 --decision admitted \
    --reason 'agreed with the owner'
  remit admit show source --engine codex`,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	show := &cobra.Command{Use: "show", Short: "Print a record with its history, and whether it holds now", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	show.AddCommand(a.showSourceCommand(), a.showModelCommand(), a.showTargetCommand(), a.showDecisionCommand())
	cmd.AddCommand(a.admitSourceCommand(), a.admitModelCommand(), a.admitTargetCommand(), a.admitDecisionCommand(),
		a.listAdmissionsCommand(), show)
	return cmd
}

// rulingFlags are the flags of every decision.
func rulingFlags(cmd *cobra.Command, r *admission.Ruling) {
	names := names(admission.Decisions())
	fl := cmd.Flags()
	fl.StringVar((*string)(&r.Decision), "decision", "", "the decision: "+strings.Join(names, ", "))
	fl.StringVar(&r.Reason, "reason", "", "why")
	fl.StringVar(&r.ReviewTrigger, "review", "", "what is to bring the decision up again, for people")
	complete(cmd, "decision", names)
	reviewFlags(cmd, &r.Review)
}

func complete(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // only for a flag that does not exist
	}
}

// ruled fills in who decides and when.
func ruled(r *admission.Ruling) error {
	if r.Decision == "" || r.Reason == "" {
		return usagef("a decision needs --decision and --reason")
	}
	r.By, r.At = operator(), time.Now().UTC().Format(admission.TimeFormat)
	return nil
}

func (a *app) admitSourceCommand() *cobra.Command {
	var d admission.SourceDecision
	var bin string
	cmd := &cobra.Command{
		Use: "source --engine NAME --decision DECISION --reason TEXT", Short: "Decide about one build of an engine", Args: cobra.NoArgs,
		Long: `Source records a decision about the build of an engine that is on this machine: its
version and the digest of what it executes, which are read and not started. An
engine that is not there can be rejected, not admitted.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ruled(&d.Ruling); err != nil {
				return err
			}
			id, err := identityOf(cmd, d.Engine, bin)
			absent := d.Decision != admission.Admitted && reason.CodeOf(err) == reason.ProviderUnavailable
			if err != nil && !absent {
				return err
			}
			d.Version, d.SHA256 = id.Version, id.SHA256
			if d.Type == "" && !eligibility.AdmissionRequired(d.Engine) {
				d.Type = "builtin"
			}
			rec, err := decideSource(a.home.Dir, d)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), rec)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Engine %s %s: %s, revision %d.\n", rec.Engine, versionText(rec.Version), rec.Decision, rec.Revision)
			if rec.Unproven != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "Its digest does not prove %s.\n", rec.Unproven)
			}
			if d.Engine == workos.Name && d.SourceCommit == "" && rec.Decision == admission.Admitted {
				fmt.Fprintln(cmd.OutOrStdout(), "This program has no publisher: say in the record with --commit and --toolchain what it was built from.")
			}
			if !eligibility.AdmissionRequired(d.Engine) {
				fmt.Fprintln(cmd.OutOrStdout(), "It is built in: no run asks for this record.")
			}
			return nil
		},
	}
	rulingFlags(cmd, &d.Ruling)
	engineFlags(cmd, &d.Engine, &bin)
	fl := cmd.Flags()
	fl.StringVar(&d.Name, "source", "", "name of the source (default: the engine's)")
	fl.StringVar(&d.URL, "url", "", "where it comes from")
	fl.StringVar(&d.Type, "type", "", "kind of source: "+strings.Join(admission.SourceTypes(), ", "))
	fl.StringVar(&d.License, "license", "", "note on its license")
	fl.StringVar(&d.RetrievedAt, "retrieved-at", "", "when it was fetched, such as 2006-01-02T15:04:05.000Z")
	fl.StringVar(&d.RetrievalCommand, "retrieved-with", "", "the command that fetched it")
	fl.StringVar(&d.SourceCommit, "commit", "", "the commit that it was built from, by your word")
	fl.StringVar(&d.Toolchain, "toolchain", "", "what it was built with, by your word, such as 'bun 1.4.5'")
	fl.StringVar(&d.Boundary, "boundary", "", "what of the source is protected, and from what")
	complete(cmd, "type", admission.SourceTypes())
	return cmd
}

func engineFlags(cmd *cobra.Command, engine, bin *string) {
	cmd.Flags().StringVar(engine, "engine", "", "engine: "+strings.Join(engineNames(), ", "))
	cmd.Flags().StringVar(bin, "bin", "", "its executable or package on this machine (default: where the engine looks)")
	complete(cmd, "engine", engineNames())
}

// identityOf is that of an engine on this machine. It starts nothing.
func identityOf(cmd *cobra.Command, name, bin string) (evidence.EngineIdentity, error) {
	if name == "" {
		return evidence.EngineIdentity{}, usagef("which engine? --engine NAME")
	}
	e, err := engineNamed(name, bin)
	if err != nil {
		return evidence.EngineIdentity{}, err
	}
	return e.Identity(cmd.Context())
}

func (a *app) admitModelCommand() *cobra.Command {
	var d admission.ModelDecision
	cmd := &cobra.Command{
		Use: "model --provider P --model M --decision DECISION --reason TEXT", Short: "Decide about one pair of provider and model",
		Args: cobra.NoArgs,
		Long: `Model records a decision about one provider and one model, byte by byte. No
credential is part of it, only the kind of place where the gateway reads one.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ruled(&d.Ruling); err != nil {
				return err
			}
			if d.Provider == "" || d.Model == "" {
				return usagef("which model? --provider P --model M")
			}
			rec, err := decideModel(a.home.Dir, d)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), rec)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Model %s of %s: %s, revision %d.\n", plain(rec.Model), plain(rec.Provider),
				rec.Decision, rec.Revision)
			return err
		},
	}
	rulingFlags(cmd, &d.Ruling)
	pairFlags(cmd, &d.Provider, &d.Model)
	fl := cmd.Flags()
	classes := []string{string(admission.Hosted), string(admission.Local)}
	statuses := names(admission.DecisionStatuses())
	fl.StringVar((*string)(&d.Class), "class", classes[0], "who runs it: "+strings.Join(classes, ", "))
	fl.StringVar((*string)(&d.DecisionStatus), "decision-status", "", "the decision about providers behind it: "+strings.Join(statuses, ", "))
	fl.StringVar(&d.CredentialSource, "credential", "",
		"where the gateway reads the credential: "+strings.Join(admission.CredentialSources(), ", "))
	fl.StringVar(&d.Network, "network", "", "how far the gateway reaches: "+strings.Join(admission.NetworkClasses(), ", "))
	fl.StringArrayVar(&d.Fallbacks, "fallback", nil, "another model of the provider, with a record of its own (repeatable)")
	complete(cmd, "class", classes)
	complete(cmd, "decision-status", statuses)
	complete(cmd, "credential", admission.CredentialSources())
	complete(cmd, "network", admission.NetworkClasses())
	return cmd
}

func pairFlags(cmd *cobra.Command, provider, model *string) {
	cmd.Flags().StringVar(provider, "provider", "", "name of the provider, exact")
	cmd.Flags().StringVar(model, "model", "", "name of the model, exact")
}

func (a *app) listAdmissionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List what was decided", Args: cobra.NoArgs,
		Long: `List prints the latest decision of every record. A damaged record is printed on
stderr, does not hide the others, and makes the exit code 3.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := route.Records(a.home.Dir, false, nil).Load()
			if err != nil {
				return err
			}
			if a.json {
				err = printJSON(cmd.OutOrStdout(), listing(all))
			} else {
				err = printAdmissions(cmd.OutOrStdout(), all)
			}
			for _, d := range all.Damaged {
				printOne(cmd.ErrOrStderr(), d)
			}
			if err == nil && len(all.Damaged) > 0 {
				err = exitCode(codeOf(reason.InvalidAdmission))
			}
			return err
		},
	}
}

func listing(all *admission.Records) map[string]any {
	damaged := []map[string]any{}
	for _, d := range all.Damaged {
		damaged = append(damaged, map[string]any{"code": d.Code, "file": d.File, "line": d.Line, "field": d.Field, "detail": d.Message})
	}
	return map[string]any{"schema": "remit.admissions.v1", "sources": append([]*admission.Source{}, all.Sources...),
		"models": append([]*admission.Model{}, all.Models...), "targets": append([]*admission.Target{}, all.Targets...),
		"provider_decisions":  append([]*admission.ProviderDecision{}, all.Providers...),
		"promotion_decisions": append([]*admission.PromotionDecision{}, all.Promotions...), "damaged": damaged}
}

func printAdmissions(w io.Writer, all *admission.Records) error {
	if len(all.Sources)+len(all.Models)+len(all.Targets)+len(all.Providers)+len(all.Promotions) == 0 {
		_, err := fmt.Fprintln(w, "Nothing is admitted.")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "KIND\tSUBJECT\tDECISION\tREVISION\tDECIDED\tREASON")
	row := func(kind, subject string, r admission.Ruling) {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\t%s\n", kind, plain(subject), r.Decision, r.Revision, r.At, plain(r.Reason))
	}
	for _, s := range all.Sources {
		row("source", s.Engine+" "+versionText(s.Version), s.Ruling)
	}
	for _, m := range all.Models {
		row("model", m.Provider+" "+m.Model, m.Ruling)
	}
	for _, t := range all.Targets {
		row("target", t.Path, t.Ruling)
	}
	for _, d := range all.Providers {
		row("provider decision", d.Provider+" "+d.Model, d.Ruling)
	}
	for _, d := range all.Promotions {
		row("promotion decision", d.Engine, d.Ruling)
	}
	return tw.Flush()
}

func versionText(version string) string {
	if version == "" {
		return "(no build)"
	}
	return plain(version)
}
