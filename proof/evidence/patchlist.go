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
		if before, after := p.modes(); before != c.OldMode || after != c.NewMode || p.op() != c.Op {
			return finding("is %s of %s from mode %s to %s, the journal says %s from %s to %s", p.op(), c.Path, before, after, c.Op, c.OldMode, c.NewMode)
		}
	}
	for path := range found {
		if !listed[path] {
			return finding("changes %s, which the journal does not list", path)
		}
	}
	return nil
}

// PatchedFile is what a patch does to one path.
type PatchedFile struct {
	Path             string // raw bytes, as git has them
	Op               string // as in patch.captured
	OldMode, NewMode string // as git writes them, 000000 where there is nothing
	LinkTarget       string // the text of the symlink that Path is afterwards
}

// ListPatch reads a patch.diff and says what it does, in the order of the
// patch. It is for those who hold a patch against rules of their own without
// believing what the journal says of it.
func ListPatch(r io.Reader) ([]PatchedFile, error) {
	found, err := listPatch(r)
	if err != nil {
		return nil, err
	}
	out := make([]PatchedFile, len(found))
	for _, p := range found {
		if p.partial {
			return nil, fmt.Errorf("the link %s is shown in part", DisplayPath(p.path))
		}
		f := PatchedFile{Path: p.path, Op: p.op(), LinkTarget: strings.TrimSuffix(p.link.String(), "\n")}
		f.OldMode, f.NewMode = p.modes()
		out[p.place] = f
	}
	return out, nil
}

// patchedFile is what the sections of a patch do to one path. A file that
// becomes a link has two: one that deletes and one that creates.
type patchedFile struct {
	path                     string
	place                    int // in the order of the patch
	sections, added, removed int
	binary, content          bool // content: not only the mode changes
	before, after            string
	stated                   string          // the lines of this section that state modes
	body                     bool            // the headers of this section are over
	link                     strings.Builder // of a section that leaves a link
	partial                  bool            // the text of the link cannot be read from the patch
}

const (
	noMode        = "000000"
	linkMode      = "120000"
	submoduleMode = "160000"
)

// modes are those before and after. A path that is deleted in one section and
// made anew in the next has both from there.
func (p *patchedFile) modes() (before, after string) { return p.before, p.after }

// op names the operation as patch.captured does.
func (p *patchedFile) op() string {
	switch {
	case p.before == submoduleMode || p.after == submoduleMode:
		return "submodule"
	case p.after == linkMode:
		return "symlink"
	case p.before == noMode:
		return "create"
	case p.after == noMode:
		return "delete"
	case p.before == linkMode:
		return "type_change"
	case !p.content:
		return "mode_change"
	}
	return "modify"
}

// header takes a line between the first line of a section and its body. What
// git would not write, or would read in another way than it looks, is refused:
// the modes are stated once in a section, and the names are those of its first
// line.
func (p *patchedFile) header(line string) bool {
	key, value := "", strings.TrimSuffix(line, "\n")
	for _, known := range []string{"new file mode ", "deleted file mode ", "old mode ", "new mode ", "index ", "--- ", "+++ "} {
		if rest, ok := strings.CutPrefix(value, known); ok {
			key, value = known, rest
			break
		}
	}
	switch key {
	case "--- ", "+++ ":
		return value == "/dev/null" || p.named(value, map[string]string{"--- ": "a/", "+++ ": "b/"}[key])
	case "index ":
		p.content = true
		_, mode, stated := strings.Cut(value, " ")
		if !stated {
			return true
		}
		if p.sections == 1 {
			p.before = mode
		}
		p.after = mode
	case "new file mode ":
		if p.sections == 1 {
			p.before = noMode
		}
		p.after = value
	case "deleted file mode ":
		if p.sections == 1 {
			p.before = value
		}
		p.after = noMode
	case "old mode ":
		p.before = value
	case "new mode ":
		p.after = value
	default:
		return false
	}
	before := p.stated
	if p.stated += key; key == "new mode " {
		return before == "old mode " // the one pair
	}
	return before == ""
}

// named reports whether a file name of a header is that of the section.
func (p *patchedFile) named(name, prefix string) bool {
	name = strings.TrimSuffix(name, "\t") // stands behind a name with a blank
	if strings.HasPrefix(name, `"`) {
		var ok bool
		if name, ok = unquotePath(name); !ok {
			return false
		}
	}
	return name == prefix+p.path
}

// begin takes the first line of a section.
func (p *patchedFile) begin() bool {
	p.sections++
	p.stated, p.body = "", false
	// A second section makes anew what the first one deletes.
	return p.sections == 1 || p.sections == 2 && p.after == noMode
}

// data reports whether a line may follow the hunks of a section, or is part of
// its binary content.
func (p *patchedFile) data(line []byte) bool {
	text := strings.TrimSuffix(string(line), "\n")
	if !p.binary {
		return strings.HasPrefix(text, `\ `)
	}
	return !strings.Contains(text, " ") || strings.HasPrefix(text, "literal ") || strings.HasPrefix(text, "delta ")
}

// text collects the text of a link from the lines of a hunk.
func (p *patchedFile) text(line []byte) {
	if p.after != linkMode || line[0] == '-' || line[0] == '\\' {
		return
	}
	if line[0] != '+' || p.link.Len() > maxPatchLine/2 || line[len(line)-1] != '\n' {
		p.partial = true
		return
	}
	p.link.Write(line[1:])
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
			now.text(line)
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
			raw, ok := headerPath(strings.TrimSuffix(string(header), "\n"))
			if !ok {
				return nil, fmt.Errorf("line %d names no path, or two", n)
			}
			path := DisplayPath(raw)
			if now = found[path]; now == nil {
				now = &patchedFile{path: raw, place: len(found)}
				found[path] = now
			}
			if !now.begin() {
				return nil, fmt.Errorf("line %d changes a path again", n)
			}
		case now == nil:
			return nil, fmt.Errorf("line %d comes before the first header", n)
		case bytes.HasPrefix(line, []byte("@@ ")):
			var ok bool
			now.body = true
			if oldLeft, newLeft, ok = hunkLines(string(line)); !ok {
				return nil, fmt.Errorf("line %d is not a hunk", n)
			}
		case bytes.HasPrefix(line, []byte("GIT binary patch")):
			now.binary, now.content, now.body = true, true, true
		case bytes.HasPrefix(line, []byte("rename ")), bytes.HasPrefix(line, []byte("copy ")):
			return nil, fmt.Errorf("line %d moves a file", n)
		case now.body:
			if !now.data(line) {
				return nil, fmt.Errorf("line %d belongs to no section", n)
			}
		case !now.header(string(line)):
			return nil, fmt.Errorf("line %d is no header that git writes there", n)
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

// headerPath is the one path of a header "a/P b/P", unquoted.
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
	return a, okA && okB && a == b && a != ""
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
