package twin

import (
	"math/bits"
	"strconv"
	"strings"
)

// goBank holds the values that decide for a number of places whether they are
// turned. An index of it is counted up by each look at it: the left side steps
// it, and equals the right side if this evaluation is turned. Both forms of a
// place have the same text; the values differ, and nothing about them is plain.
type goBank struct {
	slots    []goParam
	key      func(slot int) string // index of a slot, a literal
	lhs, rhs func(index string) string
}

// goParam are the values of one slot. The n-th look is at (start+n*step)%mod,
// and turned if that is rest.
type goParam struct{ start, step, mod, rest uint64 }

// goSpot is where a place finds its values.
type goSpot struct {
	bank  *goBank
	index string
}

// param draws values by which the given evaluation is turned. A slot has either
// a small modulus that divides the step, so that every look gives the same, or a
// large one that has no divisor in common with it, so that one look does. A
// neutral slot is of either sort, with another rest.
func (g *goGen) param(turn int) goParam {
	d := g.values
	if turn == 0 || turn == goNever && d.coin() {
		p := goParam{start: d.between(1<<10, 1<<30), mod: d.between(1<<9, 1<<16)}
		p.step = p.mod * d.between(3, 1<<12)
		p.rest = p.start % p.mod
		if turn == goNever {
			p.rest = (p.rest + d.between(1, p.mod)) % p.mod
		}
		return p
	}
	p := goParam{start: d.between(1<<10, 1<<30), step: d.between(1<<10, 1<<28), mod: d.between(1<<40, 1<<41)}
	for goDivisor(p.step, p.mod) != 1 {
		p.step++
	}
	n := uint64(turn)
	if turn == goNever {
		n = d.between(1<<36, 1<<39) // more looks than a test has
	}
	high, low := bits.Mul64(n%p.mod, p.step)
	_, p.rest = bits.Div64(high%p.mod, low, p.mod)
	p.rest = (p.rest + p.start) % p.mod
	return p
}

func goDivisor(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// fill gives every place its values, spread over banks of different styles.
func (g *goGen) fill() {
	places := g.file.places
	styles := g.draw.order(len(goStyles))
	n := min(len(styles), 1+g.draw.below(2)+len(places)/12)
	for range n {
		g.banks = append(g.banks, &goBank{})
	}
	slots := make([][]int, len(places))
	banks := make([]*goBank, len(places))
	for _, i := range g.draw.order(len(places)) {
		p := places[i]
		b := g.banks[g.draw.below(n)]
		banks[i] = b
		if p.named || len(p.offers) == 0 {
			slots[i] = append(slots[i], b.add(g.param(goNever)))
		}
		for _, o := range p.offers {
			slots[i] = append(slots[i], b.add(g.param(g.turn(p, o))))
		}
	}
	for i, b := range g.banks {
		if len(b.slots) > 0 {
			goStyles[styles[i]](g, b)
		}
	}
	g.noise = g.makeNoise()
	keys := make([][]string, len(places))
	for i, list := range slots {
		for _, slot := range list {
			keys[i] = append(keys[i], banks[i].key(slot))
		}
	}
	for i, index := range g.indexes(keys) {
		g.spots = append(g.spots, goSpot{banks[i], index})
	}
}

func (b *goBank) add(p goParam) int {
	b.slots = append(b.slots, p)
	return len(b.slots) - 1
}

// indexes returns the expression that is the index of each place: its key, or
// for a place that several tests share a look at the name of the running one.
// The first key of such a place is that of all other tests.
func (g *goGen) indexes(keys [][]string) []string {
	out := make([]string, len(keys))
	var rest, rows []string
	lookup := ""
	start, factor := g.draw.uint64(), g.draw.uint64()|1
	for i, p := range g.file.places {
		if !p.named {
			out[i] = keys[i][0]
			continue
		}
		if lookup == "" {
			lookup = g.name()
		}
		out[i] = lookup + "(" + g.draw.number(uint64(len(rest))) + ", " + g.handleName(p.t) + ")"
		rest = append(rest, keys[i][0])
		var row strings.Builder
		for j, o := range p.offers {
			hash := start
			for _, c := range o.test {
				hash = (hash ^ uint64(c)) * factor
			}
			row.WriteString("{" + g.draw.number(hash) + ", " + keys[i][j+1] + "}, ")
		}
		rows = append(rows, "{"+row.String()+"}")
	}
	if lookup != "" {
		g.lookup(lookup, start, factor, rest, rows)
	}
	return out
}

// lookup declares the function that finds the key of a place for the test that
// runs: by the part of its name before the first '/'. A handle that is not one
// of package testing, or nil, has no name; it is as neutral as another test.
func (g *goGen) lookup(name string, start, factor uint64, rest, rows []string) {
	table, others, typ := g.name(), g.name(), g.name()
	f := g.fields(7)
	key, place, t, hash, char, row, next := f[0], f[1], f[2], f[3], f[4], f[5], f[6]
	g.decl("type %s struct {\n\t%s uint64\n\t%s int\n}", typ, hash, key)
	g.decl("var %s = [...][]%s{\n\t%s,\n}", table, typ, strings.Join(rows, ",\n\t"))
	g.decl("var %s = [...]int{%s}", others, strings.Join(rest, ", "))
	g.decl(`func %[1]s(%[2]s int, %[3]s interface{ Name() string }) (%[4]s int) {
	%[4]s = %[5]s[%[2]s]
	defer func() { _ = recover() }()
	var %[6]s uint64 = %[7]s
	for _, %[8]s := range %[3]s.Name() {
		if %[8]s == '/' {
			break
		}
		%[6]s = (%[6]s ^ uint64(%[8]s)) * %[9]s
	}
	for %[11]s := range %[10]s[%[2]s] {
		if %[12]s := %[10]s[%[2]s][%[11]s]; %[12]s.%[6]s == %[6]s {
			return %[12]s.%[4]s
		}
	}
	return %[4]s
}`, name, place, t, key, others, hash, g.draw.number(start), char, g.draw.number(factor), table, next, row)
}

// goNoise is a table of numbers, of which a comparison has a value that only
// its table tells.
type goNoise struct {
	name   string
	values []uint64
}

func (g *goGen) makeNoise() goNoise {
	n := goNoise{name: g.name()}
	var text []string
	for range 8 + g.draw.below(9) {
		v := g.draw.between(1<<8, 1<<20)
		n.values = append(n.values, v)
		text = append(text, g.draw.number(v))
	}
	g.decl("var %s = [...]uint64{%s}", n.name, strings.Join(text, ", "))
	return n
}

// noisy returns a comparison and its value.
func (g *goGen) noisy() (string, bool) {
	n := len(g.noise.values)
	i := g.draw.below(n)
	j := (i + 1 + g.draw.below(n-1)) % n
	a, b := g.noise.name+"["+strconv.Itoa(i)+"]", g.noise.name+"["+strconv.Itoa(j)+"]"
	if g.draw.coin() {
		return a + " < " + b, g.noise.values[i] < g.noise.values[j]
	}
	return a + " >= " + b, g.noise.values[i] >= g.noise.values[j]
}

// when returns an expression that is true if the evaluation is turned as says.
func (g *goGen) when(b *goBank, index string, turned bool) string {
	l, r := b.lhs(index), b.rhs(index)
	if g.draw.below(3) == 0 {
		l, r = r, l
	}
	op := map[bool]string{true: " == ", false: " != "}
	switch g.draw.below(4) {
	case 0:
		n, value := g.noisy()
		return "(" + l + op[turned == value] + r + ") == (" + n + ")"
	case 1:
		n, value := g.noisy()
		return "(" + n + ") != (" + l + op[turned != value] + r + ")"
	case 2:
		return "!(" + l + op[!turned] + r + ")"
	default:
		return l + op[turned] + r
	}
}
