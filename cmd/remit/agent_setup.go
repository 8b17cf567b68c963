package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/agentconf"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/gateway"
	"remit/work/keycommand"
	"remit/work/route"
)

// setupFlags are those of remit agent setup.
type setupFlags struct {
	model                 modelFlags
	wire, repo, reason    string
	yes, noCheck, noProve bool
}

// usualModel is the pair that an agent is set up with where none is named.
var usualModel = map[string][2]string{"codex": {"openai", "gpt-5.5"}, "pi": {"openai", "gpt-5.5"},
	"claude": {"anthropic", "claude-opus-5-5"}}

func (a *app) agentSetupCommand() *cobra.Command {
	f := &setupFlags{}
	cmd := &cobra.Command{
		Use: "setup codex|claude|pi|case|acp:PROGRAM", Short: "Make an agent ready: program, model, records, policy, proof",
		Args: cobra.ExactArgs(1),
		Long: `Setup does what an agent needs before it may work on your repository, each step with a
line that says what it did: it finds the program or installs it with npm (the tested
version, without running scripts of packages), asks once, tries the model with one
request, admits program and model (as remit admit does), settles the model for later
runs, switches the engine on in the remit.yaml of the repository, and has the agent
prove itself through stage 3 (as remit ladder prove does).

What is there already is left alone, so that setup can be typed again after anything
that went wrong. No key is stored: only where it is read. The sign-in of a person's plan
(ChatGPT, Claude) is no key and is not used. The proof asks the model that is named: two
small tasks, at most 400,000 tokens each.

Exit code 0 when the agent is ready, 2 or 3 when it is not proved (--no-prove
included), 1 when the question was not answered with yes.`,
		Example: `  remit agent setup codex
  remit agent setup claude --key-file ~/.config/anthropic.key --yes
  remit agent setup pi --model-provider local --model qwen --local-model \
    --base-url http://127.0.0.1:8080/v1
  remit agent setup claude --preset bedrock --base-url https://bedrock-mantle.us-east-1.api.aws \
    --model anthropic.claude-opus-5-5 --engine-model claude-opus-5-5
  remit agent setup acp:codex-acp --model-provider openai --model gpt-5.5`,
		ValidArgs: []string{"codex", "claude", "pi", "case", "acp:codex-acp", "acp:claude-agent-acp"},
		RunE:      func(cmd *cobra.Command, args []string) error { return a.agentSetup(cmd, f, args[0]) },
	}
	f.model.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.wire, "acp-wire", "", "what an agent behind acp speaks to its model, if Remit does not know it: "+
		strings.Join(acp.Wires(), ", "))
	choose(cmd, "acp-wire", acp.Wires())
	fl.StringVar(&f.repo, "repo", ".", "repository whose remit.yaml switches the engine on")
	fl.StringVar(&f.reason, "reason", "set up with remit agent setup", "why the program and the model are admitted, for the records")
	fl.BoolVar(&f.yes, "yes", false, "do not ask")
	fl.BoolVar(&f.noCheck, "no-check", false, "do not try the model with one request")
	fl.BoolVar(&f.noProve, "no-prove", false, "do not prove the agent: no run begins before that is done")
	return cmd
}

// setup is one setting up of an agent.
type setup struct {
	*app
	*setupFlags
	cmd    *cobra.Command
	conf   *agentconf.Agent
	engine engine.Engine
	id     evidence.EngineIdentity
	Steps  []setupStep
}

// setupStep is what one step did.
type setupStep struct {
	Step   string `json:"step"`
	Done   bool   `json:"done"` // something was done; false: it was there already, or left out
	Detail string `json:"detail"`
}

func (s *setup) did(step string, done bool, format string, args ...any) {
	st := setupStep{step, done, fmt.Sprintf(format, args...)}
	s.Steps = append(s.Steps, st)
	word := "ok"
	if !done {
		word = "left"
	}
	if !s.json {
		fmt.Fprintf(s.cmd.OutOrStdout(), "%-5s %-9s %s\n", word, step, plain(st.Detail))
	}
}

func (a *app) agentSetup(cmd *cobra.Command, f *setupFlags, word string) error {
	s := &setup{app: a, setupFlags: f, cmd: cmd}
	if err := s.subject(word); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.consent, s.program, s.check, s.admit, s.prices, s.keep, s.policy} {
		if err := step(cmd.Context()); err != nil {
			return err
		}
	}
	status, err := s.prove()
	if err != nil {
		return err
	}
	next, notes := s.next()
	if a.json {
		err = printJSON(cmd.OutOrStdout(), map[string]any{"schema": agentSetupSchema, "agent": s.conf, "steps": s.Steps, "status": status,
			"next": next, "notes": notes})
	} else {
		for _, n := range notes {
			fmt.Fprintf(cmd.OutOrStdout(), "note  %s\n", plain(n))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nNext:\n  %s\n", plain(next))
	}
	if code := evidence.ExitCode(status); err == nil && code != 0 {
		err = exitCode(code)
	}
	return err
}

// subject is what is to be set up: an engine, or a program behind acp.
func (s *setup) subject(word string) error {
	if err := s.model.usePreset(); err != nil {
		return err
	}
	name, program, behind := strings.Cut(word, ":")
	s.conf = &agentconf.Agent{Engine: name, Wire: s.wire, Bin: s.model.bin}
	switch {
	case !slices.Contains(askingNames(), name):
		return reason.Errorf(reason.EngineUnknown, "no engine %q asks a model", name).WithHint("one of codex, claude, pi, case, acp:PROGRAM")
	case (name == acp.Name) != (behind && program != ""):
		return usagef("say acp:PROGRAM for an agent that speaks the Agent Client Protocol, such as acp:codex-acp, and the name alone for another")
	case name == acp.Name:
		if strings.ContainsRune(program, filepath.Separator) {
			var err error
			if program, err = filepath.Abs(program); err != nil {
				return err
			}
		}
		s.conf.Command = []string{program}
	}
	if s.model.bin != "" {
		bin, err := filepath.Abs(s.model.bin)
		if err != nil {
			return err
		}
		s.conf.Bin, s.model.bin = bin, bin
	}
	kept, err := agentconf.Load(s.home.Dir, agentconf.NameOf(name, s.conf.Command))
	if err != nil {
		return err
	}
	if kept != nil && !s.model.given() { // what was settled before stands
		bin := s.model.bin
		s.model = *flagsOf(kept)
		s.model.bin = cmp.Or(bin, s.model.bin)
		s.conf.Bin, s.conf.Wire = s.model.bin, cmp.Or(s.conf.Wire, kept.Wire)
	}
	usual, known := usualModel[name]
	if s.model.provider == "" && s.model.local {
		s.model.provider = "local"
	}
	if s.model.provider == "" && s.model.model == "" && known {
		s.model.provider, s.model.model = usual[0], usual[1]
	}
	if s.model.provider == "" || s.model.model == "" {
		return usagef("which model? --model-provider and --model")
	}
	for _, file := range []*string{&s.model.keyFile, &s.model.caFile, &s.model.pricesFile} {
		if *file != "" {
			if *file, err = filepath.Abs(*file); err != nil {
				return err
			}
		}
	}
	m := s.model
	s.conf.Model = agentconf.Model{Provider: m.provider, Name: m.model, EngineModel: m.engineModel, BaseURL: m.baseURL, Local: m.local,
		CAFile: m.caFile, PricesFile: m.pricesFile, KeyEnv: m.keyEnv, KeyFile: m.keyFile, KeyCommand: m.keyCommand}
	_, err = s.model.named() // what is wrong with the flags is said before anything is done
	return err
}

// modelAnswers is how long a model may take for its first answer.
const modelAnswers = 2 * time.Minute

// check asks the model one question, through a gateway as a run has it.
func (s *setup) check(ctx context.Context) error {
	s.model.warnOfKeyFile(s.cmd.ErrOrStderr())
	if s.noCheck {
		s.did("model", false, "not tried")
		return nil
	}
	m, err := s.model.named()
	if err != nil {
		return err
	}
	prices, err := s.model.prices()
	if err != nil {
		return err
	}
	asks, ok := s.engine.(engine.Modelled)
	if !ok {
		return reason.Errorf(reason.EngineUnknown, "engine %s asks no model", s.conf.Engine)
	}
	u, _ := m.Upstream()
	if m.EngineName != "" {
		u.Models = map[string]string{m.EngineName: m.Name}
	}
	g, err := gateway.Open(ctx, gateway.Options{Upstream: u, Model: m.Name, Prices: prices, RunCommand: keycommand.Run})
	if err != nil {
		home, _ := os.UserHomeDir() // none: no sign-in is looked for
		return withoutPlan(err, s.conf.Engine, home)
	}
	limited, cancel := context.WithTimeoutCause(ctx, modelAnswers,
		reason.Errorf(reason.Timeout, "the model did not answer within %s", modelAnswers))
	defer cancel()
	stop := context.AfterFunc(limited, func() { _ = g.Close() })
	defer stop()
	err = g.Probe(limited, gateway.Protocol(asks.Wire()))
	if err != nil && limited.Err() != nil {
		err = context.Cause(limited)
	}
	if err = errors.Join(err, g.Close()); err != nil {
		return err
	}
	s.did("model", true, "%s of %s answers", m.Name, m.Provider)
	return nil
}

// admit writes the records that do not hold yet, as remit admit does.
func (s *setup) admit(context.Context) error {
	ruling := admission.Ruling{Decision: admission.Admitted, Reason: s.reason}
	if err := ruled(&ruling); err != nil {
		return err
	}
	records := route.Records(s.home.Dir, true, nil) // an unsigned record counts for nothing in some repositories
	m, err := s.model.named()
	if err != nil {
		return err
	}
	_, source := route.Admission(records, s.id)
	model := m.Admitted(records)
	for _, decided := range []struct {
		admission.Result
		command string
	}{{source, route.AdmitSource(s.conf.Engine, s.conf.Bin)}, {model, m.AdmitCommand()}} {
		if decided.Status == admission.StatusNotAdmitted { // a person has said no
			return reason.Errorf(decided.Code, "%s", decided.Detail).WithHint("to decide otherwise: %s", decided.command)
		}
	}
	if source.Admitted() {
		s.did("admitted", false, "%s %s is admitted already", s.conf.Engine, s.id.Version)
	} else {
		rec, err := decideSource(s.home.Dir, admission.SourceDecision{Ruling: ruling, Engine: s.conf.Engine, Version: s.id.Version,
			SHA256: s.id.SHA256, License: s.conf.Licence})
		if err != nil {
			return err
		}
		s.did("admitted", true, "%s %s, revision %d", rec.Engine, rec.Version, rec.Revision)
	}
	if model.Admitted() {
		s.did("admitted", false, "model %s of %s is admitted already", m.Name, m.Provider)
		return nil
	}
	u, credential := m.Upstream()
	way := admission.Way{Class: admission.Class(u.Class), Credential: credential, BaseURL: u.BaseURL}
	rec, err := decideModel(s.home.Dir, admission.ModelDecision{Ruling: ruling, Provider: m.Provider, Model: m.Name, Class: way.Class,
		CredentialSource: credential, Network: way.Network()})
	if err != nil {
		return err
	}
	s.did("admitted", true, "model %s of %s, revision %d", rec.Model, rec.Provider, rec.Revision)
	return nil
}

// keep settles the agent for later runs.
func (s *setup) keep(context.Context) error {
	kept, err := agentconf.Load(s.home.Dir, agentconf.NameOf(s.conf.Engine, s.conf.Command))
	if err != nil {
		return err
	}
	if kept != nil {
		s.conf.Schema, s.conf.Name, s.conf.SetUpAt = kept.Schema, kept.Name, kept.SetUpAt
	}
	if kept != nil && sameAgent(kept, s.conf) {
		s.did("settled", false, "%s asks %s of %s", kept.Name, kept.Model.Name, kept.Model.Provider)
		return nil
	}
	s.conf.SetUpAt = time.Now().UTC().Format(admission.TimeFormat)
	if err := s.conf.Save(s.home.Dir); err != nil {
		return err
	}
	s.did("settled", true, "%s asks %s of %s, in %s", s.conf.Name, s.model.model, s.model.provider, agentconf.Path("$REMIT_HOME", s.conf.Name))
	return nil
}

func sameAgent(x, y *agentconf.Agent) bool {
	a, b := *x, *y
	same := slices.Equal(a.Command, b.Command)
	a.Command, b.Command = nil, nil
	return same && a.Engine == b.Engine && a.Wire == b.Wire && a.Bin == b.Bin && a.Version == b.Version && a.SHA256 == b.SHA256 &&
		a.Licence == b.Licence && a.Model == b.Model
}

// prove has the agent prove itself.
func (s *setup) prove() (status string, err error) {
	if s.noProve {
		s.did("proof", false, "not made: no run begins before `remit agent setup %s` has made it", setupWord(s.conf))
		return evidence.StatusBlocked, nil
	}
	f := &proveFlags{engine: ladderEngine{name: s.conf.Engine, wire: s.conf.Wire, command: s.conf.Command}, model: s.model,
		through: copyStage()}
	if repo, there := s.top(); there {
		f.policyOf = repo
	}
	res, err := s.proveStages(s.cmd, f)
	if err != nil {
		return "", err
	}
	made := false
	for _, m := range res.Made {
		made = made || !m.Reused
		for _, e := range m.Errors {
			s.did("proof", true, "stage %d: %s", m.Stage, e)
		}
	}
	s.did("proof", made, "%s: proven up to stage %d, mode %s", res.Status(), res.Standing.Stage, res.Standing.Mode)
	return res.Status(), nil
}

// next is the command to type, and what is to be done before it.
func (s *setup) next() (command string, notes []string) {
	command = runCommandOf(s.conf, "ISSUE.md")
	if s.noProve {
		return "remit agent setup " + setupWord(s.conf), nil
	}
	top, there := s.top()
	if !there {
		return command, []string{"in a repository, `remit agent setup " + setupWord(s.conf) + "` switches the engine on in its remit.yaml"}
	}
	if here, err := os.Getwd(); err == nil && here != top {
		command = strings.Replace(command, "remit run ", "remit run --repo "+form.ShellWord(s.repo)+" ", 1)
	}
	if policy, err := task.LoadPolicy(filepath.Join(top, task.PolicyFile)); err == nil &&
		(len(policy.AllowedPaths) == 0 || len(policy.VerificationCommands) == 0) {
		notes = append(notes, "remit.yaml states no allowed_paths or no verification_commands: `remit init` writes them, or give --allow and --verify")
	}
	if slices.ContainsFunc(s.Steps, func(st setupStep) bool { return st.Step == "policy" && st.Done }) {
		notes = append(notes, "commit remit.yaml: a run begins with a work tree that is as the commit has it")
	}
	return command, notes
}
