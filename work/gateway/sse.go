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
// empty line is no event. It keeps what is incomplete, and nothing else.
type splitter struct {
	limit int64
	buf   []byte // the beginning of the next event
	line  int    // where its last line begins
	seen  int    // how far it was searched for the end of that line
	cr    bool   // the last byte taken was a CR that ended a line
}

var errEventTooLarge = errors.New("an event of the stream is too large")

// feed takes the next piece of a stream and calls yield with each event that
// is complete now, until it returns false. An event is valid during the call.
func (s *splitter) feed(p []byte, yield func(event) bool) error {
	s.buf = append(s.buf, p...)
	start := 0
	defer func() {
		n := copy(s.buf, s.buf[start:])
		s.buf = s.buf[:n]
		s.line -= start
		s.seen -= start
		if cap(s.buf) > keepBuffer && n < keepBuffer/2 {
			s.buf = append(make([]byte, 0, n), s.buf...) // a large event is over: give its memory back
		}
	}()
	for {
		end, next, ok := s.nextLine()
		if !ok {
			break
		}
		blank := end == s.line
		s.line, s.seen = next, next
		if !blank {
			continue
		}
		if e := parse(s.buf[start:next]); !yield(e) {
			start = next
			return nil
		}
		start = next
	}
	if int64(len(s.buf)-start) > s.limit {
		return errEventTooLarge
	}
	return nil
}

// keepBuffer is how much memory a quiet stream may hold.
const keepBuffer = 16 << 10

// nextLine finds the end of the line that begins at s.line: where its text
// ends, and where the next begins. A CR at the end of what is there may be the
// first half of a line end; it ends the line, and an LF that follows is left
// out then.
func (s *splitter) nextLine() (end, next int, ok bool) {
	if s.cr && s.line < len(s.buf) {
		s.cr = false
		if s.buf[s.line] == '\n' { // the second half of a line end
			s.buf = append(s.buf[:s.line], s.buf[s.line+1:]...)
		}
	}
	i := lineEnd(s.buf[s.seen:])
	if i < 0 {
		s.seen = len(s.buf)
		return 0, 0, false
	}
	end = s.seen + i
	next = end + 1
	if s.buf[end] == '\r' {
		if next == len(s.buf) {
			s.cr = true
		} else if s.buf[next] == '\n' {
			next++
		}
	}
	return end, next, true
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

// pending reports whether an event has begun and not ended.
func (s *splitter) pending() bool { return len(bytes.TrimSpace(s.buf)) > 0 }

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
