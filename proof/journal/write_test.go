package journal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// faulty is a file that fails on demand.
type faulty struct {
	*os.File
	takes       int // bytes that Write takes before it fails, -1: all
	writeErr    error
	truncateErr error
	syncErr     error
	syncs       atomic.Int32
	inSync      func()
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.takes < 0 {
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:f.takes])
	return n, errors.Join(f.writeErr, err)
}

func (f *faulty) Truncate(size int64) error {
	if f.truncateErr != nil {
		return f.truncateErr
	}
	return f.File.Truncate(size)
}

func (f *faulty) Sync() error {
	f.syncs.Add(1)
	if f.inSync != nil {
		f.inSync()
	}
	return f.syncErr
}

var step = Step{StepID: "s", Name: "n", Status: Completed, StartedAt: time.Unix(1_800_000_000, 0)}

func openFaulty(t *testing.T) (*Writer, *faulty) {
	t.Helper()
	w, err := Create(filepath.Join(t.TempDir(), "journal.jsonl"), "session")
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{File: w.file.(lockedFile).File, takes: -1}
	w.file = f
	t.Cleanup(func() { w.Close() })
	if _, err := w.Append(step); err != nil {
		t.Fatal(err)
	}
	return w, f
}

func TestFailedWriteIsFinalAndLeavesNoTornLine(t *testing.T) {
	t.Parallel()
	for _, takes := range []int{0, 1, 100} {
		w, f := openFaulty(t)
		f.takes, f.writeErr = takes, syscall.ENOSPC
		if _, err := w.Append(step); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Append = %v", err)
		}
		f.takes, f.writeErr = -1, nil // there is space again, but the writer does not know what else happened
		if _, err := w.Append(step); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("next Append = %v", err)
		}
		if err := w.Sync(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Sync = %v", err)
		}
		if n := len(w.Entries()); n != 1 {
			t.Errorf("%d entries in memory", n)
		}
		if err := w.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Close = %v", err)
		}
		w, err := Continue(w.path)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := w.Append(step); err != nil || e.Seq != 1 {
			t.Errorf("Append after Continue = %+v, %v", e, err)
		}
		w.Close()
	}
}

func TestTornLineThatCannotBeCutOff(t *testing.T) {
	t.Parallel()
	w, f := openFaulty(t)
	f.takes, f.writeErr, f.truncateErr = 7, io.ErrShortWrite, syscall.EROFS
	if _, err := w.Append(step); !errors.Is(err, io.ErrShortWrite) || !errors.Is(err, syscall.EROFS) {
		t.Errorf("Append = %v", err)
	}
	w.Close()
	log, err := ReadFile(w.path)
	if err != nil || log.TornBytes != 7 || len(log.Entries) != 1 {
		t.Errorf("ReadFile = %+v, %v", log, err)
	}
	if _, err := Continue(w.path); !errors.Is(err, ErrTorn) {
		t.Errorf("Continue = %v", err)
	}
}

func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	w, f := openFaulty(t)
	f.syncErr = syscall.EIO
	if err := w.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Sync = %v", err)
	}
	f.syncErr = nil
	if err := w.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("next Sync = %v", err)
	}
	if _, err := w.Append(step); !errors.Is(err, syscall.EIO) {
		t.Errorf("Append = %v", err)
	}
	if err := w.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close = %v", err)
	}
}

func TestSyncIsGrouped(t *testing.T) {
	t.Parallel()
	w, f := openFaulty(t)
	if err := errors.Join(w.Sync(), w.Sync()); err != nil || f.syncs.Load() != 1 {
		t.Errorf("two calls without an append between them: %d fsyncs, %v", f.syncs.Load(), err)
	}
	// Appends go on during an fsync; what they add is not covered by it.
	f.inSync = func() {
		if _, err := w.Append(step); err != nil {
			t.Error(err)
		}
	}
	if _, err := w.Append(step); err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	f.inSync = nil
	if w.synced >= w.size {
		t.Error("an entry that was appended during the fsync counts as durable")
	}
	if err := w.Close(); err != nil || w.synced != w.size || f.syncs.Load() != 3 {
		t.Errorf("Close = %v, %d of %d bytes durable, %d fsyncs", err, w.synced, w.size, f.syncs.Load())
	}
}

// A crash at any point of the repair leaves a file that is torn or repaired.
func TestRepairIsNeverSilent(t *testing.T) {
	t.Parallel()
	w, _ := openFaulty(t)
	if _, err := w.Append(step); err != nil {
		t.Fatal(err)
	}
	w.Close()
	whole, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, torn := range []int{1, 20, 600} {
		tail := make([]byte, torn)
		for i := range tail {
			tail[i] = 'x'
		}
		before := append(append([]byte{}, whole...), tail...)
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := CloseTorn(path, step.StartedAt)
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		repaired, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		line := repaired[len(whole):]
		for written := range len(line) + 1 { // of the new line, before the file is cut
			crashed := append([]byte{}, before...)
			crashed = append(crashed[:len(whole)], line[:written]...)
			if written < torn {
				crashed = append(crashed, tail[written:]...)
			}
			log, err := Read(bytes.NewReader(crashed))
			if err != nil {
				t.Fatalf("torn %d, written %d: %v", torn, written, err)
			}
			recorded := log.Entries[len(log.Entries)-1].Name == TornStep
			if log.TornBytes == 0 && !recorded {
				t.Fatalf("torn %d, written %d: the loss is hidden", torn, written)
			}
		}
	}
}

// TestCloseGivesTheLockBack although a copy of the file is open, as a process that
// was forked and has not executed its program yet has one.
func TestCloseGivesTheLockBack(t *testing.T) {
	t.Parallel()
	w, f := openFaulty(t)
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	w.file = lockedFile{f.File}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if next, err := Continue(w.path); err != nil {
		t.Error(err)
	} else if err := next.Close(); err != nil {
		t.Error(err)
	}
}
