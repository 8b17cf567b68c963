package twin

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"remit/proof/form"
)

// Another expected value is written into the source in the place of the literal
// that is there: a value that is made at run time stands nowhere in the test, so
// that code under test could tell it from a constant. In a neutral file such a
// place is as its author wrote it.
//
// The other value is one that the author could have expected: what another
// assertion of the file expects, or the same with letters, digits or numbers near
// to it. Code that lies, or tries answers, only where a value looks right finds
// this one right as well.

// literal is the text of a literal and where it is.
type literal struct {
	at   int
	text string
	in   *grammar
	way  way
}

// way is how the other literal differs from the one that is there.
type way string

const (
	wayNear  way = ""      // as the author could have expected it
	wayAbove way = "above" // a number that is more than any that a test gets
	wayBelow way = "below" // one that is less
	wayPart  way = "part"  // a longer text, which nothing holds by accident
	wayMatch way = "match" // a longer pattern, which nothing matches by accident
	wayFar   way = "far"   // a number above all or a longer text, by what it is
	wayWord  way = "word"  // a text in the place of a number
	wayNone  way = "none"  // the empty text, or a pattern that everything matches
)

// grammar is how literals are written in a language.
type grammar struct {
	yes, no   string
	errors    map[string][]string   // names of exceptions, and those that are expected in their place
	text      func() *regexp.Regexp // a string; its first group is what is in front of the quote
	pattern   func() *regexp.Regexp // a string or pattern to which a word can be added at the end of the one group that matches
	formatted string                // what a string begins with that has computed parts in braces
}

// Bounds of a literal that is changed, and of what it is exchanged for.
const (
	maxLiteral = 400
	maxPool    = 300
)

// literalBound is a number that something is compared with.
var literalBound = form.Lazy(`^(-?)(?:(?:0|[1-9][0-9_]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$`)

// patternFlags are flags that have to be at the beginning of a pattern.
var patternFlags = form.Lazy(`^(?:\(\?[a-zA-Z]+\))?`)

var literalNumber = form.Lazy(`^(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$`)

// pooled notes a literal that others can be exchanged for.
func (f *textFile) pooled(l literal) {
	if l.way == wayNear && len(f.pool) < maxPool && !slices.Contains(f.pool, l.text) {
		f.pool = append(f.pool, l.text)
	}
}

// changeable says whether another literal of its type and shape is known.
func (l literal) changeable() bool {
	l.way = l.resolved()
	switch {
	case len(l.text) > maxLiteral:
		return false
	case l.way == wayAbove || l.way == wayBelow || l.way == wayWord:
		return literalBound().MatchString(l.text)
	case l.way == wayPart, l.way == wayMatch, l.way == wayNone:
		from, to := l.inner()
		return to > from
	}
	if l.text == l.in.yes || l.text == l.in.no || literalNumber().MatchString(l.text) || l.in.errors[l.text] != nil {
		return true
	}
	if !l.in.text().MatchString(l.text) {
		return false
	}
	return !l.formatted() || len(l.places()) > 0
}

// formatted says whether a part of the text is computed.
func (l literal) formatted() bool { return strings.IndexByte(l.in.formatted, l.text[0]) >= 0 }

// other returns another literal of the same type and shape. Pool are literals
// that the file expects elsewhere.
func (l literal) other(d *choices, pool []string) string {
	l.way = l.resolved()
	switch {
	case l.way == wayAbove:
		return farNumber(d, l.text)
	case l.way == wayBelow:
		return "-" + farNumber(d, l.text)
	case l.way == wayWord:
		return `"` + one(d, wordsText) + `"`
	case l.way == wayNone:
		from, to := l.inner()
		if l.text[0] == '/' {
			return l.text[:from] + "(?:" + l.text[from:to] + ")?" + l.text[to:]
		}
		return l.text[:from] + l.text[to:]
	case l.way == wayPart, l.way == wayMatch:
		from, at := l.inner()
		inner := l.text[from:at]
		if l.way == wayMatch && strings.Contains(inner, "|") { // what is longer is each of its branches
			flags := patternFlags().FindString(inner)
			inner = flags + "(?:" + inner[len(flags):] + ")"
		}
		return l.text[:from] + inner + one(d, wordsText) + l.text[at:]
	case l.text == l.in.yes:
		return l.in.no
	case l.text == l.in.no:
		return l.in.yes
	case l.in.errors[l.text] != nil:
		return one(d, l.in.errors[l.text])
	}
	var like []string
	for _, p := range pool {
		if l.alike(literal{text: p, in: l.in}) {
			like = append(like, p)
		}
	}
	if len(like) > 0 && d.below(5) < 2 {
		return one(d, like)
	}
	if literalNumber().MatchString(l.text) {
		return otherNumber(d, l.text)
	}
	return l.otherString(d)
}

// alike says whether another literal can stand in the place of this one, and is
// not equal to it, in whatever way texts may be compared.
func (l literal) alike(other literal) bool {
	number := literalNumber().MatchString(l.text)
	if number != literalNumber().MatchString(other.text) {
		return false
	}
	if number {
		a, _ := strconv.ParseFloat(l.text, 64)
		b, _ := strconv.ParseFloat(other.text, 64)
		near := math.Abs(a-b) <= 1e-4*math.Max(a, b) // a tolerance may cover it
		return !near && shapeOf(l.text) == shapeOf(other.text)
	}
	a, b := l.in.text().FindStringSubmatch(l.text), l.in.text().FindStringSubmatch(other.text)
	if a == nil || b == nil || a[1] != b[1] || l.formatted() {
		return false
	}
	x, y := lettersOf(l.text), lettersOf(other.text)
	return x != y && x != "" && y != "" && shapeOf(l.text) == shapeOf(other.text)
}

// shapeOf is a text with each letter and digit replaced by its kind. Code that
// lies about texts of a form or a length takes one of the same shape for right.
func shapeOf(text string) string {
	return strings.Map(func(r rune) rune {
		switch kind := kindOfRune(r); {
		case kind != "":
			return rune(kind[0])
		case r == '\'' || r == '"':
			return -1 // two literals of the same text may have other quotes
		}
		return r
	}, text)
}

// lettersOf is a text without what a loose comparison may pass over.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// resolved is the way of the literal, by what it is.
func (l literal) resolved() way {
	switch {
	case l.way != wayFar:
		return l.way
	case literalBound().MatchString(l.text):
		return wayAbove
	}
	return wayPart
}

// inner is where the text of a string or pattern is, without what is round it.
func (l literal) inner() (from, to int) {
	at := l.in.pattern().FindStringSubmatchIndex(l.text)
	for i := 2; i < len(at); i += 2 {
		if at[i] >= 0 {
			return at[i], at[i+1]
		}
	}
	return 0, 0
}

// farNumber is past every number that a test may get for a bound, nanoseconds
// since 1970 among them, and fits into 64 bits. A change that is honest gets other
// numbers than its base, so that one near to the bound would show nothing.
func farNumber(d *choices, text string) string {
	digits := strconv.Itoa(d.between(4, 8))
	for range 18 {
		digits += strconv.Itoa(d.below(10))
	}
	if strings.ContainsAny(text, ".eE") {
		digits += ".5"
	}
	return digits
}

// otherNumber makes a number near to it, or changes one digit: any of a short
// number, and one of the first of a longer one, so that no tolerance covers it.
func otherNumber(d *choices, text string) string {
	if n, err := strconv.Atoi(text); err == nil && n < 100_000 && d.below(3) == 0 {
		by := d.between(1, 5)
		if n > by && d.below(2) == 0 {
			by = -by
		}
		if other := strconv.Itoa(n + by); len(other) == len(text) {
			return other
		}
	}
	digits := []byte(text)
	var places []int
	for i := max(0, strings.IndexAny(text, "123456789")); i < len(text) && len(places) < 3; i++ {
		if text[i] != '.' {
			places = append(places, i)
		}
	}
	at := one(d, places)
	was := digits[at]
	for digits[at] == was || digits[at] == '0' && at == 0 && len(text) > 1 && text[1] != '.' {
		digits[at] = byte('0' + d.below(10))
	}
	return string(digits)
}

// otherString changes a letter or digit for another one, two of them, exchanges
// two that differ, or adds a letter where there is none.
func (l literal) otherString(d *choices) string {
	runes, places := []rune(l.text), l.places()
	if len(places) == 0 {
		return string(runes[:len(runes)-1]) + one(d, wordsText)[:1] + string(runes[len(runes)-1:])
	}
	// What differs is more often at the end: a text begins with what it is about.
	if d.below(3) == 0 {
		places = places[len(places)/2:]
	}
	at := one(d, places)
	kind := kindOfRune(runes[at])
	if d.below(4) == 0 {
		for _, other := range places {
			if kindOfRune(runes[other]) == kind && runes[other] != runes[at] {
				runes[other], runes[at] = runes[at], runes[other]
				return string(runes)
			}
		}
	}
	change := func(at int) {
		among := []rune(kindOfRune(runes[at]))
		runes[at] = among[(slices.Index(among, runes[at])+1+d.below(len(among)-1))%len(among)]
	}
	change(at)
	if more := one(d, places); more != at && d.below(3) == 0 {
		change(more)
	}
	return string(runes)
}

// places are the letters and digits of a string, by their runes: those that no
// backslash is before, and of an f-string those outside of braces.
func (l literal) places() []int {
	var out []int
	depth, quoted := 0, []rune(l.text)
	for i := strings.IndexAny(l.text, "'\"`"); i < len(quoted); i++ {
		switch r := quoted[i]; {
		case r == '\\':
			i++
		case l.formatted() && r == '{':
			depth++
		case l.formatted() && r == '}':
			depth--
		case depth == 0 && kindOfRune(r) != "":
			out = append(out, i)
		}
	}
	return out
}

// kindOfRune are the characters among which one is exchanged.
func kindOfRune(r rune) string {
	for _, kind := range []string{"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"} {
		if strings.ContainsRune(kind, r) {
			return kind
		}
	}
	return ""
}

// exchanged are the literals that make another value of a sabotaged place, none if
// the place has none.
func (p *spot) exchanged(o *Order, d *choices) []literal {
	from := p.leaves
	switch {
	case len(p.leaves) > 0:
	case len(p.origin) > 0:
		from = p.origin
	case p.all:
		return slices.DeleteFunc(slices.Clone(p.rows), func(l literal) bool { return l.text == "" })
	case p.rows != nil && o.Evaluation > 0 && o.Evaluation <= len(p.rows) && p.rows[o.Evaluation-1].text != "":
		return p.rows[o.Evaluation-1:][:1]
	default:
		return nil
	}
	switch {
	case p.all:
		return from
	case o.Literal > 0:
		return from[o.Literal%len(from):][:1]
	}
	return []literal{one(d, from)}
}
