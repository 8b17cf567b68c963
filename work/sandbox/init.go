//go:build linux

package sandbox

import (
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// initialized says that Init ran, so that starting our own binary again really
// makes a keeper and not a second program.
var initialized atomic.Bool

// Init must be the first thing that main and every TestMain do. In a process
// that the sandbox started for itself it takes over and never returns;
// otherwise it costs nothing.
func Init() {
	initialized.Store(true)
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case keeperName, standbyName:
		// A thread that ends would take the commands with it (parent-death
		// signals are bound to threads), and mounts and identities are switched
		// on this one.
		runtime.LockOSThread()
		os.Exit(keep())
	case holderName:
		// Holds a user namespace until the parent has opened it and kills this
		// process, or is gone itself.
		var b [1]byte
		_, _ = os.Stdin.Read(b[:])
		os.Exit(0)
	}
}

// sealDescriptors marks everything above keep close-on-exec: descriptors that
// our own process inherited must not reach a command.
func sealDescriptors(keep int) error {
	return unix.CloseRange(uint(keep), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
}
