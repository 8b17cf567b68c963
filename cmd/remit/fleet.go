package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"remit/nexus/api"
	"remit/proof/reason"
)

// fleetFlags are those of the commands of a provider's owner, who is not at the
// machine: the nexus is asked with the owner's token.
type fleetFlags struct {
	nexus nexusFlags
	owner string
}

// add adds the flags that the group does not have.
func (f *fleetFlags) add(cmd *cobra.Command, group *providerFlags) {
	fl := cmd.Flags()
	fl.StringVar(&f.nexus.url, "nexus", "", "URL of the nexus (default $"+envNexus+", else "+defaultNexus+")")
	fl.StringVar(&f.nexus.tokenFile, "token-file", "",
		"file that holds the owner's token, - is stdin (default $"+envToken+", else the file $"+envTFile+")")
	fl.StringVar(&f.owner, "owner", "", "whose provider a name is, with an administrator's token (default the token's owner)")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		f.of(group)
		return completion(&f.nexus, providerWords)(cmd, args, word)
	}
}

// of takes over what the flags of the group say about the way to the nexus.
func (f *fleetFlags) of(group *providerFlags) {
	f.nexus.plaintext, f.nexus.tls = group.plaintext, group.tls
}

// command makes a command about one provider, by its id or its name, which act
// does something to. It shows the provider as it is then.
func (f *fleetFlags) command(a *app, cmd *cobra.Command, group *providerFlags,
	act func(cmd *cobra.Command, c *api.Client, id string) (api.Provider, error)) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, id, err := f.find(cmd, group, args[0], false)
		if err != nil {
			return err
		}
		p, err := act(cmd, c, id)
		if err != nil {
			return err
		}
		return a.showProvider(cmd.OutOrStdout(), p)
	}
	f.add(cmd, group)
	return cmd
}

// find connects, and finds the provider that is meant: one at work, or a retired
// one.
func (f *fleetFlags) find(cmd *cobra.Command, group *providerFlags, given string, retired bool) (*api.Client, string, error) {
	f.of(group)
	c, err := f.nexus.client(cmd)
	if err != nil {
		return nil, "", err
	}
	id, err := providerID(cmd.Context(), c, f.owner, given, retired)
	return c, id, err
}

func (a *app) providerList(group *providerFlags) *cobra.Command {
	var f fleetFlags
	var retired bool
	cmd := listCommand(a, &f.nexus, &cobra.Command{
		Use: "list", Short: "List the providers of an owner", Args: cobra.NoArgs,
		Long: `List the providers of the token's owner as the nexus sees them: whether each may
work, whether it was heard of lately, and the strikes that count against it. With
--retired it is those that are out of service for good.`,
		Example: `  remit provider list
  remit provider list --owner alice --json`,
		PreRun: func(*cobra.Command, []string) { f.of(group) },
	}, 500, func(cmd *cobra.Command, c *api.Client, _ []string, most int) ([]api.Provider, error) {
		return listedProviders(cmd.Context(), c, f.owner, retired, most)
	}, printProviders)
	f.add(cmd, group)
	cmd.ValidArgsFunction = nil
	cmd.Flags().BoolVar(&retired, "retired", false, "those that are retired, instead")
	return cmd
}

func printProviders(w io.Writer, list []api.Provider) error {
	return printTable(w, "providers", "PROVIDER\tNAME\tOWNER\tMODE\tSTATUS\tPRESENCE\tSTRIKES\tMSATS\tRUNS", list, func(p api.Provider) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s", p.ProviderID, plain(p.Name), plain(p.Owner), modeOf(p), plain(p.Status),
			plain(p.Liveness), p.Strikes.Failures+p.Strikes.Violations, p.PriceMsats, plain(strings.Join(p.Capabilities, " ")))
	})
}

// defaultCaps are what 'remit provider caps' sets where nothing is said: the least
// that a 'remit run --nexus' needs, see docs/nexus.md.
var defaultCaps = api.Caps{CPUMillis: 2000, MemoryMb: 2048, DiskMb: 2048, TimeoutSecs: 300, Concurrency: 1, Network: api.CapsNetworkNone}

func (a *app) providerCaps(group *providerFlags) *cobra.Command {
	var f fleetFlags
	var enable bool
	caps := defaultCaps
	cmd := f.command(a, &cobra.Command{
		Use: "caps PROVIDER", Short: "Set what jobs may use of a provider",
		Long: `Set the caps of a provider, by its id or its name: what each job may use of it, and
how many run at a time. What no flag names keeps the cap that the provider has; one
that has none gets what a 'remit run --nexus' needs. Caps count for what is leased
from now on. With --enable provider mode is switched on too.`,
		Example: `  remit provider caps rack-1 --enable
  remit provider caps rack-1 --cpu-millis 4000 --memory-mb 8192 --concurrency 4
  remit provider caps prv_… --timeout-secs 1800 --json`,
	}, group, func(cmd *cobra.Command, c *api.Client, id string) (api.Provider, error) {
		p, err := setCaps(cmd, c, id, caps)
		if err != nil || !enable {
			return p, err
		}
		return enableProvider(cmd, c, id)
	})
	fl := cmd.Flags()
	fl.Int64Var(&caps.CPUMillis, "cpu-millis", caps.CPUMillis, "thousandths of a processor")
	fl.Int64Var(&caps.MemoryMb, "memory-mb", caps.MemoryMb, "memory in MB")
	fl.Int64Var(&caps.DiskMb, "disk-mb", caps.DiskMb, "written data in MB, which is kept in memory and comes on top of it")
	fl.Int64Var(&caps.Pids, "pids", caps.Pids, "processes; 0 leaves it to the sandbox (512)")
	fl.Int64Var(&caps.TimeoutSecs, "timeout-secs", caps.TimeoutSecs, "time of a job in seconds")
	fl.Int64Var(&caps.Concurrency, "concurrency", caps.Concurrency, "jobs at a time")
	fl.BoolVar(&enable, "enable", false, "also switch provider mode on")
	return cmd
}

// capsTries is how often caps are written over a provider that changes meanwhile:
// its signs of life change it, too.
const capsTries = 10

// setCaps changes the caps that flags name and leaves the others as they are.
func setCaps(cmd *cobra.Command, c *api.Client, id string, wanted api.Caps) (api.Provider, error) {
	for try := 1; ; try++ {
		now, err := api.GetProvider.Get(cmd.Context(), c, id)
		if err != nil {
			return api.Provider{}, err
		}
		caps, seen := wanted, fmt.Sprintf("%q", fmt.Sprint(now.Revision))
		if has := now.Caps; has != nil {
			caps = keepCaps(wanted, *has, cmd.Flags().Changed)
		}
		set, err := api.SetCaps.Do(cmd.Context(), c, api.NewKey(), api.SetCapsParams{ProviderID: id, IfMatch: &seen}, caps)
		if err == nil {
			return set, nil
		}
		if reason.CodeOf(err) != reason.PreconditionFailed || try == capsTries {
			return api.Provider{}, err
		}
	}
}

// keepCaps is what is wanted where a flag names it, and else what a provider has.
func keepCaps(wanted, has api.Caps, named func(flag string) bool) api.Caps {
	for flag, pair := range map[string][2]*int64{
		"cpu-millis": {&has.CPUMillis, &wanted.CPUMillis}, "memory-mb": {&has.MemoryMb, &wanted.MemoryMb}, "disk-mb": {&has.DiskMb, &wanted.DiskMb},
		"pids": {&has.Pids, &wanted.Pids}, "timeout-secs": {&has.TimeoutSecs, &wanted.TimeoutSecs}, "concurrency": {&has.Concurrency, &wanted.Concurrency},
	} {
		if named(flag) {
			*pair[0] = *pair[1]
		}
	}
	return has
}

func (a *app) providerEnable(group *providerFlags) *cobra.Command {
	return new(fleetFlags).command(a, &cobra.Command{
		Use: "enable PROVIDER", Short: "Switch provider mode on",
		Long: `Switch provider mode on, by the provider's id or its name. It needs caps ('remit
provider caps') and no quarantine ('remit provider lift').`,
		Example: `  remit provider enable rack-1`,
	}, group, enableProvider)
}

func enableProvider(cmd *cobra.Command, c *api.Client, id string) (api.Provider, error) {
	return api.EnableProvider.Do(cmd.Context(), c, api.NewKey(), api.EnableProviderParams{ProviderID: id}, api.None{})
}

func (a *app) providerDisable(group *providerFlags) *cobra.Command {
	var f fleetFlags
	var why string
	cmd := f.command(a, &cobra.Command{
		Use: "disable [PROVIDER]", Short: "Switch provider mode off at once",
		Long: `Disable switches a provider off at the nexus: from that moment it gets no new job,
and its running jobs are cancelled. Only the owner can enable it again.

Without an argument it is the provider of this machine, with that provider's
credential. With an id or a name it is one of the token's owner.`,
		Example: `  remit provider disable
  remit provider disable rack-1 --reason 'the disk is going'`,
	}, group, func(cmd *cobra.Command, c *api.Client, id string) (api.Provider, error) {
		return api.DisableProvider.Do(cmd.Context(), c, api.NewKey(), id, api.ReasonRequest{Reason: api.Optional(why)})
	})
	named := cmd.RunE
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return named(cmd, args)
		}
		for _, flag := range []string{"nexus", "token-file", "owner", "reason"} {
			if cmd.Flags().Changed(flag) {
				return usagef("--%s needs the id or the name of a provider: without one this is about the provider of this machine", flag)
			}
		}
		p, err := a.providerState(group).Disable(cmd.Context(), group.client())
		if err != nil {
			return err
		}
		return a.showProvider(cmd.OutOrStdout(), p)
	}
	cmd.Flags().StringVar(&why, "reason", "", "why, for the record")
	return cmd
}

func (a *app) providerLift(group *providerFlags) *cobra.Command {
	var f fleetFlags
	var why string
	cmd := f.command(a, &cobra.Command{
		Use: "lift PROVIDER --reason TEXT", Short: "End a quarantine and clear its strikes",
		Long: `End the quarantine of a provider, by its id or its name, and clear the strikes that
led to it. The owner of a machine can, and an administrator; of one in the reserve
pool, which works for others, only an administrator. Who did it and why is recorded.
The provider stays off until it is enabled.

Strikes fade by themselves: failures after 7 days, violations after 30. A quarantine
does not.`,
		Example: `  remit provider lift rack-1 --reason 'the power supply was replaced'`,
	}, group, func(cmd *cobra.Command, c *api.Client, id string) (api.Provider, error) {
		if before, err := api.GetProvider.Get(cmd.Context(), c, id); err == nil && !before.Quarantined {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: provider %s has no quarantine; its strikes are cleared\n", id)
		}
		return api.LiftQuarantine.Do(cmd.Context(), c, api.NewKey(), id, api.ReasonRequest{Reason: &why})
	})
	cmd.Flags().StringVar(&why, "reason", "", "why, for the record")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

func (a *app) providerRetire(group *providerFlags) *cobra.Command {
	var f fleetFlags
	var why string
	cmd := f.command(a, &cobra.Command{
		Use: "retire PROVIDER", Short: "Take a provider out of service for good",
		Long: `Take a provider out of service for good, by its id or its name: its running jobs are
cancelled, and its credential ends. What it has handed in is judged and paid. Receipts,
jobs and the books go on naming it. Its name is free: a machine that joins under it
becomes another provider, with a history of its own.

'remit provider disable' is for a while.`,
		Example: `  remit provider retire rack-1 --reason 'sold'
  remit provider list --retired`,
	}, group, func(cmd *cobra.Command, c *api.Client, id string) (api.Provider, error) {
		return api.RetireProvider.Do(cmd.Context(), c, api.NewKey(), id, api.ReasonRequest{Reason: api.Optional(why)})
	})
	cmd.Flags().StringVar(&why, "reason", "", "why, for the record")
	return cmd
}

func (a *app) providerDelete(group *providerFlags) *cobra.Command {
	var f fleetFlags
	cmd := &cobra.Command{
		Use: "delete PROVIDER", Short: "Remove a retired provider from all lists", Args: cobra.ExactArgs(1),
		Long: `Remove a retired provider from all lists, by its id or its name, and have the nexus
forget its name, version and caps. Its id stays in receipts, jobs and books.`,
		Example: `  remit provider delete rack-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := f.find(cmd, group, args[0], true)
			if err != nil {
				return err
			}
			got, err := api.DeleteProvider.Do(cmd.Context(), c, api.NewKey(), id, api.None{})
			if err != nil {
				return err
			}
			return a.present(cmd.OutOrStdout(), got, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "Provider %s is deleted.\n", got.ProviderID)
				return err
			})
		},
	}
	f.add(cmd, group)
	return cmd
}
