// Package reason is the one registry of reason codes: why Remit refused,
// failed or could not check something.
//
// A code is a stable snake_case word (`no_diff`). Its full form is
// `domain.code` (`run.no_diff`); both forms name the same entry, and a code
// is unique across domains. Each entry says which run status it leads to, so
// that a front end can turn it into an exit code without knowing more, and
// carries a one-line description and a hint. Codes are only ever added.
//
// Three types carry codes through the program: [Error] stops an operation,
// [Finding] is one of many things that a checker found, and a blocker in
// report.json is the projection of either.
package reason

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Code is a registered reason, without its domain.
type Code string

// Status is what a reason does to the run or check that meets it.
type Status string

// The two statuses a reason can lead to; the third, pass, has no reason.
const (
	Fail    Status = "fail"    // it ran and the result is not acceptable (exit 2)
	Blocked Status = "blocked" // it was not allowed to run, or could not (exit 3)
)

// Info is a registry entry.
type Info struct {
	Code        Code   `json:"code"`
	Domain      string `json:"domain"`
	Status      Status `json:"status"`
	Description string `json:"description"`
	Hint        string `json:"hint,omitempty"`
}

// String returns the full form, domain.code.
func (i Info) String() string { return i.Domain + "." + string(i.Code) }

// Lookup returns the entry of a code, which may be given with its domain.
func Lookup(code Code) (Info, bool) {
	if domain, bare, ok := strings.Cut(string(code), "."); ok {
		if info, known := byCode()[Code(bare)]; known && info.Domain == domain {
			return info, true
		}
	}
	info, ok := byCode()[code]
	return info, ok
}

// All returns every entry in registry order (grouped by domain).
func All() []Info { return slices.Clone(registry()) }

// StatusOf returns the status that a code leads to. An unregistered code is
// Blocked: what is unknown is never let through.
func StatusOf(code Code) Status {
	if info, ok := Lookup(code); ok {
		return info.Status
	}
	return Blocked
}

// Error stops an operation. It names what was wrong, where, under which rule,
// and how to go on. The zero value of every field but Code and Message may be
// left out.
type Error struct {
	Code    Code
	Message string // lower case, offending input quoted
	File    string // the file or record that breaks the rule
	Line    int    // 1-based, 0 when unknown
	Column  int    // 1-based, 0 when unknown
	Field   string // the key path inside the file
	Hint    string // what the user can do; printed on a line of its own
	Err     error  // cause
}

// Errorf makes an Error with a formatted message. A %w operand becomes the cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// WithHint sets the hint and returns the error.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Error formats as "file:line: field: message (code)".
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
			if e.Column > 0 {
				fmt.Fprintf(&b, ":%d", e.Column)
			}
		}
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field)
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	if code := fmt.Sprintf(" (%s)", e.Code); e.Code != "" && !strings.HasSuffix(e.Message, code) { // a cause may have said it
		b.WriteString(code)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in err's chain, "" if none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Finding is one thing that a checker found. Checkers report every finding,
// not only the first.
type Finding struct {
	Gate   string `json:"gate,omitempty"` // audit gate, e.g. "manifest.hashes"
	Code   Code   `json:"code"`
	Path   string `json:"path,omitempty"` // file, entry or record
	Line   int    `json:"line,omitempty"` // 1-based
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // what can be done about it, where more is known than the code's own hint says
}

// String formats as "gate code path:line: detail".
func (f Finding) String() string {
	var b strings.Builder
	if f.Gate != "" {
		b.WriteString(f.Gate + " ")
	}
	b.WriteString(string(f.Code))
	if f.Path != "" {
		fmt.Fprintf(&b, " %q", f.Path)
		if f.Line > 0 {
			fmt.Fprintf(&b, " line %d", f.Line)
		}
	}
	return b.String() + ": " + f.Detail
}
