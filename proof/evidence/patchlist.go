package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"remit/proof/reason"
)

// checkPatchFiles holds the list of changed files, which is what a reviewer
// reads, against the patch, which is what git applies.
func (r *run) checkPatchFiles(files fs.FS) []reason.Finding {
	if r.patch == nil {
		return nil
	}
	finding := func(format string, args ...any) []reason.Finding {
		return []reason.Finding{{Code: reason.ProjectionMismatch, Path: PatchFile, Detail: fmt.Sprintf(format, args...)}}
	}
	f, err := files.Open(PatchFile)
	if err != nil {
		return nil // missing: another check says so
	}
	defer f.Close()
	found, err := listPatch(f)
	if err != nil {
		return finding("cannot be read as a patch: %v", err)
	}
	listed := map[string]bool{}
	for _, c := range r.patch.Files {
		listed[c.Path] = true
		p, there := found[c.Path]
		switch {
		case !there:
			return finding("does not change %s, which the journal lists", c.Path)
		case p.sections == 1 && (p.added != c.Added || p.removed != c.Removed || p.binary != c.Binary):
			return finding("adds %d and removes %d lines of %s, the journal says %d and %d", p.added, p.removed, c.Path, c.Added, c.Removed)
		}
	}
	for path := range found {
		if !listed[path] {
			return finding("changes %s, which the journal does not list", path)
		}
	}
	return nil
}

// patchedFile is what the sections of a patch do to one path. A file that
// becomes a link has two: one that deletes and one that creates.
type patchedFile struct {
	sections, added, removed int
	binary                   bool
}

// maxPatchLine bounds what is looked at of one line; a longer one is text or
// an error.
const maxPatchLine = 64 << 10

// listPatch reads a patch as git writes it without renames: the changed paths,
// in DisplayPath form, with the numbers of their lines. Lines inside a hunk are
// counted by the hunk's own numbers, so that text that looks like a header is
// text.
func listPatch(r io.Reader) (map[string]*patchedFile, error) {
	found := map[string]*patchedFile{}
	in := bufio.NewReaderSize(r, maxPatchLine)
	var now *patchedFile
	oldLeft, newLeft := 0, 0
	for n := 1; ; n++ {
		line, err := patchLine(in)
		if errors.Is(err, io.EOF) {
			if oldLeft > 0 || newLeft > 0 {
				return nil, errors.New("the last hunk is cut off")
			}
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		header, isHeader := bytes.CutPrefix(line, []byte("diff --git "))
		switch {
		case oldLeft > 0 || newLeft > 0:
			switch {
			case line[0] == '+':
				newLeft--
				now.added++
			case line[0] == '-':
				oldLeft--
				now.removed++
			case line[0] == ' ', line[0] == '\n': // an empty line may have lost its blank
				oldLeft--
				newLeft--
			case line[0] != '\\':
				return nil, fmt.Errorf("line %d is not part of its hunk", n)
			}
			if oldLeft < 0 || newLeft < 0 {
				return nil, fmt.Errorf("line %d is more than its hunk says", n)
			}
		case isHeader:
			path, ok := headerPath(strings.TrimSuffix(string(header), "\n"))
			if !ok {
				return nil, fmt.Errorf("line %d names no path, or two", n)
			}
			if now = found[path]; now == nil {
				now = new(patchedFile)
				found[path] = now
			}
			now.sections++
		case now == nil:
			return nil, fmt.Errorf("line %d comes before the first header", n)
		case bytes.HasPrefix(line, []byte("@@ ")):
			var ok bool
			if oldLeft, newLeft, ok = hunkLines(string(line)); !ok {
				return nil, fmt.Errorf("line %d is not a hunk", n)
			}
		case bytes.HasPrefix(line, []byte("GIT binary patch")):
			now.binary = true
		case bytes.HasPrefix(line, []byte("rename ")), bytes.HasPrefix(line, []byte("copy ")):
			return nil, fmt.Errorf("line %d moves a file", n)
		}
	}
}

// patchLine returns the beginning of the next line; it is never empty.
func patchLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err == nil || (errors.Is(err, io.EOF) && len(line) > 0) {
		return line, nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	first := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return first, nil
}

// headerPath is the one path of a header "a/P b/P", as DisplayPath writes it.
func headerPath(header string) (string, bool) {
	old, later, ok := header, "", false
	if half := len(header) / 2; len(header)%2 == 1 && header[half] == ' ' {
		old, later, ok = header[:half], header[half+1:], true
	}
	if !ok {
		return "", false
	}
	if strings.HasPrefix(old, `"`) {
		a, okA := unquotePath(old)
		b, okB := unquotePath(later)
		if !okA || !okB {
			return "", false
		}
		old, later = a, b
	}
	a, okA := strings.CutPrefix(old, "a/")
	b, okB := strings.CutPrefix(later, "b/")
	return DisplayPath(a), okA && okB && a == b && a != ""
}

// unquotePath undoes git's quoting of a path.
func unquotePath(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return "", false
	}
	// Go reads the same escapes, and octal ones of three digits.
	out, err := strconv.Unquote(s)
	return out, err == nil
}

// hunkLines are the numbers of old and new lines in "@@ -1,2 +3,4 @@".
func hunkLines(line string) (before, after int, ok bool) {
	f := strings.Fields(line)
	if len(f) < 4 || f[3] != "@@" {
		return 0, 0, false
	}
	count := func(field, sign string) (int, bool) {
		rest, ok := strings.CutPrefix(field, sign)
		_, n, stated := strings.Cut(rest, ",")
		if !ok || !stated {
			return 1, ok
		}
		v, err := strconv.Atoi(n)
		return v, err == nil && v >= 0
	}
	before, okBefore := count(f[1], "-")
	after, okAfter := count(f[2], "+")
	return before, after, okBefore && okAfter
}
