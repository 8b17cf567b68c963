package scripted

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"remit/law/yamldoc"
	"remit/proof/form"
	"remit/proof/reason"
)

// Problems are all the things that are wrong with a script, in source order.
// Each is a *reason.Error with script_invalid that names file, line and field.
type Problems = yamldoc.Problems

// reader reads a script and collects what is wrong with it.
type reader struct {
	file     string
	problems Problems
}

// add reports a problem at a place, nil when it is about the whole file.
func (r *reader) add(at *node, field, hint, format string, args ...any) {
	e := reason.Errorf(reason.ScriptInvalid, format, args...)
	e.File, e.Field, e.Hint = r.file, field, hint
	if at != nil {
		e.Line, e.Column = at.Line, at.Column
	}
	r.problems = append(r.problems, e)
}

func (r *reader) err() error { return r.problems.Sorted() }

// key is a key that a mapping may have, and how its value is read.
type key struct {
	name string
	read func(field string, n *node)
}

// mapping reads a mapping: every key must be known and stand there once. It
// reports whether it is one.
func (r *reader) mapping(field string, n *node, keys []key) bool {
	if n.kind != isMapping {
		r.wrong(field, n, "a mapping")
		return false
	}
	seen := map[string]int{}
	for _, e := range n.entries {
		child := joined(field, e.key)
		if line, twice := seen[e.key]; twice {
			r.add(e.at, child, "remove one of the two", "key %q stands on line %d already", e.key, line)
			continue
		}
		seen[e.key] = e.at.Line
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == e.key })
		if i < 0 {
			names := make([]string, len(keys))
			for i, k := range keys {
				names[i] = k.name
			}
			r.add(e.at, child, "one of "+strings.Join(names, ", "), "unknown key %q", e.key)
			continue
		}
		keys[i].read(child, e.value)
	}
	return true
}

func joined(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// list reads each item of a list.
func (r *reader) list(field string, n *node, most int, read func(field string, n *node)) {
	if n.kind != isList {
		r.wrong(field, n, "a list")
		return
	}
	if len(n.items) == 0 || len(n.items) > most {
		r.add(n, field, "", "%d items, where 1 to %d are possible", len(n.items), most)
		return
	}
	for i, item := range n.items {
		read(fmt.Sprintf("%s[%d]", field, i), item)
	}
}

func (r *reader) wrong(field string, n *node, want string) {
	hint := ""
	if want == string(isText) {
		hint = "put it in quotes if it is meant as a text"
	}
	r.add(n, field, hint, "expected %s, found %s", want, n.kind)
}

func (r *reader) text(to *string) func(string, *node) {
	return func(field string, n *node) {
		if n.kind != isText {
			r.wrong(field, n, string(isText))
			return
		}
		*to = n.text
	}
}

func (r *reader) boolean(to **bool) func(string, *node) {
	return func(field string, n *node) {
		if n.kind != isTrue && n.kind != isFalse {
			r.wrong(field, n, "true or false")
			return
		}
		value := n.kind == isTrue
		*to = &value
	}
}

// whole reads a whole number between two bounds.
func (r *reader) whole(to *int64, least, most int64) func(string, *node) {
	return func(field string, n *node) {
		if n.kind != isNumber {
			r.wrong(field, n, "a whole number")
			return
		}
		value, err := strconv.ParseInt(n.text, 10, 64)
		if err != nil || value < least || value > most {
			r.add(n, field, "", "%s is not a whole number from %d to %d", n.text, least, most)
			return
		}
		*to = value
	}
}

// sizes reads a list of sizes that is gone through again and again.
func (r *reader) sizes(to *[]int) func(string, *node) {
	return func(field string, n *node) {
		*to = nil
		r.list(field, n, 64, func(field string, n *node) {
			var size int64
			r.whole(&size, 1, 1<<20)(field, n)
			*to = append(*to, int(size))
		})
	}
}

// oneOf reads a word out of a set.
func oneOf[T ~string](r *reader, to *T, words ...T) func(string, *node) {
	return func(field string, n *node) {
		var word string
		if r.text(&word)(field, n); n.kind != isText {
			return
		}
		if !slices.Contains(words, T(word)) {
			all := make([]string, len(words))
			for i, w := range words {
				all[i] = string(w)
			}
			r.add(n, field, "one of "+strings.Join(all, ", "), "%q is not known here", word)
			return
		}
		*to = T(word)
	}
}

// duration reads a time such as 200ms.
func (r *reader) duration(to *time.Duration) func(string, *node) {
	return func(field string, n *node) {
		var text string
		if r.text(&text)(field, n); n.kind != isText {
			return
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > maxWait {
			r.add(n, field, "write 200ms or 3s", "%q is not a time from 0s to %s", text, maxWait)
			return
		}
		*to = d
	}
}

// pattern reads a regular expression with so many groups, or any with -1.
func (r *reader) pattern(to **regexp.Regexp, groups int) func(string, *node) {
	return func(field string, n *node) {
		var text string
		if r.text(&text)(field, n); n.kind != isText {
			return
		}
		re, err := regexp.Compile(text)
		switch {
		case err != nil:
			r.add(n, field, "", "not a regular expression: %v", unwrapped(err))
		case groups >= 0 && re.NumSubexp() != groups:
			r.add(n, field, "put what is meant in parentheses, and (?:…) around the rest", "the expression has %d groups instead of %d",
				re.NumSubexp(), groups)
		default:
			*to = re
		}
	}
}

// unwrapped is the innermost cause, without what the callers said around it.
func unwrapped(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

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
