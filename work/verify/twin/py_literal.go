package twin

import (
	"errors"

	"remit/proof/form"
)

// pyGrammar is how literals are written in Python.
var pyGrammar = &grammar{
	yes: "True", no: "False", errors: pyErrors,
	text:      form.Lazy(`^([fFbBuU]?)(?:'(?:[^'\\\n\r]|\\[ntr\\'"])*'|"(?:[^"\\\n\r]|\\[ntr\\'"])*")$`),
	pattern:   form.Lazy(`^[rRbBuU]{0,2}(?:'((?:[^'\\\n\r]|\\.)*)'|"((?:[^"\\\n\r]|\\.)*)")$`),
	formatted: "fF",
}

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
		l, err := f.literal(span, p.Way)
		if err != nil || l.at < p.Start || l.at+len(l.text) > p.End {
			return errors.New("a literal that is not in its value")
		}
		if l.changeable() {
			p.leaves = append(p.leaves, l)
			f.pooled(l)
		}
	}
	for _, span := range p.Origin {
		l, err := f.literal(span, p.Way)
		if err != nil || l.at < p.End && l.at+len(l.text) > p.Start {
			return errors.New("a literal that is not where its value gets a name")
		}
		if l.changeable() {
			p.origin = append(p.origin, l)
			f.pooled(l)
		}
	}
	for _, row := range p.Rows {
		var cell literal
		for _, span := range row {
			l, err := f.literal(span, p.Way)
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

func (f *pyFile) literal(span []int, way way) (literal, error) {
	if len(span) != 2 || span[0] < 0 || span[1] <= span[0] || span[1] > len(f.src) || !f.boundary(span[0]) || !f.boundary(span[1]) {
		return literal{}, errors.New("offsets that are not in the text")
	}
	return literal{span[0], string(f.src[span[0]:span[1]]), pyGrammar, way}, nil
}
