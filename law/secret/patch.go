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

// maxSections bounds how many binary files of a patch are told.
const maxSections = 10_000

// ScanPatch reads a patch as git writes it. Credentials are found in every
// line. Shapes are found in added lines and in the names of changed files only:
// what stands in the context was in the repository before. A finding may go
// over several lines; its place and length are those in the patch. Findings of
// added lines and of the others come in their own order each.
//
// The content of binary files is compressed in a patch and cannot be searched
// there. ScanPatch says where it stands; the caller looks at the files.
func (s *Scanner) ScanPatch(r io.Reader, found func(f Finding, text []byte)) (binary []Finding, err error) {
	p := patchScan{added: newView(s, All, found), rest: newView(s, Values, found)}
	in := bufio.NewReaderSize(r, blockBytes)
	begin := true // of a line
	for {
		piece, err := in.ReadSlice('\n')
		if len(piece) > 0 {
			p.line(piece, begin)
			begin = err == nil
		}
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			p.endBinary()
			p.added.stream.Close()
			p.rest.stream.Close()
			return p.binary, nil
		default:
			return nil, fmt.Errorf("reading the patch: %w", err)
		}
	}
}

// patchScan follows the form of a patch, so that an added line "++ b/x" is not
// taken for the name of a file, nor a file's content for a hunk.
type patchScan struct {
	added, rest *view
	offset      int64
	before      int // lines of the hunk's old side that are still to come
	after       int // and of its new side
	current     *view
	binaryAt    int64 // where binary content began, 0 for none
	binary      []Finding
}

// line takes a line, or a piece of a long one.
func (p *patchScan) line(piece []byte, begin bool) {
	skip := 0
	if begin {
		skip = p.classify(piece)
	}
	p.current.write(piece[skip:], p.offset+int64(skip))
	p.offset += int64(len(piece))
}

// classify decides where a line goes and how much of its beginning belongs to
// the patch and not to a file.
func (p *patchScan) classify(line []byte) int {
	if p.before > 0 || p.after > 0 {
		switch line[0] {
		case '+':
			p.after--
			p.current = p.added
		case '-':
			p.before--
			p.current = p.rest
		case '\\':
			p.current = p.rest
			return 0
		default:
			p.before, p.after = p.before-1, p.after-1
			p.current = p.rest
			if line[0] != ' ' {
				return 0
			}
		}
		return 1
	}
	p.current = p.rest
	switch {
	case bytes.HasPrefix(line, []byte("@@ -")):
		p.before, p.after = hunk(line)
	case bytes.HasPrefix(line, []byte("GIT binary patch")):
		p.binaryAt = p.offset + int64(len(line))
	case bytes.HasPrefix(line, []byte("diff --git ")):
		p.endBinary()
		p.current = p.added
	case bytes.HasPrefix(line, []byte("+++ ")):
		p.current = p.added
	}
	p.added.interrupt()
	p.rest.interrupt()
	return 0
}

// hunk reads the two counts of "@@ -1,2 +3,4 @@".
func hunk(line []byte) (before, after int) {
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
