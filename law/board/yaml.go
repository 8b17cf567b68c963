package board

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"remit/law/yamldoc"
	"remit/proof/reason"
)

// limits bound front matter and the workboard for the recursive parser.
var limits = yamldoc.Limits{Bytes: MaxRecordBytes, Tokens: 50_000, Depth: 8}

// document parses the one mapping of a YAML text, nil after a finding.
func document(file string, src []byte, rule string, code reason.Code, out *findings) *ast.MappingNode {
	body, bad := yamldoc.Parse(src, limits)
	if bad != nil {
		out.add(file, max(bad.Line, 1), rule, code, "%s", bad.Message)
		return nil
	}
	m, ok := body.(*ast.MappingNode)
	if !ok {
		out.add(file, max(yamldoc.PlaceOf(body).Line, 1), rule, code, "expected `key: value` lines")
		return nil
	}
	return m
}

// decoder reads the values of one document into Go values. What does not fit is
// a finding.
type decoder struct {
	file, rule string
	code       reason.Code
	out        *findings
}

func (d *decoder) bad(n ast.Node, format string, args ...any) {
	d.out.add(d.file, max(yamldoc.PlaceOf(n).Line, 1), d.rule, d.code, format, args...)
}

// mapping reads each known key once. Keys that are not optional must stand there.
func (d *decoder) mapping(m *ast.MappingNode, lines map[string]int, keys map[string]func(ast.Node), optional ...string) {
	for _, entry := range m.Values {
		name := entry.Key.GetToken().Value
		read, known := keys[name]
		switch _, twice := lines[name]; {
		case twice:
			d.bad(entry.Key, "%q stands here twice", name)
		case !known:
			d.bad(entry.Key, "unknown key %q: the keys are %s", name, strings.Join(sortedKeys(keys), ", "))
		default:
			lines[name] = yamldoc.PlaceOf(entry.Key).Line
			read(entry.Value)
		}
	}
	for _, name := range sortedKeys(keys) {
		if _, there := lines[name]; !there && !slices.Contains(optional, name) {
			d.bad(m, "%s is missing", name)
		}
	}
}

func sortedKeys(keys map[string]func(ast.Node)) []string {
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// line reads a text of one line that is not empty.
func (d *decoder) line(to *string) func(ast.Node) {
	return func(n ast.Node) {
		text, ok := yamldoc.Text(n)
		switch text = strings.TrimSpace(text); {
		case !ok:
			d.bad(n, "expected a text")
		case text == "":
			d.bad(n, "is empty")
		case strings.ContainsAny(text, "\r\n"):
			d.bad(n, "expected one line")
		default:
			*to = text
		}
	}
}

// texts reads a list of texts, or one text.
func (d *decoder) texts(to *[]string) func(ast.Node) {
	return func(n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			var one string
			if d.line(&one)(n); one != "" {
				*to = []string{one}
			}
			return
		}
		for _, item := range seq.Values {
			var text string
			d.line(&text)(item)
			if text != "" {
				*to = append(*to, text)
			}
		}
	}
}

// list reads a list of mappings.
func (d *decoder) list(each func(m *ast.MappingNode)) func(ast.Node) {
	return func(n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			d.bad(n, "expected a list")
			return
		}
		for _, item := range seq.Values {
			if m, ok := item.(*ast.MappingNode); ok {
				each(m)
			} else {
				d.bad(item, "expected a mapping")
			}
		}
	}
}
