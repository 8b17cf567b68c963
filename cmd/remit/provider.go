package main

import (
	"cmp"
	"context"
	"errors"
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
	"remit/work/redact"
	"remit/work/sandbox"
)

// providerFlags are the flags of remit provider.
type providerFlags struct {
	state                   string
	nexus, tokenFile, name  string
	price                   int64
	reserve, once, engines  bool
	wait                    time.Duration
	sources, engine         []string
	agents                  string
	cpus, memory, disk, pid int64
	timeout, concurrency    int64
	lease, heartbeat, grace time.Duration
	plaintext               bool
	tls                     tlsFlags
	replace                 string
	unenforced              bool
	environment             environmentFlags
}

func (a *app) providerCommand() *cobra.Command {
	f := new(providerFlags)
	cmd := &cobra.Command{
		Use: "provider", Short: "Run jobs for a nexus on this machine",
		Long: `A provider is a machine that runs jobs for a nexus: in the sandbox, without
network, under caps that its owner sets. It does nothing until the owner enables
it, and stops taking work the moment the owner disables it.

join, start, status and disable are for the machine itself; list, caps, enable,
disable NAME, lift, retire and delete for its owner, with the owner's token.`,
		Example: `  remit provider join --nexus https://nexus.example --token-file token --name rack-1
  remit provider start --source /srv/repos
  remit provider start --source /srv/repos --once
  remit provider start --engine codemod='/opt/codemod --all' --engine gofix='go fix ./...'
  remit provider start --agents agents.yaml
  remit provider caps rack-1 --enable
  remit provider status --json`,
	}
	cmd.PersistentFlags().StringVar(&f.state, "state", "", "directory of the registration (default $REMIT_HOME/provider)")
	cmd.PersistentFlags().BoolVar(&f.plaintext, "plaintext", false, "allow http:// to another machine: the credential can be read on the way")
	f.tls.add(cmd.PersistentFlags())
	cmd.AddCommand(a.providerJoin(f), a.providerStart(f), a.providerStatus(f), a.providerList(f), a.providerCaps(f),
		a.providerEnable(f), a.providerDisable(f), a.providerLift(f), a.providerRetire(f), a.providerDelete(f))
	return cmd
}

func (a *app) providerState(f *providerFlags) provider.State {
	if f.state != "" {
		return provider.State{Dir: f.state}
	}
	return provider.State{Dir: filepath.Join(a.home.Dir, "provider")}
}

func (f *providerFlags) client() api.Options {
	return api.Options{AllowPlaintext: f.plaintext, TLS: f.tls.named(), UserAgent: "remit-provider/" + version}
}

func (a *app) providerJoin(f *providerFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "join --token-file FILE", Short: "Register this machine with a one-time token", Args: cobra.NoArgs,
		Long: `Join registers this machine. The one-time registration token comes from the
owner of the provider; it is read from a file, or from standard input with
--token-file -, never from the command line. Provider mode stays off until the
owner sets caps and enables it.

Joining under the name of a provider that is there no more takes its place: the
nexus keeps what it knows of it, ends its credential and switches it off. While it
works, only --replace with its id does that.

A provider runs commands that a job brings. With --engines it registers for engine
runs too (remit.engine_run.v1), which are off by default: there a program of this
machine works under a contract that the job brings. Which programs, and which agents
with which models, 'remit provider start' takes from --engine and --agents.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nexus := cmp.Or(f.nexus, os.Getenv(envNexus), defaultNexus)
			if err := checkAddress(nexus, f.plaintext); err != nil {
				return err
			}
			token, err := readToken(f.tokenFile, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if f.name == "" {
				if f.name, err = os.Hostname(); err != nil {
					return fmt.Errorf("reading the host's name: %w", err)
				}
			}
			if err := redact.RefuseRecord("the registration", map[string]string{"name": f.name}); err != nil {
				return err
			}
			p, err := a.providerState(f).Join(cmd.Context(), provider.Registration{Nexus: nexus, Token: token, Name: f.name, Version: version,
				PriceMsats: f.price, Reserve: f.reserve, Engines: f.engines, Replace: f.replace, Client: f.client()})
			if err != nil {
				return err
			}
			return a.showProvider(cmd.OutOrStdout(), p)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.nexus, "nexus", "", "URL of the nexus (default $"+envNexus+", else "+defaultNexus+")")
	fl.StringVar(&f.tokenFile, "token-file", "", "file with the registration token, - for standard input")
	fl.StringVar(&f.name, "name", "", "what people call this machine (default: its host name)")
	fl.Int64Var(&f.price, "price-msats", 1000, "price of a job in millisatoshi")
	fl.BoolVar(&f.reserve, "reserve", false, "join the reserve pool: serve other owners too")
	fl.BoolVar(&f.engines, "engines", false, "register for engine runs too")
	fl.StringVar(&f.replace, "replace", "", "id of a provider of the same owner, whose place this machine takes even if it works")
	_ = cmd.MarkFlagRequired("token-file")
	return cmd
}

func (a *app) providerStart(f *providerFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "start", Short: "Take jobs and run them until interrupted", Args: cobra.NoArgs,
		Long: `Start takes jobs that the nexus offers, runs them in the sandbox and hands the
results in. Results that cannot be handed in are kept and handed in later. With
--once it takes one job that waits, runs it and exits: 0 when it ran one, 3 when
there was none; with --wait it waits so long for one to be offered.

Jobs read only repositories below the --source directories, and what was sent with
their run. Every job is held to what its lease grants: what it asks for, within the
caps of the provider's owner. --cpu-millis, --memory-mb, --disk-mb, --pids and
--timeout-secs are further bounds that the operator of this machine sets.

Where the sandbox cannot hold one of these caps, start refuses: without writable
control groups a job can take all memory and processors of the machine ('remit
doctor' tells). --unenforced-caps works all the same, for a machine that is itself
a container with limits; every result says which caps were not held.

--engine NAME='COMMAND ARG...' offers a program of this machine to engine runs, which
name it and can choose nothing else about it; the provider must have joined with
--engines. The command is cut into words as a shell does, without one. A program
given by its path, and every word that is the absolute path of a file, is lent to
the sandbox read-only; other names are looked up inside of it. The program works on
a copy of the job's repository, under the job's contract and under the limits below;
the run is verified and sealed as 'remit run' does it, and its bundle is handed in.
Contracts are not approved here: one that asks for an approval ends as blocked.

--agents FILE offers engines that ask a model, such as codex, claude or pi, under
names of yours; a job names one, and one of its models. The models are asked
through a gateway of this machine with a key of yours, which no job, log or bundle
shows. Naming an agent there enables it; its source and its models have to be
admitted here with 'remit admit'. docs/nexus.md describes the file.

` + environmentHelp + `

A job is leased for --lease and the lease is renewed while the job runs. A short
one has the nexus notice soon that this machine is gone, and costs the work when
the nexus cannot be reached for that long.

SIGTERM and Ctrl-C drain: the nexus learns that this machine stops and offers its
jobs to others; what runs here may go on for --grace. What has not ended then is
killed and handed back, and the nexus learns that the machine has stopped. A second
signal ends the process at once.

Start ends by itself, with exit code 3, when the nexus does not take its credential
any more: it was revoked, or another machine has taken this provider's place.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(f.checkTimes(), f.checkLimits()); err != nil {
				return err
			}
			return a.startProvider(cmd.Context(), f, cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.sources, "source", nil, "directory below which jobs may read repositories (repeatable)")
	fl.StringArrayVar(&f.engine, "engine", nil, "NAME='COMMAND ARG...' of a program that engine runs may name (repeatable)")
	fl.StringVar(&f.agents, "agents", "", "file with the agents (YAML): engines that ask a model, which engine runs may name")
	f.environment.add(cmd)
	fl.BoolVar(&f.once, "once", false, "run one job and exit")
	fl.DurationVar(&f.wait, "wait", 0, "with --once: wait so long for a job")
	fl.Int64Var(&f.cpus, "cpu-millis", 0, "limit of this machine in thousandths of a processor (default: the lease's)")
	fl.Int64Var(&f.memory, "memory-mb", 0, "limit of memory in MB (default: the lease's)")
	fl.Int64Var(&f.disk, "disk-mb", 0, "limit of written data in MB, which is kept in memory and comes on top of it (default: the lease's)")
	fl.Int64Var(&f.pid, "pids", 0, "limit of processes (default: the lease's)")
	fl.Int64Var(&f.timeout, "timeout-secs", 0, "limit of a job's time in seconds (default: the lease's)")
	fl.BoolVar(&f.unenforced, "unenforced-caps", false, "work even where the sandbox cannot hold every cap")
	fl.Int64Var(&f.concurrency, "concurrency", 1, "how many jobs run at a time")
	fl.DurationVar(&f.lease, "lease", jobs.DefaultLease, "how long a job is leased without renewal")
	fl.DurationVar(&f.heartbeat, "heartbeat", 30*time.Second, "pause between signs of life")
	fl.DurationVar(&f.grace, "grace", defaultGrace, "how long jobs may go on after the signal to stop")
	return cmd
}

// Bounds of the grace. Supervisors kill what takes longer than 30 to 90 seconds
// to stop, unless they are configured otherwise.
const (
	defaultGrace = 10 * time.Second
	maxGrace     = 24 * time.Hour
)

// maxHeartbeat leaves room for one lost sign of life before a provider is stale.
const maxHeartbeat = registry.StaleAfter / 2

// checkLimits refuses bounds that no job could live with.
func (f *providerFlags) checkLimits() error {
	for _, l := range []struct {
		name  string
		value int64
		least int64
	}{
		{"cpu-millis", f.cpus, 1}, {"memory-mb", f.memory, provider.LeastMemoryMB}, {"disk-mb", f.disk, 1},
		{"pids", f.pid, provider.LeastPids}, {"timeout-secs", f.timeout, 1},
	} {
		if l.value != 0 && l.value < l.least {
			return usagef("--%s is %d, must be at least %d", l.name, l.value, l.least)
		}
	}
	return nil
}

// checkTimes refuses what the nexus would refuse at every job.
func (f *providerFlags) checkTimes() error {
	if f.lease < jobs.MinLease || f.lease > jobs.MaxLease {
		return usagef("--lease is %s, must be %s to %s", f.lease, jobs.MinLease, jobs.MaxLease)
	}
	if f.heartbeat < 100*time.Millisecond || f.heartbeat > maxHeartbeat {
		return usagef("--heartbeat is %s, must be 100ms to %s", f.heartbeat, maxHeartbeat)
	}
	if f.wait < 0 {
		return usagef("--wait is %s, must be 0s or more", f.wait)
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
	log := slog.New(slog.NewTextHandler(stderr, nil))
	opt := a.home.SandboxOptions()
	opt.Cache.Tell = func(line string) { log.Info(line) }
	driver, err := sandbox.Open(ctx, opt)
	if err != nil {
		return err
	}
	state := a.providerState(f)
	environments, err := f.environment.environments(a.registries, state.Dir)
	if err != nil {
		return err
	}
	d, err := provider.Open(provider.Config{
		State: state, Driver: driver, Version: version, Commit: commit, Sources: f.sources, Engines: engines, Agents: agents,
		Home: a.home.Dir, CacheDir: a.home.CacheDir(), KeyDir: a.home.Keys().Dir, Scratch: filepath.Join(state.Dir, "work"), Environments: environments,
		Caps:       api.Caps{CPUMillis: f.cpus, MemoryMb: f.memory, DiskMb: f.disk, Pids: f.pid, TimeoutSecs: f.timeout, Concurrency: f.concurrency},
		Unenforced: f.unenforced, LeaseTTL: f.lease, Heartbeat: f.heartbeat, Grace: f.grace,
		Log: log, Client: f.client(),
	})
	if err != nil {
		return err
	}
	if !f.once {
		return d.Run(ctx)
	}
	ran, err := d.Once(ctx, f.wait)
	if err == nil && !ran {
		return reason.Errorf(reason.NotFound, "no job waits for this provider")
	}
	return err
}

func (a *app) providerStatus(f *providerFlags) *cobra.Command {
	var nexus nexusFlags
	cmd := &cobra.Command{
		Use: "status [PROVIDER]", Short: "Show this provider as the nexus sees it, or those that one may use", Args: cobra.MaximumNArgs(1),
		Long: `Status shows how the nexus sees the provider that is registered on this machine,
with that provider's credential.

With --nexus it shows instead what the bearer of a token may use: all providers of
its owner and of the reserve pool, or the one that is named.`,
		Example: `  remit provider status
  remit provider status --nexus https://nexus.example
  remit provider status --nexus https://nexus.example prv_… --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("nexus") {
				nexus.plaintext, nexus.tls = f.plaintext, f.tls
				return a.providersOf(cmd, &nexus, args)
			}
			if len(args) > 0 || cmd.Flags().Changed("token-file") {
				return usagef("without --nexus this is about the provider of this machine")
			}
			p, err := a.providerState(f).Status(cmd.Context(), f.client())
			if err != nil {
				return err
			}
			return a.showProvider(cmd.OutOrStdout(), p)
		},
	}
	cmd.Flags().StringVar(&nexus.url, "nexus", "", "show what one may use at this nexus, with a token")
	cmd.Flags().StringVar(&nexus.tokenFile, "token-file", "",
		"with --nexus: file that holds the token, - is stdin (default $"+envToken+", else the file $"+envTFile+")")
	return cmd
}

// providersOf shows what a requester may use.
func (a *app) providersOf(cmd *cobra.Command, nexus *nexusFlags, args []string) error {
	c, err := nexus.client(cmd)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if len(args) == 1 {
		got, err := api.GetProvider.Get(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		return a.showProvider(w, got)
	}
	list, err := listedProviders(cmd.Context(), c, "", false, maxProviders)
	if err != nil {
		return err
	}
	return a.present(w, api.ProviderPage{Items: list}, func(w io.Writer) error { return printProviders(w, list) })
}

// maxProviders bounds a listing.
const maxProviders = 10_000

// modeOf says whether a provider may work, and if not, why not.
func modeOf(p api.Provider) string {
	switch {
	case p.RetiredAt != nil:
		return "retired at " + plain(*p.RetiredAt)
	case p.Quarantined:
		return "quarantined: " + plain(api.Value(p.QuarantineReason))
	case p.Enabled:
		return "enabled"
	}
	return "disabled"
}

func (a *app) showProvider(w io.Writer, p api.Provider) error {
	if a.json {
		return printJSON(w, p)
	}
	caps := "none set: it cannot be enabled"
	if c := p.Caps; c != nil {
		processes := ""
		if c.Pids > 0 { // else as many as the sandbox allows
			processes = fmt.Sprintf("%d processes, ", c.Pids)
		}
		caps = fmt.Sprintf("%d mCPU, %d MB memory, %d MB disk, %s%d s, %d at a time, network %s", c.CPUMillis, c.MemoryMb, c.DiskMb, processes,
			c.TimeoutSecs, c.Concurrency, c.Network)
	}
	_, err := fmt.Fprintf(w, "provider    %s (%s)\nmode        %s\nstatus      %s\npresence    %s\nprice       %d msat a job\ncaps        %s\njobs        %d done, %d failures, %d violations\n",
		p.ProviderID, plain(p.Name), modeOf(p), plain(p.Status), plain(p.Liveness), p.PriceMsats, caps, p.Strikes.Successes,
		p.Strikes.Failures, p.Strikes.Violations)
	return err
}
