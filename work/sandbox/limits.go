package sandbox

import "time"

// Limits are the caps of a Run.
type Limits struct {
	CPUsMilli   int           // processor time, thousandths of a core
	MemoryMB    int           // resident memory of all processes together; DiskMB comes on top, since it is memory too
	Pids        int           // processes and threads
	DiskMB      int           // everything written: workspace, /tmp and build cache together
	OpenFiles   int           // file descriptors of one process
	OutputBytes int64         // standard output and error of one command together
	Wall        time.Duration // all commands together
}

// The default caps fit the test suite of an ordinary project.
const (
	DefaultCPUsMilli   = 2000
	DefaultMemoryMB    = 2048
	DefaultPids        = 512
	DefaultDiskMB      = 2048 // a Go build of a larger module needs more than 64 MB in /tmp
	DefaultOpenFiles   = 1024
	DefaultOutputBytes = 16 << 20
	DefaultWall        = 10 * time.Minute
)

// DefaultLimits returns the default caps.
func DefaultLimits() Limits {
	return Limits{
		CPUsMilli: DefaultCPUsMilli, MemoryMB: DefaultMemoryMB, Pids: DefaultPids, DiskMB: DefaultDiskMB,
		OpenFiles: DefaultOpenFiles, OutputBytes: DefaultOutputBytes, Wall: DefaultWall,
	}
}

// Cap is what became of one limit.
type Cap struct {
	Name     string `json:"name"`     // cpu, memory, pids, disk, open_files, output_bytes, wall
	Limit    int64  `json:"limit"`    // milli-cores, bytes, count, bytes, count, bytes, milliseconds
	Enforced bool   `json:"enforced"` // true only when the kernel or the parent really holds it
	How      string `json:"how"`      // the mechanism, or why there is none
	Observed int64  `json:"observed"` // highest value seen, in the unit of Limit; -1 when not measured
}
