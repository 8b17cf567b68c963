package evidence

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// examination holds one value against a rule and notes what is wrong with it,
// in an order that depends on the value and the rule alone.
type examination struct {
	quiet  bool // whether is enough, why is not asked
	broken bool
	found  []string
}

// place is where a value stands. It is made into text only for a defect.
type place struct {
	above *place
	step  string
}

// pointer is the JSON pointer (RFC 6901) of a place.
func (p *place) pointer() string {
	if p == nil {
		return ""
	}
	return p.above.pointer() + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p.step)
}

// holds reports whether a value obeys the rule.
func (r *rule) holds(value any) bool {
	e := examination{quiet: true}
	e.examine(r, value, nil)
	return !e.broken
}

// defects says where a value breaks the rule, as "at POINTER: why".
func (r *rule) defects(value any) []string {
	var e examination
	e.examine(r, value, nil)
	return e.found
}

func (e *examination) fail(at *place, format string, args ...any) {
	if !e.done() && !e.quiet {
		e.found = append(e.found, bounded(fmt.Sprintf("at %q: ", at.pointer())+fmt.Sprintf(format, args...)))
	}
	e.broken = true
}

// done says that nothing more can change the outcome.
func (e *examination) done() bool { return e.broken && e.quiet || len(e.found) == maxViolations }

// examine looks at the value itself first: one of another type or with another
// text than the only ones allowed says nothing by its further properties.
func (e *examination) examine(r *rule, value any, at *place) {
	switch {
	case e.done():
		return
	case r.refuses:
		e.fail(at, "nothing is allowed here")
		return
	case len(r.types) > 0 && !r.allowsType(value):
		e.fail(at, "got %s, want %s", typeOf(value), strings.Join(r.types, " or "))
		return
	case r.constant != nil && !equal(value, *r.constant):
		e.fail(at, "value must be %s", quotedAll([]any{*r.constant}))
		return
	case r.enum != nil && !slices.ContainsFunc(r.enum, func(v any) bool { return equal(value, v) }):
		e.fail(at, "value must be one of %s", quotedAll(r.enum))
		return
	}
	switch v := value.(type) {
	case map[string]any:
		e.object(r, v, at)
	case []any:
		e.array(r, v, at)
	case string:
		e.text(r, v, at)
	case json.Number:
		e.number(r, v, at)
	}
	if r.ref != nil {
		e.examine(r.ref, value, at)
	}
	if r.not != nil && r.not.holds(value) {
		e.fail(at, "has a form that is ruled out")
	}
	for _, one := range r.all {
		e.examine(one, value, at)
	}
	if r.then != nil && r.condition.holds(value) {
		e.examine(r.then, value, at)
	}
}

func (e *examination) object(r *rule, object map[string]any, at *place) {
	if r.minProperties != nil && len(object) < *r.minProperties {
		e.fail(at, "minProperties: got %d, want %d", len(object), *r.minProperties)
	}
	var missing []any
	for _, name := range r.required {
		if _, ok := object[name]; !ok {
			missing = append(missing, name)
		}
	}
	switch len(missing) {
	case 0:
	case 1:
		e.fail(at, "missing property %s", quotedAll(missing))
	default:
		e.fail(at, "missing properties %s", quotedAll(missing))
	}
	known := 0
	for _, p := range r.properties {
		if value, ok := object[p.name]; ok {
			known++
			e.examine(p.rule, value, &place{at, p.name})
		}
	}
	if r.names == nil && (r.additional == nil || known == len(object)) || e.done() {
		return
	}
	var surplus []any
	for _, name := range sortedNames(object) {
		if r.names != nil && !r.names.holds(name) {
			e.fail(at, "invalid property name %s", quotedAll([]any{name}))
		}
		if r.additional == nil || r.has(name) {
			continue
		}
		if r.additional.refuses {
			surplus = append(surplus, name)
			continue
		}
		e.examine(r.additional, object[name], &place{at, name})
	}
	if len(surplus) > 0 {
		e.fail(at, "additional properties %s not allowed", quotedAll(surplus))
	}
}

func sortedNames(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *rule) has(name string) bool {
	_, found := slices.BinarySearchFunc(r.properties, name, func(p property, name string) int { return strings.Compare(p.name, name) })
	return found
}

func (e *examination) array(r *rule, list []any, at *place) {
	if r.minItems != nil && len(list) < *r.minItems {
		e.fail(at, "minItems: got %d, want %d", len(list), *r.minItems)
	}
	if r.maxItems != nil && len(list) > *r.maxItems {
		e.fail(at, "maxItems: got %d, want %d", len(list), *r.maxItems)
	}
	if r.unique {
		if i, j, twice := duplicates(list); twice {
			e.fail(at, "items at %d and %d are equal", i, j)
		}
	}
	if r.items == nil {
		return
	}
	for i, item := range list {
		if e.done() {
			return
		}
		e.examine(r.items, item, &place{at, strconv.Itoa(i)})
	}
}

// duplicates finds the first item that an earlier one equals. The list is
// hostile: comparing each with each would take time by the square of it.
func duplicates(list []any) (i, j int, twice bool) {
	seen := make(map[string]int, len(list))
	for j, item := range list {
		text, err := json.Marshal(item) // keys in order: equal values have equal texts
		if err != nil {
			return 0, j, true // no JSON value at all
		}
		if i, twice := seen[string(text)]; twice {
			return i, j, true
		}
		seen[string(text)] = j
	}
	return 0, 0, false
}

func (e *examination) text(r *rule, text string, at *place) {
	if n := utf8.RuneCountInString(text); r.minLength != nil && n < *r.minLength {
		e.fail(at, "minLength: got %d, want %d", n, *r.minLength)
	} else if r.maxLength != nil && n > *r.maxLength {
		e.fail(at, "maxLength: got %d, want %d", n, *r.maxLength)
	}
	if r.pattern != nil && !r.pattern.MatchString(text) {
		e.fail(at, "%s does not match pattern %s", quotedAll([]any{text}), quotedAll([]any{r.pattern.String()}))
	}
}

// number compares as binary floating point: the whole numbers of a canonical
// text lie in its exact range.
func (e *examination) number(r *rule, n json.Number, at *place) {
	if r.minimum == nil && r.maximum == nil {
		return
	}
	f, err := n.Float64()
	switch {
	case err != nil:
		e.fail(at, "is no number in range")
	case r.minimum != nil && f < *r.minimum:
		e.fail(at, "minimum: got %v, want %v", f, *r.minimum)
	case r.maximum != nil && f > *r.maximum:
		e.fail(at, "maximum: got %v, want %v", f, *r.maximum)
	}
}

func (r *rule) allowsType(value any) bool {
	is := typeOf(value)
	return slices.Contains(r.types, is) || is == "number" && slices.Contains(r.types, "integer") && whole(value)
}

func whole(value any) bool {
	n, _ := value.(json.Number)
	f, err := n.Float64()
	return err == nil && math.Trunc(f) == f
}

func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// equal compares a value with one of a schema, which is no array or object.
func equal(value, want any) bool {
	a, aok := value.(json.Number)
	b, bok := want.(json.Number)
	if aok && bok {
		x, xerr := a.Float64()
		y, yerr := b.Float64()
		return xerr == nil && yerr == nil && x == y
	}
	switch value.(type) {
	case map[string]any, []any:
		return false // comparing these would panic
	}
	return value == want
}

// quotedAll shows values in single quotes, which stay readable in JSON.
func quotedAll(values []any) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		text, ok := v.(string)
		if !ok {
			fmt.Fprint(&b, v)
			continue
		}
		quoted := strings.ReplaceAll(strconv.Quote(text), `\"`, `"`)
		b.WriteString("'" + strings.ReplaceAll(quoted[1:len(quoted)-1], "'", `\'`) + "'")
		if b.Len() > maxDetail {
			break // what follows would be cut off anyway
		}
	}
	return b.String()
}
