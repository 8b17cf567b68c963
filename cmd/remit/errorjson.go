package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"remit/law/task"
	"remit/proof/reason"
)

// output is standard output, and knows whether a command has printed anything:
// one that failed before it had a document to print gets one about its error.
// A reader that went away is no error: what was to be done is done all the same,
// and the exit code says what came of it.
type output struct {
	file   *os.File
	used   bool
	unread atomic.Bool // nobody reads it any more

	screen *visible // not nil for a terminal: nothing of what is printed may drive it
}

func newOutput(file *os.File) *output {
	o := &output{file: file}
	if term.IsTerminal(int(file.Fd())) {
		o.screen = &visible{w: file}
	}
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.used = o.used || len(p) > 0
	write := o.file.Write
	if o.screen != nil {
		write = o.screen.Write
	}
	n, err := write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.unread.Store(true)
		return len(p), nil
	}
	return n, err
}

// unread reports whether nobody reads what is written to w any more.
func unread(w io.Writer) bool {
	o, ok := w.(*output)
	return ok && o.unread.Load()
}

// raw writes every byte from here on, also to a terminal.
func (o *output) raw() { o.screen = nil }

// close writes what is left.
func (o *output) close() error {
	if o.screen != nil {
		return o.screen.Close()
	}
	return nil
}

// wantsJSON reports whether a command line asks for JSON. It is looked at
// itself, since a command line that is wrong was not parsed to its end.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	for _, arg := range slices.Backward(args) {
		switch arg {
		case "--json", "--json=true", "--json=1":
			return true
		case "--json=false", "--json=0":
			return false
		}
	}
	return false
}

// errorDocument is what a command that failed prints with --json.
type errorDocument struct {
	Error    errorText   `json:"error"`
	More     []errorText `json:"more,omitempty"` // further problems of the same input
	ExitCode int         `json:"exit_code"`
}

// What errorText has for an error without a reason code, exit code 1.
const (
	usageCode    reason.Code = "usage"    // a wrong command line
	internalCode reason.Code = "internal" // a fault in Remit, or around it, that has no code
)

// errorText is one error.
type errorText struct {
	Code    reason.Code `json:"code"`
	Message string      `json:"message"`
	Hint    string      `json:"hint,omitempty"`
	File    string      `json:"file,omitempty"`
	Line    int         `json:"line,omitempty"`
	Field   string      `json:"field,omitempty"`
}

func documentOf(err error, code int) errorDocument {
	d := errorDocument{ExitCode: code}
	var problems task.Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		d.Error = textOf(err)
		return d
	}
	d.Error = textOf(problems[0])
	for _, p := range problems[1:] {
		d.More = append(d.More, textOf(p))
	}
	return d
}

func textOf(err error) errorText {
	t := errorText{Code: reason.CodeOf(err), Message: strings.ToValidUTF8(messageOf(err), "\uFFFD"), Hint: adviceOn(err)}
	var coded *reason.Error
	var usage usageError
	switch {
	case errors.As(err, &coded):
		t.File, t.Line, t.Field = strings.ToValidUTF8(coded.File, "\uFFFD"), coded.Line, coded.Field
	case errors.As(err, &usage):
		t.Code = usageCode
	default:
		t.Code = internalCode
	}
	return t
}
