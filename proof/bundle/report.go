package bundle

import "remit/proof/reason"

// ReportSchema is the schema of a [Report].
const ReportSchema = "remit.audit.v1"

// Status of an audit or of one of its gates.
type Status string

// What an audit ends with, and what a gate can besides be.
const (
	Pass    Status = "pass"
	Fail    Status = "fail"
	Blocked Status = "blocked" // could not be checked
	Skipped Status = "skipped" // does not apply, or was not asked for; gates only
)

// ExitCode of a process that reports the status: 0 pass, 2 fail, 3 blocked.
func (s Status) ExitCode() int {
	switch s {
	case Pass:
		return 0
	case Fail:
		return 2
	default:
		return 3
	}
}

// Report is the result of an audit.
type Report struct {
	Schema    string       `json:"schema"`
	Path      string       `json:"path"`    // base name of what was audited
	Profile   Profile      `json:"profile"` // "" when nothing could be read
	Status    Status       `json:"status"`
	RunStatus string       `json:"run_status,omitempty"` // of the run that is recorded; only when the audit passes
	ExitCode  int          `json:"exit_code"`
	Gates     []GateResult `json:"gates"`
	Entries   int          `json:"entries"` // files, the manifest included
	Bytes     int64        `json:"bytes"`   // of all files, uncompressed
	ZipSHA256 string       `json:"zip_sha256,omitempty"`
	Extracted bool         `json:"extracted"`          // the deliverable was written
	NotMade   []string     `json:"not_made,omitempty"` // gates that nothing was run for
	// Conclusion is what a reader may take from the report, in a sentence of the caller.
	Conclusion string    `json:"conclusion,omitempty"`
	Commands   []Command `json:"commands"`
}

// GateResult is what one gate found.
type GateResult struct {
	Name     string           `json:"name"`
	Status   Status           `json:"status"`
	Reason   string           `json:"reason,omitempty"` // why skipped or blocked; of some gates, why passed
	Findings []reason.Finding `json:"findings"`
}

// Command is one command of gates 9 and 10. Stdout and Stderr are verbatim
// unless cut; the digests and byte counts are of the whole output.
type Command struct {
	Gate         string `json:"gate"`
	Command      string `json:"command"`
	NamedBy      string `json:"named_by,omitempty"` // file of the bundle that names the command; "": the caller did
	ExitCode     *int   `json:"exit_code"`          // nil: it did not run to its end
	DurationMS   int64  `json:"duration_ms"`
	Stdout       string `json:"stdout"`
	Stderr       string `json:"stderr"`
	StdoutBytes  int64  `json:"stdout_bytes"`
	StderrBytes  int64  `json:"stderr_bytes"`
	StdoutSHA256 string `json:"stdout_sha256"`
	StderrSHA256 string `json:"stderr_sha256"`
	StdoutCut    bool   `json:"stdout_cut,omitempty"`
	StderrCut    bool   `json:"stderr_cut,omitempty"`
}
