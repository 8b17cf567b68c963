package sandbox

import (
	"context"
	"io"
	"net"
	"time"

	"remit/work/tree"
)

// WorkspacePath is where the tree is mounted inside the sandbox.
const WorkspacePath = "/workspace"

// Driver confines commands. Its methods may be called concurrently.
type Driver interface {
	// Describe says what the driver is and what it cannot do on this host.
	Describe() Description
	// Run executes the commands of s in one writable view of s.Lower. A
	// non-nil Result comes with some errors too: it holds what had happened
	// before the failure or the cancellation.
	Run(ctx context.Context, s Spec) (*Result, error)
}

// Spec is one use of the sandbox.
type Spec struct {
	// Lower is the host directory that holds the base tree. It is never written.
	Lower string
	// Apply is laid over Lower before the first command.
	Apply []tree.Change
	// Layers are mounted above Lower, the first one on top: what the commands find
	// in the workspace and no commit has, such as installed dependencies. What a
	// command writes there is seen by this Run alone, and is no change of the tree.
	Layers []Layer
	// Commands run one after the other in the same writable view, each in
	// fresh namespaces: no process, and nothing in /tmp, survives a command.
	Commands []Command
	// StopOnFailure leaves out the commands after the first that did not exit 0.
	StopOnFailure bool
	// Env is added to the allow-list environment and wins over it.
	Env map[string]string
	// PathDirs are directories of the workspace whose programs come first, before
	// the toolchains: those of a layer.
	PathDirs []string
	// Binds are further host paths, mounted read-only.
	Binds []Bind
	// Limits are the caps; a zero field takes its value from DefaultLimits.
	Limits Limits
	// Capture collects what differs from Lower once every process is dead;
	// the content of the files goes to one file in SpoolDir, which belongs to
	// the caller and must outlive the use of Result.Changes.
	Capture  bool
	SpoolDir string
	// KeepCache, if set, is a host directory that receives what the commands
	// added to the Go build cache, for the Caches of later Runs. It is absent
	// or empty, gets the mode 0700 and must belong to the caller. Kept are
	// regular files under the names that the go command gives to entries, and
	// nothing that was lent; all of them or none. What is kept is exactly as
	// trustworthy as the commands: any of them can write an entry that
	// replaces the compiled code of any package.
	KeepCache string
	// Caches are host directories that KeepCache filled, at most MaxCaches,
	// lent read-only above Remit's own Go build cache; the first that has an
	// entry wins. Only the caller may be able to write to them. No result of a
	// test is taken from them: only compiled code is. What the commands
	// write is seen by this Run alone.
	Caches []string
	// Loopback, if set, is called once, before the first command, with a
	// listener on 127.0.0.1:LoopbackPort of the sandbox's own network
	// namespace: the one address that anything inside can reach. It must not
	// wait; what it starts may accept until the listener is closed, which Run
	// does before it returns, together with every accepted connection. The
	// commands then share that namespace, in which nothing outlives a command.
	// Driver none listens on the host.
	Loopback     func(net.Listener)
	LoopbackPort int // 0: DefaultLoopbackPort
	// More says that another Run of this process follows soon: a keeper is started for
	// it while the caller looks at what this one left.
	More bool
	// Services are started before each command, in this order, in the same network
	// namespace, and killed behind it. They count in Limits. One that cannot be
	// started is service_failed or service_not_ready, and the command is not
	// started then. Driver none has none.
	Services []Service
	// ServedTree is the host directory that services see as their workspace; "" is
	// Lower. It differs where Lower is a changed tree and no base with something over it.
	ServedTree string
}

// DefaultLoopbackPort is where the listener of Spec.Loopback is by default.
const DefaultLoopbackPort = 18080

// Bind shows a host file or directory read-only. What is mounted below the
// directory is not shown. The mount table inside does not tell where it lies on
// the host.
type Bind struct {
	Host   string // absolute path on the host
	Inside string // absolute path in the sandbox, outside of WorkspacePath
}

// Command is one process tree.
type Command struct {
	Argv []string
	// Dir is the working directory, relative to the workspace.
	Dir string
	// Stdout and Stderr receive the output up to Limits.OutputBytes. When
	// they are the same writer both streams share a pipe, which keeps their
	// order, and all bytes count as standard output.
	Stdout, Stderr io.Writer
	// Wall bounds this command; 0 leaves only Limits.Wall.
	Wall time.Duration
	// ContinueOnFailure has the next command run even if this one fails,
	// whatever Spec.StopOnFailure says.
	ContinueOnFailure bool
}

// Result is what a Run did.
type Result struct {
	Commands  []CommandResult // one for each command that was reached
	Changes   []tree.Change   // with Spec.Capture; nothing at or below a path of a layer
	Layers    LayerChanges    // with Spec.Capture
	Caps      []Cap           // one a limit, whether enforced or not
	Usage     Usage
	OOMKilled bool   // the kernel killed something for lack of memory
	Layer     string // "overlay" or "copy"
	GoCache   GoCache
}

// GoCache is what became of Spec.Caches and Spec.KeepCache. Neither can fail a
// Run: without a cache the commands compile what they need.
type GoCache struct {
	Lent    int    // how many of Spec.Caches were lent
	NotLent string // why fewer than all were, else ""
	Files   int    // in Spec.KeepCache
	Bytes   int64  // content of those files
	NotKept string // why Spec.KeepCache is left empty, else ""
}

// The bounds on lent and kept Go build caches. A single file above
// tree.MaxFileBytes is left out.
const (
	MaxCaches    = 16
	MaxKeptFiles = 200_000
	MaxKeptBytes = 4 << 30
)

// CommandResult is how one command ended.
type CommandResult struct {
	// Started says that the program was really executed. When it is false
	// and Run returned no error the program or its directory does not exist
	// in the sandbox: ExitCode is 127 and Stderr says which.
	Started bool
	// ExitCode follows the shell: 128+n for signal n.
	ExitCode int
	// Signal is the name of the signal behind an exit code above 128, for
	// example "SIGKILL". A program that exits with such a code by itself
	// looks the same.
	Signal         string
	TimedOut       bool
	OutputExceeded bool
	Duration       time.Duration
	StdoutBytes    int64 // counted past the cap too, until the kill took effect
	StderrBytes    int64
	Services       []ServiceResult // one each of Spec.Services
}

// Usage is what the commands of a Run took together.
type Usage struct {
	CPUMillis       int64 `json:"cpu_millis"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	WallMillis      int64 `json:"wall_millis"`
}

// Description identifies a driver and its configuration for the evidence.
type Description struct {
	Driver  string `json:"driver"`  // "bwrap" or "none"
	Version string `json:"version"` // of the program behind it
	Layer   string `json:"layer"`   // how trees are made writable on this host
	Root    bool   `json:"root"`    // run by uid 0, commands under a uid of their own
	// NotEnforced lists the promises that do not hold on this host.
	NotEnforced []string          `json:"not_enforced"`
	Config      map[string]string `json:"config"`
}

// Options choose a driver.
type Options struct {
	// Driver is "" or "bwrap", or "none", which confines nothing and is
	// therefore never chosen unless named.
	Driver string
	// StateDir holds short-lived files, and what a probe found out; "" is the
	// system's temporary directory, where nothing is remembered.
	StateDir string
	// Cache is the Go build cache that is lent, and filled by the first Run that
	// needs it. The driver "none" uses none.
	Cache BuildCache
	// Fresh has the host probed whatever is remembered.
	Fresh bool
	// Toolchains are host directories mounted read-only at the same path,
	// whose bin directory, or they themselves without one, are put on PATH.
	Toolchains []string
	// Hidden are host directories that no command may see, such as that of a
	// signing key. Open refuses a toolchain that shows one, and Run a bind. The
	// driver "none" hides nothing.
	Hidden []string
}

// The names of the drivers.
const (
	DriverBwrap = "bwrap"
	DriverNone  = "none"
)
