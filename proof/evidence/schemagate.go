package evidence

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"remit/proof/attest"
	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/reason"
)

// Gate is one audit gate that looks at the meaning of the files. No finding
// means that it passed, unless State says that it was skipped, and why.
type Gate struct {
	Name  string
	Check func(ctx context.Context, files fs.FS) []reason.Finding
	State func(ctx context.Context, files fs.FS) (found []reason.Finding, skipped bool, why string, by []attest.Vouched)
}

// Gates returns the audit gates that need to know what evidence means, in the
// order in which an audit runs them. They know no signer: [Trust] does.
func Gates() []Gate { return Trust{}.Gates() }

// Gates are the gates of an auditor who trusts these signers.
func (t Trust) Gates() []Gate {
	return []Gate{
		{Name: "schema", Check: CheckSchemas},
		{Name: "journal.chain", Check: CheckJournal},
		{Name: "projections", Check: CheckProjections},
		{Name: "signatures", Check: t.Check, State: t.State},
	}
}

const (
	// maxLineBytes bounds one line of a JSONL file: the largest journal line
	// and what a projection puts around it.
	maxLineBytes = 2 * journal.MaxLine
	// maxFileFindings ends the reading of a file that is wrong all over.
	maxFileFindings = 50
)

// CheckSchemas is the audit gate schema: every document of a session is
// present, is its own canonical form with one LF behind it, and obeys its
// schema; the digests that documents state of themselves and of other files
// are right; and no artifact is older than the run. It looks at each document
// by itself: whether they agree with the journal is the projections gate.
func CheckSchemas(ctx context.Context, files fs.FS) []reason.Finding {
	c := &schemaCheck{ctx: ctx, files: files, valid: map[string][]byte{}}
	for _, d := range documents() {
		if d.lines {
			c.lines(d)
		} else {
			c.document(d)
		}
	}
	for _, name := range texts() {
		c.present(name)
	}
	c.proofs()
	c.receiptDigest()
	c.report()
	return c.found
}

// schemaCheck is one run of the gate.
type schemaCheck struct {
	ctx   context.Context
	files fs.FS
	found []reason.Finding

	stopped bool              // the audit was cancelled, and that is reported
	valid   map[string][]byte // documents that may be looked into, without LF
}

func (c *schemaCheck) add(code reason.Code, path string, line int, detail string) {
	c.found = append(c.found, reason.Finding{Code: code, Path: path, Line: line, Detail: detail})
}

func (c *schemaCheck) fail(path string, err error) {
	c.found = append(c.found, documentFinding(path, err))
}

// cancelled reports, once, that the gate could not be checked to its end.
func (c *schemaCheck) cancelled(path string) bool {
	if c.ctx.Err() == nil {
		return false
	}
	if !c.stopped {
		c.add(reason.GateUnavailable, path, 0, c.ctx.Err().Error())
	}
	c.stopped = true
	return true
}

func (c *schemaCheck) present(name string) {
	f, err := c.files.Open(name)
	if err != nil {
		c.fail(name, err)
		return
	}
	_ = f.Close() // nothing was read
}

// document checks a file that is one JSON value and one LF.
func (c *schemaCheck) document(d document) {
	if c.cancelled(d.file) {
		return
	}
	f, err := c.files.Open(d.file)
	if err != nil {
		c.fail(d.file, err)
		return
	}
	defer f.Close()
	b, err := readAtMost(f, canon.MaxBytes+1)
	if err != nil {
		c.fail(d.file, err)
		return
	}
	text, ended := bytes.CutSuffix(b, []byte("\n"))
	if !ended {
		c.add(reason.NotCanonical, d.file, 0, "does not end in LF")
		return
	}
	if checkText(d.schema, text, func(code reason.Code, detail string) { c.add(code, d.file, 1, detail) }) {
		c.valid[d.file] = text
	}
}

// lines checks a file of one JSON object a line.
func (c *schemaCheck) lines(d document) {
	if c.cancelled(d.file) {
		return
	}
	f, err := c.files.Open(d.file)
	if d.absent && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.fail(d.file, err)
		return
	}
	defer f.Close()
	limit := len(c.found) + maxFileFindings
	b := batch{c: c, d: d}
	err = eachLine(f, func(line []byte) bool {
		b.add(line)
		return !b.full() || b.check(limit)
	})
	b.check(limit)
	switch {
	case errors.Is(err, errUnended) && d.file == JournalFile:
		// A torn journal is the matter of the gate journal.chain.
	case err != nil:
		finding := documentFinding(d.file, err)
		finding.Line = b.read + 1
		c.found = append(c.found, finding)
	case b.read == 0:
		c.add(reason.SchemaInvalid, d.file, 0, "has no lines")
	}
}

// errUnended is the error of eachLine for a last line without LF.
var errUnended = &reason.Error{Code: reason.NotCanonical, Message: "line does not end in LF"}

// eachLine calls visit with every line, without its LF; the bytes are valid
// during the call. It stops early when visit returns false.
func eachLine(r io.Reader, visit func([]byte) bool) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(long)+len(part) > maxLineBytes {
			return reason.Errorf(reason.SchemaInvalid, "line is longer than %d bytes", maxLineBytes)
		}
		line := part
		if len(long) > 0 || errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			line = long
		}
		switch {
		case err == nil:
			if !visit(line[:len(line)-1]) {
				return nil
			}
			long = long[:0]
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return errUnended
		default:
			return fmt.Errorf("reading: %w", err)
		}
	}
}

// proofs checks the files below proofs/. A run that ended early may have none.
func (c *schemaCheck) proofs() {
	entries, err := fs.ReadDir(c.files, ProofsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.fail(ProofsDir, err)
		return
	}
	for _, e := range entries {
		if !e.IsDir() {
			c.document(document{file: ProofsDir + "/" + e.Name(), schema: proofSchema})
		}
	}
}
