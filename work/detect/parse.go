package detect

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/pelletier/go-toml/v2"

	"remit/law/yamldoc"
)

// maxNested bounds how deep brackets of a TOML file go: its parser is recursive.
const maxNested = 64

// toml reads a TOML file, nil for one that is not there or cannot be read.
func (f *finder) toml(name string) (doc map[string]any) {
	if doc, seen := f.parsed[name]; seen {
		return doc
	}
	defer func() { f.parsed[name] = doc }()
	src, ok := f.text(name)
	if !ok {
		return nil
	}
	deep, most := 0, 0
	for _, c := range src {
		switch c {
		case '[', '{':
			deep++
		case ']', '}':
			deep--
		}
		most = max(most, deep)
	}
	if most > maxNested || toml.Unmarshal(src, &doc) != nil {
		f.note(name, "is no TOML that can be read: it was left out")
		return nil
	}
	return doc
}

// yamlLimits bound a YAML file of a repository.
var yamlLimits = yamldoc.Limits{Bytes: MaxFileBytes, Tokens: 50_000, Depth: maxNested}

// yaml reads a YAML file, nil for what cannot be read.
func (f *finder) yaml(name string, src []byte) ast.Node {
	doc, bad := yamldoc.Parse(src, yamlLimits)
	if bad != nil {
		f.note(name, "is no YAML that can be read: it was left out")
		return nil
	}
	return doc
}

// entries are the keys and values of a mapping.
func entries(n ast.Node) []*ast.MappingValueNode {
	if m, ok := n.(*ast.MappingNode); ok && m != nil {
		return m.Values
	}
	if one, ok := n.(*ast.MappingValueNode); ok && one != nil {
		return []*ast.MappingValueNode{one}
	}
	return nil
}

// child is the value of a key of a mapping, nil if there is none.
func child(n ast.Node, key string) ast.Node {
	for _, e := range entries(n) {
		if text, ok := yamldoc.Text(e.Key); ok && text == key {
			return e.Value
		}
	}
	return nil
}

func listOf(n ast.Node) []ast.Node {
	if s, ok := n.(*ast.SequenceNode); ok && s != nil {
		return s.Values
	}
	return nil
}
