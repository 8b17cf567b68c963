package twin

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Another expected value is written into the source in the place of the literal
// that is there: a value that is made at run time stands nowhere in the test, so
// that code under test could tell it from a constant. In a neutral file such a
// place is as its author wrote it.

// pyLiteral is the text of a literal and where it is.
type pyLiteral struct {
	at   int
	text string
}

// maxPythonLiteral bounds a literal that is changed.
const maxPythonLiteral = 400

var (
	pyNumber = regexp.MustCompile(`^(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$`)
	pyString = regexp.MustCompile(`^(?:'[^'\\\n\r]*'|"[^"\\\n\r]*")$`)
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
		}
	}
	for _, span := range p.Origin {
		l, err := f.literal(span)
		if err != nil || l.at < p.End && l.at+len(l.text) > p.Start {
			return errors.New("a literal that is not where its value gets a name")
		}
		if l.changeable() {
			p.origin = append(p.origin, l)
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
			}
		}
		p.rows = append(p.rows, cell)
	}
	return nil
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
	return l.text == "True" || l.text == "False" || pyNumber.MatchString(l.text) || pyString.MatchString(l.text)
}

// other returns another literal of the same type and shape.
func (l pyLiteral) other(d *pyDraw) string {
	switch {
	case l.text == "True":
		return "False"
	case l.text == "False":
		return "True"
	case pyNumber.MatchString(l.text):
		return otherNumber(d, l.text)
	}
	return otherString(d, l.text)
}

// otherNumber changes one digit: any of a short number, and the first that
// counts of a longer one, so that no tolerance covers it.
func otherNumber(d *pyDraw, text string) string {
	digits := []byte(text)
	at := strings.IndexAny(text, "123456789")
	if whole, _, _ := strings.Cut(text, "."); whole == text && len(text) <= 3 {
		at = d.below(len(text))
	}
	if at < 0 {
		at = 0 // it is zero
	}
	was := digits[at]
	for digits[at] == was || digits[at] == '0' && at == 0 && len(text) > 1 && text[1] != '.' {
		digits[at] = byte('0' + d.below(10))
	}
	return string(digits)
}

// otherString changes one letter or digit for another one, or adds a letter
// where there is none.
func otherString(d *pyDraw, text string) string {
	quote, runes := text[:1], []rune(text[1:len(text)-1])
	var places []int
	for i, r := range runes {
		if pyKindOf(r) != "" {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return quote + string(runes) + pyOne(d, pyTexts)[:1] + quote
	}
	at := pyOne(d, places)
	among := []rune(pyKindOf(runes[at]))
	was := slices.Index(among, runes[at])
	runes[at] = among[(was+1+d.below(len(among)-1))%len(among)]
	return quote + string(runes) + quote
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
