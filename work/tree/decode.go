package tree

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"remit/proof/reason"
)

// ErrStream means that a stream of changes breaks the format.
var ErrStream = errors.New("malformed stream of changes")

// Decoder reads a stream of changes strictly and never reads past its end
// record, so that something else can follow on the same connection.
type Decoder struct {
	r       *bufio.Reader
	budget  *budget
	seen    map[string]struct{}
	content *io.LimitedReader // of the file that Next returned last
	begun   bool
	err     error
}

// NewDecoder returns a Decoder that reads from r.
func NewDecoder(r *bufio.Reader) *Decoder {
	return NewDecoderOf(r, 0)
}

// NewDecoderOf returns a Decoder that takes up to so many bytes of content; 0
// is MaxTotalBytes.
func NewDecoderOf(r *bufio.Reader, bytes int64) *Decoder {
	return &Decoder{r: r, budget: budgetOf(bytes), seen: map[string]struct{}{}}
}

// Next returns the next change, io.EOF after the end record, or an error that
// wraps ErrStream, an I/O error or a *reason.Error for a bound that was hit.
// What was not read of the content before is skipped.
func (d *Decoder) Next() (Change, error) {
	if d.err != nil {
		return Change{}, d.err
	}
	c, err := d.next()
	if errors.Is(err, errShort) {
		err = fmt.Errorf("%w: %w", ErrStream, io.ErrUnexpectedEOF)
	}
	d.err = err
	return c, err
}

// errShort keeps a stream that stops early apart from io.EOF, its proper end.
var errShort = errors.New("short stream")

func (d *Decoder) next() (Change, error) {
	if err := d.skip(); err != nil {
		return Change{}, err
	}
	kind, err := d.byte()
	if err != nil {
		return Change{}, err
	}
	switch kind {
	case recordEnd:
		return Change{}, d.end()
	case recordFailure:
		return Change{}, d.failure()
	}
	if err := d.budget.entry(); err != nil {
		return Change{}, err
	}
	switch kind {
	case recordFile:
		return d.file()
	case recordSymlink:
		return d.pair(Symlink, maxTarget)
	case recordDelete:
		return d.pair(Delete, -1)
	case recordSpecial:
		return d.pair(Special, maxNote)
	}
	return Change{}, fmt.Errorf("%w: unknown record %q", ErrStream, kind)
}

// skip reads the magic line or the rest of the content before.
func (d *Decoder) skip() error {
	if !d.begun {
		d.begun = true
		got := make([]byte, len(magic))
		if _, err := io.ReadFull(d.r, got); err != nil {
			return short(err)
		}
		if string(got) != magic {
			return fmt.Errorf("%w: no magic line", ErrStream)
		}
	}
	if d.content == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, d.content)
	if err == nil && d.content.N > 0 {
		err = errShort
	}
	d.content = nil
	return err
}

func (d *Decoder) end() error {
	count, err := d.number(MaxEntries)
	if err != nil {
		return err
	}
	if count != int64(len(d.seen)) {
		return fmt.Errorf("%w: %d records announced, %d read", ErrStream, count, len(d.seen))
	}
	return io.EOF
}

// failure returns the error that the writer met.
func (d *Decoder) failure() error {
	code, err := d.text(maxNote)
	if err != nil {
		return err
	}
	message, err := d.text(maxMessage)
	if err != nil {
		return err
	}
	if _, known := reason.Lookup(reason.Code(code)); !known {
		return fmt.Errorf("%w: unknown reason code %q", ErrStream, code)
	}
	return &reason.Error{Code: reason.Code(code), Message: message}
}

func (d *Decoder) file() (Change, error) {
	flags, err := d.byte()
	if err != nil {
		return Change{}, err
	}
	if flags > flagExecutable|flagOld {
		return Change{}, fmt.Errorf("%w: unknown flags %#x", ErrStream, flags)
	}
	path, err := d.path()
	if err != nil {
		return Change{}, err
	}
	size, err := d.number(MaxFileBytes)
	if err != nil {
		return Change{}, err
	}
	if err := d.budget.content(size); err != nil {
		return Change{}, err
	}
	content := &io.LimitedReader{R: d.r, N: size}
	d.content = content
	open := func() (io.ReadCloser, error) {
		if d.content != content {
			return nil, fmt.Errorf("content of %q is gone: the stream went on", path)
		}
		return io.NopCloser(&wholeReader{content}), nil
	}
	return Change{Path: path, Kind: File, Executable: flags&flagExecutable != 0, Old: flags&flagOld != 0, Size: size, Open: open}, nil
}

// wholeReader turns an end of the stream inside of a file into an error.
type wholeReader struct{ *io.LimitedReader }

func (r *wholeReader) Read(p []byte) (int, error) {
	n, err := r.LimitedReader.Read(p)
	if err == io.EOF && r.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// pair reads a record of a path and, unless limit is negative, one more string.
func (d *Decoder) pair(kind Kind, limit int64) (Change, error) {
	path, err := d.path()
	if err != nil {
		return Change{}, err
	}
	c := Change{Path: path, Kind: kind}
	if limit < 0 {
		return c, nil
	}
	text, err := d.text(limit)
	if kind == Symlink {
		c.Target, c.Size = text, int64(len(text))
	} else {
		c.Note = text
	}
	return c, err
}

func (d *Decoder) path() (string, error) {
	path, err := d.text(MaxPathBytes)
	if err != nil {
		return "", err
	}
	if !ValidPath(path) {
		return "", fmt.Errorf("%w: invalid path %q", ErrStream, path)
	}
	if _, twice := d.seen[path]; twice {
		return "", fmt.Errorf("%w: path %q twice", ErrStream, path)
	}
	d.seen[path] = struct{}{}
	return path, nil
}

func (d *Decoder) text(limit int64) (string, error) {
	n, err := d.number(limit)
	if err != nil {
		return "", err
	}
	buf := make([]byte, n)
	if _, err := io.ReadFull(d.r, buf); err != nil {
		return "", short(err)
	}
	return string(buf), nil
}

func (d *Decoder) number(limit int64) (int64, error) {
	n, err := binary.ReadUvarint(d.r)
	if err = short(err); err != nil && !errors.Is(err, errShort) {
		err = fmt.Errorf("%w: %w", ErrStream, err) // overflow has no error value to ask for
	}
	if err != nil {
		return 0, err
	}
	if n > uint64(limit) {
		return 0, fmt.Errorf("%w: %d is above the bound of %d", ErrStream, n, limit)
	}
	return int64(n), nil
}

func (d *Decoder) byte() (byte, error) {
	b, err := d.r.ReadByte()
	return b, short(err)
}

func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errShort
	}
	return err
}
