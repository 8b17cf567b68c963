//go:build linux

package harness

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve allocates space behind the end of a new journal. Not every file
// system can, and a disk may be full already: both are found out when something
// is written.
func reserve(path string) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	// A signal breaks it off on some file systems, and the scheduler of Go sends many on a busy machine.
	for range 100 {
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, reserved); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = f.Close() // nothing was written through it
}
