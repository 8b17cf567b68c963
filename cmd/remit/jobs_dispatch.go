package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/requester"
	"remit/proof/reason"
)

// dispatchFlags describe a job.
type dispatchFlags struct {
	nexus                nexusFlags
	run, repoRef         string
	source, gitRef       string
	commands             []string
	memory, timeout      uint32
	disk                 int64
	cpus                 float32
	requestFile, jobType string
	maxPrice             int64
	provider             string
	wait                 time.Duration
	settle               bool
}

func (a *app) jobsDispatchCommand() *cobra.Command {
	f := new(dispatchFlags)
	cmd := &cobra.Command{
		Use: "dispatch", Short: "Have a provider do a job", Args: cobra.NoArgs,
		Long: `Choose a provider, hold its price and queue a job, in one step. The job is the
commands of --command, run one after the other in the tree of --source without
network; or any request that --request holds, as JSON.

--source is a directory on the provider's machine, below one that it was started
with; a relative one is taken from here. Without --run a run is made for the job. A
run has a job once: the same one again is the job of before, and a note says so
(--json: "existing").

--wait has it tried again for a while when no provider could take it.
--settle waits for the response, settles the job and ends the run that was made for
it. The exit code is 0 when the price was released, and 2 when it was withheld.`,
		Example: `  remit jobs dispatch --source /srv/repos/demo --command 'make test' --settle
  remit jobs dispatch --run run_… --source demo --command 'go vet ./...' --timeout-secs 120
  remit jobs dispatch --job-type remit.engine_run.v1 --request request.json --max-price-msats 2000`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.dispatchJob(cmd, f) },
	}
	f.nexus.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.run, "run", "", `the run that it is for, an id or "latest" (default a new one)`)
	fl.StringVar(&f.repoRef, "repo-ref", "", "what a new run says its repository is (default --source)")
	fl.StringVar(&f.source, "source", "", "directory on the provider's machine, or artifact:sha256:… of a pack that was stored with the run")
	fl.StringVar(&f.gitRef, "git-ref", "", "commit of --source that the commands see")
	fl.StringArrayVar(&f.commands, "command", nil, "shell command (repeatable, run in order)")
	fl.Uint32Var(&f.memory, "memory-mb", 0, "memory in MB (default 512)")
	fl.Float32Var(&f.cpus, "cpus", 0, "processors (default 1)")
	fl.Int64Var(&f.disk, "disk-mb", 0, "written data in MB (default the owner's cap)")
	fl.Uint32Var(&f.timeout, "timeout-secs", 0, "time of the whole job in seconds (default 60)")
	fl.StringVar(&f.requestFile, "request", "", "file with the request as JSON, - is stdin; instead of the flags that describe a job")
	fl.StringVar(&f.jobType, "job-type", job.SandboxRun, "type of the job, with --request")
	fl.Int64Var(&f.maxPrice, "max-price-msats", 0, "pay at most this (default what the budget has)")
	fl.StringVar(&f.provider, "provider", "", "this provider or none, an id or a name")
	fl.DurationVar(&f.wait, "wait", 0, "try for so long when no provider could take it")
	fl.BoolVar(&f.settle, "settle", false, "wait for the response and settle it")
	complete(cmd, "job-type", job.Types())
	return cmd
}

// dispatched is what --json says of a job that was dispatched.
type dispatched struct {
	RunID      string          `json:"run_id"`
	Job        api.Job         `json:"job"`
	Existing   bool            `json:"existing"` // the run has had this job before: nothing was dispatched
	Settlement *api.Settlement `json:"settlement,omitempty"`
}

func (a *app) dispatchJob(cmd *cobra.Command, f *dispatchFlags) error {
	request, err := f.request(cmd)
	if err != nil {
		return err
	}
	c, err := f.nexus.client(cmd)
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), dispatched{}
	ask := api.DispatchRequest{JobType: f.jobType, Request: request, MaxPriceMsats: api.Optional(f.maxPrice)}
	if f.provider != "" {
		id, err := providerID(ctx, c, "", f.provider, false)
		if err != nil {
			return err
		}
		ask.ProviderID = &id
	}
	ours := f.run == ""
	if out.RunID, err = f.runFor(ctx, c); err != nil {
		return err
	}
	got, err := requester.Dispatch(ctx, c, out.RunID, api.NewKey(), ask, f.wait)
	if err != nil {
		if ours {
			err = discardRun(ctx, c, out.RunID, err)
		}
		return err
	}
	if out.Job, out.Existing = got.Value, !got.Created; out.Existing {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: run %s has had this job before, and nothing was dispatched: job %s is %s. A run has a job once; without --run there is a new run\n",
			out.RunID, out.Job.JobID, out.Job.State)
	}
	if !f.settle {
		return a.present(cmd.OutOrStdout(), out, func(w io.Writer) error { return printJobs(w, []api.Job{out.Job}) })
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "run %s, job %s: waiting for provider %s\n", out.RunID, out.Job.JobID, out.Job.ProviderID)
	conn := &requester.Connection{Client: c, Close: func() error { return nil }}
	if out.Job, err = requester.Await(ctx, conn, out.Job, requester.Patience); err != nil {
		return fmt.Errorf("waiting for job %s, which goes on: settle it with 'remit jobs settle %s': %w", out.Job.JobID, out.Job.JobID, err)
	}
	return a.settleDispatched(cmd, c, out, ours)
}

// settleDispatched settles a job that has ended, and ends the run that was made
// for it.
func (a *app) settleDispatched(cmd *cobra.Command, c *api.Client, out dispatched, ours bool) error {
	ctx, w := cmd.Context(), cmd.OutOrStdout()
	if state := out.Job.State; state == api.JobStateFailed || state == api.JobStateCanceled || state == api.JobStateExpired {
		why := reason.Errorf(reason.Code(api.Value(out.Job.Reason)), "job %s is %s; nothing was paid", out.Job.JobID, state).
			WithHint("'remit jobs show %s' says what its provider said", out.Job.JobID)
		if ours {
			return discardRun(ctx, c, out.RunID, why)
		}
		return why
	}
	settled, err := api.SettleJob.Do(ctx, c, api.NewKey(), out.Job.JobID, api.None{})
	if err != nil {
		return err
	}
	out.Settlement = &settled
	code := settledCode(settled)
	if ours {
		if err := endRun(ctx, c, out.RunID, code == nil); err != nil {
			return err
		}
	}
	if now, err := api.GetJob.Get(ctx, c, out.Job.JobID); err == nil {
		out.Job = now
	}
	if err := a.present(w, out, func(w io.Writer) error { return printSettlement(w, settled, out.Job) }); err != nil {
		return err
	}
	return code
}

// request is the job's request, with the rules of its type where we know them.
func (f *dispatchFlags) request(cmd *cobra.Command) (json.RawMessage, error) {
	described := f.source != "" || f.gitRef != "" || len(f.commands) > 0 || f.memory+f.timeout > 0 || f.cpus != 0 || f.disk != 0
	switch {
	case f.requestFile == "" && len(f.commands) == 0:
		return nil, usagef("give --command, or --request with a whole request")
	case f.requestFile != "" && described:
		return nil, usagef("--request is the whole request: leave out the flags that describe a job")
	case f.requestFile == "" && f.jobType != job.SandboxRun:
		return nil, usagef("--job-type %s needs --request", f.jobType)
	case f.wait < 0:
		return nil, usagef("--wait is %s, must be 0s or more", f.wait)
	case f.requestFile != "":
		return f.readRequest(cmd)
	}
	req := job.SandboxRunRequest{Sandbox: job.Sandbox{ImageDigest: "host",
		Resources: job.Resources{MemoryMB: f.memory, CPUs: job.Cores(f.cpus), TimeoutSecs: f.timeout}}}
	for _, text := range f.commands {
		req.Commands = append(req.Commands, job.Command{Cmd: text})
	}
	if f.disk != 0 {
		if f.disk < 0 || f.disk > 1<<31 {
			return nil, usagef("--disk-mb is %d, must be 1 to %d", f.disk, 1<<31)
		}
		disk := uint32(f.disk)
		req.Sandbox.Resources.DiskMB = &disk
	}
	req.Repo = job.Repo{Source: f.source, GitRef: api.Optional(f.gitRef)}
	if f.source != "" && !strings.HasPrefix(f.source, "artifact:") {
		path, err := filepath.Abs(f.source)
		if err != nil {
			return nil, fmt.Errorf("--source: %w", err)
		}
		req.Repo.Source = path
	}
	filled, err := req.Filled()
	if err != nil {
		return nil, err
	}
	return filled.Canonical(), nil
}

// readRequest reads a request as it is. The nexus judges it.
func (f *dispatchFlags) readRequest(cmd *cobra.Command) (json.RawMessage, error) {
	source := cmd.InOrStdin()
	if f.requestFile != "-" {
		file, err := os.Open(f.requestFile)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		source = file
	} else if f.nexus.tokenFile == "-" {
		return nil, usagef("--request and --token-file cannot both read standard input")
	}
	text, err := io.ReadAll(io.LimitReader(source, job.MaxRequestBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > job.MaxRequestBytes || !json.Valid(text) {
		return nil, usagef("%s does not hold one JSON document of at most %d bytes", f.requestFile, job.MaxRequestBytes)
	}
	return text, nil
}

// runFor is the run that is named, or a new one.
func (f *dispatchFlags) runFor(ctx context.Context, c *api.Client) (string, error) {
	if f.run != "" {
		return runID(ctx, c, f.run)
	}
	ref := f.repoRef
	if ref == "" {
		ref = strings.TrimSuffix(f.source, "/")
	}
	if ref == "" {
		return "", usagef("give --run, or --repo-ref for a new run")
	}
	return newRun(ctx, c, api.RunRequest{RepoRef: ref})
}

// discardRun ends a run that was made for a job which did not come about.
func discardRun(ctx context.Context, c *api.Client, run string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if _, err := api.FinishRun.Do(ctx, c, api.NewKey(), api.FinishRunParams{RunID: run},
		api.FinishRequest{Status: api.FinishRequestStatusFailed, Reason: api.Optional(string(reason.CodeOf(why)))}); err != nil {
		return fmt.Errorf("%w (and run %s is still open: %w)", why, run, err)
	}
	return why
}
