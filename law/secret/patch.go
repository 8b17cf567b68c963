package secret

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// BinaryContent is the kind that stands for the content of a binary file in a
// patch.
const BinaryContent = "binary-content"

// maxSections bounds how many binary files of a patch are reported.
const maxSections = 10_000

// ScanPatch reads a patch as git writes it. Credentials are found in every
// line. Shapes are found in added lines and in the names of changed files only:
// what stands in the context was in the repository before. A finding may go
// over several lines; its place and length are those in the patch. Findings of
// added lines and of the others come in their own order each.
//
// The content of binary files is compressed in a patch and cannot be searched
// there. ScanPatch says where it stands; the caller looks at the files.
func (s *Scanner) ScanPatch(r io.Reader, found func(f Finding, text []byte)) (sections []Finding, err error) {
	p := patchScan{added: newView(s, All, found), rest: newView(s, Values, found)}
	if err := eachLine(r, func(piece []byte, begin bool) error { p.line(piece, begin); return nil }); err != nil {
		return nil, err
	}
	p.endBinary()
	p.added.stream.Close()
	p.rest.stream.Close()
	return p.binary, nil
}

// eachLine calls f with every line, or with the pieces of a long one.
func eachLine(r io.Reader, f func(piece []byte, begin bool) error) error {
	in := bufio.NewReaderSize(r, blockBytes)
	begin := true
	for {
		piece, err := in.ReadSlice('\n')
		if len(piece) > 0 {
			if err := f(piece, begin); err != nil {
				return err
			}
			begin = err == nil
		}
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil
		default:
			return fmt.Errorf("reading the patch: %w", err)
		}
	}
}

// form follows the form of a patch, so that an added line "++ b/x" is not taken
// for the name of a file, nor a file's content for a hunk.
type form struct {
	before, after int // lines of the hunk that are still to come, of its two sides
}

// kind is what a line of a patch is.
type kind int

const (
	other   kind = iota // a header
	file                // a header that names a file
	hunk                // @@ -1,2 +3,4 @@
	binary              // compressed content follows
	added               // from here on: a line of a file, behind one byte
	removed             //
	context             //
	bare                // a line inside of a hunk without that byte
)

// next takes the beginning of a line.
func (f *form) next(line []byte) kind {
	if f.before <= 0 && f.after <= 0 {
		switch {
		case bytes.HasPrefix(line, []byte("@@ -")):
			f.before, f.after = hunkLines(line)
			return hunk
		case bytes.HasPrefix(line, []byte("GIT binary patch")):
			return binary
		case bytes.HasPrefix(line, []byte("diff --git ")), bytes.HasPrefix(line, []byte("+++ ")):
			return file
		}
		return other
	}
	switch line[0] {
	case '+':
		f.after--
		return added
	case '-':
		f.before--
		return removed
	case '\\':
		return bare
	}
	f.before, f.after = f.before-1, f.after-1
	if line[0] != ' ' {
		return bare
	}
	return context
}

// patchScan sorts the lines of a patch into two texts.
type patchScan struct {
	form
	added, rest *view
	current     *view
	offset      int64
	binaryAt    int64 // where binary content began, 0 for none
	binary      []Finding
}

// line takes a line, or a piece of a long one.
func (p *patchScan) line(piece []byte, begin bool) {
	skip := 0
	if begin {
		skip = p.begin(piece)
	}
	p.current.write(piece[skip:], p.offset+int64(skip))
	p.offset += int64(len(piece))
}

// begin decides where a line goes, and how much of its beginning belongs to
// the patch and not to a file.
func (p *patchScan) begin(line []byte) int {
	is := p.next(line)
	p.current = p.rest
	switch is {
	case added:
		p.current = p.added
		return 1
	case removed, context:
		return 1
	case bare:
		return 0
	case binary:
		p.binaryAt = p.offset + int64(len(line))
	case file:
		p.current = p.added
		if line[0] == 'd' {
			p.endBinary()
		}
	case other, hunk:
	}
	p.added.interrupt()
	p.rest.interrupt()
	return 0
}

// hunkLines reads the two counts of "@@ -1,2 +3,4 @@".
func hunkLines(line []byte) (before, after int) {
	fields := bytes.Fields(line)
	if len(fields) < 3 {
		return 0, 0
	}
	count := func(field []byte) int {
		_, after, found := bytes.Cut(field, []byte(","))
		if !found {
			return 1
		}
		n, err := strconv.Atoi(string(after))
		if err != nil || n < 0 {
			return 0
		}
		return n
	}
	return count(fields[1]), count(fields[2])
}

func (p *patchScan) endBinary() {
	if length := p.offset - 1 - p.binaryAt; p.binaryAt > 0 && length > 0 && len(p.binary) < maxSections {
		p.binary = append(p.binary, Finding{Kind: BinaryContent, Offset: p.binaryAt, Length: length})
	}
	p.binaryAt = 0
}

// view is a part of the lines of a patch, scanned as one text.
type view struct {
	stream *Stream
	offset int64  // of the next byte of the view
	parts  []part // where its bytes stand in the patch, oldest first
	broken bool   // the view ends in a byte of no file
}

// part is a stretch of a view.
type part struct{ view, patch, length int64 }

// maxParts is when the parts that no finding can need any more are dropped.
const maxParts = 8192

func newView(s *Scanner, rules Rules, found func(Finding, []byte)) *view {
	v := &view{}
	v.stream = s.Stream(rules, func(f Finding, text []byte) {
		from, to := v.place(f.Offset), v.place(f.Offset+f.Length-1)+1
		f.Offset, f.Length = from, to-from
		found(f, text)
	})
	return v
}

func (v *view) write(b []byte, patch int64) {
	if len(b) == 0 {
		return
	}
	if len(v.parts) > maxParts {
		old := 0
		for old < len(v.parts) && v.parts[old].view+v.parts[old].length < v.stream.base {
			old++
		}
		v.parts = append(v.parts[:0], v.parts[old:]...)
	}
	v.broken = false
	v.parts = append(v.parts, part{v.offset, patch, int64(len(b))})
	v.offset += int64(len(b))
	_, _ = v.stream.Write(b) // a Stream has no errors
}

// interrupt ends what came before: lines of two hunks are not one text.
func (v *view) interrupt() {
	if v.broken || len(v.parts) == 0 {
		return
	}
	last := v.parts[len(v.parts)-1]
	v.write([]byte{0}, last.patch+last.length)
	v.broken = true
}

// place is where a byte of the view stands in the patch.
func (v *view) place(offset int64) int64 {
	lo, hi := 0, len(v.parts)
	for lo < hi {
		mid := (lo + hi) / 2
		if p := v.parts[mid]; p.view+p.length <= offset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return v.parts[lo].patch + offset - v.parts[lo].view
}
