package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Writer appends to one journal and is its only writer while it is open. Its
// methods may be called from several goroutines at once.
type Writer struct {
	path string
	file storage

	mu      sync.Mutex // guards what follows
	chain   chain
	entries []Entry
	size    int64 // of the file: whole lines only
	line    []byte
	failed  error // sticky: why nothing can be written any more
	closed  bool

	syncing sync.Mutex // held during fsync, so that appends go on meanwhile
	synced  int64      // how much of size is durable; guarded by syncing
}

// storage is what a Writer needs of its file; tests make it fail.
type storage interface {
	Write(p []byte) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// lockedFile is a file whose lock ends when it is closed. The lock is given back
// first: a process that another goroutine forks at this moment has a copy of the
// file until it executes its program, and the copy alone would keep the lock.
type lockedFile struct{ *os.File }

func (f lockedFile) Close() error { return errors.Join(unlock(f.File), f.File.Close()) }

// Create makes a new journal at path for a session. The file must not exist.
// When Create returns, the empty file is locked and its name is durable.
func Create(path, sessionID string) (*Writer, error) {
	if !validSessionID(sessionID) {
		return nil, reason.Errorf(reason.JournalSyntax, "session id %+.80q is not %s", sessionID, sessionIDForm)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create journal: %w", err)
	}
	if err := lockNew(f, path); err != nil {
		f.Close()
		return nil, errors.Join(err, os.Remove(path)) // O_EXCL: it is ours, and empty
	}
	return &Writer{path: path, file: lockedFile{f}, chain: chain{session: sessionID}}, nil
}

func lockNew(f *os.File, path string) error {
	if err := lock(f, path); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("create journal: %w", err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("create journal: open its directory: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("create journal: make its name durable: %w", err)
	}
	return nil
}

// Append adds an entry. It is in the file when Append returns, and durable
// after the next [Writer.Sync]. A step that cannot be an entry is refused
// (not_canonical, journal_syntax) without harm to the journal; after a failed
// write, every later call returns that first error.
func (w *Writer) Append(s Step) (Entry, error) {
	e, err := s.entry()
	if err != nil {
		return Entry{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return Entry{}, err
	}
	if err := w.prepare(&e); err != nil {
		return Entry{}, inFile(err, w.path)
	}
	if err := w.write(); err != nil {
		return Entry{}, err
	}
	w.chain.next, w.chain.last = w.chain.next+1, e.EntryHash
	w.entries = append(w.entries, e)
	return e, nil
}

// prepare completes e and leaves its line in w.line.
func (w *Writer) prepare(e *Entry) error {
	e.SessionID = w.chain.session
	if err := w.chain.link(e); err != nil {
		return err
	}
	if problem := e.problem(); problem != "" {
		return w.chain.fail(reason.JournalSyntax, "%s", problem)
	}
	var err error
	if w.line, err = e.appendLine(w.line[:0], true); err != nil {
		return w.chain.fail(reason.JournalSyntax, "%w", err)
	}
	w.line = append(w.line, '\n')
	switch {
	case len(w.line) > MaxLine:
		return w.chain.fail(reason.JournalSyntax, "line has %d bytes, more than %d", len(w.line), MaxLine)
	case w.chain.next == MaxEntries, w.size+int64(len(w.line)) > MaxBytes:
		return w.chain.fail(reason.JournalSyntax, "journal is full (%d entries, %d bytes)", w.chain.next, w.size)
	}
	// One level of nesting is added around inputs and outputs: what Read
	// would refuse must not be written.
	if err := canon.Check(w.line[:len(w.line)-1]); err != nil {
		return w.chain.fail(reason.JournalSyntax, "%w", err)
	}
	return nil
}

// write puts w.line into the file. os.File.Write makes one write(2) of it and
// goes on only if the kernel took less than all.
func (w *Writer) write() error {
	reached(BeforeAppend, w.chain.next, w.file, w.line)
	n, err := w.file.Write(w.line)
	if err == nil {
		w.size += int64(len(w.line))
		reached(AfterAppend, w.chain.next, w.file, nil)
		return nil
	}
	w.failed = fmt.Errorf("append to journal %q: %w", w.path, err)
	if n > 0 {
		if err := w.file.Truncate(w.size); err != nil {
			w.failed = fmt.Errorf("%w; the incomplete line stays: %w", w.failed, err)
		}
	}
	return w.failed
}

// usable returns why the Writer cannot be used, nil if it can.
func (w *Writer) usable() error {
	if w.failed != nil {
		return w.failed
	}
	if w.closed {
		return fmt.Errorf("journal %q: %w", w.path, os.ErrClosed)
	}
	return nil
}

// Sync makes everything that was appended before the call durable. Calls that
// wait for each other share one fsync(2). A failed fsync is final: the kernel
// may have dropped the data and would report success the next time.
func (w *Writer) Sync() error {
	w.mu.Lock()
	err := w.usable()
	wanted := w.size
	w.mu.Unlock()
	if err != nil {
		return err
	}
	w.syncing.Lock()
	defer w.syncing.Unlock()
	return w.flush(wanted)
}

// flush makes at least the first wanted bytes durable. The caller holds
// w.syncing, and not w.mu: appends go on during the fsync.
func (w *Writer) flush(wanted int64) error {
	if w.synced >= wanted {
		return nil
	}
	w.mu.Lock()
	failed, covered, entries := w.failed, w.size, w.chain.next
	w.mu.Unlock()
	if failed != nil {
		return failed
	}
	if err := w.file.Sync(); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failed = fmt.Errorf("make journal %q durable: %w", w.path, err)
		return w.failed
	}
	w.synced = covered
	reached(AfterSync, entries-1, w.file, nil)
	return nil
}

// Close refuses further appends, makes the journal durable and lets go of it.
// The result is nil only if everything that was ever appended is durable.
// Later calls do nothing and return nil.
func (w *Writer) Close() error {
	w.mu.Lock()
	first, failed, wanted := !w.closed, w.failed, w.size
	w.closed = true
	w.mu.Unlock()
	if !first {
		return nil
	}
	w.syncing.Lock() // waits for an fsync that is under way
	defer w.syncing.Unlock()
	if failed == nil {
		failed = w.flush(wanted)
	}
	if err := w.file.Close(); err != nil && failed == nil {
		failed = fmt.Errorf("close journal %q: %w", w.path, err)
	}
	return failed
}

// Entries returns all entries so far, also those that [Continue] has read.
func (w *Writer) Entries() []Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.entries)
}

// Place is where, relative to one entry, a process that ends leaves another state behind.
type Place string

// The places.
const (
	BeforeAppend Place = "before" // nothing of the entry is in the file
	MidAppend    Place = "torn"   // half of its line is; in a repair: the new line, and the rest of the torn one
	AfterAppend  Place = "after"  // all of it is, and perhaps not durable
	AfterSync    Place = "synced" // it is durable, and so are those in front of it
)

// Reached is called at each place. The program that is shipped leaves it nil; tests build
// one that ends its process there. In front of a write, file gets line next.
var Reached func(place Place, entry int64, file io.Writer, line []byte)

func reached(place Place, entry int64, file io.Writer, line []byte) {
	if Reached != nil {
		Reached(place, entry, file, line)
	}
}
