package scripted

import (
	"bytes"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"remit/proof/form"
)

// Limits of a script's source. The parser is recursive, so tokens and depth
// are bounded before it runs.
const (
	MaxScriptBytes = 1 << 20
	maxTokens      = 50_000
	maxDepth       = 48
)

// node is one value of a script, with its place. Only what JSON has, too: what
// else YAML offers makes a script that two people read differently.
type node struct {
	kind    kind
	text    string  // of a text; a number as it was written
	items   []*node // of a list
	entries []entry // of a mapping, in the order of the source
	line    int
	column  int
}

type entry struct {
	key   string
	at    *node
	value *node
}

type kind string

const (
	isNull    kind = "nothing"
	isText    kind = "a text"
	isNumber  kind = "a number"
	isTrue    kind = "true"
	isFalse   kind = "false"
	isList    kind = "a list"
	isMapping kind = "a mapping"
)

// number is what JSON takes for one.
var number = form.Lazy(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// parse reads the one document of a source, nil after a problem.
func (r *reader) parse(src []byte) (top *node) {
	if len(src) > MaxScriptBytes {
		r.add(nil, "", "", "%d bytes, at most %d", len(src), MaxScriptBytes)
		return nil
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if line := badText(src); line > 0 {
		r.add(&node{line: line}, "", "save the file as UTF-8 text", "invalid UTF-8 or a control character")
		return nil
	}
	defer func() {
		// A bug of the parser must refuse the script, not end the program.
		if p := recover(); p != nil {
			r.add(nil, "", "", "the YAML parser failed: %v", p)
			top = nil
		}
	}()
	tokens := lexer.Tokenize(string(src))
	if !r.harmless(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := syntaxError(err)
		r.add(at, "", "", "not valid YAML: %s", message)
		return nil
	}
	var body ast.Node
	if len(file.Docs) > 0 {
		body = file.Docs[0].Body
	}
	if len(file.Docs) > 1 {
		r.add(placed(file.Docs[1].Body), "", "one file holds one script", "more than one YAML document")
		return nil
	}
	return r.convert(body, 0)
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

// harmless refuses what makes YAML dangerous or ambiguous: anchors and aliases
// (a few lines that expand to gigabytes), tags, merge and complex keys,
// directives, and nesting that would exhaust the parser's stack.
func (r *reader) harmless(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		r.add(nil, "", "", "more than %d YAML tokens", maxTokens)
		return false
	}
	depth, dashes, line := 0, 0, 0
	for _, t := range tokens {
		at := &node{line: t.Position.Line, column: t.Position.Column}
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType:
			r.add(at, "", "write the value out; quote it if it is a text",
				"%s is refused: anchors, aliases, tags, merge keys, complex keys and directives are not read", t.Type)
			return false
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			dashes++ // a list in a list in a list, on one line
		}
		if depth > maxDepth || dashes > maxDepth {
			r.add(at, "", "", "nested more than %d deep", maxDepth)
			return false
		}
	}
	return true
}

// convert copies a value out of the library's tree.
func (r *reader) convert(from ast.Node, depth int) *node {
	n := placed(from)
	if depth > maxDepth {
		r.add(n, "", "", "nested more than %d deep", maxDepth)
		return nil
	}
	switch from := from.(type) {
	case nil, *ast.NullNode:
		n.kind = isNull
	case *ast.StringNode:
		n.kind, n.text = isText, from.Value
		if from.Token.Type == token.StringType && strings.Contains(from.Value, ": ") {
			// The library takes {a: b: c} for a text where the standard sees
			// an error; the writer meant something else.
			r.add(n, "", "put the text in quotes, or add the missing comma", "unquoted text contains a colon and a space")
			return nil
		}
	case *ast.LiteralNode:
		n.kind, n.text = isText, from.Value.Value
	case *ast.BoolNode:
		if n.kind = isFalse; from.Value {
			n.kind = isTrue
		}
	case *ast.IntegerNode:
		return r.numeric(n, from.Token.Value)
	case *ast.FloatNode:
		return r.numeric(n, from.Token.Value)
	case *ast.SequenceNode:
		n.kind = isList
		for _, item := range from.Values {
			child := r.convert(item, depth+1)
			if child == nil {
				return nil
			}
			n.items = append(n.items, child)
		}
	case *ast.MappingNode:
		return r.convertMapping(n, from.Values, depth)
	case *ast.MappingValueNode:
		return r.convertMapping(n, []*ast.MappingValueNode{from}, depth)
	default:
		r.add(n, "", "quote it if it is a text", "%s is not read here", strings.ToLower(from.Type().String()))
		return nil
	}
	return n
}

func (r *reader) convertMapping(n *node, values []*ast.MappingValueNode, depth int) *node {
	n.kind = isMapping
	for _, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			r.add(placed(v.Key), "", "put the key in quotes", "a key that is no text")
			return nil
		}
		value := r.convert(v.Value, depth+1)
		if value == nil {
			return nil
		}
		n.entries = append(n.entries, entry{key.Value, placed(v.Key), value})
	}
	return n
}

func (r *reader) numeric(n *node, text string) *node {
	if !number().MatchString(text) {
		r.add(n, "", "write a plain decimal number, or quote it if it is a text", "%q is not a number that JSON has", text)
		return nil
	}
	n.kind, n.text = isNumber, text
	return n
}

// syntaxError takes place and message out of the library's error.
func syntaxError(err error) (*node, string) {
	if located, ok := errors.AsType[yaml.Error](err); ok && located.GetToken() != nil {
		p := located.GetToken().Position
		return &node{line: p.Line, column: p.Column}, located.GetMessage()
	}
	message, _, _ := strings.Cut(err.Error(), "\n")
	return nil, message
}

// placed is where a value begins: a block mapping begins at its first key.
func placed(n ast.Node) *node {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return placed(m.Values[0].Key)
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return placed(m.Key)
	}
	if n != nil {
		if t := n.GetToken(); t != nil && t.Position != nil {
			return &node{line: t.Position.Line, column: max(t.Position.Column, 1)}
		}
	}
	return &node{line: 1}
}
