package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"remit/proof/canon"
	"remit/proof/reason"
)

// TornStep is the step_id and the name of the entry that [CloseTorn] writes.
// Its inputs are {"torn_bytes":N,"torn_sha256":"sha256:…"}.
const TornStep = "journal.torn"

// Continue opens an existing journal for appending. It takes the lock first
// and then checks the whole chain. The error is an ErrTorn (journal_torn) when
// the last line is incomplete, session_busy when another writer is alive.
func Continue(path string) (*Writer, error) {
	w, f, torn, err := resume(path)
	if err != nil {
		return nil, err
	}
	if torn > 0 {
		f.Close()
		return nil, tornError(path, len(w.entries), torn)
	}
	if err := w.attach(f); err != nil {
		return nil, err
	}
	return w, nil
}

// CloseTorn is Continue for a journal whose last line is incomplete: it
// replaces that line by an entry that records its length and digest, at the
// time now. The repair is durable when it returns. On a journal that is not
// torn it does the same as Continue.
//
// At every moment of the repair the file either is torn or has the new entry;
// a crash in between can be repaired again and hides nothing.
func CloseTorn(path string, now time.Time) (*Writer, error) {
	w, f, torn, err := resume(path)
	if err != nil {
		return nil, err
	}
	if torn > 0 {
		if err := w.repair(f, torn, now); err != nil {
			f.Close()
			return nil, inFile(err, path)
		}
	}
	if err := w.attach(f); err != nil {
		return nil, err
	}
	return w, nil
}

// resume opens, locks and reads a journal. The Writer that it returns has no
// file yet.
func resume(path string) (w *Writer, f *os.File, torn int64, err error) {
	if f, err = openRegular(path, os.O_RDWR); err != nil {
		return nil, nil, 0, err
	}
	if w, torn, err = load(f, path); err != nil {
		f.Close()
		return nil, nil, 0, err
	}
	return w, f, torn, nil
}

func load(f *os.File, path string) (w *Writer, torn int64, err error) {
	if err := lock(f, path); err != nil {
		return nil, 0, err
	}
	log, err := Read(f)
	if err != nil {
		return nil, 0, inFile(err, path)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, fmt.Errorf("find the end of journal %q: %w", path, err)
	}
	if len(log.Entries) == 0 {
		e := reason.Errorf(reason.JournalSyntax, "journal has no whole entry to continue from")
		e.File = path
		return nil, 0, e.WithHint("nothing was recorded in it; start a new session")
	}
	last := log.Entries[len(log.Entries)-1]
	return &Writer{
		path:    path,
		chain:   chain{next: last.Seq + 1, session: last.SessionID, last: last.EntryHash},
		entries: log.Entries,
		size:    end - log.TornBytes,
	}, log.TornBytes, nil
}

// attach makes f the file of w, in append mode.
func (w *Writer) attach(f *os.File) error {
	if err := setAppend(f); err != nil {
		f.Close()
		return fmt.Errorf("open journal %q for appending: %w", w.path, err)
	}
	w.file, w.synced = lockedFile{f}, 0 // what a crashed writer left may not be durable yet
	return nil
}

// repair overwrites the torn line. It writes the new line over the old bytes
// before it cuts off what is left of them: cutting first would leave a moment
// in which the file looks whole and the loss is not recorded.
func (w *Writer) repair(f *os.File, torn int64, now time.Time) error {
	digest, n, err := canon.DigestReader(io.NewSectionReader(f, w.size, torn))
	if err != nil {
		return err
	}
	if n != torn {
		return errors.New("file changed while it was locked")
	}
	e, err := Step{
		StepID: TornStep, Name: TornStep, Status: Completed, StartedAt: now, CompletedAt: now,
		Inputs: map[string]any{"torn_bytes": torn, "torn_sha256": digest},
	}.entry()
	if err != nil {
		return err
	}
	if err := w.prepare(&e); err != nil {
		return err
	}
	reached(BeforeAppend, e.Seq, nil, nil)
	if _, err := f.WriteAt(w.line, w.size); err != nil {
		return fmt.Errorf("write over the torn line: %w", err)
	}
	reached(MidAppend, e.Seq, nil, nil)
	w.size += int64(len(w.line))
	if err := f.Truncate(w.size); err != nil {
		return fmt.Errorf("cut off the torn line: %w", err)
	}
	reached(AfterAppend, e.Seq, nil, nil)
	if err := f.Sync(); err != nil {
		return fmt.Errorf("make the repair durable: %w", err)
	}
	reached(AfterSync, e.Seq, nil, nil)
	w.chain.next, w.chain.last = w.chain.next+1, e.EntryHash
	w.entries = append(w.entries, e)
	return nil
}

func tornError(path string, entries int, torn int64) error {
	return &reason.Error{
		Code:    reason.JournalTorn,
		Message: fmt.Sprintf("%v: %d bytes after entry %d", ErrTorn, torn, entries-1),
		File:    path,
		Line:    entries + 1,
		Hint:    "a crash interrupted a write; resuming the session records the loss and goes on",
		Err:     ErrTorn,
	}
}
