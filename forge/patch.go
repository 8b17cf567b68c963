package forge

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"time"

	"remit/proof/evidence"
)

// Patch writes the change of the session in dir as a mail that git am takes.
func Patch(w io.Writer, dir string) error {
	c, err := open(dir)
	if err != nil {
		return err
	}
	return c.mail(w, string(c.receipt.BaselineCommit), hasCarriageReturn)
}

// completed is when the run of the change ended.
func (c *change) completed() (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, c.receipt.CompletedAt)
	if err != nil {
		return at, fmt.Errorf("reading the receipt: %w", err)
	}
	return at, nil
}

// mail writes the mail of a change. coded says of the patch whether its bytes need to be
// written as base64.
func (c *change) mail(w io.Writer, commit string, coded func(io.ReadSeeker) (bool, error)) error {
	at, err := c.completed()
	if err != nil {
		return err
	}
	patch, err := os.Open(filepath.Join(c.dir, evidence.PatchFile))
	if err != nil {
		return fmt.Errorf("reading the patch: %w", err)
	}
	defer patch.Close()
	// A mail's line ends are not its own: git am takes carriage returns out of a
	// plain body, and what it then commits is not what was verified.
	encoded, err := coded(patch)
	if err != nil {
		return fmt.Errorf("reading the patch: %w", err)
	}
	encoding := "8bit"
	if encoded {
		encoding = "base64"
	}
	// The first line is the mark by which git knows a mail patch; its date is
	// the constant that git format-patch writes.
	_, err = fmt.Fprintf(w, "From %s Mon Sep 17 00:00:00 2001\nFrom: %s\nDate: %s\nSubject: [PATCH] %s\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: %s\n\n",
		commit, evidence.CommitAuthor, at.UTC().Format(time.RFC1123Z), mime.QEncoding.Encode("UTF-8", evidence.Subject(c.title)), encoding)
	if err != nil {
		return err
	}
	if !encoded {
		return writeBody(w, c, patch)
	}
	lines := &lineBreaker{w: w}
	body := base64.NewEncoder(base64.StdEncoding, lines)
	return errors.Join(writeBody(body, c, patch), body.Close(), lines.end())
}

// writeBody writes the message, the patch and the signature line.
func writeBody(w io.Writer, c *change, patch io.Reader) error {
	if _, err := fmt.Fprintf(w, "%s---\n\n", c.body()); err != nil {
		return err
	}
	if _, err := io.Copy(w, patch); err != nil {
		return fmt.Errorf("copying the patch: %w", err)
	}
	_, err := io.WriteString(w, "-- \nremit\n")
	return err
}

// hasCarriageReturn looks through a file and goes back to its beginning.
func hasCarriageReturn(f io.ReadSeeker) (bool, error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		if bytes.IndexByte(buf[:n], '\r') >= 0 {
			_, err = f.Seek(0, io.SeekStart)
			return true, err
		}
		if errors.Is(err, io.EOF) {
			_, err = f.Seek(0, io.SeekStart)
			return false, err
		}
		if err != nil {
			return false, err
		}
	}
}

// lineBreaker ends a line after every 76 bytes, as mail has it.
type lineBreaker struct {
	w  io.Writer
	at int
}

const mailLine = 76

func (l *lineBreaker) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(mailLine-l.at, len(p))
		if _, err := l.w.Write(p[:n]); err != nil {
			return written, err
		}
		written, p = written+n, p[n:]
		if l.at += n; l.at == mailLine {
			if err := l.end(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

func (l *lineBreaker) end() error {
	if l.at == 0 {
		return nil
	}
	l.at = 0
	_, err := io.WriteString(l.w, "\n")
	return err
}
