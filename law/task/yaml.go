package task

import (
	"bytes"
	"errors"
	"strconv"
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

// Limits of a source. The parser is recursive, so depth and token count are
// bounded before it runs.
const (
	MaxSourceBytes = 1 << 20
	maxTokens      = 20_000
	maxFlowDepth   = 16
)

// document parses exactly one YAML document and returns its top mapping, nil
// after reporting why there is none.
func (r *report) document(src []byte) *ast.MappingNode {
	file := r.parse(src)
	if file == nil {
		return nil
	}
	var body ast.Node
	if len(file.Docs) > 0 {
		body = file.Docs[0].Body
	}
	if len(file.Docs) > 1 {
		r.add(placeOfNode(file.Docs[1].Body), "", reason.ContractSyntax, "one file holds one document", "more than one YAML document")
		return nil
	}
	m, ok := body.(*ast.MappingNode)
	if !ok {
		r.add(placeOfNode(body), "", reason.ContractSyntax, "write `key: value` lines", "expected a mapping at the top, found %s", kind(body))
		return nil
	}
	return m
}

// parse runs the library's parser on a source that was found to be harmless.
func (r *report) parse(src []byte) (file *ast.File) {
	if len(src) > MaxSourceBytes {
		r.add(place{}, "", reason.ContractTooLarge, "", "%d bytes, at most %d", len(src), MaxSourceBytes)
		return nil
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if line := badText(src); line > 0 {
		r.add(place{line: line}, "", reason.ContractSyntax, "save the file as UTF-8 text", "invalid UTF-8 or control character")
		return nil
	}
	defer func() {
		// A parser bug must refuse the file, not end the program.
		if p := recover(); p != nil {
			r.add(place{}, "", reason.ContractSyntax, "", "YAML parser failed: %v", p)
			file = nil
		}
	}()
	tokens := lexer.Tokenize(string(src))
	if !r.harmless(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := syntaxError(err)
		r.add(at, "", reason.ContractSyntax, "", "not valid YAML: %s", message)
		return nil
	}
	return file
}

// badText returns the line of the first byte that is no text, 0 if all is.
func badText(src []byte) int {
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

// harmless refuses what a contract never needs and what makes YAML dangerous:
// anchors and aliases (a few lines that expand to gigabytes), tags, merge and
// complex keys, directives, and nesting that would exhaust the parser's stack.
func (r *report) harmless(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		r.add(place{}, "", reason.ContractTooLarge, "", "more than %d YAML tokens", maxTokens)
		return false
	}
	depth := 0
	for _, t := range tokens {
		at := place{t.Position.Line, t.Position.Column}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType:
			r.add(at, "", reason.ContractSyntax, "write the value out; quote it if it is a text",
				"%s is refused: anchors, aliases, tags, merge keys, complex keys and directives are not read", t.Type)
			return false
		case token.SequenceStartType, token.MappingStartType:
			if depth++; depth > maxFlowDepth {
				r.add(at, "", reason.ContractSyntax, "", "nested more than %d deep", maxFlowDepth)
				return false
			}
		case token.SequenceEndType, token.MappingEndType:
			depth--
		}
	}
	return true
}

// syntaxError takes place and message out of the library's error.
func syntaxError(err error) (place, string) {
	if located, ok := errors.AsType[yaml.Error](err); ok && located.GetToken() != nil {
		p := located.GetToken().Position
		return place{p.Line, p.Column}, located.GetMessage()
	}
	message, _, _ := strings.Cut(err.Error(), "\n")
	return place{}, message
}

func (r *report) wrongType(field string, n ast.Node, want string) {
	hint := ""
	if want == "a text" {
		hint = "put it in quotes if it is meant as a text"
	}
	r.add(placeOfNode(n), field, reason.ContractType, hint, "expected %s, found %s", want, kind(n))
}

// kind names what a node is, for messages.
func kind(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode:
		return "the number " + strconv.Quote(n.Token.Value)
	case *ast.FloatNode:
		return "the number " + strconv.Quote(n.Token.Value)
	case *ast.BoolNode:
		return strconv.FormatBool(n.Value)
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode:
		return "a mapping"
	}
	return "a " + strings.ToLower(n.Type().String())
}

// placeOfNode is where a value begins: a block mapping begins at its first key.
func placeOfNode(n ast.Node) place {
	switch m := n.(type) {
	case nil:
		return place{line: 1}
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return placeOfNode(m.Values[0].Key)
		}
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, max(t.Position.Column, 1)}
	}
	return place{line: 1}
}
