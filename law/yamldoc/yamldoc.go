// Package yamldoc reads the one YAML document of a file that a person wrote, and
// refuses what two readers may understand differently or what grows when it is
// read: anchors and aliases (a few lines that expand to gigabytes), tags, merge
// and complex keys, directives, bytes that are no text, and nesting that would
// exhaust the parser's stack. Bytes, tokens and depth are bounded before the
// parser runs, since it is recursive.
//
// What the values mean is the caller's to decide: package task reads contracts,
// policies and prices, package scripted the scripts of its model.
package yamldoc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"remit/proof/reason"
)

// Place is a position in a source; the zero value is "unknown".
type Place struct{ Line, Column int }

// Limits bound a source.
type Limits struct {
	Bytes, Tokens int
	Depth         int // of flow collections, and of lists that begin on one line
}

// Problem is why a source is no document.
type Problem struct {
	Place
	Large         bool // it is above a limit of size
	Message, Hint string
}

func problem(at Place, hint, format string, args ...any) *Problem {
	return &Problem{Place: at, Hint: hint, Message: fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) *Problem {
	return &Problem{Large: true, Message: fmt.Sprintf(format, args...)}
}

// Parse returns the value of the one document of a source, nil for an empty one.
func Parse(src []byte, l Limits) (body ast.Node, bad *Problem) {
	if len(src) > l.Bytes {
		return nil, tooLarge("%d bytes, at most %d", len(src), l.Bytes)
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if line := BadText(src); line > 0 {
		return nil, problem(Place{Line: line}, "save the file as UTF-8 text", "invalid UTF-8 or control character")
	}
	defer func() {
		// A bug of the parser must refuse the file, not end the program.
		if p := recover(); p != nil {
			body, bad = nil, problem(Place{}, "", "YAML parser failed: %v", p)
		}
	}()
	tokens := lexer.Tokenize(string(src))
	if bad := refused(tokens, l); bad != nil {
		return nil, bad
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(err)
	}
	if len(file.Docs) > 1 {
		return nil, problem(PlaceOf(file.Docs[1].Body), "one file holds one document", "more than one YAML document")
	}
	if len(file.Docs) > 0 {
		body = file.Docs[0].Body
	}
	return body, nil
}

// BadText returns the line of the first byte that is no text, 0 if all is.
func BadText(src []byte) int {
	for i, line := 0, 1; i < len(src); {
		c, size := utf8.DecodeRune(src[i:])
		switch {
		case c == '\n':
			line++
		case c == utf8.RuneError && size == 1, unicode.IsControl(c) && c != '\t' && c != '\r':
			return line
		}
		i += size
	}
	return 0
}

// refused is the first token that is not read.
func refused(tokens token.Tokens, l Limits) *Problem {
	if len(tokens) > l.Tokens {
		return tooLarge("more than %d YAML tokens", l.Tokens)
	}
	depth, dashes, line := 0, 0, 0
	for _, t := range tokens {
		at := Place{t.Position.Line, t.Position.Column}
		if at.Line != line {
			line, dashes = at.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType:
			return problem(at, "write the value out; quote it if it is a text",
				"%s is refused: anchors, aliases, tags, merge keys, complex keys and directives are not read", t.Type)
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			dashes++ // a list in a list in a list, on one line
		}
		if depth > l.Depth || dashes > l.Depth {
			return problem(at, "", "nested more than %d deep", l.Depth)
		}
	}
	return nil
}

// syntaxError takes place and message out of the library's error.
func syntaxError(err error) *Problem {
	const invalid = "not valid YAML: %s"
	if located, ok := errors.AsType[yaml.Error](err); ok && located.GetToken() != nil {
		p := located.GetToken().Position
		return problem(Place{p.Line, p.Column}, "", invalid, located.GetMessage())
	}
	message, _, _ := strings.Cut(err.Error(), "\n")
	return problem(Place{}, "", invalid, message)
}

// PlaceOf is where a value begins: a block mapping begins at its first key.
func PlaceOf(n ast.Node) Place {
	switch m := n.(type) {
	case nil:
		return Place{Line: 1}
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return PlaceOf(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return PlaceOf(m.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return Place{t.Position.Line, max(t.Position.Column, 1)}
	}
	return Place{Line: 1}
}

// Text is the text of a scalar that is one; a number, a date and null are none.
func Text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// Problems are all the things that are wrong with a file, in source order.
// errors.As finds the first, errors.Is any.
type Problems []*reason.Error

// Error lists one problem a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns every problem.
func (p Problems) Unwrap() []error {
	errs := make([]error, len(p))
	for i, problem := range p {
		errs[i] = problem
	}
	return errs
}

// Sorted returns the problems in source order as one error, nil if there are none.
func (p Problems) Sorted() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b *reason.Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}
