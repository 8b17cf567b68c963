package tree

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"remit/proof/reason"
)

const magic = "remit tree 1\n"

// The letters that start a record.
const (
	recordFile    = 'F'
	recordSymlink = 'L'
	recordDelete  = 'D'
	recordSpecial = 'S'
	recordEnd     = 'E'
	recordFailure = 'X'
)

// Encoder writes changes as a stream, see the package comment.
type Encoder struct {
	w     *bufio.Writer
	count uint64
	begun bool
}

// NewEncoder returns an Encoder that writes to w.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{w: bufio.NewWriterSize(w, 64<<10)} }

// Encode writes one change with its content. After an error the stream is unusable.
func (e *Encoder) Encode(c Change) error {
	e.begin()
	if !ValidPath(c.Path) {
		return fmt.Errorf("encode: invalid path %q", c.Path)
	}
	e.count++
	switch c.Kind {
	case File:
		return e.file(c)
	case Symlink:
		e.w.WriteByte(recordSymlink)
		e.text(c.Path)
		return e.text(c.Target)
	case Delete:
		e.w.WriteByte(recordDelete)
		return e.text(c.Path)
	case Special:
		e.w.WriteByte(recordSpecial)
		e.text(c.Path)
		return e.text(c.Note)
	}
	return fmt.Errorf("encode %q: unknown kind %q", c.Path, c.Kind)
}

// Close writes the end record and flushes; it does not close the writer.
func (e *Encoder) Close() error {
	e.begin()
	e.w.WriteByte(recordEnd)
	e.number(e.count)
	return e.w.Flush()
}

// Fail ends the stream with the reason why there is nothing more to come.
func (e *Encoder) Fail(cause error) error {
	e.begin()
	code := reason.CodeOf(cause)
	if code == "" {
		code = reason.InfrastructureFault
	}
	message := cause.Error()
	e.w.WriteByte(recordFailure)
	e.text(string(code))
	e.text(message[:min(len(message), maxMessage)])
	return e.w.Flush()
}

func (e *Encoder) begin() {
	if !e.begun {
		e.w.WriteString(magic)
		e.begun = true
	}
}

func (e *Encoder) file(c Change) error {
	if c.Open == nil || c.Size < 0 || c.Size > MaxFileBytes {
		return fmt.Errorf("encode %q: no content or a size of %d bytes", c.Path, c.Size)
	}
	r, err := c.Open()
	if err != nil {
		return fmt.Errorf("encode %q: %w", c.Path, err)
	}
	defer r.Close()
	e.w.WriteByte(recordFile)
	if c.Executable {
		e.w.WriteByte(1)
	} else {
		e.w.WriteByte(0)
	}
	e.text(c.Path)
	e.number(uint64(c.Size))
	// A file that grew is cut at its announced size; one that shrank leaves a
	// torn stream, which no decoder takes.
	if _, err := io.CopyN(e.w, r, c.Size); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("encode %q: %w", c.Path, err)
	}
	return nil
}

// bufio.Writer keeps its first error, so only the last write of a record is checked.

func (e *Encoder) text(s string) error {
	e.number(uint64(len(s)))
	_, err := e.w.WriteString(s)
	return err
}

func (e *Encoder) number(n uint64) {
	var buf [binary.MaxVarintLen64]byte
	e.w.Write(buf[:binary.PutUvarint(buf[:], n)])
}
