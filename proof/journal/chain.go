package journal

import (
	"crypto/sha256"

	"remit/proof/canon"
	"remit/proof/reason"
)

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
