package journal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"remit/proof/canon"
	"remit/proof/reason"
)

const (
	// Version is the value of the key v.
	Version = 1
	// TimeFormat is the only form of a time in a journal. Times are UTC.
	TimeFormat = "2006-01-02T15:04:05.000Z"

	// MaxLine bounds one line with its LF. Inputs and outputs carry digests of
	// what is large, so real lines are around 500 bytes.
	MaxLine = 16 << 20
	// MaxEntries bounds what [Read] holds in memory, together with MaxBytes; a
	// long run has some ten thousand entries.
	MaxEntries = 4 << 20
	// MaxBytes bounds a whole file.
	MaxBytes = 2 << 30
	// MaxName bounds session_id, step_id and name.
	MaxName = 256
)

// Status is what happened to a step.
type Status string

// The statuses of an entry.
const (
	Started   Status = "started"
	Completed Status = "completed"
	Failed    Status = "failed"
	Skipped   Status = "skipped"
	Denied    Status = "denied"
)

// Valid reports whether s is one of the five statuses.
func (s Status) Valid() bool {
	switch s {
	case Started, Completed, Failed, Skipped, Denied:
		return true
	}
	return false
}

// Entry is one line of a journal. Entries that come out of this package are
// valid, their Inputs and Outputs are canonical objects; treat them as
// read-only.
type Entry struct {
	V           int             `json:"v"`
	Seq         int64           `json:"seq"`
	SessionID   string          `json:"session_id"`
	StepID      string          `json:"step_id"`
	Name        string          `json:"name"`
	Status      Status          `json:"status"`
	StartedAt   string          `json:"started_at"`
	CompletedAt *string         `json:"completed_at"`
	Inputs      json.RawMessage `json:"inputs"`
	Outputs     json.RawMessage `json:"outputs"`
	PrevHash    *string         `json:"prev_hash"`
	EntryHash   string          `json:"entry_hash"`
}

// appendLine appends the canonical bytes of e without LF. The keys are written
// in their canonical order, strings are quoted canonically, and Inputs and
// Outputs are canonical already; so there is nothing left to sort. Without
// withHash the result is what EntryHash is the digest of.
func (e *Entry) appendLine(dst []byte, withHash bool) ([]byte, error) {
	w := lineWriter{out: dst}
	w.optional(`{"completed_at":`, e.CompletedAt)
	if withHash {
		w.text(`,"entry_hash":`, e.EntryHash)
	}
	w.raw(`,"inputs":`, e.Inputs)
	w.text(`,"name":`, e.Name)
	w.raw(`,"outputs":`, e.Outputs)
	w.optional(`,"prev_hash":`, e.PrevHash)
	w.raw(`,"seq":`, strconv.AppendInt(nil, e.Seq, 10))
	w.text(`,"session_id":`, e.SessionID)
	w.text(`,"started_at":`, e.StartedAt)
	w.text(`,"status":`, string(e.Status))
	w.text(`,"step_id":`, e.StepID)
	w.raw(`,"v":`, strconv.AppendInt(nil, int64(e.V), 10))
	w.out = append(w.out, '}')
	return w.out, w.err
}

type lineWriter struct {
	out []byte
	err error
}

func (w *lineWriter) raw(key string, value []byte) {
	w.out = append(append(w.out, key...), value...)
}

func (w *lineWriter) text(key, value string) {
	var err error
	w.out, err = jsontext.AppendQuote(append(w.out, key...), value)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("value after %q: %w", key, err)
	}
}

func (w *lineWriter) optional(key string, value *string) {
	if value == nil {
		w.raw(key, []byte("null"))
		return
	}
	w.text(key, *value)
}

// problem says which rule about a single entry e breaks, "" if none.
func (e *Entry) problem() string {
	switch {
	case e.V != Version:
		return fmt.Sprintf("v is %d, not %d", e.V, Version)
	case !validSessionID(e.SessionID):
		return fmt.Sprintf("session_id %+.80q is not %s", e.SessionID, sessionIDForm)
	case !validName(e.StepID):
		return fmt.Sprintf("step_id %+.80q is not %s", e.StepID, nameForm)
	case !validName(e.Name):
		return fmt.Sprintf("name %+.80q is not %s", e.Name, nameForm)
	case !e.Status.Valid():
		return fmt.Sprintf("status %+.80q is not one of started, completed, failed, skipped, denied", e.Status)
	case !validTime(e.StartedAt):
		return fmt.Sprintf("started_at %+.80q is not a time like %s", e.StartedAt, TimeFormat)
	case e.CompletedAt != nil && !validTime(*e.CompletedAt):
		return fmt.Sprintf("completed_at %+.80q is not a time like %s", *e.CompletedAt, TimeFormat)
	case e.CompletedAt != nil && *e.CompletedAt < e.StartedAt: // fixed width: text order is time order
		return fmt.Sprintf("completed_at %s is before started_at %s", *e.CompletedAt, e.StartedAt)
	case !isObject(e.Inputs):
		return "inputs is not an object"
	case !isObject(e.Outputs):
		return "outputs is not an object"
	}
	return ""
}

const (
	sessionIDForm = "1 to 256 letters, digits, dots, underscores or hyphens that begin with a letter or digit"
	nameForm      = "1 to 256 printable ASCII characters"
)

// validSessionID keeps out what would be more than a name as a directory.
func validSessionID(s string) bool {
	for _, b := range []byte(s) {
		if !alphanumeric(b) && b != '.' && b != '_' && b != '-' {
			return false
		}
	}
	return s != "" && len(s) <= MaxName && alphanumeric(s[0])
}

func alphanumeric(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}

// validName keeps out what could disturb a terminal or look like another name.
func validName(s string) bool {
	for _, b := range []byte(s) {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return s != "" && len(s) <= MaxName
}

// validTime compares with what formatting gives back, because time.Parse
// accepts more than one spelling.
func validTime(s string) bool {
	t, err := time.Parse(TimeFormat, s)
	return err == nil && t.Format(TimeFormat) == s
}

func isObject(canonical []byte) bool { return len(canonical) > 0 && canonical[0] == '{' }

// Step is what a caller says about a step; the Writer adds the rest.
type Step struct {
	StepID, Name string
	Status       Status
	StartedAt    time.Time
	CompletedAt  time.Time // the zero time stands for null
	// Inputs and Outputs are anything that canon.Marshal turns into an
	// object; nil stands for {}.
	Inputs, Outputs any
}

// entry is the part of the new entry that does not depend on the journal.
func (s Step) entry() (Entry, error) {
	e := Entry{StepID: s.StepID, Name: s.Name, Status: s.Status}
	if s.StartedAt.IsZero() {
		return Entry{}, reason.Errorf(reason.JournalSyntax, "step %+.80q has no start time", s.StepID)
	}
	e.StartedAt = s.StartedAt.UTC().Format(TimeFormat)
	if !s.CompletedAt.IsZero() {
		// Sub prefers the monotonic clock: a wall clock that was set back
		// during a step does not make the step end before it began.
		end := s.StartedAt.Add(s.CompletedAt.Sub(s.StartedAt)).UTC().Format(TimeFormat)
		e.CompletedAt = &end
	}
	var err error
	if e.Inputs, err = object("inputs", s.Inputs); err != nil {
		return Entry{}, err
	}
	e.Outputs, err = object("outputs", s.Outputs)
	return e, err
}

// object encodes inputs or outputs. A nil map is as good as nil.
func object(key string, v any) (json.RawMessage, error) {
	if v == nil {
		return json.RawMessage("{}"), nil
	}
	b, err := canon.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", key, err)
	}
	if string(b) == "null" {
		return json.RawMessage("{}"), nil
	}
	return b, nil
}
