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

// The flags of a file.
const (
	flagExecutable = 1
	flagOld        = 2
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
	if !ValidPath(c.Path) {
		return fmt.Errorf("encode: invalid path %q", c.Path)
	}
	e.count++
	var err error
	switch c.Kind {
	case File:
		err = e.file(c)
	case Symlink:
		err = e.record(text(text([]byte{recordSymlink}, c.Path), c.Target))
	case Delete:
		err = e.record(text([]byte{recordDelete}, c.Path))
	case Special:
		err = e.record(text(text([]byte{recordSpecial}, c.Path), c.Note))
	default:
		err = fmt.Errorf("unknown kind %q", c.Kind)
	}
	if err != nil {
		return fmt.Errorf("encode %q: %w", c.Path, err)
	}
	return nil
}

// Close writes the end record and flushes; it does not close the writer.
func (e *Encoder) Close() error {
	return e.finish(binary.AppendUvarint([]byte{recordEnd}, e.count))
}

// Fail ends the stream with the reason why there is nothing more to come.
func (e *Encoder) Fail(cause error) error {
	code := reason.CodeOf(cause)
	if code == "" {
		code = reason.InfrastructureFault
	}
	message := cause.Error()
	return e.finish(text(text([]byte{recordFailure}, string(code)), message[:min(len(message), maxMessage)]))
}

func (e *Encoder) finish(last []byte) error {
	if err := e.record(last); err != nil {
		return err
	}
	return e.w.Flush()
}

// record writes the bytes of a record, after the magic line if it is the first.
func (e *Encoder) record(b []byte) error {
	if !e.begun {
		e.begun = true
		if _, err := e.w.WriteString(magic); err != nil {
			return err
		}
	}
	_, err := e.w.Write(b)
	return err
}

func (e *Encoder) file(c Change) error {
	if c.Open == nil || c.Size < 0 || c.Size > MaxFileBytes {
		return fmt.Errorf("no content or a size of %d bytes", c.Size)
	}
	r, err := c.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	head := []byte{recordFile, 0}
	if c.Executable {
		head[1] |= flagExecutable
	}
	if c.Old {
		head[1] |= flagOld
	}
	if err := e.record(binary.AppendUvarint(text(head, c.Path), uint64(c.Size))); err != nil {
		return err
	}
	// A file that grew is cut at its announced size; one that shrank leaves a
	// torn stream, which no decoder takes.
	_, err = io.CopyN(e.w, r, c.Size)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// text appends a string of the format.
func text(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
