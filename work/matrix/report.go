package matrix

import (
	"remit/law/ladder"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// Schema names the report.
const Schema = "remit.matrix.v1"

// Report is what came of a matrix.
type Report struct {
	Schema     string                  `json:"schema"`
	Engine     evidence.EngineIdentity `json:"engine"`
	Model      string                  `json:"model,omitempty"` // the pair that answered, of an engine that asks one
	Remit      evidence.Build          `json:"remit"`
	Sandbox    evidence.SandboxFacts   `json:"sandbox"`
	StartedAt  string                  `json:"started_at"`
	FinishedAt string                  `json:"finished_at"`
	Complete   bool                    `json:"complete"` // all rows were asked for
	Status     string                  `json:"status"`   // pass: every row holds; fail: one does not; blocked: one could not be tried
	ExitCode   int                     `json:"exit_code"`
	Held       int                     `json:"held"`
	Total      int                     `json:"total"`
	Rows       []RowResult             `json:"rows"`
}

// RowResult is one row.
type RowResult struct {
	Name     string       `json:"name"`
	Trigger  string       `json:"trigger"`
	Expected Expected     `json:"expected"`
	Evidence string       `json:"evidence"` // what the session must show
	Note     string       `json:"note,omitempty"`
	Tried    bool         `json:"tried"` // at least one case was
	Held     bool         `json:"held"`  // it was tried, and every case that was tried holds
	Cases    []CaseResult `json:"cases"`
}

// Expected is the only acceptable end.
type Expected struct {
	Status   reason.Status `json:"status"`
	Code     reason.Code   `json:"code"`
	Event    string        `json:"event"`
	ExitCode int           `json:"exit_code"`
}

// The verdicts on a case.
const (
	Held          = "held"
	Broken        = "broken"
	NotApplicable = "not applicable" // this machine cannot bring it about
	NotTried      = "not tried"
)

// CaseResult is one case.
type CaseResult struct {
	Name     string   `json:"name"`
	Trigger  string   `json:"trigger"`
	Verdict  string   `json:"verdict"`
	Reason   string   `json:"reason,omitempty"` // why it was not tried, or what broke first
	Expected Expected `json:"expected"`
	// Got is what the session on disk says, null if it was not tried or left
	// no session.
	Got *Got `json:"got"`
	// Checks are all that was looked at, in order. A case holds if each does.
	Checks     []Check `json:"checks"`
	DurationMS int64   `json:"duration_ms"`
}

// Got is the session of a case.
type Got struct {
	SessionID       string             `json:"session_id"`
	RunID           string             `json:"run_id"`
	Status          string             `json:"status"`
	ExitCode        int                `json:"exit_code"`
	Code            reason.Code        `json:"code"` // of the first blocker
	Blockers        []evidence.Blocker `json:"blockers"`
	Event           *Event             `json:"event"` // the expected one, null if it is not there
	RunStartedAt    string             `json:"run_started_at"`
	RunFinishedAt   string             `json:"run_finished_at"`
	EngineStarted   bool               `json:"engine_process_started"`
	ChangedFiles    []string           `json:"changed_files"`
	Artifacts       []Artifact         `json:"artifacts"`
	DigestsMatch    bool               `json:"digests_match"`
	Fresh           bool               `json:"fresh"`
	SourceUntouched bool               `json:"source_untouched"`
	Audit           bundle.Status      `json:"audit"`
}

// Event is a line of events.normalized.jsonl.
type Event struct {
	Type string `json:"type"`
	Time string `json:"time"`
	Seq  int    `json:"seq"`
	Data any    `json:"data"`
}

// Artifact is a file of the session, as it lies on disk.
type Artifact struct {
	Path      string `json:"path"`
	SHA256    string `json:"sha256"` // of its bytes; for report.json as that defines its own
	Bytes     int64  `json:"bytes"`
	WrittenAt string `json:"written_at"`
	CheckedAt string `json:"checked_at"`
}

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Held   bool   `json:"held"`
	Detail string `json:"detail"`
}

func newRowResult(r ladder.Row) RowResult {
	return RowResult{Name: r.Name, Trigger: r.Trigger, Expected: expected(r, ladder.Case{}), Evidence: r.Evidence, Cases: make([]CaseResult, len(r.Cases))}
}

func expected(r ladder.Row, c ladder.Case) Expected {
	return Expected{Status: r.Status, Code: r.Expected(c), Event: r.Event, ExitCode: r.ExitCode()}
}

func newCaseResult(r ladder.Row, c ladder.Case) CaseResult {
	return CaseResult{Name: c.Name, Trigger: c.Trigger, Expected: expected(r, c), Checks: []Check{}}
}

func untried(r ladder.Row, c ladder.Case, verdict, why string) CaseResult {
	res := newCaseResult(r, c)
	res.Verdict, res.Reason = verdict, why
	return res
}

// settle turns the checks into a verdict.
func (c *CaseResult) settle() {
	c.Verdict = Held
	for _, check := range c.Checks {
		if !check.Held {
			c.Verdict, c.Reason = Broken, check.Name+": "+check.Detail
			return
		}
	}
}

// settle turns the verdicts on cases into those on rows and on the whole. What
// does not hold weighs more than what could not be tried.
func (rep *Report) settle() {
	rep.Status, rep.Total = evidence.StatusPass, len(rep.Rows)
	for i := range rep.Rows {
		row := &rep.Rows[i]
		broken, skipped := false, false
		for _, c := range row.Cases {
			row.Tried = row.Tried || c.Verdict == Held || c.Verdict == Broken
			broken = broken || c.Verdict == Broken
			skipped = skipped || c.Verdict == NotTried
		}
		row.Held = row.Tried && !broken && !skipped
		switch {
		case row.Held:
			rep.Held++
		case broken:
			rep.Status = evidence.StatusFail
		case rep.Status == evidence.StatusPass:
			rep.Status = evidence.StatusBlocked
		}
	}
	rep.ExitCode = evidence.ExitCode(rep.Status)
}
