package workspace

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"remit/proof/reason"
)

// Limits of a path. The first is what file systems allow of a component, the second what system calls take.
const (
	MaxNameBytes = 255
	MaxPathBytes = 4095
)

// CheckPath says why a slash-separated relative path may not be in a tree: a component is empty, `.` or `..`, is too
// long, holds a NUL, or is `.git` on some file system (any case, HFS+ with its invisible code points, NTFS with
// trailing dots and spaces, short names and streams). The error is path_unrepresentable, or protected_path for a
// plain `.git`. Bytes that are not UTF-8 are fine.
func CheckPath(path string) error {
	if path == "" || len(path) > MaxPathBytes {
		return badPath(path, "it is empty or longer than %d bytes", MaxPathBytes)
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == ".git" {
			return &reason.Error{Code: reason.ProtectedPath, File: path, Message: "a path may not lead into a git directory"}
		}
		if why := nameProblem(name); why != "" {
			return badPath(path, "%s", why)
		}
	}
	return nil
}

func badPath(path, format string, args ...any) error {
	return &reason.Error{
		Code:    reason.PathUnrepresentable,
		Message: fmt.Sprintf("path %q cannot be in a tree: ", path) + fmt.Sprintf(format, args...),
	}
}

// nameProblem says what is wrong with one component, "" if nothing.
func nameProblem(name string) string {
	switch {
	case name == "":
		return "a component is empty"
	case name == "." || name == "..":
		return "a component is " + name
	case len(name) > MaxNameBytes:
		return fmt.Sprintf("a component is longer than %d bytes", MaxNameBytes)
	case strings.ContainsAny(name, "/\x00"):
		return "a component holds a slash or NUL"
	case isHFSDotGit(name):
		return "a component is .git on HFS+"
	}
	for part := range strings.SplitSeq(name, `\`) { // a separator on Windows
		if isNTFSDotGit(part) {
			return "a component is .git on NTFS"
		}
	}
	return ""
}

// isNTFSDotGit reports names that NTFS opens as .git: its short name, trailing spaces and dots, and streams.
func isNTFSDotGit(name string) bool {
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, " .")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// isHFSDotGit reports names that HFS+ opens as .git: it folds case and leaves out some code points.
func isHFSDotGit(name string) bool {
	folded := make([]byte, 0, 8)
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && n == 1 || r > 0x7f && !hfsIgnores(r) || len(folded) == 5 {
			return false
		}
		name = name[n:]
		if r <= 0x7f {
			folded = append(folded, byte(r))
		}
	}
	return strings.EqualFold(string(folded), ".git")
}

// hfsIgnores lists the code points that HFS+ leaves out of names (git's next_hfs_char).
func hfsIgnores(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}
