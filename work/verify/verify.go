// Package verify is the objective verifier: it decides from outside whether
// a patch does what the contract's commands measure.
//
// # What it runs
//
// A run is the contract's commands over one tree, each command, or group of
// commands, in a fresh view of it in the sandbox: what a command leaves is gone.
// Nothing of the agent's tree, processes or caches is in it. The patch arrives
// as the changes that a `git apply` of patch.diff makes to the baseline, so a
// file that the agent left outside its diff does not exist here.
//
//	base       the baseline                                → what held before
//	head       the baseline + the patch                    → what holds after
//	unedited   the baseline + the patch without its changes to test files and
//	           runner configuration: the base's tests, on the new code
//	twin       one of these with edited tests, some of which must fail
//	new-tests  the baseline + the test files of the patch
//	hunk       head without one part of the change
//
// Held-out tests are laid over last, in every run. Some runs go on at once.
// The base takes four: plain, and three twins that try the editors. The head
// takes one or two for each repetition, and on a pass three twins, or four where
// tests are fixed or held out, and what [Plan.Extra] allows.
//
// Tests, their data and the configuration of runners are known by path
// (DefaultTestPath); of files that configure the build as well (go.mod,
// package.json, pyproject.toml, …) only the runner's part counts. Scripts that a
// command reaches through files of the base, and makefiles behind `make`, are
// treated like tests: the patch may not redefine the question that it has to
// answer. Configuration of a runner that the patch adds is a finding in itself
// under extend.
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
// reports a failure are not passes; nor is a run that rewrote the tests. Under
// extend the unedited run has to pass too, whatever could be read of it.
//
// # The control
//
// A test is proof only if it passes in a run where it means what it says, fails
// in a run where it must, and the code under test cannot tell the two apart. In
// a twin every place at which a test could be made to fail is edited (package
// twin): neutral, but for those of the tests that have to fail in this run. A
// kept test has to fail with another expected value in one run and in a second way
// in another, and to pass in the rest, in a secret order of its own; a test that the
// change fixes, and a held-out one, has to fail in three ways and to pass in a fourth
// run. A test that passes although it cannot, twice, is verifier_tampering. Only tests that the runs of the base have shown
// to obey the edits are held to them. A command that exits with 0 beside failed
// tests, and does not on the base, is tampering too; a change that brings test files
// is run once more, as delivered, with all of its tests edited to fail.
//
// Commands that name their tests are judged test by test. Of any other command
// that runs tests the exit status has to show them: one twin is neutral, and in
// the others something must fail. A command that runs none of the tests that can
// be edited has no control, and the verdict says so.
//
// # What it cannot see
//
// Code that implements the tested behaviour only for the inputs of the tests
// passes, and so does code that understands every edit while it runs. Held-out
// tests, [Observation] and a reviewer are the answer to that.
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
	"cmp"
	"context"
	"io"
	"os"
	"sync"
	"time"

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
	// Commands are shell command lines, run in order, the later ones also when an
	// earlier one failed.
	Commands []string
	// Groups are the lengths of consecutive groups of commands that share a
	// writable view of the tree; commands behind the last group, and all of them
	// when there is none, have a view each.
	Groups []int
	// Shared has all commands share one view, whatever Groups says: the rule of
	// contracts of the first schema.
	Shared bool
	// Repeat is how often the head is run to find flakes; 0 is 1.
	Repeat int
	Limits sandbox.Limits
	Env    map[string]string
	Binds  []sandbox.Bind
	// Layers are what every run finds in the tree and no commit has: the
	// dependencies of the base.
	Layers []sandbox.Layer
	// PathDirs are directories of the layers with programs.
	PathDirs []string
	// Services run beside each command, anew for each, from the base: nothing of a
	// patch or of held-out tests is in their view.
	Services []sandbox.Service
	// OnServices, when set, is called behind each command that had services, by one
	// run at a time.
	OnServices func(ServicesOf)
	// Log receives test.log: every command with its full output. A phase
	// writes when it ends; phases that run side by side need a Log each.
	Log io.Writer
	// OnEvent, when set, receives the progress. Runs go on side by side; it is
	// called by one of them at a time.
	OnEvent func(Event)
	// Scratch is where output is spooled while commands run; "" is the
	// system's temporary directory.
	Scratch string
	// Control says whether the tests have to be shown to be able to fail:
	// ControlRequired, ControlPreferred or ControlOff; "" is ControlPreferred.
	Control string
	// Scheme is SchemeHalves or SchemeSingle; "" is SchemeHalves.
	Scheme string
	// Before is the base phase. Head needs it for the control: without it the
	// head phase has none.
	Before *PhaseResult

	// CacheDir, when set, is a directory of this verification alone that Base
	// keeps build caches in. They are lent to every later run of the base, and by
	// Before to those of the head.
	CacheDir string
	// TestingDir, when set, is a directory of the user alone that outlives the
	// verification: what the twins need of Go's own packages is compiled there once.
	TestingDir string
	// Observe says which parts of the change are taken back one at a time:
	// ObserveOff, ObserveSample or ObserveAll; "" is ObserveOff.
	Observe string
	// Observed has a change fail of which a part goes unnoticed.
	Observed bool
	// Extra is how long new tests and parts of the change may take, given the
	// time of the plain run of the patched tree; nil is no time.
	Extra func(head time.Duration) time.Duration

	caches    []string         // lent to the runs
	quiet     string           // one of the caches, for the runs with edited tests
	telling   *sync.Mutex      // held while OnEvent is called
	reached   func() *steering // what steers the commands, looked at once
	hostTrace bool             // nothing is confined: see unconfined
}

// The values of Plan.Control.
const (
	ControlRequired  = "required"
	ControlPreferred = "preferred"
	ControlOff       = "off"
)

// The values of Plan.Observe.
const (
	ObserveOff    = "off"
	ObserveSample = "sample"
	ObserveAll    = "all"
)

// The values of Plan.Scheme: every counting test in complementary halves, or
// only the fixed and held-out ones.
const (
	SchemeHalves = "halves"
	SchemeSingle = "single"
)

// EventKind says what an Event reports.
type EventKind string

// The events of a run, in order.
const (
	RunStarted      EventKind = "run.started"
	CommandFinished EventKind = "command.finished"
	RunFinished     EventKind = "run.finished"
	RunStopped      EventKind = "run.stopped" // its result was not needed, or could not be had
)

// Event is progress for a display.
type Event struct {
	Kind       EventKind
	Phase      string // "base" or "head"
	Run        string // which tree: one of the Tree constants
	Repetition int    // 1-based
	Command    int    // 0-based index, -1 for run events
	ExitCode   int    // of a finished command
	DurationMS int64
	Result     *RunResult // of a finished run
}

// Run verifies p: the base phase, the head phase, the judgement.
func Run(ctx context.Context, sb Sandbox, p Plan) (*Verdict, error) {
	base, err := Base(ctx, sb, p)
	if err != nil {
		return nil, err
	}
	p.Before = base
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
	p.telling = new(sync.Mutex)
	p.Observe = cmp.Or(p.Observe, ObserveOff)
	p.Control, p.Scheme = cmp.Or(p.Control, ControlPreferred), cmp.Or(p.Scheme, SchemeHalves)
	p.reached = sync.OnceValue(p.reach)
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

// steers is what steers the commands of the plan.
func (p *Plan) steers() *steering {
	if p.reached == nil {
		return p.reach()
	}
	return p.reached()
}

// isTest says whether a path holds tests.
func (p *Plan) isTest(name string) bool {
	if p.TestFiles == nil {
		return DefaultTestPath(name)
	}
	return p.TestFiles(name)
}

func (p *Plan) reach() *steering {
	root, err := os.OpenRoot(p.Lower)
	if err != nil {
		return newReacher(nil, p.Commands, p.isTest).out // no run of the plan can start
	}
	defer root.Close()
	return reach(root, p.Commands, p.isTest)
}

// MaxRepeat bounds Plan.Repeat: more repetitions say nothing new.
const MaxRepeat = 100
