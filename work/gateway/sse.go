package gateway

import (
	"bytes"
	"errors"
)

// event is one event of a server-sent stream.
type event struct {
	raw  []byte // as it came, with the empty line at its end
	name string // of its event field
	data []byte // its data fields, joined by line feeds
	some bool   // it has a data field; without one it is a comment or keep-alive
}

// splitter cuts a stream into events as the HTML standard does: lines end in
// CR, LF or both, an empty line ends an event, and what stands after the last
// empty line is no event. Between two pieces it keeps what is incomplete, and
// nothing else.
type splitter struct {
	limit int64
	kept  []byte // the beginning of the next event
	line  int    // where its last line begins
	seen  int    // how far it was searched for the end of that line
	cr    bool   // the last byte taken was a CR that ended a line
}

var errEventTooLarge = errors.New("an event of the stream is too large")

// feed takes the next piece of a stream and calls yield with each event that
// is complete now, until it returns false. An event is valid during the call;
// p belongs to the splitter meanwhile.
func (s *splitter) feed(p []byte, yield func(event) bool) error {
	b := p
	if len(s.kept) > 0 {
		s.kept = append(s.kept, p...)
		b = s.kept
	}
	start := 0
	for {
		var end, next int
		var ok bool
		if b, end, next, ok = s.nextLine(b); !ok {
			break
		}
		blank := end == s.line
		s.line, s.seen = next, next
		if !blank {
			continue
		}
		e := parse(b[start:next])
		start = next
		if !yield(e) {
			break
		}
	}
	s.keep(b, start)
	if int64(len(s.kept)) > s.limit {
		return errEventTooLarge
	}
	return nil
}

// keep holds on to what is incomplete. A stream that is quiet between two
// events holds nothing.
func (s *splitter) keep(b []byte, start int) {
	s.line -= start
	s.seen -= start
	switch rest := b[start:]; {
	case len(rest) == 0:
		s.kept = nil
	case start > 0 || len(s.kept) == 0:
		s.kept = append([]byte(nil), rest...)
	default:
		s.kept = rest // grown by append
	}
}

// nextLine finds the end of the line that begins at s.line: where its text
// ends, and where the next begins. A CR at the end of what is there may be the
// first half of a line end; it ends the line, and an LF that follows is left
// out then.
func (s *splitter) nextLine(b []byte) (left []byte, end, next int, ok bool) {
	if s.cr && s.line < len(b) {
		s.cr = false
		if b[s.line] == '\n' { // the second half of a line end
			b = append(b[:s.line], b[s.line+1:]...)
		}
	}
	i := lineEnd(b[s.seen:])
	if i < 0 {
		s.seen = len(b)
		return b, 0, 0, false
	}
	end = s.seen + i
	next = end + 1
	if b[end] == '\r' {
		if next == len(b) {
			s.cr = true
		} else if b[next] == '\n' {
			next++
		}
	}
	return b, end, next, true
}

// lineEnd is the offset of the first CR or LF, -1 if there is none.
func lineEnd(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b = b[:i+1]
	}
	if i := bytes.IndexByte(b, '\r'); i >= 0 {
		return i
	}
	if len(b) > 0 && b[len(b)-1] == '\n' {
		return len(b) - 1
	}
	return -1
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// parse reads the fields of an event.
func parse(raw []byte) event {
	e := event{raw: raw}
	for rest := bytes.TrimPrefix(raw, byteOrderMark); len(rest) > 0; {
		var line []byte
		if i := lineEnd(rest); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			line, rest = rest, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = string(value)
		case "data":
			if !e.some {
				e.data, e.some = value, true
			} else {
				e.data = append(append(bytes.Clone(e.data), '\n'), value...)
			}
		}
	}
	return e
}
