package evidence

import "remit/proof/canon"

// What the verifier states: the phases and runs, the verdict, and what it says of
// its own tests.

// TestCounts are the per-test results of one command.
type TestCounts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// CommandRun is one verification command in one phase.
type CommandRun struct {
	Phase        string      `json:"phase"` // base or head
	Command      string      `json:"command"`
	ExitCode     int         `json:"exit_code"`
	DurationMS   int64       `json:"duration_ms"`
	StdoutSHA256 string      `json:"stdout_sha256"`
	StderrSHA256 string      `json:"stderr_sha256"`
	Passed       bool        `json:"passed"`
	Tests        *TestCounts `json:"tests,omitempty"`

	// Cached says that this is the result of an earlier run of the same
	// command over the same tree, under the same key; CachedAt is when it was
	// made. A result without it was made in this run.
	Cached   bool   `json:"cached,omitempty"`
	CacheKey string `json:"cache_key,omitempty"`
	CachedAt string `json:"cached_at,omitempty"`
}

// VerifyPhase are the outputs of verify.base and verify.head.
type VerifyPhase struct {
	Runs     []CommandRun  `json:"runs"`
	Caps     []Cap         `json:"caps"`
	Usage    ResourceUsage `json:"usage"`
	Blockers []Blocker     `json:"blockers"`
}

// VerifierIdentity names the verifier so that another verifier is seen.
type VerifierIdentity struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// VerificationCompleted are the outputs of verification.completed.
type VerificationCompleted struct {
	Status     string           `json:"status"`
	TestsRule  string           `json:"tests_rule"`
	Delta      int              `json:"verification_delta"`
	Confidence canon.Hundredths `json:"final_confidence"`
	Repeats    int              `json:"repeats"`
	FailToPass []string         `json:"fail_to_pass"`
	PassToPass int              `json:"pass_to_pass"`
	PassToFail []string         `json:"pass_to_fail"`
	Missing    []string         `json:"missing"`
	Verifier   VerifierIdentity `json:"verifier"`
	// These came later: a verification that does not state them was made by a
	// verifier that did not look.
	Control     *Control     `json:"control,omitempty"`
	NewTests    *NewTests    `json:"new_tests,omitempty"`
	Observation *Observation `json:"observation,omitempty"`
	Untracked   []string     `json:"untracked_tests,omitempty"` // test files of the source that no commit has
	Blockers    []Blocker    `json:"blockers"`
}

// The values of Control.Status and CommandControl.Status.
const (
	ControlMade = "made"
	ControlNone = "none"
)

// Control says whether the tests were shown to be able to fail: each counting
// test passed where nothing was changed in it, and failed where it had to, in
// runs that the code under test cannot tell apart.
type Control struct {
	Status   string           `json:"status"`           // made or none
	Reason   string           `json:"reason,omitempty"` // why none
	Scheme   string           `json:"scheme,omitempty"` // halves or single
	Counting int              `json:"counting"`         // tests that count: passed on the patched tree, and known to the base or held out
	Proved   int              `json:"proved"`           // those of them that were shown to be able to fail
	Runs     int              `json:"runs"`             // of the verifier, for the control alone
	Commands []CommandControl `json:"commands"`         // one a command of the contract, in its order
	// NotRuledOut are the kinds of cheats that a control of this sort does not see.
	NotRuledOut []string `json:"not_ruled_out,omitempty"`
}

// CommandControl is the control of one command.
type CommandControl struct {
	Command  string `json:"command"`
	Status   string `json:"status"`
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"` // test: each by its name; exit: the command as a whole
	Counting int    `json:"counting"`
	Proved   int    `json:"proved"`
}

// NewTests are the tests that the patch adds or edits, tried on the code of the
// base. The lists are sorted and cut at 1000.
type NewTests struct {
	Tried       int      `json:"tried"`
	FailWithout []string `json:"fail_without"` // fail without the change: they notice it
	PassWithout []string `json:"pass_without"`
	Skipped     string   `json:"skipped,omitempty"` // why none was tried
}

// Observation says which parts of the change no test notices: each is taken
// back alone, and the commands are run.
type Observation struct {
	Mode       string        `json:"mode"`  // off, sample or all
	Hunks      int           `json:"hunks"` // of the change without its tests
	Tried      int           `json:"tried"`
	Unobserved []HunkOfPatch `json:"unobserved"`
	Skipped    string        `json:"skipped,omitempty"` // why not all were tried
}

// HunkOfPatch is a part of the change: lines of the patched file, 1-based, or of
// the base's file where the part only removes lines; 0 where the part is a mode or
// a whole file that has no lines.
type HunkOfPatch struct {
	Path    string `json:"path"` // DisplayPath form
	First   int    `json:"first"`
	Last    int    `json:"last"`
	Removed bool   `json:"removed,omitempty"` // the lines are the base's
}

// VerifyRunStarted are the inputs of verify.run.
type VerifyRunStarted struct {
	Phase      string   `json:"phase"` // base or head
	Tree       string   `json:"tree"`  // base, head, unedited, twin, new-tests or hunk
	Repetition int      `json:"repetition"`
	Commands   []string `json:"commands"`
}

// VerifyRunEnded are the outputs of verify.run: one run of the commands over one
// tree.
type VerifyRunEnded struct {
	Phase      string        `json:"phase"`
	Tree       string        `json:"tree"`
	Repetition int           `json:"repetition"`
	Runs       []CommandRun  `json:"runs"` // their phase is that of the run
	Usage      ResourceUsage `json:"usage"`
	Fault      string        `json:"fault,omitempty"` // why the run says nothing about the code
	// Expected is what a run of the control had to show: tests that must fail
	// in it. FailedAsExpected counts those that did.
	Expected         int `json:"expected,omitempty"`
	FailedAsExpected int `json:"failed_as_expected,omitempty"`
}

// TestResult is one line of test-results.jsonl.
type TestResult struct {
	Phase   string `json:"phase"`
	Command string `json:"command"`
	Test    string `json:"test"`
	Outcome string `json:"outcome"` // pass, fail or skip
	// These are stated where they are known.
	Origin  string `json:"origin,omitempty"`  // base, new or held-out: where the test is from
	File    string `json:"file,omitempty"`    // of the test, DisplayPath form
	Message string `json:"message,omitempty"` // the first text of a failure, one line of at most 500 characters
}
