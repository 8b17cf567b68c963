package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"remit/nexus/api"
	"remit/nexus/jobs"
	"remit/nexus/registry"
	"remit/proof/reason"
	"remit/provider"
	"remit/work/sandbox"
)

// providerFlags are the flags of remit provider.
type providerFlags struct {
	state                   string
	nexus, tokenFile, name  string
	price                   int64
	reserve, once, engines  bool
	sources, engine         []string
	agents                  string
	cpus, memory, disk, pid int64
	timeout, concurrency    int64
	lease, heartbeat, grace time.Duration
	plaintext               bool
}

func (a *app) providerCommand() *cobra.Command {
	f := new(providerFlags)
	cmd := &cobra.Command{
		Use: "provider", Short: "Run jobs for a nexus on this machine",
		Long: `A provider is a machine that runs jobs for a nexus: in the sandbox, without
network, under caps that its owner sets. It does nothing until the owner enables
it, and stops taking work the moment the owner disables it.`,
		Example: `  remit provider join --nexus https://nexus.example --token-file token --name rack-1
  remit provider start --source /srv/repos
  remit provider start --source /srv/repos --once
  remit provider start --engine codemod='/opt/codemod --all' --engine gofix='go fix ./...'
  remit provider start --agents agents.yaml
  remit provider status --json`,
	}
	cmd.PersistentFlags().StringVar(&f.state, "state", "", "directory of the registration (default $REMIT_HOME/provider)")
	cmd.PersistentFlags().BoolVar(&f.plaintext, "plaintext", false, "allow http:// to another machine: the credential can be read on the way")
	cmd.AddCommand(a.providerJoin(f), a.providerStart(f), a.providerDisable(f), a.providerStatus(f))
	return cmd
}

func (a *app) providerState(f *providerFlags) provider.State {
	if f.state != "" {
		return provider.State{Dir: f.state}
	}
	return provider.State{Dir: filepath.Join(a.home.Dir, "provider")}
}

func (f *providerFlags) client() api.Options {
	return api.Options{AllowPlaintext: f.plaintext, UserAgent: "remit-provider/" + version}
}

func (a *app) providerJoin(f *providerFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "join --nexus URL --token-file FILE", Short: "Register this machine with a one-time token", Args: cobra.NoArgs,
		Long: `Join registers this machine. The one-time registration token comes from the
owner of the provider; it is read from a file, or from standard input with
--token-file -, never from the command line. Provider mode stays off until the
owner sets caps and enables it.

A provider runs commands that a job brings. With --engines it registers for engine
runs too (remit.engine_run.v1), which are off by default: there a program of this
machine works under a contract that the job brings. Which programs, and which agents
with which models, 'remit provider start' is told by --engine and --agents.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := readToken(f.tokenFile, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if f.name == "" {
				if f.name, err = os.Hostname(); err != nil {
					return fmt.Errorf("reading the host's name: %w", err)
				}
			}
			p, err := a.providerState(f).Join(cmd.Context(), provider.Registration{Nexus: f.nexus, Token: token, Name: f.name, Version: version,
				PriceMsats: f.price, Reserve: f.reserve, Engines: f.engines, Client: f.client()})
			if err != nil {
				return err
			}
			return a.showProvider(cmd.OutOrStdout(), p)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.nexus, "nexus", "", "URL of the nexus")
	fl.StringVar(&f.tokenFile, "token-file", "", "file with the registration token, - for standard input")
	fl.StringVar(&f.name, "name", "", "what people call this machine (default: its host name)")
	fl.Int64Var(&f.price, "price-msats", 1000, "price of a job in millisatoshi")
	fl.BoolVar(&f.reserve, "reserve", false, "join the reserve pool: serve other owners too")
	fl.BoolVar(&f.engines, "engines", false, "register for engine runs too")
	_ = cmd.MarkFlagRequired("nexus")
	_ = cmd.MarkFlagRequired("token-file")
	return cmd
}

func (a *app) providerStart(f *providerFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "start", Short: "Take jobs and run them until interrupted", Args: cobra.NoArgs,
		Long: `Start takes jobs that the nexus offers, runs them in the sandbox and hands the
results in. Results that cannot be handed in are kept and handed in later. With
--once it takes one job that waits, runs it and exits: 0 when it ran one, 3 when
there was none.

Jobs read only repositories below the --source directories, and what was sent with
their run.

--engine NAME='COMMAND ARG...' offers a program of this machine to engine runs, which
name it and can choose nothing else about it; the provider must have joined with
--engines. The command is cut into words as a shell does, without one. A program
given by its path, and every word that is the absolute path of a file, is lent to
the sandbox read-only; other names are looked up inside of it. The program works on
a copy of the job's repository, under the job's contract and under the limits below;
the run is verified and sealed as 'remit run' does it, and its bundle is handed in.
Nobody approves contracts here: one that asks for an approval ends as blocked.

--agents FILE offers engines that ask a model, such as codex, claude or pi, under
names of yours; a job names one, and one of its models. The models are asked
through a gateway of this machine with a key of yours, which no job, log or bundle
shows. Naming an agent there enables it; its source and its models have to be
admitted here with 'remit admit'. docs/nexus.md describes the file.

A job is leased for --lease and the lease is renewed while the job runs. A short
one has the nexus notice soon that this machine is gone, and costs the work when
the nexus cannot be reached for that long.

SIGTERM and Ctrl-C drain: the nexus is told that this machine stops and offers its
jobs to others; what runs here may go on for --grace. What has not ended then is
killed and handed back, and the nexus is told that the machine has stopped. A second
signal ends the process at once.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.checkTimes(); err != nil {
				return err
			}
			return a.startProvider(cmd.Context(), f, cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.sources, "source", nil, "directory below which jobs may read repositories (repeatable)")
	fl.StringArrayVar(&f.engine, "engine", nil, "NAME='COMMAND ARG...' of a program that engine runs may name (repeatable)")
	fl.StringVar(&f.agents, "agents", "", "file with the agents (YAML): engines that ask a model, which engine runs may name")
	fl.BoolVar(&f.once, "once", false, "run one job and exit")
	fl.Int64Var(&f.cpus, "cpu-millis", 0, "limit of this machine in thousandths of a processor (default: the job's)")
	fl.Int64Var(&f.memory, "memory-mb", 0, "limit of memory in MB (default: the job's)")
	fl.Int64Var(&f.disk, "disk-mb", 0, "limit of written data in MB (default: the job's)")
	fl.Int64Var(&f.pid, "pids", 0, "limit of processes (default: the sandbox's)")
	fl.Int64Var(&f.timeout, "timeout-secs", 0, "limit of a job's time in seconds (default: the job's)")
	fl.Int64Var(&f.concurrency, "concurrency", 1, "how many jobs run at a time")
	fl.DurationVar(&f.lease, "lease", jobs.DefaultLease, "how long a job is leased without renewal")
	fl.DurationVar(&f.heartbeat, "heartbeat", 30*time.Second, "pause between signs of life")
	fl.DurationVar(&f.grace, "grace", defaultGrace, "how long jobs may go on after the signal to stop")
	return cmd
}

// Bounds of the grace. Supervisors kill what takes longer than 30 to 90 seconds
// to stop, if they are not told otherwise.
const (
	defaultGrace = 10 * time.Second
	maxGrace     = 24 * time.Hour
)

// maxHeartbeat leaves room for one lost sign of life before a provider is stale.
const maxHeartbeat = registry.StaleAfter / 2

// checkTimes refuses what the nexus would refuse at every job.
func (f *providerFlags) checkTimes() error {
	if f.lease < jobs.MinLease || f.lease > jobs.MaxLease {
		return usagef("--lease is %s, must be %s to %s", f.lease, jobs.MinLease, jobs.MaxLease)
	}
	if f.heartbeat < 100*time.Millisecond || f.heartbeat > maxHeartbeat {
		return usagef("--heartbeat is %s, must be 100ms to %s", f.heartbeat, maxHeartbeat)
	}
	if f.grace < 0 || f.grace > maxGrace {
		return usagef("--grace is %s, must be 0s to %s", f.grace, maxGrace)
	}
	return nil
}

func (a *app) startProvider(ctx context.Context, f *providerFlags, stderr io.Writer) error {
	agents, err := a.providerAgents(ctx, f.agents)
	if err != nil {
		return err
	}
	engines := map[string][]string{}
	for _, text := range f.engine {
		name, argv, err := provider.ParseEngine(text)
		if err == nil && engines[name] != nil {
			err = fmt.Errorf("%q is offered twice", name)
		}
		if at := agents.Where(name); err == nil && at != "" {
			err = fmt.Errorf("%q is offered twice, here and at %s", name, at)
		}
		if err != nil {
			return usagef("--engine: %w", err)
		}
		engines[name] = argv
	}
	driver, err := sandbox.Open(ctx, sandbox.Options{StateDir: a.home.SandboxDir()})
	if err != nil {
		return err
	}
	state := a.providerState(f)
	d, err := provider.Open(provider.Config{
		State: state, Driver: driver, Version: version, Commit: commit, Sources: f.sources, Engines: engines, Agents: agents,
		CacheDir: a.home.CacheDir(), Scratch: filepath.Join(state.Dir, "work"),
		Caps:     api.Caps{CPUMillis: f.cpus, MemoryMb: f.memory, DiskMb: f.disk, Pids: f.pid, TimeoutSecs: f.timeout, Concurrency: f.concurrency},
		LeaseTTL: f.lease, Heartbeat: f.heartbeat, Grace: f.grace,
		Log: slog.New(slog.NewTextHandler(stderr, nil)), Client: f.client(),
	})
	if err != nil {
		return err
	}
	if !f.once {
		return d.Run(ctx)
	}
	ran, err := d.Once(ctx)
	if err == nil && !ran {
		return reason.Errorf(reason.NotFound, "no job waits for this provider")
	}
	return err
}

func (a *app) providerDisable(f *providerFlags) *cobra.Command {
	return &cobra.Command{
		Use: "disable", Short: "Switch provider mode off at once", Args: cobra.NoArgs,
		Long: `Disable switches this provider off at the nexus: from that moment it gets no new
job, and its running jobs are cancelled. Only the owner can enable it again.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.providerState(f).Disable(cmd.Context(), f.client())
			if err != nil {
				return err
			}
			return a.showProvider(cmd.OutOrStdout(), p)
		},
	}
}

func (a *app) providerStatus(f *providerFlags) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show this provider as the nexus sees it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.providerState(f).Status(cmd.Context(), f.client())
			if err != nil {
				return err
			}
			return a.showProvider(cmd.OutOrStdout(), p)
		},
	}
}

func (a *app) showProvider(w io.Writer, p api.Provider) error {
	if a.json {
		return printJSON(w, p)
	}
	mode := "disabled"
	if p.Enabled {
		mode = "enabled"
	}
	if p.Quarantined {
		mode = "quarantined: " + plain(api.Value(p.QuarantineReason))
	}
	caps := "none set: it cannot be enabled"
	if c := p.Caps; c != nil {
		caps = fmt.Sprintf("%d mCPU, %d MB memory, %d MB disk, %d s, %d at a time, network %s", c.CPUMillis, c.MemoryMb, c.DiskMb, c.TimeoutSecs, c.Concurrency, c.Network)
	}
	_, err := fmt.Fprintf(w, "provider    %s (%s)\nmode        %s\npresence    %s\nprice       %d msat a job\ncaps        %s\njobs        %d done, %d failures, %d violations\n",
		p.ProviderID, plain(p.Name), mode, plain(p.Liveness), p.PriceMsats, caps, p.Strikes.Successes, p.Strikes.Failures, p.Strikes.Violations)
	return err
}
