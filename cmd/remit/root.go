package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"remit/proof/evidence"
	"remit/work/sandbox"
	"remit/work/session"
)

// app is what every command shares.
type app struct {
	json bool
	home session.Home

	warnNone sync.Once
}

// helpWidth is how wide a help text is at most, in columns.
const helpWidth = 100

// wrapFlags teaches help texts to break the lines of flags.
var wrapFlags = sync.OnceFunc(func() {
	cobra.AddTemplateFunc("wrapped", func(flags *pflag.FlagSet) string { return flags.FlagUsagesWrapped(helpWidth) })
})

func newRoot() *cobra.Command { return newRootAt(session.HomeFromEnv, nil) }

// newRootAt makes the commands, which work in the home that is found. When the
// words of a command line begin with the name of a command, only that one is made:
// the others would take as long as the whole work of a short command.
func newRootAt(home func() (session.Home, error), words []string) *cobra.Command {
	a := new(app)
	wrapFlags()
	root := &cobra.Command{
		Use:   "remit",
		Short: "Give any coding agent a remit; get back a change you can prove",
		Long: `Remit lets any coding agent or program change a copy of a repository inside a
sandbox and under a written contract, verifies the change independently on a
fresh checkout, and leaves a Verified Patch Bundle that anybody can audit.

The exit code of every command is the status of what it says last: 0 done or pass,
2 fail (it ran, and is not acceptable), 3 blocked (refused, or could not be done;
the reason code says why), 1 a wrong command line or an internal error.

With --json everything on stdout is one JSON document, of help and version too;
replay --follow and watch print one a line. A command that fails before it has
anything to print prints {"error":{"code":…,"message":…,"hint":…},"exit_code":…}.

Sessions are kept below $REMIT_HOME (default $XDG_STATE_HOME/remit, else
~/.local/state/remit).`,
		Example: `  remit run --repo . --allow 'src/**' --verify 'go test ./...' -- ./fix.sh
  remit show latest
  remit export latest --to zip --out bundle.zip
  remit audit bundle.zip`,
		Version:       version + " (" + commit + ")",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := refuseValues(cmd); err != nil {
				return err
			}
			a.home, err = home()
			return err
		},
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON document on stdout and nothing else there, of an error too")
	root.SetUsageTemplate(strings.NewReplacer(".LocalFlags.FlagUsages", "wrapped .LocalFlags",
		".InheritedFlags.FlagUsages", "wrapped .InheritedFlags").
		Replace(root.UsageTemplate()))
	root.SetFlagErrorFunc(refuseFlag)
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run and look:"},
		&cobra.Group{ID: "prove", Title: "Prove:"},
		&cobra.Group{ID: "deliver", Title: "Decide and deliver:"},
		&cobra.Group{ID: "machine", Title: "This machine:"},
		&cobra.Group{ID: "team", Title: "More machines:"},
	)
	commands := a.commands()
	if named := slices.IndexFunc(commands, func(c topCommand) bool { return len(words) > 0 && c.name == words[0] }); named >= 0 {
		commands = commands[named : named+1]
	}
	for _, top := range commands {
		c := top.make()
		c.GroupID = top.group
		root.AddCommand(c)
	}
	root.AddCommand(a.manCommand(root))
	for _, c := range root.Commands() {
		refuseUnknown(c)
		refuseWords(c)
	}
	refuseTopics(root)
	return root
}

// refuseTopics makes help about a command that does not exist a wrong command
// line. By itself cobra prints the help of the root then.
func refuseTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		help.Args = func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			switch {
			case err != nil:
				return asUsage(err)
			case about.HasSubCommands() && about.Args != nil:
				return about.Args(about, rest)
			}
			return nil
		}
	}
}

// topCommand is a command of the program, by its name.
type topCommand struct {
	name, group string
	make        func() *cobra.Command
}

func (a *app) commands() []topCommand {
	return []topCommand{
		{"init", "run", a.initCommand}, {"run", "run", a.runCommand}, {"check", "run", a.checkCommand}, {"issues", "run", a.issuesCommand}, {"compare", "run", a.compareCommand}, {"forecast", "run", a.forecastCommand}, {"mcp", "run", a.mcpCommand},
		{"resume", "run", a.resumeCommand}, {"list", "run", a.sessionsCommand}, {"watch", "run", a.watchCommand},
		{"show", "run", a.showCommand}, {"diff", "run", a.diffCommand}, {"logs", "run", a.logsCommand}, {"replay", "run", a.replayCommand},
		{"verify", "prove", a.verifyCommand}, {"audit", "prove", a.auditCommand}, {"reproduce", "prove", a.reproduceCommand},
		{"approvals", "deliver", a.approvalsCommand}, {"approve", "deliver", a.approveCommand}, {"deny", "deliver", a.denyCommand},
		{"accept", "deliver", a.acceptCommand}, {"reject", "deliver", a.rejectCommand}, {"export", "deliver", a.exportCommand},
		{"bundle", "deliver", a.bundleCommand},
		{"doctor", "machine", a.doctorCommand}, {"agent", "machine", a.agentCommand}, {"env", "machine", a.envCommand}, {"keys", "machine", a.keysCommand}, {"ladder", "machine", a.ladderCommand},
		{"admit", "machine", a.admitCommand}, {"policy", "machine", a.policyCommand}, {"model", "machine", a.modelCommand}, {"records", "machine", a.recordsCommand},
		{"health", "machine", a.healthCommand}, {"version", "machine", a.versionCommand},
		{"serve", "team", a.serveCommand}, {"token", "team", a.tokenCommand}, {"provider", "team", a.providerCommand}, {"runs", "team", a.runsCommand},
		{"jobs", "team", a.jobsCommand}, {"treasury", "team", a.treasuryCommand}, {"bridge", "team", a.bridgeCommand},
	}
}

// refuseUnknown has a group of commands say that it has no such command. By
// itself it would print its help, as if all were well.
func refuseUnknown(group *cobra.Command) {
	if !group.HasSubCommands() || group.Runnable() {
		return
	}
	group.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		did := ""
		c.SuggestionsMinimumDistance = 2 // as of the root
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			did = ": did you mean " + strings.Join(near, " or ") + "?"
		}
		return usagef("unknown command %q for %q%s", args[0], c.CommandPath(), did)
	}
	group.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	for _, c := range group.Commands() {
		refuseUnknown(c)
	}
}

// sandboxOptions are those of this home, with what the flags say.
func (a *app) sandboxOptions(driver string, toolchains []string) sandbox.Options {
	opt := a.home.SandboxOptions()
	opt.Driver, opt.Toolchains = driver, toolchains
	opt.Cache.Tell = tellCache(os.Stderr)
	if driver == sandbox.DriverNone {
		a.warnNone.Do(func() { warnOfNone(os.Stderr) })
	}
	return opt
}

// warnOfNone says aloud what a person gives up with --sandbox none.
func warnOfNone(w io.Writer) {
	fmt.Fprint(w, `WARNING: --sandbox none confines nothing. The engine and every test run as you: they can read and
WARNING: change all your files, use your network and credentials, and leave processes behind.
WARNING: The evidence says so, and is not signed. Run only what you would run by hand.
`)
}

func build() evidence.Build { return evidence.Build{Version: version, Commit: commit} }

// sessionArgs completes the ids of sessions.
func (a *app) sessionArgs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	home, err := session.HomeFromEnv()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	sessions, err := home.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	out := []string{session.Latest}
	for _, s := range sessions {
		out = append(out, s.ID)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
