package task

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"remit/law/yamldoc"
	"remit/proof/reason"
)

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
