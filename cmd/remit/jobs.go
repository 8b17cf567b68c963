package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"remit/law/job"
	"remit/nexus/api"
)

func (a *app) jobsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "jobs", Short: "Dispatch jobs to the providers of a nexus, and settle them",
		Long: `A job is work that a provider does for a run: commands in a sandbox, or an engine
under a contract. Its price is held when it is dispatched, and paid or given back
when it is settled.`,
	}
	cmd.AddCommand(a.jobsDispatchCommand(), a.jobsListCommand(), a.jobsShowCommand(), a.jobsSettleCommand(), a.jobsCancelCommand())
	return cmd
}

func (a *app) jobsListCommand() *cobra.Command {
	var nexus nexusFlags
	var state string
	cmd := listCommand(a, &nexus, &cobra.Command{
		Use: "list [RUN]", Short: "List the jobs of a run, or of the newest runs", Args: cobra.MaximumNArgs(1),
		Long: `List the jobs of a run in the order of their dispatch; without one those of the
newest 20 runs, the newest run first. RUN is an id, or "latest".`,
		Example: `  remit jobs list
  remit jobs list latest --json
  remit jobs list --state queued`,
	}, 50, func(cmd *cobra.Command, c *api.Client, args []string, most int) ([]api.Job, error) {
		return jobsOf(cmd.Context(), c, args, state, most)
	}, printJobs)
	nexus.add(cmd)
	cmd.ValidArgsFunction = completion(&nexus, runWords)
	addChoice(cmd, &state, "state", jobStates)
	return cmd
}

var jobStates = []string{"queued", "leased", "submitted", "verified", "settled", "failed", "canceled", "expired"}

// jobsOf lists the jobs of the run that is named, or of the newest ones.
func jobsOf(ctx context.Context, c *api.Client, args []string, state string, most int) ([]api.Job, error) {
	var runs []string
	if len(args) == 1 {
		id, err := runID(ctx, c, args[0])
		if err != nil {
			return nil, err
		}
		runs = []string{id}
	} else {
		newest, err := listedRuns(ctx, c, latestRuns)
		if err != nil {
			return nil, err
		}
		for _, r := range newest {
			runs = append(runs, r.RunID)
		}
	}
	out := []api.Job{}
	for _, run := range runs {
		list, err := listedJobs(ctx, c, run, maxListed)
		if err != nil {
			return nil, err
		}
		for _, j := range list {
			if len(out) < most && (state == "" || string(j.State) == state) {
				out = append(out, j)
			}
		}
	}
	return out, nil
}

func printJobs(w io.Writer, list []api.Job) error {
	return printTable(w, "jobs", "JOB\tRUN\tTYPE\tSTATE\tPROVIDER\tMSATS\tPAYMENT\tREASON\tDISPATCHED", list, func(j api.Job) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s", j.JobID, j.RunID, plain(j.JobType), j.State, j.ProviderID, j.AmountMsats,
			plain(api.Value(j.Payment)), plain(api.Value(j.Reason)), j.DispatchedAt)
	})
}

func (a *app) jobsShowCommand() *cobra.Command {
	return oneJob.command(&cobra.Command{
		Use: "show JOB", Short: "Show one job: where it is, and what came of it",
		Long: `Show one job: its state, who has it, what it costs, and what its commands did. JOB
is an id, or "latest". --json has request and response whole.`,
		Example: `  remit jobs show latest
  remit jobs show job_… --json`,
	}, func(cmd *cobra.Command, c *api.Client, id string) error {
		got, err := api.GetJob.Get(cmd.Context(), c, id)
		if err != nil {
			return err
		}
		return a.present(cmd.OutOrStdout(), got, func(w io.Writer) error { return printJob(w, got) })
	})
}

func printJob(w io.Writer, j api.Job) error {
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tab, "%s\t%s\n", name, plain(value))
		}
	}
	row("job", j.JobID)
	row("run", j.RunID)
	row("type", j.JobType)
	row("state", string(j.State))
	row("reason", api.Value(j.Reason))
	row("provider", fmt.Sprintf("%s (%s)", j.ProviderID, j.Tier))
	row("attempt", fmt.Sprint(j.Attempt))
	row("price", fmt.Sprintf("%d msats", j.AmountMsats))
	row("payment", api.Value(j.Payment))
	row("dispatched", j.DispatchedAt)
	row("leased", api.Value(j.LeasedAt))
	row("submitted", api.Value(j.SubmittedAt))
	row("closed", api.Value(j.ClosedAt))
	for _, c := range commandsOf(j) {
		row("command", fmt.Sprintf("%s: exit %d after %d ms", c.command, c.exit, c.ms))
	}
	for _, line := range causeOf(j) {
		row("cause", line)
	}
	return tab.Flush()
}

// commandRun is a command of a job, and what came of it.
type commandRun struct {
	command string
	exit    int32
	ms      uint64
	printed string // the last that it printed, if it failed and the response has it
}

// response is the part of the responses of all job types that says what failed.
type response struct {
	Runs         []job.Run      `json:"runs"`         // of a job of commands
	Verification []job.Verified `json:"verification"` // of an engine's run
	Refusal      *job.Refusal   `json:"refusal"`
	Error        *string        `json:"error"`
}

func responseOf(j api.Job) (r response) {
	if j.Response != nil {
		_ = json.Unmarshal(*j.Response, &r) // the nexus has judged it; what cannot be read says nothing
	}
	return r
}

func commandsOf(j api.Job) (out []commandRun) {
	r := responseOf(j)
	for _, run := range r.Runs {
		printed := cmp.Or(strings.TrimSpace(api.Value(run.StderrPreview)), strings.TrimSpace(api.Value(run.StdoutPreview)))
		out = append(out, commandRun{run.Cmd, run.ExitCode, run.DurationMS, printed})
	}
	for _, v := range r.Verification {
		out = append(out, commandRun{v.Command, v.ExitCode, v.DurationMS, ""})
	}
	return out
}

// causeLines is how much of the output of a command that failed is shown.
const causeLines = 5

// causeOf says why a job failed, as far as its response does: the provider's own
// words, and the end of the output of the first command that failed.
func causeOf(j api.Job) (lines []string) {
	r := responseOf(j)
	if r.Refusal != nil {
		lines = append(lines, fmt.Sprintf("%s: %s", r.Refusal.Code, r.Refusal.Message))
	}
	if r.Error != nil {
		lines = append(lines, *r.Error)
	}
	for _, c := range commandsOf(j) {
		if c.exit == 0 {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: exit %d", c.command, c.exit))
		if c.printed != "" {
			said := strings.Split(c.printed, "\n")
			lines = append(lines, said[max(0, len(said)-causeLines):]...)
		}
		break
	}
	return lines
}

func (a *app) jobsSettleCommand() *cobra.Command {
	return oneJob.command(&cobra.Command{
		Use: "settle JOB", Short: "Judge what a provider handed in, and pay it or not",
		Long: `Have the nexus judge the response that it stored: the price is released to the
provider, or given back, in the same transaction. JOB is an id, or "latest". The
exit code is 0 when it was released and 2 when not. A job that is not settled the
nexus settles after five minutes. A run that was made for this job alone, on the page
for new runs, ends with it.`,
		Example: `  remit jobs settle latest
  remit jobs settle job_… --json`,
	}, func(cmd *cobra.Command, c *api.Client, id string) error {
		settled, err := api.SettleJob.Do(cmd.Context(), c, api.NewKey(), id, api.None{})
		if err != nil {
			return err
		}
		code := settledCode(settled)
		if err := a.present(cmd.OutOrStdout(), settled, func(w io.Writer) (err error) {
			var j api.Job
			if code != nil { // the job says what failed
				if j, err = api.GetJob.Get(cmd.Context(), c, id); err != nil {
					return err
				}
			}
			return printSettlement(w, settled, j)
		}); err != nil {
			return err
		}
		return code
	})
}

// endRun ends a run that was made for one job, as the settlement of the job ended.
func endRun(ctx context.Context, c *api.Client, id string, released bool) error {
	status := api.FinishRequestStatusFailed
	if released {
		status = api.FinishRequestStatusSucceeded
	}
	_, err := api.FinishRun.Do(ctx, c, api.NewKey(), api.FinishRunParams{RunID: id}, api.FinishRequest{Status: status})
	return err
}

// settledCode is the exit code of a settlement.
func settledCode(s api.Settlement) error {
	if s.SettlementStatus != api.SettlementSettlementStatusReleased {
		return exitCode(2)
	}
	return nil
}

func printSettlement(w io.Writer, s api.Settlement, j api.Job) error {
	fmt.Fprintf(w, "Job %s of provider %s: %s, exit code %d; %d msats %s.\n", s.JobID, s.ProviderID, plain(s.Outcome), s.ExitCode,
		s.AmountMsats, s.SettlementStatus)
	if why := plain(api.Value(s.Reason)); why != "" {
		fmt.Fprintf(w, "Reason: %s\n", why)
	}
	for _, v := range s.Violations {
		fmt.Fprintf(w, "  %s: %s\n", plain(v.Code), plain(v.Detail))
	}
	if s.SettlementStatus != api.SettlementSettlementStatusReleased {
		for _, line := range causeOf(j) {
			fmt.Fprintf(w, "  cause: %s\n", plain(line))
		}
	}
	return nil
}

func (a *app) jobsCancelCommand() *cobra.Command {
	var why string
	cmd := oneJob.command(&cobra.Command{
		Use: "cancel JOB", Short: "End a job that was not handed in; its price is given back",
		Long: `End a job that was not handed in: its provider stops, what it still delivers is
refused, and the price is given back. JOB is an id, or "latest".`,
		Example: `  remit jobs cancel job_… --reason 'wrong commit'`,
	}, func(cmd *cobra.Command, c *api.Client, id string) error {
		got, err := api.CancelJob.Do(cmd.Context(), c, api.NewKey(), id, api.ReasonRequest{Reason: api.Optional(why)})
		if err != nil {
			return err
		}
		return a.present(cmd.OutOrStdout(), got, func(w io.Writer) error { return printJobs(w, []api.Job{got}) })
	})
	cmd.Flags().StringVar(&why, "reason", "", "why, for the record")
	return cmd
}
