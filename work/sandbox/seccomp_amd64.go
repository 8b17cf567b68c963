//go:build linux

package sandbox

import (
	_ "embed"

	"golang.org/x/sys/unix"
)

//go:embed syscalls_amd64.txt
var syscallsText string

// nativeTable returns the rules for x86-64. The x32 bit selects another ABI
// with numbers of its own, and the 32-bit ABI has another arch value: both kill.
func nativeTable() (table, bool) {
	return table{
		arch:    unix.AUDIT_ARCH_X86_64,
		foreign: 0x40000000,
		calls:   parseRules(syscallsText),
		clone:   unix.SYS_CLONE,
		ioctl:   unix.SYS_IOCTL,
		socket:  unix.SYS_SOCKET,
	}, true
}
