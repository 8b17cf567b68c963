package twin

import (
	"bytes"
	"errors"
	"strings"
)

// A file of Rust may hold code and its tests. The part that is tests is each item that
// only a build for tests has: #[cfg(test)], or #[test].

// rsPart is one item of a file that is tests.
type rsPart struct {
	key        string // where it is and what it is called
	module     string
	start, end int
}

// parts are the items that are tests, of a module and of those in it, and where the
// modules end that are code.
func (p *rsParser) parts(in span, path string, ends map[string]int) (out []rsPart) {
	for _, it := range p.items(in) {
		switch {
		case it.first >= it.end:
		case p.forTests(&it):
			start, end := p.bytes(span{it.first, it.end})
			key := it.kind + " " + it.name
			if it.name == "" {
				from, to := p.bytes(span{it.head, it.end})
				key = p.src[from:to]
			}
			out = append(out, rsPart{path + key, path, start, end})
		case it.kind == "mod" && it.block >= 0 && strings.Count(path, "::") < maxRustDepth:
			inner := path + it.name + "::"
			ends[inner] = p.tokens[it.end-1].start
			out = append(out, p.parts(span{it.block + 1, it.end - 1}, inner, ends)...)
		}
	}
	return out
}

func rustParts(src []byte) ([]rsPart, map[string]int, error) {
	p, err := newRSParser(src)
	if err != nil {
		return nil, nil, err
	}
	ends := map[string]int{"": len(src)}
	return p.parts(span{0, len(p.tokens)}, "", ends), ends, nil
}

// RustTests is the part of a file that is tests: text by which two versions of it are
// compared. It is empty where the file has none.
func RustTests(src []byte) ([]byte, error) {
	parts, _, err := rustParts(src)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, part := range parts {
		out.WriteString(part.module + "\x00")
		out.Write(src[part.start:part.end])
		out.WriteByte(0)
	}
	return out.Bytes(), nil
}

// WithRustTests is a file with the tests of another version of it in the place of its
// own. A module that the file does not have keeps its tests out of it.
func WithRustTests(code, tests []byte) ([]byte, error) {
	ours, ends, err := rustParts(code)
	if err != nil {
		return nil, err
	}
	theirs, _, err := rustParts(tests)
	if err != nil {
		return nil, err
	}
	f := newTextFile(code, [32]byte{})
	var inserts []insert
	used := make([]bool, len(theirs))
	for _, part := range ours {
		text := ""
		for i, other := range theirs {
			if !used[i] && other.key == part.key {
				used[i], text = true, string(tests[other.start:other.end])
				break
			}
		}
		inserts = append(inserts, insert{part.start, rankText, 0, text, part.end - part.start})
	}
	for i, part := range theirs {
		if used[i] {
			continue
		}
		end, ok := ends[part.module]
		if !ok {
			return nil, errors.New("a module that has tests is gone")
		}
		inserts = append(inserts, insert{end, rankModule, i, "\n" + string(tests[part.start:part.end]) + "\n", 0})
	}
	return f.compose(inserts), nil
}
