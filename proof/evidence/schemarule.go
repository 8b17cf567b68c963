package evidence

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// rule is one schema, ready to be held against values. It knows the keywords of
// JSON Schema 2020-12 that the schemas of this package use and refuses any
// other when it is made, so none is passed over in silence. The schemas of a
// whole validator library would cost every start of the program, the helpers of
// the sandbox included, more than an audit of a small bundle.
type rule struct {
	refuses bool // the schema false
	ref     *rule

	types    []string
	constant *any
	enum     []any

	minimum, maximum     *float64
	minLength, maxLength *int
	pattern              *regexp.Regexp

	minItems, maxItems *int
	unique             bool
	items              *rule

	minProperties *int
	required      []string
	properties    []property // in the order of their names
	names         *rule
	additional    *rule // nil: anything

	not, condition, then *rule
	all                  []*rule
}

type property struct {
	name string
	rule *rule
}

// notes are the keywords that say something to people and nothing about values.
var notes = []string{"$schema", "$id", "$defs", "title", "description"}

// ruleMaker makes the rules of one schema document. The first error stays.
type ruleMaker struct {
	defs map[string]any
	made map[string]*rule // nil while it is being made
	err  error
}

// makeRule reads a schema document. A reference leads to its own $defs only,
// and never back to where it stands: that would be a check without an end.
func makeRule(raw []byte) (*rule, error) {
	value, err := decodeAny(raw)
	if err != nil {
		return nil, err
	}
	document, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is no object")
	}
	m := &ruleMaker{made: map[string]*rule{}}
	if defs, given := document["$defs"]; given {
		m.defs = m.object(defs)
	}
	r := m.rule(document)
	for _, name := range slices.Sorted(maps.Keys(m.defs)) {
		m.reference("#/$defs/" + name) // also those that nothing leads to
	}
	return r, m.err
}

func (m *ruleMaker) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

func (m *ruleMaker) rule(schema any) *rule {
	r := &rule{}
	switch s := schema.(type) {
	case bool:
		r.refuses = !s
	case map[string]any:
		for _, keyword := range slices.Sorted(maps.Keys(s)) {
			m.keyword(r, keyword, s[keyword])
		}
		if r.then != nil && r.condition == nil {
			m.fail("then stands without if")
		}
	default:
		m.fail("%v is no schema", schema)
	}
	return r
}

func (m *ruleMaker) keyword(r *rule, keyword string, value any) {
	switch keyword {
	case "$ref":
		r.ref = m.reference(value)
	case "type":
		r.types = m.texts(value)
		slices.Sort(r.types)
	case "const":
		r.constant = &m.scalars([]any{value})[0]
	case "enum":
		r.enum = m.scalars(m.list(value))
	case "minimum":
		r.minimum = m.number(value)
	case "maximum":
		r.maximum = m.number(value)
	case "minLength":
		r.minLength = m.count(value)
	case "maxLength":
		r.maxLength = m.count(value)
	case "pattern":
		text, _ := value.(string)
		var err error
		if r.pattern, err = regexp.Compile(text); err != nil || text == "" {
			m.fail("pattern %v: %w", value, err)
		}
	case "minItems":
		r.minItems = m.count(value)
	case "maxItems":
		r.maxItems = m.count(value)
	case "uniqueItems":
		var ok bool
		if r.unique, ok = value.(bool); !ok {
			m.fail("uniqueItems is %v", value)
		}
	case "items":
		r.items = m.rule(value)
	case "minProperties":
		r.minProperties = m.count(value)
	case "required":
		r.required = m.texts(value)
	case "properties":
		object := m.object(value)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			r.properties = append(r.properties, property{name, m.rule(object[name])})
		}
	case "propertyNames":
		r.names = m.rule(value)
	case "additionalProperties":
		r.additional = m.rule(value)
	case "not":
		r.not = m.rule(value)
	case "if":
		r.condition = m.rule(value)
	case "then":
		r.then = m.rule(value)
	case "allOf":
		for _, s := range m.list(value) {
			r.all = append(r.all, m.rule(s))
		}
	default:
		if !slices.Contains(notes, keyword) {
			m.fail("keyword %q is not one of those that are understood", keyword)
		}
	}
}

func (m *ruleMaker) reference(value any) *rule {
	text, _ := value.(string)
	name, local := strings.CutPrefix(text, "#/$defs/")
	schema, known := m.defs[name]
	if !local || !known {
		m.fail("reference %v leads out of the schema", value)
		return nil
	}
	r, begun := m.made[name]
	if begun && r == nil {
		m.fail("reference %v leads back to itself", value)
	}
	if !begun {
		m.made[name] = nil
		r = m.rule(schema)
		m.made[name] = r
	}
	return r
}

func (m *ruleMaker) object(value any) map[string]any {
	object, ok := value.(map[string]any)
	if !ok {
		m.fail("%v is no object", value)
	}
	return object
}

// scalars refuses what equal does not compare.
func (m *ruleMaker) scalars(values []any) []any {
	for _, v := range values {
		if kind := typeOf(v); kind == "array" || kind == "object" {
			m.fail("a fixed value of type %s is not understood", kind)
		}
	}
	return values
}

func (m *ruleMaker) list(value any) []any {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		m.fail("%v is no list", value)
	}
	return list
}

// texts reads a text or a list of texts.
func (m *ruleMaker) texts(value any) []string {
	if one, ok := value.(string); ok {
		return []string{one}
	}
	var all []string
	for _, v := range m.list(value) {
		text, ok := v.(string)
		if !ok {
			m.fail("%v is no text", v)
		}
		all = append(all, text)
	}
	return all
}

func (m *ruleMaker) number(value any) *float64 {
	n, ok := value.(json.Number)
	f, err := n.Float64()
	if !ok || err != nil {
		m.fail("%v is no number", value)
	}
	return &f
}

func (m *ruleMaker) count(value any) *int {
	f := m.number(value)
	n := int(*f)
	if float64(n) != *f || n < 0 {
		m.fail("%v is no count", value)
	}
	return &n
}
