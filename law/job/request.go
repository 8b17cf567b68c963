package job

// SandboxRunRequest asks for commands to be run in a sandbox. Read one with
// ParseSandboxRun, or build one and call Filled: only a filled request has the
// hash that others compute.
type SandboxRunRequest struct {
	Sandbox      Sandbox           `json:"sandbox"`
	Repo         Repo              `json:"repo"`
	Commands     []Command         `json:"commands"` // 1..20, run in order
	Env          map[string]string `json:"env,omitempty"`
	Verification Verification      `json:"verification"`
	// Environment is nil for commands that find nothing beside the tree.
	Environment *Environment `json:"environment,omitempty"`
}

// Sandbox says where the commands run and what they may use.
type Sandbox struct {
	Provider      string    `json:"provider"`       // sandbox family, default docker
	ImageDigest   string    `json:"image_digest"`   // required; the root file system
	NetworkPolicy string    `json:"network_policy"` // none; the other two words are refused in this phase
	Resources     Resources `json:"resources"`
}

// Resources are the limits of the whole job.
type Resources struct {
	MemoryMB    uint32  `json:"memory_mb"` // default 512
	CPUs        Cores   `json:"cpus"`      // default 1.0
	TimeoutSecs uint32  `json:"timeout_secs"`
	DiskMB      *uint32 `json:"disk_mb,omitempty"`
}

// Repo is the tree that the commands see.
type Repo struct {
	Source    string  `json:"source"` // may be empty: the workspace is then empty
	GitRef    *string `json:"git_ref,omitempty"`
	MountPath string  `json:"mount_path"` // default /workspace
}

// Command is one shell command.
type Command struct {
	Cmd            string  `json:"cmd"`
	Workdir        *string `json:"workdir,omitempty"` // relative to the root of the tree
	ContinueOnFail bool    `json:"continue_on_fail"`  // run the next command even if this one fails
}

// Verification says how the result is judged. Only the objective mode without
// redundancy is offered: anything else would be a promise that is not kept.
type Verification struct {
	Mode         string  `json:"mode"`
	Redundancy   uint8   `json:"redundancy"`
	Adjudication string  `json:"adjudication"`
	JudgeModel   *string `json:"judge_model,omitempty"`
}

// The words of a request.
const (
	NetworkNone  = "none"
	Objective    = "objective"
	NoAdjudicate = "none"
)

// Defaults of a request.
const (
	defaultProvider           = "docker"
	defaultMemoryMB           = 512
	defaultCPUs         Cores = 1
	defaultTimeoutSecs        = 60
	defaultMountPath          = "/workspace"
	defaultRedundancy         = 1
	defaultAdjudication       = NoAdjudicate
)

// prototype is what a request says where its source says nothing.
func prototype() SandboxRunRequest {
	return SandboxRunRequest{
		Sandbox: Sandbox{
			Provider: defaultProvider, NetworkPolicy: NetworkNone,
			Resources: Resources{MemoryMB: defaultMemoryMB, CPUs: defaultCPUs, TimeoutSecs: defaultTimeoutSecs},
		},
		Repo:         Repo{MountPath: defaultMountPath},
		Verification: Verification{Mode: Objective, Redundancy: defaultRedundancy, Adjudication: defaultAdjudication},
	}
}

// ParseSandboxRun reads a request, fills in what it leaves out and checks the
// limits.
func ParseSandboxRun(payload []byte) (SandboxRunRequest, error) {
	r := prototype()
	given, err := decode(payload, MaxRequestBytes, &r)
	if err != nil {
		return SandboxRunRequest{}, err
	}
	// A block that is named must say what only it can say.
	if given["repo"] && !given["repo.source"] {
		return SandboxRunRequest{}, invalid("repo.source", "is required when repo is given")
	}
	if given["verification"] && !given["verification.mode"] {
		return SandboxRunRequest{}, invalid("verification.mode", "is required when verification is given")
	}
	if err := r.Validate(); err != nil {
		return SandboxRunRequest{}, err
	}
	return r, nil
}

// Filled returns the request with every default in place of a zero value, and
// the error of Validate.
func (r SandboxRunRequest) Filled() (SandboxRunRequest, error) {
	p := prototype()
	fill(&r.Sandbox.Provider, p.Sandbox.Provider)
	fill(&r.Sandbox.NetworkPolicy, p.Sandbox.NetworkPolicy)
	fill(&r.Sandbox.Resources.MemoryMB, p.Sandbox.Resources.MemoryMB)
	fill(&r.Sandbox.Resources.CPUs, p.Sandbox.Resources.CPUs)
	fill(&r.Sandbox.Resources.TimeoutSecs, p.Sandbox.Resources.TimeoutSecs)
	fill(&r.Repo.MountPath, p.Repo.MountPath)
	fill(&r.Verification.Mode, p.Verification.Mode)
	fill(&r.Verification.Redundancy, p.Verification.Redundancy)
	fill(&r.Verification.Adjudication, p.Verification.Adjudication)
	return r, r.Validate()
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Type returns SandboxRun.
func (SandboxRunRequest) Type() string { return SandboxRun }

// Needs returns what a provider must offer.
func (r SandboxRunRequest) Needs() Needs {
	n := Needs{
		Capability: SandboxRun, CPUMillis: r.Sandbox.Resources.CPUs.Millis(),
		MemoryMB: int64(r.Sandbox.Resources.MemoryMB), TimeoutSecs: int64(r.Sandbox.Resources.TimeoutSecs),
		NetworkPolicy: r.Sandbox.NetworkPolicy,
	}
	if d := r.Sandbox.Resources.DiskMB; d != nil {
		n.DiskMB = int64(*d)
	}
	return n
}
