package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
)

// Sweep removes what runs that no longer live left behind: temporary trees,
// and session directories without a first entry. Sessions stay.
func (h Home) Sweep() error {
	if err := h.sweep(h.WorkDir(), func(name string) (string, bool) {
		return filepath.Join(h.Sessions(), name, evidence.JournalFile), true
	}); err != nil {
		return err
	}
	if err := h.sweep(h.Sessions(), func(name string) (string, bool) {
		return filepath.Join(h.Sessions(), name, evidence.JournalFile), strings.HasPrefix(name, NewPrefix)
	}); err != nil {
		return err
	}
	h.sweepDisposables()
	sweepProbes(h.SandboxDir())
	sweepProbes(os.TempDir())
	return nil
}

// sweepDisposables removes the repositories whose time is over. One that cannot be
// removed is tried again by the next run.
func (h Home) sweepDisposables() {
	entries, _ := os.ReadDir(h.disposables()) // there is none before the first is made
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < DisposableKept {
			continue
		}
		if busy, _ := journal.Busy(filepath.Join(h.Sessions(), e.Name(), evidence.JournalFile)); !busy {
			_ = os.RemoveAll(filepath.Join(h.disposables(), e.Name()))
		}
	}
}

// probePrefix begins the names of the directories that are made to look at the
// host or at a repository, and live for seconds.
const probePrefix = "remit-probe-"

// sweepProbes removes those that a killed run left. In a directory that others
// use too it removes nothing of theirs, since it may not.
func sweepProbes(dir string) {
	old, err := filepath.Glob(filepath.Join(dir, probePrefix+"*"))
	if err != nil {
		return // a pattern in the directory's own name: nothing is known to be ours
	}
	for _, path := range old {
		if info, err := os.Lstat(path); err == nil && info.IsDir() && time.Since(info.ModTime()) > justMade {
			_ = os.RemoveAll(path) // tried again by the next run
		}
	}
}

// justMade is how old a directory without a journal must be to be left over.
const justMade = time.Minute

// sweep removes the entries of dir whose journal has no living writer.
func (h Home) sweep(dir string, journalOf func(name string) (path string, ours bool)) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return h.unusable(fmt.Errorf("looking for left-over work: %w", err))
	}
	for _, e := range entries {
		path, ours := journalOf(e.Name())
		if !ours {
			continue
		}
		busy, err := journal.Busy(path)
		if busy || (err != nil && !errors.Is(err, os.ErrNotExist)) {
			continue // alive, or not ours to judge
		}
		if info, statErr := e.Info(); err != nil && statErr == nil && time.Since(info.ModTime()) < justMade {
			continue // its journal may be made this very moment
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return h.unusable(fmt.Errorf("removing left-over work: %w", err))
		}
	}
	return nil
}
