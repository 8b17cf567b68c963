package verify

import (
	"slices"
	"strings"

	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/verify/results"
)

// The trees that a phase runs.
const (
	PhaseBase = "base"
	PhaseHead = "head"

	TreeBase     = "base"      // the baseline
	TreeHead     = "head"      // the delivered tree, under the tests rule
	TreeUnedited = "unedited"  // the base's tests on the new code
	TreeTwin     = "twin"      // the tests edited, some of them so that they must fail
	TreeNewTests = "new-tests" // the tests of the patch on the code of the base
	TreeHunk     = "hunk"      // the patch without one of its parts
)

// Counts are the tests of one command.
type Counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// CommandResult is one command in one run.
type CommandResult struct {
	Command        string   `json:"command"` // as the contract gives it
	Ran            string   `json:"ran"`     // as it was run; only flags for per-test results are added
	Runner         string   `json:"runner,omitempty"`
	ExitCode       int      `json:"exit_code"`
	Started        bool     `json:"started"`
	Signal         string   `json:"signal,omitempty"`
	TimedOut       bool     `json:"timed_out,omitempty"`
	OutputExceeded bool     `json:"output_exceeded,omitempty"`
	DurationMS     int64    `json:"duration_ms"`
	StdoutSHA256   string   `json:"stdout_sha256"` // of everything that the command wrote up to the output limit
	StderrSHA256   string   `json:"stderr_sha256"`
	StdoutBytes    int64    `json:"stdout_bytes"`
	StderrBytes    int64    `json:"stderr_bytes"`
	Passed         bool     `json:"passed"` // exit 0, nothing cut short, a known runner ran at least one test, and make had something to do
	Tests          *Counts  `json:"tests,omitempty"`
	Skipped        bool     `json:"skipped,omitempty"`  // the command is not part of this run: the rest is empty
	Problems       []string `json:"problems,omitempty"` // where the runner's output contradicts itself

	// PerTest are the outcomes by test identity; nil when they are not known.
	PerTest map[string]results.Outcome `json:"-"`

	// failedNames are failed tests by identity, also where not every test is
	// named; at most MaxListed.
	failedNames []string

	messages map[string]string // the first words of failures, by identity
	tail     string            // the end of the output of a command that failed
	idle     string            // how make says that it had nothing to do
	starved  bool              // it failed with words of a missing resource
	emptyRun bool              // its runner has reported no test at all
	direct   bool              // the command is the runner itself, not a script around it
	reported bool              // the runner has said what became of all of its tests
	complete bool              // the runner's summary agrees with its lines
	filed    bool              // the runner has written result files
	// transient are the identities that need not exist once they work.
	transient map[string]bool
}

// RunResult is one sandbox run: all commands over one tree.
type RunResult struct {
	Tree       string          `json:"tree"`
	Repetition int             `json:"repetition"`
	Commands   []CommandResult `json:"commands"`
	Caps       []sandbox.Cap   `json:"caps"`
	Usage      sandbox.Usage   `json:"usage"`
	OOMKilled  bool            `json:"oom_killed,omitempty"`
	Fault      *reason.Finding `json:"fault,omitempty"` // why the run says nothing
	Rewritten  []string        `json:"rewritten,omitempty"`
	// Expected is how many tests had to fail in a run of the control, and
	// FailedAsExpected how many of them did. Both count test functions.
	Expected         int `json:"expected,omitempty"`
	FailedAsExpected int `json:"failed_as_expected,omitempty"`
}

// PhaseResult is what a phase saw.
type PhaseResult struct {
	Phase string `json:"phase"`
	// Commands, Caps and Usage are those of the first run of the base or
	// delivered tree: what report.json lists for the phase.
	Commands []CommandResult `json:"commands"`
	Caps     []sandbox.Cap   `json:"caps"`
	Usage    sandbox.Usage   `json:"usage"`
	// Runs are all runs in order, that one included.
	Runs []RunResult `json:"runs"`
	// Dropped are the paths whose change by the patch was not applied to the
	// tree that counts, under protect.
	Dropped []string `json:"dropped,omitempty"`
	// TestFilesChanged are the paths of tests and runner configuration that
	// the patch changes.
	TestFilesChanged []string `json:"test_files_changed,omitempty"`
	// Findings are what the patch itself shows, before anything ran, and
	// what kept the phase from running.
	Findings []reason.Finding `json:"findings,omitempty"`
	Repeats  int              `json:"repeats"`

	// Control says whether the tests were shown to be able to fail; nil when the
	// phase did not come so far.
	Control *Control `json:"control,omitempty"`
	// NewTests and Observation are of a head phase that passed.
	NewTests    *NewTests    `json:"new_tests,omitempty"`
	Observation *Observation `json:"observation,omitempty"`

	// Unstable are tests of the base, by identity or by file and name, that failed
	// in its plain run and passed in another run of the base that left them as they
	// are. A command of which nothing else is known stands for itself.
	Unstable []string `json:"unstable,omitempty"`

	heldOut      []string   // the paths of held-out files, of the base phase
	caches       []string   // build caches that the base left, for the runs of the head
	needsGroup   []int      // commands that come out otherwise on the base behind the others
	proof        *baseProof // of the base phase: what its tests can be held to
	varying      []*varying // for each command, the names of its tests that vary; nil where the base was run once
	required     bool       // a pass needs a control
	observed     bool       // a pass needs every part of the change to be noticed
	deletedTests []string   // test files of the base that the patch deletes
	addedTests   []string   // test files that the patch adds
	editedTests  bool       // the patch changes or deletes a test file that the base has
	because      []string   // why files that are no tests by their path are among them
}

// The statuses of a verdict.
const (
	StatusPass    = "pass"
	StatusFail    = string(reason.Fail)
	StatusBlocked = string(reason.Blocked)
)

// Verdict is the judgement. The lists are sorted and cut at MaxListed; Counts
// has their full lengths.
type Verdict struct {
	Status     string           `json:"status"`
	Findings   []reason.Finding `json:"findings"` // most important first
	TestsRule  string           `json:"tests_rule"`
	Delta      int              `json:"verification_delta"` // failing tests before − after, or failing commands when tests are unknown
	FailToPass []string         `json:"fail_to_pass"`
	PassToPass []string         `json:"pass_to_pass"`
	PassToFail []string         `json:"pass_to_fail"`
	Missing    []string         `json:"missing"` // ran on the base, did not run on the head
	Counts     Transitions      `json:"counts"`
	Dropped    []string         `json:"dropped"`
	Confidence canon.Hundredths `json:"final_confidence"` // share of the repetitions that passed, at most 50 without control, 0 when blocked
	Repeats    int              `json:"repeats"`
	Control    *Control         `json:"control,omitempty"`

	NewTests    *NewTests    `json:"new_tests,omitempty"`
	Observation *Observation `json:"observation,omitempty"`
}

// Transitions counts tests by what became of them.
type Transitions struct {
	FailToPass int `json:"fail_to_pass"`
	PassToPass int `json:"pass_to_pass"`
	PassToFail int `json:"pass_to_fail"`
	Missing    int `json:"missing"`
	Added      int `json:"added"`
}

// MaxListed bounds each list of test identities in a verdict, so that a
// report stays readable whatever a hostile runner prints.
const MaxListed = 1000

// The values of Origin.
const (
	OriginBase    = "base"     // the base has it
	OriginNew     = "new"      // only the patched tree has it
	OriginHeldOut = "held-out" // the agent never saw it
)

// Place says where a test is from, and the file that holds it where that is
// known. r is the base phase.
func (r *PhaseResult) Place(id string, command int) (origin, file string) {
	origin = OriginNew
	if command < len(r.Commands) {
		if _, known := r.Commands[command].PerTest[id]; known {
			origin = OriginBase
		}
	}
	var t *suiteTest
	if r.proof != nil && r.proof.suite != nil {
		t = r.proof.suite.test(id)
	}
	if t == nil {
		file, _, named := strings.Cut(id, " > ") // as tests of JavaScript and others are named
		if named && slices.Contains(r.heldOut, file) {
			return OriginHeldOut, file
		}
		return origin, ""
	}
	if t.file.heldOut {
		origin = OriginHeldOut
	}
	return origin, t.file.path
}

// Message is the first line of what a failed test said, "" if it is not known.
func (c *CommandResult) Message(id string) string {
	if c.PerTest[id] != results.Fail {
		return ""
	}
	return c.messages[id]
}

// timeoutExit is the exit status of the program timeout when it has stopped another.
const timeoutExit = 124

// stopped says whether a limit of the verification has stopped a command.
func (c *CommandResult) stopped() bool { return c.TimedOut || c.OutputExceeded }

// unfinished says whether a command was stopped before its tests were done. A test that its output
// shows as failed is then one that it may have been at: no outcome of it is kept.
func (c *CommandResult) unfinished() bool {
	return !c.reported && (c.stopped() || c.ExitCode == timeoutExit)
}

// anyUnfinished says whether one of some commands was stopped before its end.
func anyUnfinished(commands []CommandResult) bool {
	return slices.ContainsFunc(commands, func(c CommandResult) bool { return c.unfinished() })
}

// anyFailed says whether one of some commands exited with another status than 0.
func anyFailed(commands []CommandResult) bool {
	return slices.ContainsFunc(commands, func(c CommandResult) bool { return c.ExitCode != 0 })
}
