package provider

import (
	"bytes"
	"fmt"
	"hash"
	"io"
	"os"
	"unicode/utf8"

	"remit/proof/canon"
	"remit/work/sandbox"
)

// maxPreview bounds what a response shows of a stream, in bytes.
const maxPreview = 2048

// stream is one output of one command: all of it on disk, hashed, and its
// beginning for the preview.
type stream struct {
	file  *os.File
	hash  hash.Hash
	head  bytes.Buffer
	bytes int64
	note  string // of the daemon, at its end
	err   error
}

// Write implements io.Writer.
func (s *stream) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.file.Write(b)
	s.hash.Write(b[:n])
	s.bytes += int64(n)
	if room := maxPreview - s.head.Len(); room > 0 {
		s.head.Write(b[:min(n, room)])
	}
	s.err = err
	return n, err
}

// digest is the hash of everything written.
func (s *stream) digest() string { return canon.DigestSum(s.hash) }

// explain ends a stream with a line of the daemon, which a preview always shows.
func (s *stream) explain(line string) {
	s.note = "remit: " + line + "\n"
	_, _ = io.WriteString(s, s.note) // a failure stays in s.err
}

// preview is nil for an empty stream. It is cut at a rune boundary; what is no
// text is shown as such.
func (s *stream) preview() *string {
	b, end := s.head.Bytes(), ""
	if len(b) == 0 {
		return nil
	}
	if !bytes.HasSuffix(b, []byte(s.note)) {
		end = "\n" + s.note
		b = b[:min(len(b), maxPreview-len(end))]
	}
	for i := 0; i < utf8.UTFMax-1 && len(b) > 0; i++ {
		if r, size := utf8.DecodeLastRune(b); r != utf8.RuneError || size != 1 {
			break
		}
		b = b[:len(b)-1]
	}
	text := string(bytes.ToValidUTF8(b, []byte("\uFFFD"))) + end
	return &text
}

// killedFor says why a command was ended from outside, for the reader of its
// output: an exit code of 137 does not. last is whether no other command ran after
// it. "" when there is nothing to say; that the time was up the response says.
func killedFor(c sandbox.CommandResult, result *sandbox.Result, l sandbox.Limits, last bool) string {
	switch {
	case c.OutputExceeded:
		return fmt.Sprintf("the command was killed, since it printed more than %d MiB", sandbox.DefaultOutputBytes>>20)
	case result.OOMKilled && last && c.ExitCode != 0 && !c.TimedOut:
		return fmt.Sprintf("the kernel killed something for lack of memory: the job has %d MB, and %d MB for what it writes", l.MemoryMB,
			l.DiskMB)
	}
	return ""
}
