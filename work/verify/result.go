package verify

import (
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/verify/results"
)

// The trees that a phase runs.
const (
	PhaseBase = "base"
	PhaseHead = "head"

	TreeBase     = "base"     // the baseline
	TreeHead     = "head"     // the delivered tree, under the tests rule
	TreeUnedited = "unedited" // the base's tests on the new code
	TreeControl  = "control"  // with a test that must fail
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
	Passed         bool     `json:"passed"` // exit 0, nothing cut short, and a known runner ran at least one test
	Tests          *Counts  `json:"tests,omitempty"`
	Problems       []string `json:"problems,omitempty"` // where the runner's output contradicts itself

	// PerTest are the outcomes by test identity; nil when they are not known.
	PerTest map[string]results.Outcome `json:"-"`

	direct   bool // the command is the runner itself, not a script around it
	complete bool // the runner's summary agrees with its lines
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

	control      *controlResult
	deletedTests []string // test files of the base that the patch deletes
	editedTests  bool     // the patch changes or deletes a test file that the base has
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
	Confidence canon.Hundredths `json:"final_confidence"` // share of the repetitions that passed, 0 when blocked
	Repeats    int              `json:"repeats"`
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
