package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"unicode/utf8"
)

// The vignette recomputes every digest with code of its own: the authority's
// canonical JSON and this one only agree if both follow the written rules
// (docs/format.md). It writes the subset that receipts are made of: objects with
// ASCII keys, lists, text, whole numbers, true, false, null.

type object = map[string]any

// parse reads one JSON value and keeps numbers as they are written.
func parse(src []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the JSON value")
	}
	return v, nil
}

// canonical appends the canonical form of a parsed value.
func canonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case object:
		b = append(b, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = canonical(append(canonicalText(b, key), ':'), v[key])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = canonical(b, item)
		}
		return append(b, ']')
	case string:
		return canonicalText(b, v)
	}
	return fmt.Append(b, scalar(v))
}

// scalar is the text of a number, a truth value or null.
func scalar(v any) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}

// canonicalText escapes what RFC 8785 escapes, and nothing else.
func canonicalText(b []byte, s string) []byte {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}
	b = append(b, '"')
	for _, r := range s {
		switch escaped, ok := short[r]; {
		case ok:
			b = append(b, escaped...)
		case r < ' ':
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// digest is how the authority writes a SHA-256.
func digest(b []byte) string { return "sha256:" + bareDigest(b) }

func bareDigest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// digestOf is the digest of the canonical form of a parsed value.
func digestOf(v any) string { return digest(canonical(nil, v)) }

// fileDigest reads a file of bounded size and hashes it.
func fileDigest(path string) string {
	b := need(os.ReadFile(path))
	return digest(b)
}

// at follows a path of member names into a parsed value; nil when there is
// nothing.
func at(v any, names ...string) any {
	for _, name := range names {
		o, ok := v.(object)
		if !ok {
			return nil
		}
		v = o[name]
	}
	return v
}
