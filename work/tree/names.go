package tree

import "strings"

// ValidPath reports whether p can name a change: relative, slash-separated,
// clean, without NUL and at most MaxPathBytes long. It says nothing about
// whether git would take it.
func ValidPath(p string) bool {
	if p == "" || len(p) > MaxPathBytes || strings.IndexByte(p, 0) >= 0 {
		return false
	}
	depth := 0
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." || len(part) > maxName {
			return false
		}
		if depth++; depth > MaxDepth+1 {
			return false
		}
	}
	return true
}

// IsDotGit reports whether some git or some file system takes name for .git:
// any case, the short name git~1, trailing dots, spaces or a stream name
// (NTFS), and code points that HFS+ ignores.
func IsDotGit(name string) bool {
	folded := strings.ToLower(strings.Map(dropIgnorable, name))
	if i := strings.IndexAny(folded, `:\`); i >= 0 {
		folded = folded[:i]
	}
	folded = strings.TrimRight(folded, " .")
	return folded == ".git" || folded == "git~1"
}

// dropIgnorable removes the code points that HFS+ leaves out of comparisons,
// the list that git uses.
func dropIgnorable(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}
