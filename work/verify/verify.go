// Package verify is the objective verifier: it decides from outside whether
// a patch does what the contract's commands measure.
//
// # What it runs
//
// A phase is one or more sandbox runs of the contract's commands over a fresh
// view of the baseline checkout; nothing of the agent's tree, processes or
// caches is in it. The patch arrives as the changes that a `git apply` of
// patch.diff makes to the baseline, so a file that the agent left outside its
// diff does not exist here.
//
//	base      the baseline                                 → what held before
//	head      the baseline + the patch                     → what holds after
//	unedited  the baseline + the patch without its changes to test files and
//	          runner configuration: the base's tests, on the new code
//	control   base and head once more with a test added that must fail
//
// Held-out tests are laid over last, in every run. A verification takes up to
// 3 + 2×Repeat runs, each within Limits.Wall: base, its control, and for each
// repetition unedited (under extend, when the patch touches tests) and head,
// then the head's control (only when the head passed).
//
// Tests, their data and the configuration of runners are told by path
// (DefaultTestPath); of files that configure the build as well (go.mod,
// package.json, pyproject.toml, …) only the runner's part counts. Scripts that
// a command names, and makefiles behind `make`, are treated like tests: the
// patch may not redefine the question that it has to answer. Configuration of
// a runner that the patch adds is a finding in itself under extend.
//
// # The tests rule
//
//	protect  head is the unedited tree: test files and runner configuration
//	         come from the base, and what the patch did to them is listed.
//	extend   both the unedited and the delivered tree must pass. A patch may
//	         add tests and edit them, but the tests of the base, as they
//	         were, must pass on the new code, and each must still exist and
//	         run in the delivered tree. Deleting a test, skipping it,
//	         weakening its assertion or bending the runner is found by one of
//	         the two. A change of behaviour that needs an old test to change
//	         is a decision for a person: its contract says `free`.
//	free     the delivered tree alone counts.
//
// # The verdict
//
// Pass means: every command exits 0, at least one test ran where a runner is
// known, no failing test is new, and (protect, extend) every test that ran on
// the base runs, and passes if it did. An exit ≠ 0 without a failed test, an
// empty run, a run that only skipped, and a runner that exits 0 while it
// reports a failure are not passes; nor is a run that rewrote the tests.
//
// The control run is the answer to a framework that was bent so that it cannot
// fail: a test that must fail, whose name the patch cannot know, has to be
// reported as failed and to fail the command wherever it did so on the base.
//
// # What it cannot see
//
// Code under test runs in the process of its test runner. Code that
// recognises the verifier's control test, or that implements the tested
// behaviour only for the inputs of the tests, passes. Held-out tests and a
// reviewer are the answer to that, not a cleverer parser.
//
// # Failure modes
//
// What keeps the verifier from a result is labelled as such
// (infrastructure_fault or the sandbox's own code, timeout, output_limit,
// resource_limit) and is never a pass; test.log is kept. Run, Base and Head
// return an error only when there is no result at all: a plan that makes no
// sense, a context that ended, a log that cannot be written.
package verify

import (
	"context"
	"io"

	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/tree"
)

// Name and Version identify the verifier in the receipt, together with
// [Digest]. The version changes with the meaning of a verdict.
const (
	Name    = "remit-verify"
	Version = "1"
)

// Sandbox runs commands over a read-only tree. Every sandbox.Driver is one.
type Sandbox interface {
	Run(ctx context.Context, s sandbox.Spec) (*sandbox.Result, error)
}

// The tests rules of a contract.
const (
	RuleProtect = "protect"
	RuleExtend  = "extend"
	RuleFree    = "free"
)

// Plan is one verification.
type Plan struct {
	// Lower is the host directory with the checkout of the baseline. It is
	// never written.
	Lower string
	// Patch is what the patch does to the baseline, computed from patch.diff
	// and the baseline alone.
	Patch []tree.Change
	// HeldOut are files that the agent never saw, laid over last.
	HeldOut []tree.Change
	// Tests is the contract's rule; "" is RuleExtend.
	Tests string
	// TestFiles says which paths hold tests or runner configuration; nil is
	// DefaultTestPath. Runner configuration and the scripts that a command
	// names are protected whatever it says.
	TestFiles func(path string) bool
	// Commands are shell command lines, run in order in one writable view,
	// the later ones also when an earlier one failed.
	Commands []string
	// Repeat is how often the head is run to find flakes; 0 is 1.
	Repeat int
	Limits sandbox.Limits
	Env    map[string]string
	Binds  []sandbox.Bind
	// Log receives test.log: every command with its full output. A phase
	// writes when it ends; phases that run side by side need a Log each.
	Log io.Writer
	// OnEvent, when set, is told of the progress, from the calling goroutine.
	OnEvent func(Event)
	// Scratch is where output is spooled while commands run; "" is the
	// system's temporary directory.
	Scratch string
	// NoControl leaves out the control runs (see the package comment).
	NoControl bool
}

// EventKind says what an Event reports.
type EventKind string

// The events of a run, in order.
const (
	RunStarted      EventKind = "run.started"
	CommandFinished EventKind = "command.finished"
	RunFinished     EventKind = "run.finished"
)

// Event is progress for a display.
type Event struct {
	Kind       EventKind
	Phase      string // "base" or "head"
	Run        string // which tree: "base", "head", "unedited", "control"
	Repetition int    // 1-based
	Command    int    // 0-based index, -1 for run events
	ExitCode   int    // of a finished command
	DurationMS int64
}

// Run verifies p: the base phase, the head phase, the judgement.
func Run(ctx context.Context, sb Sandbox, p Plan) (*Verdict, error) {
	base, err := Base(ctx, sb, p)
	if err != nil {
		return nil, err
	}
	head, err := Head(ctx, sb, p)
	if err != nil {
		return nil, err
	}
	return Judge(base, head, p.Tests), nil
}

// check refuses a plan that cannot be carried out.
func (p *Plan) check() error {
	switch p.Tests {
	case "":
		p.Tests = RuleExtend
	case RuleProtect, RuleExtend, RuleFree:
	default:
		return reason.Errorf(reason.ContractValue, "unknown tests rule %q", p.Tests).WithHint("use protect, extend or free")
	}
	if p.Repeat < 0 || p.Repeat > MaxRepeat {
		return reason.Errorf(reason.ContractValue, "repeat is %d, the limit is %d", p.Repeat, MaxRepeat)
	}
	p.Repeat = max(p.Repeat, 1)
	if p.TestFiles == nil {
		p.TestFiles = DefaultTestPath
	}
	if p.Log == nil {
		p.Log = io.Discard
	}
	defaults := sandbox.DefaultLimits()
	if p.Limits.OutputBytes <= 0 {
		p.Limits.OutputBytes = defaults.OutputBytes
	}
	if p.Limits.Wall <= 0 {
		p.Limits.Wall = defaults.Wall
	}
	return nil
}

// MaxRepeat bounds Plan.Repeat: more repetitions say nothing new.
const MaxRepeat = 100
