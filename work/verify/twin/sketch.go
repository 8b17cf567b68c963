package twin

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
)

// sketch is one call of Edit: the choices that it makes, and the functions that
// it adds to the file.
type sketch struct {
	language string
	file     *textFile
	orders   Orders
	draw     *choices
	names    *names
	pieces   []string // functions to add
}

func newSketch(language string, f *textFile, o Orders, join func(parts []string) string) sketch {
	draw := newChoices(language, o.Seed, f.digest, "shape")
	return sketch{language, f, o, draw, &names{draw: draw, taken: map[string]bool{}, words: f.words, join: join}, nil}
}

// numbers draws a number for each site: an even one for a value that is compared
// as a whole, of which one near to it is another value.
func (e *sketch) numbers() []int {
	used := make(map[int]bool, len(e.file.spots))
	numbers := make([]int, len(e.file.spots))
	for i, p := range e.file.spots {
		n := 0
		for n == 0 || used[n] {
			n = e.draw.between(1, 49_999) * 2
			if !p.whole && (p.value || e.draw.below(2) == 0) {
				n++
			}
		}
		used[n], numbers[i] = true, n
	}
	return numbers
}

// rows draws what decides for each site, and exchanges the literals of those that
// are sabotaged in the source. A file that is traced is not one of a verdict, so
// only what no value made at run time is as good as is exchanged in it.
func (e *sketch) rows(numbers []int, orders map[int]*Order) (rows []siteRow, exchanged []insert) {
	stream := func(label string, i int) *choices {
		return newChoices(e.language, e.orders.Seed, e.file.digest, label+" "+strconv.Itoa(i))
	}
	for i, p := range e.file.spots {
		order := orders[i]
		if order != nil && (e.orders.Trace == "" || p.kind == Expect) {
			other := stream("other", i)
			if from := p.exchanged(order, other); len(from) > 0 && (e.orders.Trace == "" || from[0].way != wayNear) {
				for _, l := range from {
					exchanged = append(exchanged, insert{l.at, rankText, 0, l.other(other, e.file.pool), len(l.text)})
				}
				order = nil
			} else if e.orders.Trace == "" && p.kind != Flip {
				order = &Order{Site: order.Site}
			}
		}
		rows = append(rows, newSiteRow(stream("row", i), numbers[i], order))
	}
	return rows, exchanged
}

// scene is one use of a shape: the names and constants of its words. What is
// written at a site and the functions that it calls share one.
type scene struct{ words *strings.Replacer }

// scene draws the words of a shape. Standing are words that mean the same in
// each of them, and what they stand for.
func (e *sketch) scene(standing ...string) scene {
	local := e.names.locals(6)
	text := pickSome(e.draw, wordsText, 3)
	low := e.draw.between(3, 80)
	high := low + e.draw.between(1, 60)
	attribute := one(e.draw, wordsSecond)
	for slices.Contains(text, attribute) { // they are attributes of one object
		attribute = one(e.draw, wordsSecond)
	}
	return scene{strings.NewReplacer(append([]string{
		"$F", e.names.global(), "$G", e.names.global(), "$L", e.names.global(), "$S", e.names.global(), "$K", e.names.class(),
		"$a", local[0], "$b", local[1], "$c", local[2], "$d", local[3], "$e", local[4], "$f", local[5],
		"$w", text[0], "$x", text[1], "$y", text[2], "$m", attribute,
		"$i", strconv.Itoa(low), "$j", strconv.Itoa(high),
	}, standing...)...)}
}

// spread draws a few shapes of each form and spreads them over the sites, whose
// forms are given.
func spread[S any](e *sketch, forms []string, shape func(form string) S) []S {
	count := make(map[string]int)
	for _, form := range forms {
		count[form]++
	}
	shapes := make(map[string][]S)
	for _, form := range slices.Sorted(maps.Keys(count)) {
		for range 1 + e.draw.below(min(4, count[form])) {
			shapes[form] = append(shapes[form], shape(form))
		}
	}
	out := make([]S, len(forms))
	for i, form := range forms {
		out[i] = one(e.draw, shapes[form])
	}
	return out
}

// siteEdits are the edits of all sites, each of the form that is given, in a shape that is
// drawn for it.
func siteEdits[S any](e *sketch, form func(site int) string, shape func(form string) S, inserts func(site int, s S) []insert) []insert {
	var forms []string
	for i := range e.file.spots {
		forms = append(forms, form(i))
	}
	shapes := spread(e, forms, shape)
	var out []insert
	for i, p := range e.file.spots {
		if e.orders.Trace == "" && len(p.leaves) > 0 {
			continue // it is as its author wrote it, or another literal takes its place
		}
		out = append(out, inserts(i, shapes[i])...)
	}
	return out
}

// body returns the lines of a body, with the call that records that it is reached
// in front when the file is traced.
func (e *sketch) body(text, note string) []string {
	lines := []string{strings.TrimPrefix(text, "\n")}
	if e.orders.Trace != "" && note != "" {
		lines = slices.Insert(lines, 0, note)
	}
	return lines
}

// shapeBlock is a line of a shape that stands for others.
var shapeBlock = form.Lazy(`(?m)^( *)\$([BT])$`)

// expand puts lines in the place of a $B or $T, indented as that is.
func expand(code string, lines []string) string {
	at := shapeBlock().FindStringSubmatchIndex(code)
	if at == nil {
		return code
	}
	indent := code[at[2]:at[3]]
	text := strings.Join(lines, "\n")
	return code[:at[0]] + indent + strings.ReplaceAll(text, "\n", "\n"+indent) + code[at[1]:]
}

// siteCore is the function $C with its table: $T stands for the rows, in which $1
// to $4 are the values, and $Q{x|low|high} for a comparison.
type siteCore struct{ row, code string }

// coreWindow is a comparison in a siteCore.
var coreWindow = form.Lazy(`\$Q\{([^|}]*)\|([^|}]*)\|([^}]*)\}`)

// text is the core with the rows of all sites, in any order.
func (c siteCore) text(draw *choices, window string, rows []siteRow) string {
	shuffle(draw, rows)
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = strings.NewReplacer("$n", strconv.Itoa(r.number), "$1", strconv.Itoa(r.at), "$2", strconv.Itoa(r.by),
			"$3", strconv.Itoa(r.low), "$4", strconv.Itoa(r.high)).Replace(c.row)
	}
	code := coreWindow().ReplaceAllStringFunc(c.code, func(q string) string {
		m := coreWindow().FindStringSubmatch(q)
		return strings.NewReplacer("$1", m[1], "$2", m[2], "$3", m[3]).Replace(window)
	})
	return expand(code, lines)
}
