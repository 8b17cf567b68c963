package twin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/proof/form"
)

// textFile is what the files of languages have in common whose edits are made on
// the text alone: Python and JavaScript.
type textFile struct {
	src     []byte
	digest  [32]byte
	ends    []int // offsets of the line feeds
	newline string
	words   map[string]bool // every identifier of the text: names that are taken
	tests   []Test
	pool    []string // literals that the file expects
	spots   []*spot  // by site ID
}

// spot is a site as far as it is the same in these languages.
type spot struct {
	kind   Kind
	test   string
	value  bool      // an expression is handed to a function that returns it
	whole  bool      // it is compared as a whole, with no tolerance
	all    bool      // each literal of it is another one
	leaves []literal // of which another one makes another value
	origin []literal // the same, at the place that gives the value its name
	rows   []literal // by the number of the row; one without text cannot be changed
}

// literals is of how many literals one at a time can be another one, 0 if it is one.
func (p *spot) literals() int {
	if n := max(len(p.leaves), len(p.origin)); n > 1 && !p.all {
		return n
	}
	return 0
}

// newTextFile reads what every text has.
func newTextFile(src []byte, digest [32]byte) textFile {
	f := textFile{src: src, digest: digest, newline: "\n", words: map[string]bool{}}
	if i := bytes.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		f.newline = "\r\n"
	}
	for i, b := range src {
		if b == '\n' {
			f.ends = append(f.ends, i)
		}
	}
	for _, w := range textIdentifier().FindAll(src, -1) {
		f.words[string(w)] = true
	}
	return f
}

var (
	textIdentifier = form.Lazy(`[\pL_][\pL\pN\pM_]*`)
	traceKeyForm   = form.Lazy(`^[A-Za-z0-9-]{1,64}$`)
)

// Tests returns the test functions in the order of the text.
func (f *textFile) Tests() []Test {
	out := slices.Clone(f.tests)
	for i := range out {
		out[i].Sites = slices.Clone(out[i].Sites)
	}
	return out
}

// line is the 1-based line of an offset.
func (f *textFile) line(offset int) int {
	n, _ := slices.BinarySearch(f.ends, offset)
	return 1 + n
}

// inWord reports whether the byte at an offset is part of an identifier or a
// number, so that text put next to it needs a space.
func (f *textFile) inWord(offset int) bool {
	if offset < 0 || offset >= len(f.src) {
		return false
	}
	b := f.src[offset]
	return b == '_' || b >= utf8.RuneSelf || unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b))
}

// check returns the orders by site.
func (f *textFile) check(o Orders) (map[int]*Order, error) {
	if o.Trace != "" && (!traceKeyForm().MatchString(o.Key) || len(o.Trace) > 4096 || !utf8.ValidString(o.Trace) || strings.ContainsRune(o.Trace, 0)) {
		return nil, errors.New("a trace needs a path and a key of letters, digits and '-'")
	}
	orders := make(map[int]*Order, len(o.Sabotage))
	for _, name := range slices.Sorted(maps.Keys(o.Sabotage)) {
		order := o.Sabotage[name]
		if order.Site < 0 || order.Site >= len(f.spots) || f.spots[order.Site].test != name {
			return nil, fmt.Errorf("no test %q with a site %d", printable(name), order.Site)
		}
		if order.Evaluation < 0 || order.Evaluation > 1_000_000_000 {
			return nil, fmt.Errorf("evaluation %d of test %q: out of bounds", order.Evaluation, name)
		}
		if f.spots[order.Site].kind != Flip && (o.Trace != "" || len(f.spots[order.Site].rows) == 0) {
			order.Evaluation = 0
		}
		orders[order.Site] = &order
	}
	return orders, nil
}

// insert is text that is put into the file; at one offset those of a lower
// rank come first, and within a rank those of a lower order.
type insert struct {
	at, rank, order int
	text            string
	cut             int // bytes of the file that the text takes the place of
}

// Ranks at one offset: what ends there comes before what begins there.
const (
	rankClose = iota
	rankAfter
	rankLine
	rankBefore
	rankOpen
	rankText
	rankModule
)

// inOrder sorts texts as they come into a file.
func inOrder(inserts []insert) {
	slices.SortStableFunc(inserts, func(a, b insert) int {
		return cmp.Or(a.at-b.at, a.rank-b.rank, a.order-b.order)
	})
}

// compose puts the texts into the file.
func (f *textFile) compose(inserts []insert) []byte {
	inOrder(inserts)
	var out bytes.Buffer
	last := 0
	for _, in := range inserts {
		out.Write(f.src[last:in.at])
		out.WriteString(in.text)
		last = in.at + in.cut
	}
	out.Write(f.src[last:])
	return out.Bytes()
}

// quoteText writes a string as a literal in ASCII, without a "$". A character of
// more than 16 bits has the form that is given.
func quoteText(s, wide string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r >= ' ' && r < 0x7f && r != '"' && r != '\\' && r != '$':
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, wide, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
