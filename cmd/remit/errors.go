package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"remit/law/task"
	"remit/proof/reason"
)

// usageError is a wrong command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// printError prints an error with its hint and returns the exit code: 2 or 3
// for a coded refusal, else 1.
func printError(w io.Writer, err error) int {
	var problems task.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			printOne(w, p)
		}
		return 3
	}
	var coded *reason.Error
	if errors.As(err, &coded) {
		printOne(w, err)
		return codeOf(coded.Code)
	}
	fmt.Fprintf(w, "remit: %s\n", plainText(err.Error()))
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintln(w, "hint: see `remit help`")
	}
	return 1
}

func printOne(w io.Writer, err error) {
	fmt.Fprintf(w, "remit: %s\n", plainText(err.Error())) // names files of strangers
	var coded *reason.Error
	if !errors.As(err, &coded) {
		return
	}
	hint := coded.Hint
	if hint == "" {
		info, _ := reason.Lookup(coded.Code)
		hint = info.Hint
	}
	if hint != "" {
		fmt.Fprintf(w, "hint: %s\n", plainText(hint))
	}
}

// codeOf is the exit code of a reason.
func codeOf(code reason.Code) int {
	if reason.StatusOf(code) == reason.Fail {
		return 2
	}
	return 3
}

// printJSON writes one indented document.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
