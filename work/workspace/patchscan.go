package workspace

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"remit/proof/form"
	"remit/proof/reason"
)

// maxHeaderLine bounds what is kept of a line: two names and the words around them.
const maxHeaderLine = 3 * MaxPathBytes

// patchScan looks at the headers of a patch that passes. git alone decides what the patch changes; this refuses, with its
// line, what git would read in another sense than its author: a name that is absolute or climbs, of which git strips the first
// component, content that is taken from another path, and text that is no patch at all.
type patchScan struct {
	w        io.Writer
	line     []byte // the first bytes of the current line
	number   int    // of the current line, from 0
	old, new int    // lines of the current hunk that are still to come
	before   string // a line `--- NAME`, where the last one was one
	header   bool   // the line before was one of the header that `diff --git` begins
	sections int
	first    int    // number of the first line that is not blank, from 1
	begin    []byte // the first bytes of it
	refusal  error
}

var (
	hunkHeader = form.Lazy(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)
	moved      = form.Lazy(`^(?:rename|copy) `)
	extended   = form.Lazy(`^(?:(?:old|new|deleted file|new file) mode|(?:dis)?similarity index|index) `)
)

func (s *patchScan) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		s.line = append(s.line, part[:min(len(part), maxHeaderLine-len(s.line))]...)
		if part[len(part)-1] == '\n' {
			s.next()
		}
	}
	return s.w.Write(p)
}

// end is what is to be said of a patch that has passed.
func (s *patchScan) end() error {
	if len(s.line) > 0 {
		s.next()
	}
	if s.refusal == nil && s.sections == 0 && s.first > 0 {
		s.refuse(s.first, "make it with `git diff --no-renames --binary`", "%s", s.noPatch())
	}
	return s.refusal
}

func (s *patchScan) refuse(line int, hint, format string, args ...any) {
	if s.refusal == nil {
		e := reason.Errorf(reason.PatchInvalid, format, args...).WithHint("%s", hint)
		e.Line = line
		s.refusal = e
	}
}

// next takes a whole line.
func (s *patchScan) next() {
	line := strings.TrimRight(string(s.line), "\r\n")
	s.line = s.line[:0]
	s.number++
	before, header := s.before, s.header
	s.before, s.header = "", false
	if s.first == 0 && strings.TrimSpace(line) != "" {
		s.first, s.begin = s.number, []byte(line)
	}
	if s.old > 0 || s.new > 0 {
		if s.inHunk(line) {
			return
		}
		s.old, s.new = 0, 0 // git says what is wrong with it
	}
	switch {
	case strings.HasPrefix(line, "@@ "):
		if m := hunkHeader().FindStringSubmatch(line); m != nil {
			s.old, s.new = count(m[1]), count(m[2])
		}
	case strings.HasPrefix(line, "diff --git "):
		s.sections++
		s.header = true
		s.names(gitNames(line[len("diff --git "):]))
	case strings.HasPrefix(line, "--- "):
		s.before = line
	case strings.HasPrefix(line, "+++ ") && before != "":
		s.sections++
		s.names([]string{headerName(before), headerName(line)})
	case header && moved().MatchString(line):
		s.refuse(s.number, "make it with `git diff --no-renames --binary`", "the patch renames or copies files")
	case header:
		s.header = extended().MatchString(line)
	}
}

// inHunk counts a line of a hunk, and reports whether it is one.
func (s *patchScan) inHunk(line string) bool {
	kind := byte(' ')
	if line != "" {
		kind = line[0]
	}
	switch kind {
	case ' ':
		s.old, s.new = s.old-1, s.new-1
	case '-':
		s.old--
	case '+':
		s.new--
	}
	return strings.IndexByte(" -+\\", kind) >= 0
}

// count is the number of lines in the header of a hunk.
func count(digits string) int {
	n, err := strconv.Atoi(digits)
	if digits == "" {
		return 1
	}
	if err != nil {
		return 0 // git refuses it
	}
	return n
}

// names refuses names that are no place in a tree.
func (s *patchScan) names(list []string) {
	for _, name := range list {
		why := ""
		switch {
		case name == "/dev/null":
		case strings.HasPrefix(name, "/"):
			why = "is absolute"
		case strings.Contains("/"+name+"/", "/../"):
			why = "leads out of the repository"
		}
		if why != "" {
			s.refuse(s.number, "make the patch in the repository, with `git diff --no-renames --binary`", "path %q %s", name, why)
		}
	}
}

// headerName is the name in a line `--- NAME` or `+++ NAME`, with its prefix.
func headerName(line string) string {
	name := line[len("+++ "):]
	if quoted, err := strconv.QuotedPrefix(name); err == nil && name[0] == '"' {
		if text, err := strconv.Unquote(quoted); err == nil {
			return text
		}
	}
	name, _, _ = strings.Cut(name, "\t") // the time that diff writes
	return name
}

// gitNames are the two names behind `diff --git`, as git finds them: they are the same but for their first component. None are
// found where that is not so; the lines behind have the names then.
func gitNames(rest string) []string {
	if strings.HasPrefix(rest, `"`) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil
		}
		name, err := strconv.Unquote(quoted)
		if err != nil {
			return nil
		}
		return []string{name, headerName("+++ " + strings.TrimPrefix(rest[len(quoted):], " "))}
	}
	for i := range rest {
		if rest[i] != ' ' {
			continue
		}
		a, b := rest[:i], headerName("+++ "+rest[i+1:])
		if _, x, ok := strings.Cut(a, "/"); ok {
			if _, y, ok := strings.Cut(b, "/"); ok && strings.TrimLeft(x, "/") == strings.TrimLeft(y, "/") {
				return []string{a, b}
			}
		}
	}
	return nil
}

// noPatch says what a text is that holds no change. It quotes nothing of it.
func (s *patchScan) noPatch() string {
	lower := bytes.ToLower(s.begin)
	switch {
	case bytes.IndexByte(s.begin, 0) >= 0 || !utf8.Valid(s.begin):
		return "this is no patch: it is binary"
	case bytes.HasPrefix(lower, []byte("<!doctype")) || bytes.HasPrefix(lower, []byte("<html")) || bytes.HasPrefix(lower, []byte("<?xml")):
		return "this is no patch: it begins as a web page does"
	case bytes.HasPrefix(s.begin, []byte("From ")) || bytes.HasPrefix(s.begin, []byte("From: ")):
		return "the mail holds no patch"
	}
	return "this is no patch: no line begins a change (`diff --git`, or `---` and `+++`)"
}
