package results

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// lines yields the lines of a stream under MaxInput and MaxLine. A line that
// is too long is left out and counted, because half a line could be read as
// something that the runner never said.
type lines struct {
	in      *bufio.Reader
	limited *io.LimitedReader
	c       *collector
	err     error
}

func newLines(r io.Reader, c *collector) *lines {
	limited := &io.LimitedReader{R: r, N: MaxInput + 1}
	return &lines{in: bufio.NewReaderSize(limited, 64<<10), limited: limited, c: c}
}

// next returns the next line without its end. It returns false at the end of
// the input or of the limits; a read error is in err.
func (l *lines) next() ([]byte, bool) {
	for {
		line, long, err := l.read()
		if err != nil && !errors.Is(err, io.EOF) {
			l.err = err
			return nil, false
		}
		if l.limited.N <= 0 {
			l.c.lose("more than %d bytes of output", MaxInput)
			return nil, false
		}
		if long {
			l.c.lose("a line of more than %d bytes", MaxLine)
			if err != nil {
				return nil, false
			}
			continue
		}
		if err != nil && len(line) == 0 {
			return nil, false
		}
		return bytes.TrimRight(line, "\r\n"), true
	}
}

func (l *lines) read() (line []byte, long bool, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			long = true
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			if !long {
				line = append(line, part...)
			}
			continue
		}
		if long {
			return nil, true, err
		}
		if line == nil {
			return part, false, err
		}
		return append(line, part...), false, err
	}
}

// text is next for the readers of human-readable formats: as a string, without
// the colour sequences that some configurations force.
func (l *lines) text() (string, bool) {
	line, ok := l.next()
	return stripColour(string(line)), ok
}

// stripColour removes ANSI CSI sequences: ESC [ parameters letter.
func stripColour(s string) string {
	if !strings.Contains(s, "\x1b[") {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		end := strings.IndexFunc(after, func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return b.String()
		}
		s = after[end+1:]
	}
}
