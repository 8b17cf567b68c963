package provider

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// presenceFile is locked, shared, by every daemon of a registration while its
// process lives. The kernel drops the lock however the process ends.
const presenceFile = "running"

// scratchName begins the names of the directories that work is done in.
const scratchName = "job-"

// clearLeftovers takes the lock of presence and, if no other daemon has it, removes
// what daemons that were killed have left behind: their scratch directories, and
// the output of attempts that never got a result, whose leases are then handed
// back. Results that wait to be handed in stay.
func (d *Daemon) clearLeftovers(state string) error {
	f, err := os.OpenFile(filepath.Join(state, presenceFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("marking the provider as running: %w", err)
	}
	d.presence = f
	fd := int(f.Fd())
	switch err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		if err := d.removeLeftovers(); err != nil {
			return errors.Join(err, f.Close())
		}
	case !errors.Is(err, unix.EWOULDBLOCK):
		return errors.Join(fmt.Errorf("marking the provider as running: %w", err), f.Close())
	}
	if err := shareLock(f); err != nil {
		return errors.Join(fmt.Errorf("marking the provider as running: %w", err), f.Close())
	}
	return nil
}

func (d *Daemon) removeLeftovers() error {
	left, err := filepath.Glob(filepath.Join(d.scratch, scratchName+"*"))
	if err != nil {
		return fmt.Errorf("listing what earlier daemons left: %w", err)
	}
	cutOff, leases, err := d.spool.cutOff()
	if err != nil {
		return err
	}
	d.abandoned = append(d.abandoned, leases...)
	for _, dir := range append(left, cutOff...) {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing what an earlier daemon left: %w", err)
		}
	}
	return nil
}
