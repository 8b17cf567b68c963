package job

import (
	"context"
	"io"
	"time"
)

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
