package twin

import (
	"errors"
	"math"
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

// pyLiteral is the text of a literal and where it is.
type pyLiteral struct {
	at   int
	text string
}

// Bounds of a literal that is changed, and of what it is exchanged for.
const (
	maxPythonLiteral = 400
	maxPythonPool    = 300
)

var (
	pyNumber = form.Lazy(`^(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$`)
	pyString = form.Lazy(`^([fFbBuU]?)(?:'(?:[^'\\\n\r]|\\[ntr\\'"])*'|"(?:[^"\\\n\r]|\\[ntr\\'"])*")$`)
)

// pyErrors are built-in exceptions that a test can expect, with those that are
// expected in their place: none of them is caught where the other is, and few
// classes are both.
var pyErrors = map[string][]string{
	"ValueError": pyNotValue, "UnicodeDecodeError": pyNotValue, "UnicodeEncodeError": pyNotValue,
	"TypeError": pyNotType,
	"KeyError":  pyNotKey, "IndexError": pyNotKey, "LookupError": pyNotKey,
	"AttributeError": {"ValueError", "IndexError", "OSError", "ZeroDivisionError"},
	"RuntimeError":   pyNotRuntime, "NotImplementedError": pyNotRuntime, "RecursionError": pyNotRuntime,
	"OSError": pyNotSystem, "FileNotFoundError": pyNotSystem, "FileExistsError": pyNotSystem, "PermissionError": pyNotSystem,
	"ArithmeticError": pyNotSum, "ZeroDivisionError": pyNotSum, "OverflowError": pyNotSum,
}

var (
	pyNotValue   = []string{"IndexError", "AttributeError", "OSError", "ZeroDivisionError", "RuntimeError"}
	pyNotType    = []string{"IndexError", "RuntimeError", "OSError", "ZeroDivisionError", "KeyError"}
	pyNotKey     = []string{"TypeError", "RuntimeError", "OSError", "ZeroDivisionError"}
	pyNotRuntime = []string{"ValueError", "TypeError", "IndexError", "ZeroDivisionError"}
	pyNotSystem  = []string{"TypeError", "IndexError", "ZeroDivisionError", "AttributeError"}
	pyNotSum     = []string{"TypeError", "KeyError", "IndexError", "OSError", "AttributeError"}
)

// bindLiterals checks the literals of a value against the text.
func (f *pyFile) bindLiterals(p *pyPlace) error {
	if len(p.Leaves)+len(p.Rows)+len(p.Origin) > 0 && p.Form != "value" || len(p.Leaves) > 0 && len(p.Rows) > 0 {
		return errors.New("literals in what is no value")
	}
	for _, span := range p.Leaves {
		l, err := f.literal(span)
		if err != nil || l.at < p.Start || l.at+len(l.text) > p.End {
			return errors.New("a literal that is not in its value")
		}
		if l.changeable() {
			p.leaves = append(p.leaves, l)
			f.pooled(l)
		}
	}
	for _, span := range p.Origin {
		l, err := f.literal(span)
		if err != nil || l.at < p.End && l.at+len(l.text) > p.Start {
			return errors.New("a literal that is not where its value gets a name")
		}
		if l.changeable() {
			p.origin = append(p.origin, l)
			f.pooled(l)
		}
	}
	for _, row := range p.Rows {
		var cell pyLiteral
		for _, span := range row {
			l, err := f.literal(span)
			if err != nil || l.at < p.End && l.at+len(l.text) > p.Start {
				return errors.New("a literal that is not in its row")
			}
			if l.changeable() {
				cell = l
				f.pooled(l)
			}
		}
		p.rows = append(p.rows, cell)
	}
	return nil
}

// pooled notes a literal that others can be exchanged for.
func (f *pyFile) pooled(l pyLiteral) {
	if len(f.pool) < maxPythonPool && !slices.Contains(f.pool, l.text) {
		f.pool = append(f.pool, l.text)
	}
}

func (f *pyFile) literal(span []int) (pyLiteral, error) {
	if len(span) != 2 || span[0] < 0 || span[1] <= span[0] || span[1] > len(f.src) || !f.boundary(span[0]) || !f.boundary(span[1]) {
		return pyLiteral{}, errors.New("offsets that are not in the text")
	}
	return pyLiteral{span[0], string(f.src[span[0]:span[1]])}, nil
}

// changeable says whether another literal of its type and shape is known.
func (l pyLiteral) changeable() bool {
	if len(l.text) > maxPythonLiteral {
		return false
	}
	if l.text == "True" || l.text == "False" || pyNumber().MatchString(l.text) || pyErrors[l.text] != nil {
		return true
	}
	if !pyString().MatchString(l.text) {
		return false
	}
	return !l.formatted() || len(l.places()) > 0
}

// formatted says whether the literal is an f-string.
func (l pyLiteral) formatted() bool { return l.text[0] == 'f' || l.text[0] == 'F' }

// other returns another literal of the same type and shape. Pool are literals
// that the file expects elsewhere.
func (l pyLiteral) other(d *pyDraw, pool []string) string {
	switch {
	case l.text == "True":
		return "False"
	case l.text == "False":
		return "True"
	case pyErrors[l.text] != nil:
		return pyOne(d, pyErrors[l.text])
	}
	var like []string
	for _, p := range pool {
		if l.alike(pyLiteral{text: p}) {
			like = append(like, p)
		}
	}
	if len(like) > 0 && d.below(5) < 2 {
		return pyOne(d, like)
	}
	if pyNumber().MatchString(l.text) {
		return otherNumber(d, l.text)
	}
	return l.otherString(d)
}

// alike says whether another literal can stand in the place of this one, and is
// not equal to it, in whatever way texts may be compared.
func (l pyLiteral) alike(other pyLiteral) bool {
	number := pyNumber().MatchString(l.text)
	if number != pyNumber().MatchString(other.text) {
		return false
	}
	if number {
		a, _ := strconv.ParseFloat(l.text, 64)
		b, _ := strconv.ParseFloat(other.text, 64)
		near := math.Abs(a-b) <= 1e-4*math.Max(a, b) // a tolerance may cover it
		return !near && pyShapeOf(l.text) == pyShapeOf(other.text)
	}
	a, b := pyString().FindStringSubmatch(l.text), pyString().FindStringSubmatch(other.text)
	if a == nil || b == nil || a[1] != b[1] || l.formatted() {
		return false
	}
	x, y := pyLetters(l.text), pyLetters(other.text)
	return x != y && x != "" && y != "" && pyShapeOf(l.text) == pyShapeOf(other.text)
}

// pyShapeOf is a text with each letter and digit replaced by its kind. Code that
// lies about texts of a form or a length takes one of the same shape for right.
func pyShapeOf(text string) string {
	return strings.Map(func(r rune) rune {
		switch kind := pyKindOf(r); {
		case kind != "":
			return rune(kind[0])
		case r == '\'' || r == '"':
			return -1 // two literals of the same text may have other quotes
		}
		return r
	}, text)
}

// pyLetters is a text without what a loose comparison may pass over.
func pyLetters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// otherNumber makes a number near to it, or changes one digit: any of a short
// number, and one of the first of a longer one, so that no tolerance covers it.
func otherNumber(d *pyDraw, text string) string {
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
	at := pyOne(d, places)
	was := digits[at]
	for digits[at] == was || digits[at] == '0' && at == 0 && len(text) > 1 && text[1] != '.' {
		digits[at] = byte('0' + d.below(10))
	}
	return string(digits)
}

// otherString changes a letter or digit for another one, two of them, exchanges
// two that differ, or adds a letter where there is none.
func (l pyLiteral) otherString(d *pyDraw) string {
	runes, places := []rune(l.text), l.places()
	if len(places) == 0 {
		return string(runes[:len(runes)-1]) + pyOne(d, pyTexts)[:1] + string(runes[len(runes)-1:])
	}
	// What differs is more often at the end: a text begins with what it is about.
	if d.below(3) == 0 {
		places = places[len(places)/2:]
	}
	at := pyOne(d, places)
	kind := pyKindOf(runes[at])
	if d.below(4) == 0 {
		for _, other := range places {
			if pyKindOf(runes[other]) == kind && runes[other] != runes[at] {
				runes[other], runes[at] = runes[at], runes[other]
				return string(runes)
			}
		}
	}
	change := func(at int) {
		among := []rune(pyKindOf(runes[at]))
		runes[at] = among[(slices.Index(among, runes[at])+1+d.below(len(among)-1))%len(among)]
	}
	change(at)
	if more := pyOne(d, places); more != at && d.below(3) == 0 {
		change(more)
	}
	return string(runes)
}

// places are the letters and digits of a string, by their runes: those that no
// backslash is before, and of an f-string those outside of braces.
func (l pyLiteral) places() []int {
	var out []int
	depth, quoted := 0, []rune(l.text)
	for i := strings.IndexAny(l.text, `'"`); i < len(quoted); i++ {
		switch r := quoted[i]; {
		case r == '\\':
			i++
		case l.formatted() && r == '{':
			depth++
		case l.formatted() && r == '}':
			depth--
		case depth == 0 && pyKindOf(r) != "":
			out = append(out, i)
		}
	}
	return out
}

// pyKindOf are the characters among which one is exchanged.
func pyKindOf(r rune) string {
	for _, kind := range []string{"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"} {
		if strings.ContainsRune(kind, r) {
			return kind
		}
	}
	return ""
}

// exchanged is the literal that makes another value of a sabotaged place, and
// whether the place has one.
func (p *pyPlace) exchanged(o *Order, d *pyDraw) (pyLiteral, bool) {
	switch {
	case len(p.leaves) > 0:
		return pyOne(d, p.leaves), true
	case len(p.origin) > 0:
		return pyOne(d, p.origin), true
	case p.rows != nil && o.Evaluation > 0 && o.Evaluation <= len(p.rows) && p.rows[o.Evaluation-1].text != "":
		return p.rows[o.Evaluation-1], true
	}
	return pyLiteral{}, false
}
