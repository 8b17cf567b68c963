package journal

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Log is what a journal file holds.
type Log struct {
	Entries []Entry
	// TornBytes is the length of an incomplete last line, 0 if there is none.
	// Its content is not looked at: a caller that wants a finished journal
	// must treat any other value as a defect (journal_torn).
	TornBytes int64
}

// ErrTorn is the cause of the error that [Continue] returns for a journal
// whose last line is incomplete.
var ErrTorn = errors.New("last line is incomplete")

// Read reads a journal and checks all of it: the canonical bytes of every
// line, the key set, the values, the numbering, the session and the hash
// chain. Errors about the journal are *reason.Error with the line number.
func Read(r io.Reader) (*Log, error) {
	s := scanner{in: bufio.NewReaderSize(r, 64<<10)}
	for {
		line, err := s.line()
		switch {
		case err != nil:
			return nil, err
		case line == nil:
			return &Log{Entries: s.entries, TornBytes: s.torn}, nil
		}
		if err := s.entry(line); err != nil {
			return nil, err
		}
	}
}

// ReadFile reads the journal at path, which must be a regular file and not a
// symbolic link. Errors about the journal name path.
func ReadFile(path string) (*Log, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	log, err := Read(f)
	if err != nil {
		return nil, inFile(err, path)
	}
	return log, nil
}

// scanner cuts a stream into lines and checks them one by one.
type scanner struct {
	in      *bufio.Reader
	long    []byte // a line that does not fit the reader's buffer
	chain   chain
	entries []Entry
	bytes   int64
	torn    int64
	scratch []byte
}

// line returns the next line without LF, nil at the end. It is valid until
// the next call.
func (s *scanner) line() ([]byte, error) {
	s.long = s.long[:0]
	for {
		part, err := s.in.ReadSlice('\n')
		s.bytes += int64(len(part))
		switch {
		case len(s.long)+len(part) > MaxLine:
			return nil, s.chain.fail(reason.JournalSyntax, "line is longer than %d bytes", MaxLine)
		case s.bytes > MaxBytes:
			return nil, s.chain.fail(reason.JournalSyntax, "journal is longer than %d bytes", int64(MaxBytes))
		case err == nil && len(s.long) == 0:
			return part[:len(part)-1], nil
		}
		s.long = append(s.long, part...)
		switch {
		case err == nil:
			return s.long[:len(s.long)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			s.torn = int64(len(s.long))
			return nil, nil
		default:
			return nil, fmt.Errorf("read journal line %d: %w", s.chain.next+1, err)
		}
	}
}

// entry checks one line. Understanding the line and writing it again must give
// the same bytes; that covers missing keys, which decoding cannot see.
func (s *scanner) entry(line []byte) error {
	if s.chain.next == MaxEntries {
		return s.chain.fail(reason.JournalSyntax, "journal has more than %d entries", MaxEntries)
	}
	var e Entry
	if err := canon.Decode(line, &e); err != nil {
		return s.chain.fail(reason.JournalSyntax, "not an entry: %w", err)
	}
	var err error
	if s.scratch, err = e.appendLine(s.scratch[:0], true); err != nil || !bytes.Equal(s.scratch, line) {
		return s.chain.fail(reason.JournalSyntax, "entry does not have exactly the keys of version %d", Version)
	}
	if err := s.chain.accept(&e); err != nil {
		return err
	}
	s.entries = append(s.entries, e)
	return nil
}

// inFile names the file in an error about a journal.
func inFile(err error, path string) error {
	if e, ok := errors.AsType[*reason.Error](err); ok && e.File == "" {
		e.File = path
		return err
	}
	return fmt.Errorf("journal %q: %w", path, err)
}

// regular returns f if it is a regular file and closes it if not.
func regular(f *os.File, path string) (*os.File, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("open journal: %w", err)
	case !info.Mode().IsRegular():
		f.Close()
		return nil, notRegular(path)
	}
	return f, nil
}

func notRegular(path string) error {
	return &reason.Error{Code: reason.JournalSyntax, Message: "not a regular file", File: path}
}

// chain is the state that one entry hands to the next.
type chain struct {
	next    int64  // seq that is due
	session string // of entry 0
	last    string // entry_hash of the entry before
	scratch []byte
}

// accept checks that e is valid and is the entry that is due, and steps on.
func (c *chain) accept(e *Entry) error {
	if problem := e.problem(); problem != "" {
		return c.fail(reason.JournalSyntax, "%s", problem)
	}
	switch {
	case e.Seq != c.next:
		return c.fail(reason.JournalChain, "seq is %d, not %d", e.Seq, c.next)
	case c.next > 0 && e.SessionID != c.session:
		return c.fail(reason.JournalChain, "session_id is %q, not %q as before", e.SessionID, c.session)
	case c.next == 0 && e.PrevHash != nil:
		return c.fail(reason.JournalChain, "prev_hash of entry 0 is not null")
	case c.next > 0 && e.PrevHash == nil:
		return c.fail(reason.JournalChain, "prev_hash is null, not %q", c.last)
	case c.next > 0 && *e.PrevHash != c.last:
		return c.fail(reason.JournalChain, "prev_hash is %+.80q, not %q", *e.PrevHash, c.last)
	}
	hash, err := c.hash(e)
	if err != nil {
		return err
	}
	if e.EntryHash != hash {
		return c.fail(reason.JournalChain, "entry_hash is %+.80q, but the entry hashes to %q", e.EntryHash, hash)
	}
	c.next, c.session, c.last = c.next+1, e.SessionID, hash
	return nil
}

// link fills in what ties e to the entries before it.
func (c *chain) link(e *Entry) error {
	e.V, e.Seq, e.PrevHash = Version, c.next, nil
	if c.next > 0 {
		prev := c.last
		e.PrevHash = &prev
	}
	hash, err := c.hash(e)
	e.EntryHash = hash
	return err
}

// hash returns what the entry_hash of e has to be.
func (c *chain) hash(e *Entry) (string, error) {
	var err error
	if c.scratch, err = e.appendLine(c.scratch[:0], false); err != nil {
		return "", c.fail(reason.JournalSyntax, "%w", err)
	}
	return canon.DigestText(sha256.Sum256(c.scratch)), nil
}

// Check reports whether a single entry is valid and has the hash that it names.
// Whether it follows the one before it is not looked at.
func (e *Entry) Check() error {
	var c chain
	if problem := e.problem(); problem != "" {
		return c.fail(reason.JournalSyntax, "%s", problem)
	}
	hash, err := c.hash(e)
	if err == nil && hash != e.EntryHash {
		err = c.fail(reason.JournalChain, "entry_hash is %+.80q, but the entry hashes to %q", e.EntryHash, hash)
	}
	return err
}

// fail reports a defect of the entry that is due.
func (c *chain) fail(code reason.Code, format string, args ...any) *reason.Error {
	e := reason.Errorf(code, format, args...)
	e.Line = int(c.next) + 1
	return e
}
