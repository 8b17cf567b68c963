package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Lines decodes the lines of a protocol, and remembers whether one broke off
// that could have mattered.
type Lines struct {
	number int
	broken int // number of the first one that broke off, 0 for none
}

// Decode reads a line into v and reports whether it is an object. What does
// not fit a field of v leaves it at zero, as if it were absent. The types that
// decide nothing may break off: agents repeat whole conversations in some.
func (l *Lines) Decode(line []byte, v any, harmless ...string) bool {
	l.number++
	if line = bytes.TrimSpace(line); len(line) == 0 || line[0] != '{' {
		return false // noise of a runtime, say
	}
	err := json.Unmarshal(line, v)
	if _, misfit := errors.AsType[*json.UnmarshalTypeError](err); err == nil || misfit {
		return true
	}
	if l.broken == 0 && !slices.Contains(harmless, typeOf(line)) {
		l.broken = l.number
	}
	return false
}

// Broken says which line broke off, "" if none did.
func (l *Lines) Broken() string {
	if l.broken == 0 {
		return ""
	}
	return fmt.Sprintf("line %d of the output breaks off", l.broken)
}

// typeOf finds the type of an object that breaks off, wherever it stands in
// what is left.
func typeOf(line []byte) string {
	d := json.NewDecoder(bytes.NewReader(line))
	if _, err := d.Token(); err != nil {
		return ""
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return ""
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return ""
		}
		var text string
		if key == "type" && json.Unmarshal(value, &text) == nil {
			return text
		}
	}
	return ""
}
