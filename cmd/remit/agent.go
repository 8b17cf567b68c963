package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"remit/law/ladder"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/agentconf"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/prove"
	"remit/work/route"
	"remit/work/sandbox"
)

// The schemas of what these commands print.
const (
	agentsSchema     = "remit.agents.v1"
	agentSetupSchema = "remit.agent.setup.v1"
)

func (a *app) agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "agent", Short: "Set up a coding agent on this machine, and look at what is set up",
		Long: `An agent is a program that asks a model. These commands find or install one, settle
which model it asks and where the key for that is read, and look at it again. What is
settled lies below REMIT_HOME and holds no key; what an agent may do is said by the
records (remit admit) and by the proofs (remit ladder), as without these commands.`,
	}
	cmd.AddCommand(a.agentSetupCommand(), a.agentListCommand(), a.agentShowCommand())
	return cmd
}

// agentView is an agent as list and show print it.
type agentView struct {
	*agentconf.Agent
	Found     bool   `json:"found"`   // its program is there
	Changed   bool   `json:"changed"` // it is another build than the one that was set up
	Admission string `json:"source_admission_status"`
	ModelWord string `json:"model_admission_status"`
	Stage     int    `json:"proven_stage"`
	Mode      string `json:"mutation_mode"`
	Why       string `json:"why"`  // no further stage is proven
	Next      string `json:"next"` // the command to type
}

// viewOf looks at what holds of a settled agent now.
func (a *app) viewOf(cmd *cobra.Command, conf *agentconf.Agent) (agentView, error) {
	v := agentView{Agent: conf, Next: "remit agent setup " + setupWord(conf), Mode: "none"}
	e, err := settledEngine(conf)
	if err != nil {
		v.Why = err.Error()
		return v, nil //nolint:nilerr // it is what is wrong with the agent
	}
	id, err := e.Identity(cmd.Context())
	if reason.CodeOf(err) == reason.ProviderUnavailable {
		v.Why = err.Error()
		return v, nil
	}
	if err != nil {
		return v, err
	}
	signed := signedHere(cmd.Context(), ".")
	records := route.Records(a.home.Dir, signed, nil)
	admitted, _ := route.Admission(records, id)
	m, err := flagsOf(conf).named()
	if err != nil {
		return v, err
	}
	way := m.Route(records, nil)
	v.Found, v.Changed, v.Admission, v.ModelWord = true, id.SHA256 != conf.SHA256, admitted.SourceStatus, string(way.Status)
	q := prove.Question{Home: a.home.Dir, Signed: signed, Engine: e, Identity: id, Model: way, Driver: sandbox.DriverBwrap}
	if err := q.Into(&admitted); err != nil {
		return v, err
	}
	v.Mode, v.Why = admitted.ProvenMode.String(), admitted.Unproved
	for _, s := range ladder.Stages() {
		if s.Mode <= admitted.ProvenMode && admitted.ProvenMode > 0 {
			v.Stage = s.Number
		}
	}
	if v.Stage >= copyStage() && admitted.Remedy == "" && way.Remedy == "" {
		v.Next = runCommandOf(conf, "ISSUE.md")
	}
	return v, nil
}

// settledEngine is the engine of a settled agent.
func settledEngine(conf *agentconf.Agent) (engine.Engine, error) {
	if conf.Engine == acp.Name {
		return acpNamed(conf.Command, conf.Bin, conf.Wire)
	}
	return engineNamed(conf.Engine, conf.Bin)
}

// flagsOf are the flags about the model that an agent stands for.
func flagsOf(conf *agentconf.Agent) *modelFlags {
	m := conf.Model
	return &modelFlags{bin: conf.Bin, provider: m.Provider, model: m.Name, engineModel: m.EngineModel, baseURL: m.BaseURL,
		local: m.Local, caFile: m.CAFile, keyEnv: m.KeyEnv, keyFile: m.KeyFile, keyCommand: m.KeyCommand, pricesFile: m.PricesFile}
}

// setupWord names an agent for remit agent setup.
func setupWord(conf *agentconf.Agent) string {
	if conf.Engine != acp.Name || len(conf.Command) == 0 {
		return conf.Engine
	}
	return acp.Name + ":" + form.ShellWord(conf.Command[0])
}

// runCommandOf is what starts a run of an agent.
func runCommandOf(conf *agentconf.Agent, issue string) string {
	command := "remit run --engine " + conf.Engine + " --issue " + issue
	if conf.Engine == acp.Name && len(conf.Command) > 0 {
		command += " -- " + form.ShellWord(filepath.Base(conf.Command[0]))
	}
	return command
}

func (a *app) agentListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the agents that are set up", Args: cobra.NoArgs,
		Long: `List prints for each agent that is set up here whether its program is there, which
model it asks, how far it is proven, and the command to type next.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := agentconf.All(a.home.Dir)
			if err != nil {
				return err
			}
			views := []agentView{}
			for _, conf := range all {
				v, err := a.viewOf(cmd, conf)
				if err != nil {
					return err
				}
				views = append(views, v)
			}
			return a.present(cmd.OutOrStdout(), map[string]any{"schema": agentsSchema, "agents": views},
				func(w io.Writer) error { return printAgentViews(w, views) })
		},
	}
}

func printAgentViews(w io.Writer, views []agentView) error {
	if len(views) == 0 {
		_, err := fmt.Fprintln(w, "No agent is set up: remit agent setup codex (or claude, pi, case, acp:PROGRAM)")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "AGENT\tVERSION\tMODEL\tPROVEN THROUGH\tTYPE NEXT")
	for _, v := range views {
		far := "nothing"
		if v.Stage > 0 {
			far = fmt.Sprintf("stage %d", v.Stage)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s/%s\t%s\t%s\n", plain(v.Name), plain(v.Version), plain(v.Model.Provider), plain(v.Model.Name),
			far, plain(v.Next))
	}
	return tw.Flush()
}

func (a *app) agentShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show what is settled about an agent", Args: cobra.ExactArgs(1), ValidArgsFunction: a.settledNames,
		Long: `Show prints what is settled about one agent: its program, version, digest and licence,
the model that it asks and where the key for that is read (never the key), what the
records say of both, and how far it is proven.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conf, err := agentconf.Load(a.home.Dir, strings.ReplaceAll(args[0], ":", "-"))
			if err != nil {
				return err
			}
			if conf == nil {
				return reason.Errorf(reason.NotFound, "no agent %q is set up here", args[0]).WithHint("`remit agent list`, or `remit agent setup NAME`")
			}
			v, err := a.viewOf(cmd, conf)
			if err != nil {
				return err
			}
			return a.present(cmd.OutOrStdout(), v, func(w io.Writer) error { return printAgentView(w, v) })
		},
	}
}

func (a *app) settledNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, err := agentconf.All(a.home.Dir)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, conf := range all {
		out = append(out, conf.Name)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func printAgentView(w io.Writer, v agentView) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, plain(text))
		}
	}
	line("agent", v.Name)
	line("engine", v.Engine)
	line("command", strings.Join(v.Command, " "))
	line("program", v.Bin)
	line("version", v.Version)
	line("digest", v.SHA256)
	if v.Changed {
		line("", "another build is there now: set it up again")
	}
	line("licence", v.Licence)
	line("model", v.Model.Name+" of "+v.Model.Provider)
	line("address", v.Model.BaseURL)
	line("key", keyPlace(v.Agent))
	line("source", v.Admission)
	line("admission", v.ModelWord)
	line("mode", v.Mode)
	line("not further", v.Why)
	line("next", v.Next)
	return tw.Flush()
}

// keyPlace says where the key is read.
func keyPlace(conf *agentconf.Agent) string {
	switch m := conf.Model; {
	case m.KeyFile != "":
		return "from the file " + m.KeyFile
	case m.KeyCommand != "":
		return "from a command"
	case m.KeyEnv != "":
		return "from the variable " + m.KeyEnv
	case m.Local:
		return "none"
	}
	return "from the provider's usual variable"
}
