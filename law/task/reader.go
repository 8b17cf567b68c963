package task

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"remit/law/yamldoc"
	"remit/proof/reason"
)

// reader reads one value of the YAML tree into a Go variable.
type reader func(r *report, field string, n ast.Node)

// key is a key that a mapping may have.
type key struct {
	name string
	read reader
}

// object reads a mapping: every key must be known and stand there once.
func object(keys []key) reader { return mapping(keys, false) }

func mapping(keys []key, ignoreUnknown bool) reader {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return func(r *report, field string, n ast.Node) {
		m, ok := n.(*ast.MappingNode)
		if !ok {
			r.wrongType(field, n, "a mapping")
			return
		}
		r.places[field] = placeOfNode(m)
		seen := map[string]place{}
		for _, entry := range m.Values {
			name, ok := keyName(entry.Key)
			at := placeOfNode(entry.Key)
			child := join(field, name)
			if first, twice := seen[name]; ok && twice {
				r.add(at, child, reason.ContractDuplicateKey, "remove one of the two", "key %q stands on line %d already", name, first.Line)
				continue
			}
			seen[name] = at
			if i := indexKey(keys, name); ok && i >= 0 {
				r.places[child] = at
				keys[i].read(r, child, entry.Value)
			} else if !ignoreUnknown {
				r.add(at, child, reason.ContractUnknownKey, didYouMean(name, names), "unknown key %q", name)
			}
		}
	}
}

func indexKey(keys []key, name string) int {
	for i, k := range keys {
		if k.name == name {
			return i
		}
	}
	return -1
}

func keyName(n ast.MapKeyNode) (string, bool) {
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value, true
	}
	return n.GetToken().Value, false
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// list reads a sequence; element(i) is asked for the reader of each item.
func list(begin func(count int), element func(i int) reader) reader {
	return func(r *report, field string, n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			r.wrongType(field, n, "a list")
			return
		}
		begin(len(seq.Values))
		for i, item := range seq.Values {
			child := fmt.Sprintf("%s[%d]", field, i)
			r.places[child] = placeOfNode(item)
			element(i)(r, child, item)
		}
	}
}

// texts reads a list of texts. An empty list is not nil: it was stated.
func texts[T ~string](to *[]T) reader {
	return list(func(count int) { *to = make([]T, count) }, func(i int) reader { return text(&(*to)[i]) })
}

func text[T ~string](to *T) reader {
	return func(r *report, field string, n ast.Node) {
		switch n := n.(type) {
		case *ast.StringNode:
			if n.Token.Type == token.StringType && strings.Contains(n.Value, ": ") {
				// The library takes {a: b: c} for a text where the standard
				// sees an error; its author meant something else.
				r.add(placeOfNode(n), field, reason.ContractSyntax, "put the text in quotes, or add the missing comma", "unquoted text contains a colon and a space")
				return
			}
			*to = T(n.Value)
		case *ast.LiteralNode:
			*to = T(n.Value.Value)
		default:
			r.wrongType(field, n, "a text")
		}
	}
}

func boolean(to *bool) reader {
	return func(r *report, field string, n ast.Node) {
		if b, ok := n.(*ast.BoolNode); ok {
			*to = b.Value
			return
		}
		r.wrongType(field, n, "true or false")
	}
}

// integer reads a plain decimal: no sign, no other base, no separators.
func integer(to *int64) reader {
	return func(r *report, field string, n ast.Node) {
		i, ok := n.(*ast.IntegerNode)
		if !ok {
			r.wrongType(field, n, "a whole number")
			return
		}
		value, err := plainInteger(i.Token.Value)
		if err != nil {
			r.add(placeOfNode(n), field, reason.ContractValue, "write a plain decimal number such as 30", "%v", err)
			return
		}
		*to = value
	}
}

// optional reads null as nil and anything else with the reader that make gives.
func optional[T any](to **T, read func(*T) reader) reader {
	return func(r *report, field string, n ast.Node) {
		if _, null := n.(*ast.NullNode); null {
			*to = nil
			return
		}
		value := new(T)
		*to = value
		read(value)(r, field, n)
	}
}

// Limits of a source.
const (
	MaxSourceBytes = 1 << 20
	maxTokens      = 20_000
	maxFlowDepth   = 16
)

// document parses exactly one YAML document and returns its top mapping, nil
// after reporting why there is none.
func (r *report) document(src []byte) *ast.MappingNode {
	body, bad := yamldoc.Parse(src, yamldoc.Limits{Bytes: MaxSourceBytes, Tokens: maxTokens, Depth: maxFlowDepth})
	if bad != nil {
		code := reason.ContractSyntax
		if bad.Large {
			code = reason.ContractTooLarge
		}
		r.add(bad.Place, "", code, bad.Hint, "%s", bad.Message)
		return nil
	}
	m, ok := body.(*ast.MappingNode)
	if !ok {
		r.add(placeOfNode(body), "", reason.ContractSyntax, "write `key: value` lines", "expected a mapping at the top, found %s", kind(body))
		return nil
	}
	return m
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

func placeOfNode(n ast.Node) place { return yamldoc.PlaceOf(n) }
