package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"remit/law/secret"
	"remit/law/task"
	"remit/proof/reason"
)

// usageError is a wrong command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// refusedByDisk gives an error of a file, which has no reason yet, one of its
// own: that of the place of sessions where this takes no more writes, else that
// of any file. A wrong command line stays one.
func refusedByDisk(err error, home string) error {
	var coded *reason.Error
	var usage usageError
	if errors.As(err, &coded) || errors.As(err, &usage) {
		return err
	}
	var place string
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		place = path.Path
	case errors.As(err, &link):
		place = link.New
	default:
		return err
	}
	if home != "" && (below(home, place) || below(place, home)) { // it, or where it would be made
		for _, cause := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.ENOTDIR} {
			if errors.Is(err, cause) {
				return reason.Errorf(reason.HomeUnusable, "%w", err).
					WithHint("free some space or repair the permissions of %s, or set REMIT_HOME to another place", home)
			}
		}
	}
	return reason.Errorf(reason.FileUnusable, "%w", err)
}

// below reports whether a path names a directory or a place in it, by its words.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

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
	printOne(w, err)
	return 1
}

// messageOf is the text of an error without secrets: a message repeats the words
// of a command line, and a key may have been given in the place of a file's name.
func messageOf(err error) string { return secret.Redact(err.Error(), nil) }

func printOne(w io.Writer, err error) {
	fmt.Fprintf(w, "remit: %s\n", plainText(messageOf(err))) // names files of strangers
	if hint := adviceOn(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", plainText(hint))
	}
}

// adviceOn is how to go on after an error, "" when there is no advice.
func adviceOn(err error) string {
	var coded *reason.Error
	var usage usageError
	switch {
	case errors.As(err, &coded) && coded.Hint != "":
		return coded.Hint
	case coded != nil:
		info, _ := reason.Lookup(coded.Code)
		return info.Hint
	case errors.As(err, &usage):
		return "see `remit help`"
	}
	return ""
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
