package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/route"
)

func (a *app) admitDecisionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "decision", Short: "Record a decision that admissions rest on, or that asks for a promotion",
		Long: `Decision keeps two kinds of records. A provider decision says whether a provider
and model may be asked at all; a model admission made after it points to it, and is
stale when it is made again. A promotion decision asks, or does not ask, for an engine
to become the default. No decision admits a run, and none activates anything.`,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.providerDecisionCommand(), a.promotionDecisionCommand())
	return cmd
}

// decisionFlags are the flags of every decision record.
func decisionFlags(cmd *cobra.Command, r *admission.Ruling, status *string, statuses []string, sources *[]string) {
	fl := cmd.Flags()
	fl.StringVar(status, "status", "", "the decision: "+strings.Join(statuses, ", "))
	choose(cmd, "status", statuses)
	fl.StringVar(&r.Reason, "reason", "", "why")
	fl.StringVar(&r.ReviewTrigger, "review", "", "what is to bring the decision up again, for people")
	fl.StringArrayVar(sources, "evidence", nil, "where the evidence for it is (repeatable)")
	reviewFlags(cmd, &r.Review)
}

// decisionBy fills in who decides and when.
func decisionBy(r *admission.Ruling, status string) error {
	if status == "" || r.Reason == "" {
		return usagef("a decision needs --status and --reason")
	}
	r.By, r.At = operator(), time.Now().UTC().Format(admission.TimeFormat)
	return nil
}

func (a *app) providerDecisionCommand() *cobra.Command {
	var d admission.ProviderRuling
	cmd := &cobra.Command{
		Use: "provider --provider P --model M --status STATUS --reason TEXT", Short: "Decide whether a provider may be asked for a model",
		Args: cobra.NoArgs,
		Long: `Provider records the decision behind model admissions: not_decided,
external_provider_approved, or local_provider_required. ` + "`remit admit model`" + ` of the same
pair points to it from then on.`,
		Example: `  remit admit decision provider --provider openai --model gpt-5.5 \
    --status external_provider_approved --evidence docs/decision.md --reason agreed`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := decisionBy(&d.Ruling, string(d.DecisionStatus)); err != nil {
				return err
			}
			if d.Provider == "" || d.Model == "" {
				return usagef("which provider? --provider P --model M")
			}
			rec, err := decide(a.home.Dir, "the decision", admission.ProviderDecisionFile(d.Provider, d.Model), d,
				func(s admission.Store) (*admission.ProviderDecision, error) {
					previous, err := s.ProviderDecision(d.Provider, d.Model)
					if err != nil {
						return nil, asRead{err}
					}
					return admission.NextProviderDecision(previous, d)
				})
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), rec)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Provider %s, model %s: %s, revision %d.\nIt admits no run: `remit admit model` does.\n",
				plain(rec.Provider), plain(rec.Model), rec.DecisionStatus, rec.Revision)
			return err
		},
	}
	decisionFlags(cmd, &d.Ruling, (*string)(&d.DecisionStatus), names(admission.DecisionStatuses()), &d.EvidenceSources)
	pairFlags(cmd, &d.Provider, &d.Model)
	fl := cmd.Flags()
	fl.StringVar(&d.ProviderClass, "class", "", "kind of provider (default as the status says): "+
		strings.Join(admission.ProviderClasses(), ", "))
	fl.StringVar(&d.FallbackProvider, "fallback-provider", "", "provider of the one fallback, which needs an admission of its own")
	fl.StringVar(&d.FallbackModel, "fallback-model", "", "model of the one fallback")
	fl.StringVar(&d.CredentialSource, "credential", "",
		"where the gateway reads the credential: "+strings.Join(admission.CredentialSources(), ", "))
	fl.StringVar(&d.Network, "network", "", "how far the gateway reaches: "+strings.Join(admission.NetworkClasses(), ", "))
	choose(cmd, "class", admission.ProviderClasses())
	choose(cmd, "credential", admission.CredentialSources())
	choose(cmd, "network", admission.NetworkClasses())
	return cmd
}

// maxRefresh bounds the file of a refresh, in bytes.
const maxRefresh = 16 << 20

func (a *app) promotionDecisionCommand() *cobra.Command {
	var d admission.PromotionRuling
	var refresh string
	cmd := &cobra.Command{
		Use: "promotion --engine NAME --status STATUS --reason TEXT", Short: "Ask, or do not ask, for an engine to become the default",
		Args: cobra.NoArgs,
		Long: `Promotion records not_decided, core_promotion_requested or core_promotion_deferred
for one engine. The figures are those of --refresh, the output of
` + "`remit ladder refresh --json`" + `: without one, or with fewer than two distinct passes, nothing
is ready and no promotion can be requested. runtime_default_activation stays false and
core_promotion_status not-promoted, whatever is decided.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := decisionBy(&d.Ruling, string(d.DecisionStatus)); err != nil {
				return err
			}
			if d.Engine == "" {
				return usagef("which engine? --engine NAME")
			}
			if _, known := registered[d.Engine]; !known {
				return reason.Errorf(reason.EngineUnknown, "this build of Remit has no engine %q", d.Engine)
			}
			if refresh != "" {
				if err := readRefresh(&d, refresh); err != nil {
					return err
				}
			}
			rec, err := decide(a.home.Dir, "the decision", admission.PromotionDecisionFile(d.Engine), d,
				func(s admission.Store) (*admission.PromotionDecision, error) {
					previous, err := s.PromotionDecision(d.Engine)
					if err != nil {
						return nil, asRead{err}
					}
					return admission.NextPromotionDecision(previous, d)
				})
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), rec)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Promotion of %s: %s, revision %d. Nothing is activated.\n", plain(rec.Engine),
				rec.DecisionStatus, rec.Revision)
			return err
		},
	}
	decisionFlags(cmd, &d.Ruling, (*string)(&d.DecisionStatus), names(admission.PromotionStatuses()), &d.EvidenceSources)
	fl := cmd.Flags()
	fl.StringVar(&d.Engine, "engine", "", "engine: "+strings.Join(engineNames(), ", "))
	complete(cmd, "engine", engineNames())
	fl.StringVar(&refresh, "refresh", "", "the output of remit ladder refresh --json that the decision rests on")
	return cmd
}

// readRefresh takes the figures of a refresh.
func readRefresh(d *admission.PromotionRuling, file string) error {
	text, err := readFlagFile(file, maxRefresh)
	if err != nil {
		return err
	}
	var figures struct {
		Count  *int   `json:"repeatability_count"`
		Status string `json:"repeatability_status"`
	}
	if err := json.Unmarshal(text, &figures); err != nil || figures.Count == nil || figures.Status == "" {
		return usagef("--refresh %s is not the output of `remit ladder refresh --json`", file)
	}
	d.RepeatabilityCount, d.RepeatabilityStatus, d.RefreshSHA256 = *figures.Count, figures.Status, canon.Digest(text)
	return nil
}

func (a *app) showDecisionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "decision", Short: "Print a decision record", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(a.showProviderDecisionCommand(), a.showPromotionDecisionCommand())
	return cmd
}

// shownDecision is the JSON document of remit admit show decision.
type shownDecision struct {
	Record    any           `json:"record"`
	Signature signatureView `json:"signature"`
	Stale     []string      `json:"fired_triggers"` // the review triggers that fired, as far as the facts are known here
}

// showDecision prints a decision with its history. Nothing is held against it: a
// decision admits nothing.
func (a *app) showDecision(w io.Writer, file string, rec any, latest admission.Ruling, history []admission.Ruling,
	lines [][2]string) error {
	signature, err := a.signatureOf(file)
	if err != nil {
		return err
	}
	out := shownDecision{Record: rec, Signature: signature, Stale: []string{}}
	for _, f := range latest.Fired(nil, time.Now()) {
		out.Stale = append(out.Stale, string(f.On))
	}
	if a.json {
		return printJSON(w, out)
	}
	for _, l := range append(lines, [2]string{"signed", signature.Status + " " + signature.By}) {
		fmt.Fprintf(w, "%-9s %s\n", l[0], plain(l[1]))
	}
	printRulings(w, append(history, latest))
	for _, fired := range out.Stale {
		fmt.Fprintf(w, "\nSTALE  %s\n", fired)
	}
	return nil
}

func (a *app) showProviderDecisionCommand() *cobra.Command {
	var provider, model string
	cmd := &cobra.Command{
		Use: "provider --provider P --model M", Short: "Print the decision about a provider and model", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file := admission.ProviderDecisionFile(provider, model)
			rec, err := route.Records(a.home.Dir, false, nil).ProviderDecision(provider, model)
			if err != nil {
				return err
			}
			if rec == nil {
				return noRecord(reason.NotFound, a.home.Dir, file, "a decision about model %q of provider %q", model, provider)
			}
			all := rulings(rec.History, rec.Ruling, func(d admission.ProviderRuling) admission.Ruling { return d.Ruling })
			return a.showDecision(cmd.OutOrStdout(), file, rec, rec.Ruling, all[:len(all)-1], [][2]string{
				{"decision", string(rec.DecisionStatus)}, {"provider", rec.Provider + " (" + rec.ProviderClass + ")"}, {"model", rec.Model},
				{"fallback", stated(strings.TrimSpace(rec.FallbackProvider + " " + rec.FallbackModel))}, {"network", rec.Network + ", credential from: " + rec.CredentialSource},
				{"evidence", stated(strings.Join(rec.EvidenceSources, ", "))}, {"effect", rec.Effect}})
		},
	}
	pairFlags(cmd, &provider, &model)
	return cmd
}

func (a *app) showPromotionDecisionCommand() *cobra.Command {
	var engine string
	cmd := &cobra.Command{
		Use: "promotion --engine NAME", Short: "Print the decision about the promotion of an engine", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file := admission.PromotionDecisionFile(engine)
			rec, err := route.Records(a.home.Dir, false, nil).PromotionDecision(engine)
			if err != nil {
				return err
			}
			if rec == nil {
				return noRecord(reason.NotFound, a.home.Dir, file, "a decision about the promotion of engine %q", engine)
			}
			all := rulings(rec.History, rec.Ruling, func(d admission.PromotionRuling) admission.Ruling { return d.Ruling })
			return a.showDecision(cmd.OutOrStdout(), file, rec, rec.Ruling, all[:len(all)-1], [][2]string{
				{"decision", string(rec.DecisionStatus)}, {"engine", rec.Engine}, {"ready", fmt.Sprint(rec.ReadyForReview)},
				{"repeated", fmt.Sprintf("%d distinct, %s", rec.RepeatabilityCount, rec.RepeatabilityStatus)}, {"next", rec.NextDecision},
				{"active", fmt.Sprintf("%v, %s", rec.DefaultActivation, rec.CorePromotion)}})
		},
	}
	cmd.Flags().StringVar(&engine, "engine", "", "engine: "+strings.Join(engineNames(), ", "))
	complete(cmd, "engine", engineNames())
	return cmd
}
