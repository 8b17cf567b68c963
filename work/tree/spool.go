package tree

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// Spool keeps the content of changed files, one after the other, in a single
// file. That is cheaper than a file each, and no name chosen by the hostile
// side ever reaches the file system.
type Spool struct {
	file *os.File
	path string
	size int64
}

// NewSpool creates the file in dir, readable by the owner only.
func NewSpool(dir string) (*Spool, error) {
	f, err := os.CreateTemp(dir, "changes-*.spool")
	if err != nil {
		return nil, fmt.Errorf("create spool: %w", err)
	}
	return &Spool{file: f, path: f.Name()}, nil
}

// Add copies the content of c and returns c with an Open that reads the copy.
// Changes without content are returned as they are.
func (s *Spool) Add(c Change) (Change, error) {
	if c.Kind != File {
		return c, nil
	}
	r, err := c.Open()
	if err != nil {
		return Change{}, fmt.Errorf("spool %q: %w", c.Path, err)
	}
	defer r.Close()
	n, err := io.Copy(s.file, io.LimitReader(r, c.Size+1))
	if err == nil && n != c.Size {
		err = errSwapped
	}
	if err != nil {
		return Change{}, fmt.Errorf("spool %q: %w", c.Path, err)
	}
	c.Open = section(s.path, s.size, n)
	s.size += n
	return c, nil
}

// Close ends writing. The file stays until its directory is removed.
func (s *Spool) Close() error { return s.file.Close() }

// Discard closes and removes the file.
func (s *Spool) Discard() {
	s.file.Close()
	_ = os.Remove(s.path) // its directory goes anyway
}

// Incomplete reports changes that were not all read: the disk was full, the
// stream was cut off, or a bound was hit. What was read is no change of
// anything, since it is not known what is missing; only its number is reported.
type Incomplete struct {
	Seen int // changes that were read whole
	Err  error
}

func (e *Incomplete) Error() string {
	return fmt.Sprintf("after %d changed path(s): %v", e.Seen, e.Err)
}

// Unwrap returns the cause.
func (e *Incomplete) Unwrap() error { return e.Err }

// ReadInto decodes a whole stream, keeping contents in s. Its error is an
// Incomplete.
func (s *Spool) ReadInto(r *bufio.Reader) ([]Change, error) {
	d := NewDecoder(r)
	var changes []Change
	for {
		c, err := d.Next()
		if errors.Is(err, io.EOF) {
			return changes, nil
		}
		if err == nil {
			c, err = s.Add(c)
		}
		if err != nil {
			return nil, &Incomplete{len(changes), err}
		}
		changes = append(changes, c)
	}
}

type sectionFile struct {
	*io.SectionReader
	io.Closer
}

func section(path string, offset, size int64) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return sectionFile{io.NewSectionReader(f, offset, size), f}, nil
	}
}
