package secret

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Copy writes src to dst with a marker in the place of each finding. With
// lines set the text keeps its lines and the first byte of each, so that a
// redacted patch still reads as a patch.
func Copy(dst io.Writer, src io.Reader, findings []Finding, lines bool) error {
	sorted := slices.SortedStableFunc(slices.Values(findings), func(a, b Finding) int {
		return int(min(max(a.Offset-b.Offset, -1), 1))
	})
	in, out := bufio.NewReaderSize(src, blockBytes), bufio.NewWriterSize(dst, blockBytes)
	done := int64(0)
	for _, f := range sorted {
		if f.Offset > done {
			if _, err := io.CopyN(out, in, f.Offset-done); err != nil {
				return fmt.Errorf("copying what is no secret: %w", err)
			}
			done = f.Offset
		}
		if cut := f.Offset + f.Length - done; cut > 0 {
			if err := replace(out, in, cut, f.Marker(), lines && f.Kind != BinaryContent); err != nil {
				return fmt.Errorf("leaving out a secret: %w", err)
			}
			done += cut
		}
	}
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("copying what is no secret: %w", err)
	}
	return out.Flush()
}

// replace reads n bytes and writes the marker, again on each line if asked to.
func replace(out *bufio.Writer, in *bufio.Reader, n int64, marker string, lines bool) error {
	_, _ = out.WriteString(marker) // a bufio.Writer keeps its error until Flush
	if !lines {
		_, err := io.CopyN(io.Discard, in, n)
		return err
	}
	const (
		inside = iota
		first  // the next byte is the first of a line
		second
	)
	at := inside
	for range n {
		c, err := in.ReadByte()
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		switch {
		case c == '\n':
			_ = out.WriteByte(c) // as above
			at = first
		case at == first:
			_ = out.WriteByte(c) // as above
			at = second
		case at == second:
			_, _ = out.WriteString(marker) // as above
			at = inside
		}
	}
	return nil
}

// OutlinePatch writes what is left of a patch that cannot be shown: its files
// and the numbers of its lines, without any content.
func (s *Scanner) OutlinePatch(dst io.Writer, src io.Reader) error {
	out := bufio.NewWriterSize(dst, blockBytes)
	f, hidden := form{}, false // hidden is inside of binary content
	err := eachLine(src, func(piece []byte, begin bool) error {
		if !begin {
			return nil // the rest of a long line, of which nothing is kept
		}
		text := ""
		switch is := f.next(piece); is {
		case added, removed, context, bare:
			text = string(piece[:1]) + "[redacted]"
			if piece[0] == '\n' {
				text = ""
			}
		case hunk:
			text, _, _ = strings.Cut(strings.TrimPrefix(string(piece), "@@"), "@@")
			text = "@@" + text + "@@"
		case file, other, binary:
			if hidden = hidden && is != file; hidden {
				return nil
			}
			text = s.Redact(strings.TrimSuffix(string(piece), "\n"))
			if hidden = is == binary; hidden {
				text += "\n" + Finding{Kind: BinaryContent}.Marker()
			}
		}
		_, err := out.WriteString(text + "\n")
		return err
	})
	if err != nil {
		return err
	}
	return out.Flush()
}
