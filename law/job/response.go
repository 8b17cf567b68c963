package job

import (
	"strings"

	"remit/proof/reason"
)

// MaxResponseBytes bounds a response as it is read.
const MaxResponseBytes = 1 << 20

// Status is how a provider says that a job ended.
type Status string

// The states of a response.
const (
	Success   Status = "success"   // every command exited with 0
	Failed    Status = "failed"    // a command did not
	Timeout   Status = "timeout"   // the job's time was used up
	Cancelled Status = "cancelled" // the provider stopped it
	Errored   Status = "error"     // the provider could not run it
)

// SandboxRunResponse is what came of a sandbox run.
type SandboxRunResponse struct {
	EnvInfo    EnvInfo    `json:"env_info"`
	Runs       []Run      `json:"runs"`
	Artifacts  []Artifact `json:"artifacts"`
	Status     Status     `json:"status"`
	Error      *string    `json:"error,omitempty"`
	Provenance Provenance `json:"provenance"`

	// Optional blocks of Remit: minor additions to the wire form.
	Provider *ProviderInfo `json:"provider,omitempty"`
	Platform *SandboxInfo  `json:"sandbox,omitempty"`
	Caps     *CapsApplied  `json:"caps,omitempty"`
	Usage    *Usage        `json:"usage,omitempty"`
}

// EnvInfo tells where the commands ran.
type EnvInfo struct {
	ImageDigest string  `json:"image_digest"`
	Hostname    *string `json:"hostname,omitempty"`
	SystemInfo  *string `json:"system_info,omitempty"`
	// Layers are the dependency layers that the commands had, in the order of the
	// request: a minor addition of Remit's.
	Layers []Layer `json:"layers,omitempty"`
	// Services are those that ran beside each command.
	Services []Service `json:"services,omitempty"`
}

// Run is one executed command. The digests cover the full streams; previews are
// for display and are cut at a rune boundary.
type Run struct {
	Cmd           string  `json:"cmd"`
	ExitCode      int32   `json:"exit_code"`
	DurationMS    uint64  `json:"duration_ms"`
	StdoutSHA256  string  `json:"stdout_sha256"`
	StderrSHA256  string  `json:"stderr_sha256"`
	StdoutPreview *string `json:"stdout_preview,omitempty"`
	StderrPreview *string `json:"stderr_preview,omitempty"`
}

// Artifact is content that belongs to a response.
type Artifact struct {
	Path      string  `json:"path"`
	SHA256    string  `json:"sha256"` // sha256:…
	SizeBytes uint64  `json:"size_bytes"`
	MimeType  *string `json:"mime_type,omitempty"`
}

// Provenance says how the answer was made. A sandbox run has no model; the
// fields exist because the wire form has them.
type Provenance struct {
	ModelID        string    `json:"model_id"`
	Sampling       *Sampling `json:"sampling,omitempty"`
	InputSHA256    *string   `json:"input_sha256,omitempty"`
	OutputSHA256   *string   `json:"output_sha256,omitempty"`
	ProviderPubkey *string   `json:"provider_pubkey,omitempty"`
	ExecutedAt     *int64    `json:"executed_at,omitempty"` // unix seconds
	DurationMS     *uint64   `json:"duration_ms,omitempty"`
	Tokens         *Tokens   `json:"tokens,omitempty"`
}

// Sampling are the parameters of a model.
type Sampling struct {
	Temperature float64  `json:"temperature"`
	TopP        *float64 `json:"top_p,omitempty"`
	TopK        *int64   `json:"top_k,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`
	MaxTokens   *int64   `json:"max_tokens,omitempty"`
	Stop        []string `json:"stop,omitempty"`
}

// Tokens counts what a model read and wrote.
type Tokens struct {
	Input  uint64 `json:"input"`
	Output uint64 `json:"output"`
}

// ProviderInfo names the provider and its build.
type ProviderInfo struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Kernel  string `json:"kernel,omitempty"`
}

// SandboxInfo is the confinement that was in force.
type SandboxInfo struct {
	Driver      string            `json:"driver"`
	Version     string            `json:"version"`
	Layer       string            `json:"layer,omitempty"`
	NotEnforced []string          `json:"not_enforced,omitempty"`
	Config      map[string]string `json:"config,omitempty"`
}

// CapsApplied are the limits under which the job ran. 0 means not limited.
type CapsApplied struct {
	CPUMillis   int64  `json:"cpu_millis"`
	MemoryMB    int64  `json:"memory_mb"`
	DiskMB      int64  `json:"disk_mb"`
	Pids        int64  `json:"pids"`
	TimeoutSecs int64  `json:"timeout_secs"`
	Network     string `json:"network"`
}

// shmMB is the size of /dev/shm in the sandbox.
const shmMB = 16

// MemoryBytes is the most that a job under these limits can be seen to occupy:
// what it writes is kept in memory, so the two limits hold together.
func (c CapsApplied) MemoryBytes() int64 { return (c.MemoryMB + c.DiskMB + shmMB) << 20 }

// MemoryMB is the limit of memory alone, where one of so many bytes holds for
// what is written as well.
func MemoryMB(bytes, diskMB int64) int64 { return max(0, bytes>>20-diskMB-shmMB) }

// Usage is what the job was seen to use.
type Usage struct {
	CPUMillis       int64 `json:"cpu_time_ms"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	WallMillis      int64 `json:"wall_ms"`
	DiskWriteBytes  int64 `json:"disk_write_bytes"`
	NetworkBytes    int64 `json:"network_bytes"`
}

// ParseSandboxRunResponse reads a response. Contradictions inside it are not
// errors here: Check counts them against the provider.
func ParseSandboxRunResponse(payload []byte) (SandboxRunResponse, error) {
	var r SandboxRunResponse
	given, err := decode(payload, MaxResponseBytes, &r)
	if err != nil {
		return SandboxRunResponse{}, err
	}
	for _, field := range []string{"env_info.image_digest", "runs", "status"} {
		if !given[field] {
			return SandboxRunResponse{}, invalid(field, "is required")
		}
	}
	if !r.Status.known() {
		return SandboxRunResponse{}, invalid("status", "is %.32q, must be success, failed, timeout, cancelled or error", r.Status)
	}
	if err := validateFigures(r.Caps, r.Usage); err != nil {
		return SandboxRunResponse{}, err
	}
	return r, nil
}

// Upper bounds of figures in a response. They are far above any machine and any
// job, and keep products of them from wrapping around.
const (
	maxCapCPU  = 1 << 24
	maxCap     = 1 << 30
	maxMillis  = 1 << 38
	maxCounted = 1<<53 - 1 // bytes
)

// validateFigures refuses limits and usage that cannot have been measured.
func validateFigures(c *CapsApplied, u *Usage) error {
	if c == nil {
		c = &CapsApplied{}
	}
	if u == nil {
		u = &Usage{}
	}
	for _, f := range []struct {
		field      string
		value, top int64
	}{
		{"caps.cpu_millis", c.CPUMillis, maxCapCPU}, {"caps.memory_mb", c.MemoryMB, maxCap}, {"caps.disk_mb", c.DiskMB, maxCap},
		{"caps.pids", c.Pids, maxCap}, {"caps.timeout_secs", c.TimeoutSecs, maxCap},
		{"usage.cpu_time_ms", u.CPUMillis, maxMillis}, {"usage.wall_ms", u.WallMillis, maxMillis},
		{"usage.peak_memory_bytes", u.PeakMemoryBytes, maxCounted}, {"usage.disk_write_bytes", u.DiskWriteBytes, maxCounted},
		{"usage.network_bytes", u.NetworkBytes, maxCounted},
	} {
		if f.value < 0 || f.value > f.top {
			return invalid(f.field, "is %d, must be 0 to %d", f.value, f.top)
		}
	}
	return nil
}

func (s Status) known() bool {
	switch s {
	case Success, Failed, Timeout, Cancelled, Errored:
		return true
	}
	return false
}

// Type returns SandboxRun.
func (SandboxRunResponse) Type() string { return SandboxRun }

// Outcome returns the status that the provider reports.
func (r SandboxRunResponse) Outcome() Status { return r.Status }

// Announced returns the artifacts.
func (r SandboxRunResponse) Announced() []Artifact { return r.Artifacts }

// Observed returns the usage block.
func (r SandboxRunResponse) Observed() *Usage { return r.Usage }

// Enforced returns the caps block.
func (r SandboxRunResponse) Enforced() *CapsApplied { return r.Caps }

// Refusal is why an engine run could not begin, for a reason that lies in its
// request: an engine that the provider does not have, a repository that it
// cannot read, a contract that is none. There is no session then, so there is
// no bundle that could tell. A run that did begin and was blocked has one.
type Refusal struct {
	Code    reason.Code `json:"code"`
	Message string      `json:"message"` // 1 to MaxCmdBytes bytes, for the requester
}

// Refusable reports whether a request can be the reason of a code. A provider
// that says no for the others speaks of itself, and answers with status error.
func Refusable(code reason.Code) bool {
	switch code {
	case reason.SandboxUnavailable, reason.InfrastructureFault, reason.ArtifactWriteFailure, reason.ResourceLimit, reason.TreeMismatch,
		reason.HomeUnusable, reason.FileUnusable, reason.ProviderUnavailable, reason.ProgramNotFound, reason.ProgramNotExecutable, reason.ProgramLineEndings, reason.InterpreterNotFound:
		return false
	}
	_, known := reason.Lookup(code)
	return known
}

// checkRefusal holds a refusal against the rest of the response: what did not
// begin has neither a bundle nor a result. It may have a cost, if a model was
// asked before it turned out that there is nothing to hand in.
func (v *verdict) checkRefusal(resp EngineRunResponse) {
	r := resp.Refusal
	if !Refusable(r.Code) {
		v.fault("refusal", "%.80q is no reason that lies in a request", string(r.Code))
	}
	if strings.TrimSpace(r.Message) == "" || len(r.Message) > MaxCmdBytes {
		v.fault("refusal", "without a message of at most %d bytes", MaxCmdBytes)
	}
	if resp.BundleSHA256 != "" || resp.HeadTree != "" || len(resp.Verification) > 0 || len(resp.Artifacts) > 0 || resp.MicroUSD != 0 && resp.CostKnown == nil {
		v.fault("refusal", "refused, and yet there is a result")
	}
}
