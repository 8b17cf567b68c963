package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/jobs"
	"remit/proof/evidence"
	"remit/proof/record"
)

func (a *app) runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "runs", Short: "Look at the runs of a nexus, and end them",
		Long: `A run is what the nexus knows of one piece of work: its jobs, receipts and payments,
in a log that is sealed when the run ends. 'remit list' shows the sessions of this
machine instead.`,
	}
	cmd.AddCommand(a.runsNewCommand(), a.runsListCommand(), a.runsShowCommand(), a.runsReceiptsCommand(), a.runsFinishCommand())
	return cmd
}

func (a *app) runsNewCommand() *cobra.Command {
	var nexus nexusFlags
	var repo, issue string
	cmd := &cobra.Command{
		Use: "new --repo-ref REPO", Short: "Make a run for jobs that are dispatched by hand", Args: cobra.NoArgs,
		Example: `  remit runs new --repo-ref demo
  remit runs new --repo-ref demo --issue-ref issue/7 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := nexus.client(cmd)
			if err != nil {
				return err
			}
			id, err := newRun(cmd.Context(), c, api.RunRequest{RepoRef: repo, IssueRef: api.Optional(issue)})
			if err != nil {
				return err
			}
			return a.showRun(cmd, c, id)
		},
	}
	nexus.add(cmd)
	cmd.Flags().StringVar(&repo, "repo-ref", "", "what people call the repository")
	cmd.Flags().StringVar(&issue, "issue-ref", "", "the issue that it works on")
	_ = cmd.MarkFlagRequired("repo-ref")
	return cmd
}

func newRun(ctx context.Context, c *api.Client, ask api.RunRequest) (string, error) {
	made, err := api.CreateRun.Do(ctx, c, api.NewKey(), api.None{}, ask)
	if err != nil {
		return "", err
	}
	return made.RunID, nil
}

func (a *app) runsListCommand() *cobra.Command {
	var nexus nexusFlags
	var f runFilter
	cmd := listCommand(a, &nexus, &cobra.Command{
		Use: "list", Short: "List runs, the newest first", Args: cobra.NoArgs,
		Long: `List runs, the newest first. With several filters, those that have all of them.
A run that was blocked before the nexus agreed to it is among them.`,
		Example: `  remit runs list
  remit runs list --status running --json
  remit runs list --verdict fail --engine codex --since 24h
  remit runs list --text 'sum totals'`,
	}, 50, func(cmd *cobra.Command, c *api.Client, _ []string, most int) ([]api.Run, error) {
		params, err := f.params(time.Now())
		if err != nil {
			return nil, err
		}
		return foundRuns(cmd.Context(), c, params, most)
	}, printRuns)
	nexus.add(cmd)
	f.add(cmd)
	return cmd
}

// runFilter says which runs are looked for; "" is any.
type runFilter struct {
	status, verdict, outcome                    string
	engine, model, repo, owner, blocker, search string
	since, until                                string
}

func (f *runFilter) add(cmd *cobra.Command) {
	addChoice(cmd, &f.status, "status", runStatuses)
	addChoice(cmd, &f.verdict, "verdict", []string{"pass", "fail", "blocked"})
	addChoice(cmd, &f.outcome, "outcome", []string{"accepted", "rejected", "reverted", "failing"})
	flags := cmd.Flags()
	flags.StringVar(&f.engine, "engine", "", "only those of this engine")
	flags.StringVar(&f.model, "model", "", "only those that asked this model")
	flags.StringVar(&f.repo, "repo-ref", "", "only those of this repository")
	flags.StringVar(&f.owner, "owner", "", "those of another owner, for an administrator")
	flags.StringVar(&f.blocker, "blocker", "", "only those whose first blocker has this code")
	flags.StringVar(&f.since, "since", "", "only those made since a time (2026-02-25T10:00:00Z), or since so long ago (24h)")
	flags.StringVar(&f.until, "until", "", "only those made before a time, or longer ago")
	flags.StringVar(&f.search, "text", "", "only those whose title, task, repository, issue, engine, model, blocker or id have words that begin so")
}

func (f *runFilter) params(now time.Time) (p api.ListRunsParams, err error) {
	p = api.ListRunsParams{Owner: api.Optional(f.owner), Status: api.Optional(f.status), Verdict: api.Optional(f.verdict), Engine: api.Optional(f.engine),
		Model: api.Optional(f.model), RepoRef: api.Optional(f.repo), Outcome: api.Optional(f.outcome), Blocker: api.Optional(f.blocker),
		Text: api.Optional(f.search)}
	if p.Since, err = timeAgo("since", f.since, now); err == nil {
		p.Until, err = timeAgo("until", f.until, now)
	}
	return p, err
}

// timeAgo reads a time, or how long ago it was.
func timeAgo(flag, text string, now time.Time) (*string, error) {
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		ago, wrong := time.ParseDuration(text)
		if wrong != nil || ago < 0 {
			return nil, usagef("--%s %q: give a time such as 2026-02-25T10:00:00Z, or how long ago, such as 24h", flag, text)
		}
		at = now.Add(-ago)
	}
	return new(at.UTC().Format(api.TimeLayout)), nil
}

var runStatuses = []string{"created", "running", "canceling", "succeeded", "failed", "canceled"}

func printRuns(w io.Writer, list []api.Run) error {
	return printTable(w, "runs", "RUN\tSTATUS\tVERDICT\tENGINE\tREPOSITORY\tISSUE\tMADE\tENDED\tTITLE", list, func(r api.Run) string {
		s := summaryOf(r)
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", r.RunID, r.Status, api.Value(s.Status),
			plain(jobs.EngineAsked(r.Metadata, s.Engine.Name)), shorten(plain(r.RepoRef), 40),
			shorten(plain(r.IssueRef), 40), r.CreatedAt, api.Value(r.FinishedAt), shorten(plain(cmp.Or(s.Title, r.Metadata["title"])), 60))
	})
}

// summaryOf is what is known of a run, empty when nothing is.
func summaryOf(r api.Run) (s evidence.RunSummary) {
	if r.Summary != nil {
		_ = json.Unmarshal(*r.Summary, &s) // of another version: what it has in common
	}
	return s
}

func (a *app) runsShowCommand() *cobra.Command {
	return oneRun.command(&cobra.Command{
		Use: "show RUN", Short: "Show one run and its jobs",
		Long: `Show one run and its jobs. RUN is an id, or "latest".`,
		Example: `  remit runs show latest
  remit runs show run_… --json`,
	}, a.showRun)
}

// runWithJobs is what --json says of one run.
type runWithJobs struct {
	api.Run
	Jobs []api.Job `json:"jobs"`
}

func (a *app) showRun(cmd *cobra.Command, c *api.Client, id string) error {
	got, err := api.GetRun.Get(cmd.Context(), c, id)
	if err != nil {
		return err
	}
	dispatched, err := listedJobs(cmd.Context(), c, id, maxListed)
	if err != nil {
		return err
	}
	return a.present(cmd.OutOrStdout(), runWithJobs{got, dispatched}, func(w io.Writer) error {
		if err := printRuns(w, []api.Run{got}); err != nil || len(dispatched) == 0 {
			return err
		}
		fmt.Fprintln(w)
		return printJobs(w, dispatched)
	})
}

func (a *app) runsReceiptsCommand() *cobra.Command {
	return oneRun.command(&cobra.Command{
		Use: "receipts RUN", Short: "List the receipts of a run in the order of its log",
		Long: `List the receipts of a run: what happened, on whose word, and the digest that anybody
can compute again. RUN is an id, or "latest". --json has the payloads.`,
		Example: `  remit runs receipts latest
  remit runs receipts run_… --json`,
	}, func(cmd *cobra.Command, c *api.Client, id string) error {
		list, err := listAll(maxListed, func(cursor *string) ([]api.Receipt, *string, error) {
			got, err := api.ListReceipts.Get(cmd.Context(), c, api.ListReceiptsParams{RunID: id, Cursor: cursor})
			if err != nil {
				return nil, nil, err
			}
			return got.Items, got.NextCursor, nil
		})
		if err != nil {
			return err
		}
		return a.present(cmd.OutOrStdout(), api.ReceiptPage{Items: list}, func(w io.Writer) error { return printReceipts(w, list) })
	})
}

func printReceipts(w io.Writer, list []api.Receipt) error {
	return printTable(w, "receipts", "SEQ\tRECEIPT\tPRINCIPAL\tRECORDED\tABOUT\tSHA256", list, func(r api.Receipt) string {
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s", r.Seq, plain(r.ReceiptType), plain(r.Principal), r.RecordedAt,
			receiptAbout(r.Payload), r.ReceiptSha256)
	})
}

// receiptAbout picks out of a payload what people look for.
func receiptAbout(payload json.RawMessage) string {
	p, ok := record.Receipt{Payload: payload}.About()
	if !ok {
		return ""
	}
	words := []string{p.JobID, p.ProviderID, p.Reason}
	if p.JobID != "" {
		words[1] = ""
	}
	if p.AmountMsats != 0 {
		words = append(words, fmt.Sprintf("%d msats", p.AmountMsats))
	}
	return plain(strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " "))
}

func (a *app) runsFinishCommand() *cobra.Command {
	var status, why string
	cmd := oneRun.command(&cobra.Command{
		Use: "finish RUN", Short: "End a run, which seals its log",
		Long: `End a run, which seals its log for good. A run succeeds only when all its jobs have
ended; without --status it has failed when one of them did not pass, and a run without
jobs needs it. Failing or
canceling it cancels the jobs that were not handed in, and settles those that were: one
that passes is paid all the same, and what was paid stays paid.
RUN is an id, or "latest".`,
		Example: `  remit runs finish latest
  remit runs finish latest --status canceled   # no job was dispatched
  remit runs finish run_… --status failed --reason 'superseded'`,
	}, func(cmd *cobra.Command, c *api.Client, id string) error {
		if status == "" {
			list, err := listedJobs(cmd.Context(), c, id, maxListed)
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return usagef("run %s has no job, which would say how it has ended: say it with --status succeeded, failed or canceled", id)
			}
			if status = endOfJobs(list); status == "failed" && why == "" {
				why = "a job did not pass"
			}
		}
		got, err := api.FinishRun.Do(cmd.Context(), c, api.NewKey(), api.FinishRunParams{RunID: id},
			api.FinishRequest{Status: api.FinishRequestStatus(status), Reason: api.Optional(why)})
		if err != nil {
			return err
		}
		return a.present(cmd.OutOrStdout(), got, func(w io.Writer) error { return printRuns(w, []api.Run{got}) })
	})
	cmd.Flags().StringVar(&status, "status", "", strings.Join(finishStatuses, ", ")+" (default as its jobs have ended)")
	cmd.Flags().StringVar(&why, "reason", "", "why, for the record")
	choose(cmd, "status", finishStatuses)
	return cmd
}

// endOfJobs is how a run of these jobs has ended: with one that is open it has not, and
// the nexus says so.
func endOfJobs(list []api.Job) string {
	failed := func(j api.Job) bool { return j.ClosedAt != nil && api.Value(j.Outcome) != string(job.Passed) }
	if slices.ContainsFunc(list, failed) {
		return "failed"
	}
	return "succeeded"
}

var finishStatuses = []string{"succeeded", "failed", "canceled"}
