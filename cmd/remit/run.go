package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/law/secret"
	"remit/law/task"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/harness"
	"remit/work/prove"
	"remit/work/sandbox"
	"remit/work/session"
)

// runFlags are the flags of remit run.
type runFlags struct {
	repo, task, issue, base string
	engine, fakePatch       string
	patchOf                 string
	follow                  followFlags
	predictions             predictionFlags
	given                   *task.Contract // of the session of --patch-of or --continue
	title                   string
	allow, forbid, verify   []string
	tests, mode, out        string
	sandbox                 string
	toolchains              []string
	allowDirty              bool
	repeat                  int
	noDiffOK                bool
	noVerdictCache          bool
	repoRef                 string
	nexus                   nexusFlags
	maxPrice                int64
	silence, wait           time.Duration
	model                   modelFlags
	limits                  limitFlags
	thorough                thoroughFlags
	approvalFlags
	atForge  issueFlags
	acpWire  string
	timing   bool
	expected *session.Forecast // of what the run takes, nil where nothing tells
	ended    *harness.Outcome  // what came of the run, nil where there is no session
}

func (a *app) runCommand() *cobra.Command {
	f := new(runFlags)
	cmd := &cobra.Command{
		Use:   "run --repo DIR (--task FILE | --issue ISSUE | --continue SESSION | -- COMMAND...)",
		Short: "Let an engine change a copy of a repository, and verify what it did",
		Long: `Run gives an engine a copy of the repository at its base commit, inside a
sandbox without network. What it changed becomes a patch; every path is held
against the contract; the verifier applies the patch to a fresh checkout and runs
the verification commands before and after. The repository itself is never
touched.

A change that the verifier passed is proved and settled under an authority, whose
receipts go into the evidence. With --nexus that is a server: a provider on another
machine runs the verification commands over the patched tree, and is paid only then.
Without it the authority is a part of this process, with its books in the home of
remit, and its provider is this machine.

A contract that asks for an approval is put before that authority first. Until
it is granted (remit approve) the run ends as blocked, or waits with
--wait-approval; nothing is copied or started before.

The contract comes from a task file, or from an issue and the repository's policy
file remit.yaml, or from the flags alone. Flags can only narrow a contract.

--issue '#12' reads the issue from GitHub, Gitea or Forgejo: its text is that of a
stranger, and gives no right. The run claims it there, so that no other run works on it,
and comments what came of it; it never closes it (docs/forges.md). --no-claim only reads.

--continue SESSION goes on from the change of a session that passed or failed, with
--message or --review for what is to be changed: a new session under the same contract,
from the same base commit, with what is left of its budget, by the same engine and model
unless flags name others. Its patch is the whole change, and is verified as any. A
contract that asks for an approval asks for a new one.

--predictions FILE verifies what others have made, as 'remit check' does: each prediction of
the file is a session of its own. The exit code is that of the worst of them.

'-- COMMAND' runs any program as the engine. A relative program that the base
commit does not have is taken from the current directory. Files that its arguments
name are lent to the sandbox read-only: absolute paths, and files of the current
directory that the base commit does not have. With --engine acp it starts an agent that
speaks the Agent Client Protocol.`,
		Example: `  remit run --repo . --allow 'src/**' --verify 'go test ./...' -- ./fix.sh
  remit run --repo . --task task.yaml --engine fake --fake-patch fix.patch
  remit run --repo . --issue ISSUE.md --allow 'src/**' --verify 'python3 -m unittest' \
    -- python3 /opt/codemod.py
  remit run --issue '#12' --engine codex
  remit run --continue latest --review comments.md
  remit run --predictions preds.jsonl --repos checkouts --out results`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inActions(cmd, func() (*harness.Outcome, error) {
				err := a.run(cmd, f, args)
				return f.ended, err
			})
		},
	}
	fl := cmd.Flags()
	f.add(cmd)
	fl.StringVar(&f.engine, "engine", "", "engine: "+strings.Join(engineNames(), ", ")+
		" (default command when there is a '-- COMMAND', else fake)")
	complete(cmd, "engine", engineNames())
	f.model.add(cmd)
	fl.StringVar(&f.acpWire, "acp-wire", "", "what the agent of --engine acp speaks to its model: "+strings.Join(acp.Wires(), ", ")+
		" (default: what is known of "+strings.Join(acp.Known(), ", ")+")")
	choose(cmd, "acp-wire", acp.Wires())
	fl.StringVar(&f.repoRef, "repo-ref", "", "how the nexus calls the repository (default: the name of its directory)")
	fl.StringVar(&f.patchOf, "patch-of", "", "take the change of this session, its task and its base, and no engine: for a good change behind a broken end")
	a.completeSession(cmd, "patch-of")
	f.follow.add(a, cmd)
	fl.BoolVar(&f.atForge.noClaim, "no-claim", false, "with an issue of a forge: only read it; say nothing there, and let other runs have it")
	f.predictions.add(cmd)
	fl.StringVar(&f.out, "out", "", "also write the bundle to this directory: BUNDLE.zip and the session's files")
	fl.BoolVar(&f.timing, "timing", false, "print where the time of the run went: its steps with milliseconds (--json: the field timing)")
	return cmd
}

// add defines the flags that say what is to be done and how it is judged,
// whichever engine does it.
func (f *runFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.repo, "repo", ".", "the repository: it is only read")
	fl.StringVar(&f.base, "base", "", "revision to start from (default HEAD)")
	fl.StringVar(&f.task, "task", "", "task contract (YAML)")
	fl.StringVar(&f.issue, "issue", "", "issue: a Markdown file, #N or N at the forge of the repository, or the address of its page; remit.yaml of the repository gives the rest")
	f.atForge.add(cmd)
	fl.StringVar(&f.title, "title", "", "what the change is about, when there is neither task nor issue")
	fl.StringVar(&f.fakePatch, "fake-patch", "", "the patch that the fake engine applies")
	fl.StringArrayVar(&f.allow, "allow", nil, "glob of paths that may change, e.g. 'src/**' (repeatable)")
	fl.StringArrayVar(&f.forbid, "forbid", nil, "glob of paths that must not change; wins over --allow (repeatable)")
	fl.StringArrayVar(&f.verify, "verify", nil, "verification command, run by a shell in the sandbox (repeatable)")
	fl.StringVar(&f.tests, "tests", "", "what may happen to existing tests: protect, extend or free")
	choose(cmd, "tests", names(task.TestsRules()))
	fl.StringVar(&f.mode, "mutation-mode", "", "narrow the mutation mode, e.g. copied-fixture")
	complete(cmd, "mutation-mode", mutationModes()) // other names of modes are read as well
	f.addApproval(cmd)
	fl.BoolVar(&f.allowDirty, "allow-dirty", false, "run although tracked files differ from HEAD; the run does not see those changes")
	fl.BoolVar(&f.noVerdictCache, "no-verdict-cache", false, "run the verification of the baseline even if its result is cached")
	fl.BoolVar(&f.noDiffOK, "allow-no-diff", false, "a run that changes nothing can pass")
	fl.IntVar(&f.repeat, "repeat", 1, "how often the verifier repeats the commands, to find flaky tests")
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver: bwrap (default); none confines nothing and is recorded")
	chooseDriver(cmd)
	fl.StringArrayVar(&f.toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
	f.limits.add(cmd)
	f.thorough.add(cmd)
	f.nexus.addOr(cmd, "the authority of this machine")
	fl.DurationVar(&f.silence, "end-after-silence", 0,
		"let the nexus end the run when it has heard nothing of it for so long, 1m to 720h (default as the nexus says)")
	fl.DurationVar(&f.wait, "wait", 0, "with --nexus: wait so long for a provider when none could take the proof of the change")
	fl.Int64Var(&f.maxPrice, "max-price-msats", 0, "the most that the proof of the change may cost at the nexus (default what its budget has)")
}

// untouchedHeap counts as live and takes no memory: a small run ends before its first garbage collection.
const untouchedHeap = 32 << 20

func (a *app) run(cmd *cobra.Command, f *runFlags, args []string) error {
	times := f.timeline()
	prepared := times.Begin("command.read")
	defer runtime.KeepAlive(make([]byte, untouchedHeap))
	if f.predictions != (predictionFlags{}) {
		return a.runPredictions(cmd, f, args)
	}
	if at := cmd.ArgsLenAtDash(); len(args) > 0 && at != 0 {
		return usagef("unexpected argument %q: put the command after two dashes", args[0])
	}
	if err := f.model.usePreset(); err != nil {
		return err
	}
	if f.follow.given() {
		if err := a.continueSession(cmd, f, args); err != nil {
			return err
		}
	} else if f.patchOf != "" {
		if err := f.takeChange(cmd, a.home, args); err != nil {
			return err
		}
	}
	note, err := a.settle(&f.model, f.engine, &args, &f.acpWire)
	if err != nil {
		return err
	}
	tellSettled(os.Stderr, note)
	eng, name, err := f.newEngine(args)
	if err != nil {
		return err
	}
	if f.repeat < 1 {
		return usagef("--repeat %d: must be at least 1", f.repeat)
	}
	if err := f.readIssue(cmd, !f.atForge.noClaim); err != nil {
		return err
	}
	if f.out != "" {
		if err := emptyDir(f.out); err != nil {
			return err
		}
	}
	f.model.warnOfKeyFile(os.Stderr)
	view := newProgress(os.Stderr)
	if out, err := a.preflight(cmd.Context(), f, args, eng, name, view); out != nil || err != nil {
		view.close()
		if err != nil {
			return err
		}
		a.tellRefusal(cmd, f, out)
		return a.reportRun(cmd, out, f, args, times)
	}
	contract, policy, err := f.contract(cmd.Context(), args)
	if err != nil {
		return err
	}
	req, err := a.request(cmd, f, contract, policy, eng, name)
	if err != nil {
		return err
	}
	if err := a.home.Sweep(); err != nil {
		return err
	}
	if req.Nexus != "" {
		req.Unclaimed = false
		if req.RepoRef, err = f.repositoryAt(req.Nexus); err != nil {
			return err
		}
	}
	if err := a.fillCache(cmd.Context(), f.sandbox, f.repo, slices.Concat(contract.VerificationCommands, args)...); err != nil {
		return err
	}
	req.Progress, req.Timeline, req.ClaimIssue = view, times, a.claimFor(&f.atForge)
	if forge := f.atForge.client; forge != nil && forge.Token != "" { // whatever holds it: an issue, an agent or a file that was lent
		req.Credentials = append(req.Credentials, secret.Value{Name: "FORGE_TOKEN", Value: forge.Token})
	}
	req.Credentials = append(req.Credentials, f.nexus.credentials()...)
	if f.expected = a.expected(&req); !a.json {
		sayExpected(os.Stderr, f.expected)
	}
	prepared()
	out, err := harness.Run(cmd.Context(), req)
	view.close()
	if err != nil {
		return err
	}
	a.tellIssue(cmd, out.Session, &f.atForge.at, f.atForge.client)
	if out.NoSandbox != nil {
		printOne(os.Stderr, out.NoSandbox)
	}
	warnNotConcluded(os.Stderr, out)
	if why := out.Report.FailureReason; why != nil && name == command.Name {
		hintLent(os.Stderr, args, *why)
	}
	return a.reportRun(cmd, out, f, args, times)
}

// reportRun prints what came of a run, and what opens the gates that stopped it.
func (a *app) reportRun(cmd *cobra.Command, out *harness.Outcome, f *runFlags, args []string, times *harness.Timeline) error {
	f.ended = out
	if !a.json {
		out.Report = f.withFlags(out.Report, args)
	}
	err := a.report(cmd.OutOrStdout(), out, f.out, times, f.expected)
	if !a.json {
		f.printOpening(cmd.OutOrStdout(), out.Report)
	}
	return err
}

// request is the run of one engine, with what the records and the policy say
// of it.
func (a *app) request(cmd *cobra.Command, f *runFlags, contract *task.Contract, policy *task.Policy, eng engine.Engine,
	name string) (harness.Request, error) {
	if err := f.approvalTimes(); err != nil {
		return harness.Request{}, err
	}
	applied, err := policy.Digest()
	if err != nil {
		return harness.Request{}, fmt.Errorf("digesting the policy: %w", err)
	}
	req, err := a.engineRequest(cmd.Context(), f, contract, policy, applied, eng, name)
	if err != nil {
		return harness.Request{}, err
	}
	if f.approve {
		req.Approver = operator()
	}
	authority, err := a.authority(cmd, &f.nexus, req.Approver)
	if err != nil {
		return harness.Request{}, err
	}
	asks, err := f.requester(authority)
	if err != nil {
		return harness.Request{}, err
	}
	if policy.SignedRecords() && f.nexus.named() == "" {
		req.CheckGrant = a.checkGrant
	}
	req.Authority, req.MaxPriceMsats, req.Silence, req.Looked = asks, f.maxPrice, f.silence, lookedAtBase()
	if err := f.putBefore(&req); err != nil {
		return harness.Request{}, err
	}
	req.OpenSandbox = func(ctx context.Context) (sandbox.Driver, error) {
		return sandbox.Open(ctx, a.sandboxOptions(f.sandbox, f.toolchains))
	}
	return req, nil
}

// engineRequest is the part of it that needs no authority and no sandbox. applied
// is the digest of the policy, "" for one that is not known: then the contract is
// not known whole, either.
func (a *app) engineRequest(ctx context.Context, f *runFlags, contract *task.Contract, policy *task.Policy, applied string,
	eng engine.Engine, name string) (harness.Request, error) {
	executed := buildOf(ctx, eng, name)
	records, err := a.records(contract, policy, applied, f.repo, executed)
	if err != nil {
		return harness.Request{}, err
	}
	model, err := f.model.route(eng, records, policy)
	if err != nil {
		return harness.Request{}, err
	}
	admitted, err := executed.admission(records, policy)
	if err != nil {
		return harness.Request{}, err
	}
	proofs := prove.Question{Home: a.home.Dir, Signed: policy.SignedRecords(), Engine: eng, Identity: executed.identity, Model: model,
		Driver: cmp.Or(f.sandbox, sandbox.DriverBwrap), Mode: contract.MutationMode}
	if err := proofs.Into(&admitted); err != nil {
		return harness.Request{}, err
	}
	target, err := targetAdmission(records, contract, f.repo)
	if err != nil {
		return harness.Request{}, err
	}
	return harness.Request{Home: a.home, Repo: f.repo, Contract: contract, PolicySHA256: applied, Engine: eng, EngineName: name, ExplicitNone: f.sandbox == "none",
		Disabled: disabled(policy, name), Repeat: f.repeat, VerdictCache: !f.noVerdictCache, Build: build(), Admission: admitted,
		Target: target, Model: model, Nexus: f.nexus.named(), Parent: f.follow.parent, Registries: a.registries()}, nil
}

func (f *runFlags) newEngine(args []string) (engine.Engine, string, error) {
	name := f.engine
	if name == "" {
		name = fake.Name
		if len(args) > 0 {
			name = command.Name
		}
	}
	switch name {
	case command.Name:
		dir, err := os.Getwd()
		return &command.Engine{Argv: args, Dir: dir, LendWords: true}, name, err
	case fake.Name:
		if len(args) > 0 {
			return nil, "", usagef("the fake engine takes no command")
		}
		self, err := os.Executable()
		if err != nil {
			return nil, "", fmt.Errorf("finding this program: %w", err)
		}
		patch := f.fakePatch
		if patch != "" {
			if patch, err = filepath.Abs(patch); err != nil {
				return nil, "", err
			}
			// Checked now: the engine's own refusal would come when a run has begun.
			if err := readable(patch); err != nil {
				return nil, "", usagef("--fake-patch: %w", err)
			}
		}
		return &fake.Engine{Patch: patch, Binary: self}, name, nil
	}
	if name == acp.Name {
		e, err := acpNamed(args, f.model.bin, f.acpWire)
		return e, name, err
	}
	if len(args) > 0 || f.acpWire != "" {
		return nil, "", usagef("engine %s takes no command and no --acp-wire", name)
	}
	e, err := engineNamed(name, f.model.bin)
	return e, name, err
}
