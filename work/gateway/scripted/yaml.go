package scripted

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"remit/law/yamldoc"
	"remit/proof/form"
)

// Limits of a script's source.
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
	yamldoc.Place
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
func (r *reader) parse(src []byte) *node {
	body, bad := yamldoc.Parse(src, yamldoc.Limits{Bytes: MaxScriptBytes, Tokens: maxTokens, Depth: maxDepth})
	if bad != nil {
		r.add(&node{Place: bad.Place}, "", bad.Hint, "%s", bad.Message)
		return nil
	}
	return r.convert(body, 0)
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

// placed is where a value begins.
func placed(n ast.Node) *node { return &node{Place: yamldoc.PlaceOf(n)} }
