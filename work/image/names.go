package image

import (
	"strings"

	"remit/proof/reason"
)

// The prefix of a whiteout, and the name of the one that empties a directory.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// entryName reads the name of an entry: its parts, and whether the last one is a
// whiteout of the name that is returned in its place, or empties its directory.
type entryName struct {
	text   string // as it was
	parts  []string
	hides  bool // parts is what a whiteout hides
	empty  bool // parts is the directory that a whiteout empties
	inRoot bool // no parts: the root itself
}

func readName(name string, l Limits) (entryName, error) {
	n := entryName{text: name}
	refuse := func(why string) (entryName, error) {
		return n, reason.Errorf(reason.ImageLayerName, "the entry %q %s", plain(name), why)
	}
	switch {
	case name == "" || strings.HasPrefix(name, "/"):
		return refuse("is absolute or has no name")
	case strings.Contains(name, "\x00"):
		return refuse("has a NUL in its name")
	case len(name) > l.PathLength:
		return refuse("has too long a name")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == ".." || len(part) > 255:
			return refuse("has a part of its name that is .. or too long")
		case part == "" || part == ".":
			continue
		}
		n.parts = append(n.parts, part)
	}
	if len(n.parts) > l.Depth {
		return refuse("is too deep")
	}
	if len(n.parts) == 0 {
		n.inRoot = true
		return n, nil
	}
	last := len(n.parts) - 1
	for _, part := range n.parts[:last] {
		if strings.HasPrefix(part, whiteout) {
			return refuse("is below a whiteout")
		}
	}
	hidden, is := strings.CutPrefix(n.parts[last], whiteout)
	switch {
	case !is:
	case n.parts[last] == opaque:
		n.parts, n.empty = n.parts[:last], true
	case hidden == "" || hidden == "." || hidden == ".." || strings.HasPrefix(hidden, whiteout):
		return refuse("is a whiteout of no name")
	default:
		n.parts, n.hides = append(n.parts[:last:last], hidden), true
	}
	return n, nil
}
