package job

import (
	"context"
	"io"
	"time"

	"remit/proof/reason"
)

// Job types. The version is part of the name.
const (
	SandboxRun = "oa.sandbox_run.v1"
	EngineRun  = "remit.engine_run.v1"
)

// SchemaVersion is the schema version of both types.
const SchemaVersion = "1.0.0"

// Request is a job request of any type, read and within its limits.
type Request interface {
	Type() string      // the job type
	Canonical() []byte // the bytes that Hash covers
	Hash() string      // bare hexadecimal SHA-256 of Canonical
	Needs() Needs      // what a provider must offer to run it
}

// Response is the answer to a request of the same type.
type Response interface {
	Type() string
	Outcome() Status        // as the provider reports it
	Announced() []Artifact  // content that belongs to the answer
	Observed() *Usage       // nil when the provider did not measure
	Enforced() *CapsApplied // nil when the provider did not say
}

// Needs are the resources that a request asks for. A provider is eligible when
// each of its caps is at least as large.
type Needs struct {
	Capability    string `json:"capability"` // the job type
	CPUMillis     int64  `json:"cpu_millis"`
	MemoryMB      int64  `json:"memory_mb"`
	DiskMB        int64  `json:"disk_mb"` // 0: no demand
	TimeoutSecs   int64  `json:"timeout_secs"`
	NetworkPolicy string `json:"network_policy"`
}

// Types lists the job types that Parse knows.
func Types() []string { return []string{SandboxRun, EngineRun} }

// Parse reads the request payload of a job type, fills in defaults and checks
// every limit.
func Parse(jobType string, payload []byte) (Request, error) {
	switch jobType {
	case SandboxRun:
		return ParseSandboxRun(payload)
	case EngineRun:
		return ParseEngineRun(payload)
	}
	return nil, unknownType(jobType)
}

// ParseResponse reads the response payload of a job type. It checks form and
// size only; what the response is worth is the business of Check.
func ParseResponse(jobType string, payload []byte) (Response, error) {
	switch jobType {
	case SandboxRun:
		return ParseSandboxRunResponse(payload)
	case EngineRun:
		return ParseEngineRunResponse(payload)
	}
	return nil, unknownType(jobType)
}

// Check judges a response. The response must be of the request's type.
func Check(req Request, resp Response) Verdict {
	switch r := req.(type) {
	case SandboxRunRequest:
		if answer, ok := resp.(SandboxRunResponse); ok {
			return checkSandboxRun(r, answer)
		}
	case EngineRunRequest:
		if answer, ok := resp.(EngineRunResponse); ok {
			return checkEngineRun(r, answer)
		}
	}
	var v verdict
	v.fault("type", "the response is not of the type of the request")
	return v.close(1)
}

func unknownType(jobType string) *reason.Error {
	e := reason.Errorf(reason.JobUnknownType, "unknown job type %.64q", jobType)
	e.Field = "job_type"
	return e
}

// Claim is what a requester tells an authority of a run before anything is
// started.
type Claim struct {
	// Key names the run for ever: telling it again is the same run. It is the
	// session id.
	Key            string
	RepoRef        string
	IssueRef       string // "" when the run is for no issue
	PolicyBundleID string
	Metadata       map[string]string
	// Summary is what the run is so far, as canonical JSON; nil is nothing.
	Summary []byte
	// RunID is the run that an earlier life of this one had made, "" when it is
	// not known that one was.
	RunID string
	// Proof is what the run will ask for in the end. A run that could not
	// be proved, or paid for, is refused.
	Proof         Needs
	MaxPriceMsats int64 // 0: no limit
	// Silence is how long the run may say nothing before the authority ends it, 0:
	// as long as the authority says.
	Silence time.Duration
}

// Proof asks for a change to be proved: for the verification commands to be run
// over the patched tree by a provider.
type Proof struct {
	// Request lacks its repository, which depends on how a provider gets it.
	Request SandboxRunRequest
	Tree    string // id of the patched tree
	// MaxPriceMsats is the most that the proof may cost, 0: no limit.
	MaxPriceMsats int64
	// Waiting is called once when the authority is out of reach, with how long the
	// requester goes on trying; it may be nil.
	Waiting func(patience time.Duration, err error)
	// Pack writes a git pack with a commit of that tree and with nothing else
	// than the commit needs, and returns the commit's id.
	Pack func(context.Context, io.Writer) (commit string, err error)
	// PackBase does the same for the base of Request.Environment, which names it by
	// its tree until a provider elsewhere is to get it.
	PackBase func(context.Context, io.Writer) (commit string, err error)
	// Here is what the requester's own verifier saw of the same commands over
	// the same tree. A provider that is part of the requester's process hands it
	// in: on one machine running them once more would prove nothing more.
	Here SandboxRunResponse
}
