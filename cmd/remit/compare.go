package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/harness"
	"remit/work/session"
	"remit/work/workspace"
)

// compareFlags are the flags of remit compare: those of run, which hold for
// every lane, and what is said of some of them only.
type compareFlags struct {
	runFlags
	engines  []string
	bins     laneValues // by engine
	only     []string   // model flags of one engine or provider
	parallel int
	sort     string
}

func (a *app) compareCommand() *cobra.Command {
	f := new(compareFlags)
	cmd := &cobra.Command{
		Use:   "compare --engines A,B (--task|--issue) FILE [-- COMMAND...] | compare SESSION...",
		Short: "Give several engines the same task, and put what came of it side by side",
		Long: `Compare runs one task once with each engine, as run does it: a session each, from
the same commit and under the same contract, with evidence of its own. It prints one
table, in the order of --engines: nothing is ranked. An engine that cannot run is a
line of it, blocked, with its reason. It says which changes are byte for byte the same,
and in what the sessions differ that makes their figures no measure of each other.

An entry of --engines is NAME or NAME=PROVIDER/MODEL. The flags of run about models
hold for every lane that asks one; --for NAME:FLAG=VALUE is for the lanes of one
engine or provider. An address and a key belong to one provider: with several, each is
given its own. Where nothing is said of a model, a lane takes what 'remit agent setup'
has settled for its engine. '-- COMMAND' is the program of the command engine or, if
that is not compared, the agent of acp.

As many lanes run at the same time as the machine has processors and memory for, or
--parallel. Ctrl-C cancels all of them; each keeps its work and its evidence.

With sessions instead of engines nothing is run: the same table over what is there.

Exit code 0 when every lane passed, 2 when one failed, 3 when one was blocked and none
failed, 1 for a wrong command line or an internal error.`,
		Example: `  remit compare --engines pi,codex,fake --task task.yaml --model-provider openai --model gpt-5.5 \
    --fake-patch fix.patch
  remit compare --engines codex=openai/gpt-5.5,claude=anthropic/claude-opus-5-5 --task task.yaml \
    --repo ../project
  remit compare --engines pi=local/qwen,pi=openai/gpt-5.5 --task task.yaml \
    --for local:base-url=http://127.0.0.1:8080/v1 --for local:local-model
  remit compare 4be1a7 90cc12`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(f.engines) == 0 {
				return a.compareSessions(cmd, f, args)
			}
			if err := f.model.usePreset(); err != nil {
				return err
			}
			return a.compareEngines(cmd, f, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return a.sessionArgs(cmd, nil, toComplete)
		},
	}
	f.add(cmd)
	f.model.add(cmd)
	bin := cmd.Flag("bin")
	bin.Value, bin.Usage = &f.bins, "the agent of an engine, as `NAME=PATH` (repeatable; default: what make agents installed, else PATH)"
	fl := cmd.Flags()
	fl.StringSliceVar(&f.engines, "engines", nil, "what is compared, each NAME or NAME=PROVIDER/MODEL: "+strings.Join(engineNames(), ", "))
	fl.StringArrayVar(&f.only, "for", nil, "a model flag for the lanes of one engine or provider only, as `NAME:FLAG=VALUE` (repeatable)")
	fl.StringVar(&f.acpWire, "acp-wire", "", "what the agent of acp speaks to its model: "+strings.Join(acp.Wires(), ", ")+
		" (default: what is known of it)")
	fl.IntVar(&f.parallel, "parallel", 0, "how many lanes run at the same time (default: what the machine has processors and memory for)")
	fl.StringVar(&f.sort, "sort", orderGiven, "order of the lines: "+strings.Join(orders(), ", "))
	complete(cmd, "engines", engineNames())
	choose(cmd, "sort", orders())
	choose(cmd, "acp-wire", acp.Wires())
	return cmd
}

// compareEngines runs all lanes and prints what came of them.
func (a *app) compareEngines(cmd *cobra.Command, f *compareFlags, args []string) error {
	if at := cmd.ArgsLenAtDash(); len(args) > 0 && at != 0 {
		return usagef("unexpected argument %q: either --engines, or sessions", args[0])
	}
	if f.repeat < 1 || f.parallel < 0 {
		return usagef("--repeat and --parallel: must be at least 1")
	}
	if err := checkPrice(f.maxPrice); err != nil {
		return err
	}
	if err := f.readIssue(cmd, false); err != nil {
		return err
	}
	f.model.warnOfKeyFile(os.Stderr)
	contract, lanes := a.lanesRefused(cmd.Context(), cmd, f, args)
	if lanes == nil {
		var err error
		if contract, lanes, err = a.lanesOpened(cmd, f, args); err != nil {
			return err
		}
	}
	if err := a.home.Sweep(); err != nil {
		return err
	}
	able := 0
	for _, l := range lanes {
		tellSettled(os.Stderr, l.settled)
		if l.known == eligibility.KnownAll {
			able++
		}
	}
	if able > 0 {
		if err := a.fillCache(cmd.Context(), f.sandbox, f.repo, contract.VerificationCommands...); err != nil {
			return err
		}
	}
	digest, err := contract.Digest()
	if err != nil {
		return fmt.Errorf("digesting the contract: %w", err)
	}
	c := &comparison{Schema: comparisonSchema, TaskID: contract.TaskID, Title: contract.Title, ContractSHA256: digest,
		BaselineCommit: contract.Base}
	if c.Parallel = max(1, min(f.parallel, able)); f.parallel == 0 {
		c.Parallel = lanesHere(able, contract.Limits.MemoryMB)
	}
	view := newLaneView(os.Stderr, lanes)
	c.Lanes = a.runLanes(cmd.Context(), lanes, c.Parallel, view)
	view.close()
	return a.finish(cmd, c, f.sort)
}

// lanesOpened are the lanes, and their contract from the commit that all of them
// start from.
func (a *app) lanesOpened(cmd *cobra.Command, f *compareFlags, args []string) (*task.Contract, []*lane, error) {
	contract, policy, err := f.contract(cmd.Context(), args)
	if err != nil {
		return nil, nil, err
	}
	// The branch may move on while lanes wait for their turn.
	if contract.Base, err = f.pinned(cmd, contract); err != nil {
		return nil, nil, err
	}
	lanes, err := a.lanes(cmd, f, args, func(own *runFlags, eng engine.Engine, name string) (harness.Request, error) {
		return a.request(cmd, own, contract, policy, eng, name)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, l := range lanes {
		if l.refused == nil {
			continue
		}
		l.known = eligibility.KnownPolicy
		l.request = harness.Request{Home: a.home, Repo: f.repo, Contract: contract, EngineName: l.engine, Disabled: disabled(policy, l.engine), Build: build(),
			Admission: harness.Admission{Unavailable: l.refused}, Looked: lookedAtBase(), Compared: true}
		if l.request.PolicySHA256, err = policy.Digest(); err != nil {
			return nil, nil, fmt.Errorf("digesting the policy: %w", err)
		}
	}
	return contract, lanes, nil
}

// lanesRefused are the lanes of a comparison of which none may begin, by what
// records decide or by what the policy file does: no repository is opened for
// them. They are nil when one may, or when the way through the repository has more
// to say.
func (a *app) lanesRefused(ctx context.Context, cmd *cobra.Command, f *compareFlags, args []string) (*task.Contract, []*lane) {
	for _, known := range []eligibility.Known{eligibility.KnownRecords, eligibility.KnownPolicy} {
		lanes, err := a.lanes(cmd, f, args, func(own *runFlags, eng engine.Engine, name string) (harness.Request, error) {
			req, ok := a.before(ctx, own, args, eng, name, known)
			if !ok {
				return req, errNotKnown
			}
			refused, err := harness.Refuses(ctx, req, known)
			if err == nil && !refused {
				err = errNotKnown
			}
			return req, err
		})
		if err != nil || slices.ContainsFunc(lanes, func(l *lane) bool { return l.refused != nil }) {
			continue
		}
		for _, l := range lanes {
			l.known = known
		}
		return lanes[0].request.Contract, lanes
	}
	return nil, nil
}

// errNotKnown ends the look at lanes from outside of the repository.
var errNotKnown = errors.New("the repository has to be opened")

// pinned is the commit that every lane starts from.
func (f *compareFlags) pinned(cmd *cobra.Command, contract *task.Contract) (string, error) {
	source, err := workspace.OpenSource(cmd.Context(), f.repo)
	if err != nil {
		return "", err
	}
	base, err := source.Resolve(cmd.Context(), contract.Base)
	return base.Commit, err
}

// compareSessions puts finished sessions side by side.
func (a *app) compareSessions(cmd *cobra.Command, f *compareFlags, args []string) error {
	if len(args) < 2 || cmd.ArgsLenAtDash() >= 0 {
		return usagef("say what to compare: --engines A,B --task FILE, or two sessions")
	}
	if len(args) > maxLanes {
		return usagef("%d sessions: at most %d are compared", len(args), maxLanes)
	}
	allowed := 0
	for _, name := range []string{"sort", "json"} {
		if cmd.Flags().Changed(name) {
			allowed++
		}
	}
	if cmd.Flags().NFlag() > allowed {
		return usagef("sessions are compared as they are: --sort and --json are the only flags for that")
	}
	c := &comparison{Schema: comparisonSchema}
	var names []laneName
	for _, arg := range args {
		s, err := a.home.Find(arg)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(c.Lanes, func(r laneRow) bool { return r.SessionDir == s.Dir }) {
			return usagef("%q is a session that was named before", arg)
		}
		row, err := inspected(s)
		if err != nil {
			return err
		}
		c.Lanes = append(c.Lanes, row)
		names = append(names, row.name())
	}
	for i, label := range labels(names) {
		c.Lanes[i].Lane = label
	}
	return a.finish(cmd, c, f.sort)
}

// inspected is the line of a session that is on disk.
func inspected(s session.Session) (laneRow, error) {
	st, err := s.Inspect()
	if err != nil {
		return laneRow{}, err
	}
	if st.Report == nil {
		return laneRow{}, reason.Errorf(reason.Interrupted, "session %s has an empty journal: the run was stopped before its first step", st.ID)
	}
	return rowOf(st)
}

// finish draws the conclusions, prints all of it, and returns the exit code.
func (a *app) finish(cmd *cobra.Command, c *comparison, order string) error {
	c.conclude(order)
	var err error
	if a.json {
		err = printJSON(cmd.OutOrStdout(), c)
	} else {
		err = printComparison(cmd.OutOrStdout(), c)
	}
	if err == nil && c.ExitCode != 0 {
		err = exitCode(c.ExitCode)
	}
	return err
}
