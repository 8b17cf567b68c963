//go:build linux

package sandbox

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"remit/proof/reason"
)

// TestProbeCode: a probe that finds no room for its files is about the home, and one
// whose process cannot be started is about the sandbox, although the kernel says the
// same of both.
func TestProbeCode(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want reason.Code
	}{
		"no room":       {&fs.PathError{Op: "mkdir", Path: "/home/sandbox/x", Err: syscall.ENOSPC}, reason.HomeUnusable},
		"over quota":    {&fs.PathError{Op: "write", Path: "/home/sandbox/x", Err: syscall.EDQUOT}, reason.HomeUnusable},
		"read-only":     {&fs.PathError{Op: "open", Path: "/home/sandbox/x", Err: syscall.EROFS}, reason.HomeUnusable},
		"no namespaces": {&fs.PathError{Op: "fork/exec", Path: "/proc/self/exe", Err: syscall.ENOSPC}, reason.SandboxUnavailable},
		"denied":        {&fs.PathError{Op: "open", Path: "/dev/x", Err: syscall.EPERM}, reason.SandboxUnavailable},
		"no file":       {syscall.ENOSPC, reason.SandboxUnavailable},
	} {
		err := fmt.Errorf("probing: %w", tt.err)
		if got := probeCode(err); got != tt.want || probeHint(err) == "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
