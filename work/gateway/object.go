package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// The body of a request is taken apart by hand, for two reasons: encoding/json
// takes "Model" for "model" and the last of two equal names, where another
// reader takes the first; and most of a body is text that the gateway does not need to
// decode. All functions but valid expect JSON that valid has accepted.

// valid reports whether b is one JSON value in valid UTF-8. Of the bodies that
// agents send, encoding/json would take most of a millisecond.
func valid(b []byte) bool { return jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true)) }

// member is a member of an object: its decoded name and its value as it stands.
type member struct {
	name  string
	value []byte
}

// maxMembers bounds the work on an object.
const maxMembers = 4096

var errMembers = fmt.Errorf("an object has more than %d members", maxMembers)

// members are the members of an object in their order.
func members(b []byte) ([]member, error) {
	var out []member
	i := space(b, 0) + 1
	for {
		i = space(b, i)
		if b[i] == '}' {
			return out, nil
		}
		if b[i] == ',' {
			i = space(b, i+1)
		}
		end := skip(b, i)
		name, err := text(b[i:end])
		if err != nil {
			return nil, err
		}
		i = space(b, space(b, end)+1) // behind the colon
		end = skip(b, i)
		if len(out) == maxMembers {
			return nil, errMembers
		}
		out = append(out, member{name, b[i:end]})
		i = end
	}
}

// elements calls yield with each element of an array until it returns false.
func elements(b []byte, yield func(value []byte) bool) {
	i := space(b, 0) + 1
	for {
		i = space(b, i)
		if b[i] == ']' {
			return
		}
		if b[i] == ',' {
			i = space(b, i+1)
		}
		end := skip(b, i)
		if !yield(b[i:end]) {
			return
		}
		i = end
	}
}

// kind is the first byte of a value: { [ " t f n or that of a number.
func kind(b []byte) byte { return b[space(b, 0)] }

// text decodes a string.
func text(b []byte) (string, error) {
	b = b[space(b, 0):]
	if len(b) < 2 || b[0] != '"' {
		return "", errors.New("not a string")
	}
	b = b[:skipString(b, 0)]
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1]), nil
	}
	var s string
	err := json.Unmarshal(b, &s)
	return s, err
}

// empty reports whether a value says nothing: null, false, or nothing inside.
func empty(b []byte) bool {
	switch kind(b) {
	case 'n', 'f':
		return true
	case '{':
		return b[space(b, space(b, 0)+1)] == '}'
	case '[':
		return b[space(b, space(b, 0)+1)] == ']'
	case '"':
		return b[space(b, 0)+1] == '"'
	}
	return false
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns the end of the value that begins at i.
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			i++
			if depth == 0 {
				return i
			}
		}
		return i
	}
	for i < len(b) && bytes.IndexByte([]byte(",]} \t\r\n"), b[i]) < 0 { // a number or word
		i++
	}
	return i
}

// skipString returns the end of the string that begins at i.
func skipString(b []byte, i int) int {
	for i++; ; {
		quote := bytes.IndexByte(b[i:], '"')
		if quote < 0 {
			return len(b)
		}
		end := i + quote
		escapes := 0
		for b[end-1-escapes] == '\\' { // ends at the opening quote
			escapes++
		}
		i = end + 1
		if escapes%2 == 0 {
			return i
		}
	}
}
