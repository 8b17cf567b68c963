package twin

import (
	"fmt"
	"strconv"
	"strings"
)

// goStyles are the ways in which a bank keeps its values and looks at them. To
// add one, declare what it needs, and set key, lhs and rhs of the bank. Neither
// side may allocate, since a test may measure that, and looks may come from many
// goroutines at once.
var goStyles = []func(*goGen, *goBank){
	styleRows, styleColumns, styleStride, styleKeyed, styleClosures, styleMethod, styleFloat,
	styleMask, styleProduct, styleSum, styleLock, styleInterface, stylePair,
}

// The parts of a slot, in the order of goParam.
const (
	partStart = iota
	partStep
	partMod
	partRest
)

func (p goParam) parts() [4]uint64 { return [4]uint64{p.start, p.step, p.mod, p.rest} }

// column writes one part of all slots, as f turns it.
func (g *goGen) column(b *goBank, f func(goParam) uint64) string {
	var out strings.Builder
	for i, p := range b.slots {
		if i%12 == 0 && i > 0 {
			out.WriteString("\n\t")
		}
		out.WriteString(g.draw.number(f(p)) + ", ")
	}
	return strings.TrimSuffix(strings.TrimRight(out.String(), "\n\t "), ",")
}

// rows writes the slots as composite literals with the parts in an order.
func (g *goGen) rows(b *goBank, order []int, prefix func(slot int) string) string {
	var out strings.Builder
	for i, p := range b.slots {
		parts := p.parts()
		var row []string
		for _, j := range order {
			row = append(row, g.draw.number(parts[j]))
		}
		out.WriteString("\n\t" + prefix(i) + "{" + strings.Join(row, ", ") + "},")
	}
	return out.String() + "\n"
}

func noPrefix(int) string { return "" }

// structure declares a type with the four parts in a drawn order, of 64 bits
// each so that every one is aligned.
func (g *goGen) structure() (name string, order []int, fields []string) {
	name, order, fields = g.name(), g.draw.order(4), g.fields(4)
	var lines strings.Builder
	for _, i := range order {
		lines.WriteString("\t" + fields[i] + " uint64\n")
	}
	g.decl("type %s struct {\n%s}", name, lines.String())
	return name, order, fields
}

func plainKey(slot int) string { return strconv.Itoa(slot) }

func indexed(name string) func(string) string {
	return func(index string) string { return name + "[" + index + "]" }
}

func called(name string) func(string) string {
	return func(index string) string { return name + "(" + index + ")" }
}

// styleRows keeps a slot in a struct.
func styleRows(g *goGen, b *goBank) {
	typ, order, f := g.structure()
	table, look := g.name(), g.name()
	p := g.fields(2)
	g.decl("var %s = [...]%s{%s}", table, typ, g.rows(b, order, noPrefix))
	g.decl("func %s(%s int) uint64 {\n\t%s := &%s[%s]\n\treturn %s.AddUint64(&%[4]s[%[2]s].%[7]s, %[3]s.%[8]s) %% %[3]s.%[9]s\n}",
		look, p[0], p[1], table, p[0], g.pkg("sync/atomic"), f[partStart], f[partStep], f[partMod])
	b.key, b.lhs = plainKey, called(look)
	b.rhs = func(index string) string { return table + "[" + index + "]." + f[partRest] }
}

// columns declares a table for each part but the last.
func (g *goGen) columns(b *goBank) [3]string {
	var out [3]string
	for i := range out {
		out[i] = g.name()
		g.decl("var %s = [...]uint64{%s}", out[i], g.column(b, func(p goParam) uint64 { return p.parts()[i] }))
	}
	return out
}

// table declares the last part of all slots, as f turns it.
func (g *goGen) table(b *goBank, typ string, f func(goParam) uint64) string {
	name := g.name()
	g.decl("var %s = [...]%s{%s}", name, typ, g.column(b, f))
	return name
}

func rest(p goParam) uint64 { return p.rest }

// stepper declares a function that looks at parallel tables and returns what
// expr, a format of the remainder, makes of it.
func (g *goGen) stepper(b *goBank, result, expr string) string {
	c, look, p := g.columns(b), g.name(), g.field()
	step := fmt.Sprintf("%[1]s.AddUint64(&%[2]s[%[5]s], %[3]s[%[5]s]) %% %[4]s[%[5]s]", g.pkg("sync/atomic"), c[0], c[1], c[2], p)
	g.decl("func %s(%s int) %s {\n\treturn %s\n}", look, p, result, strings.ReplaceAll(expr, "$", step))
	return look
}

// styleColumns keeps the parts in tables of their own.
func styleColumns(g *goGen, b *goBank) {
	b.key, b.lhs, b.rhs = plainKey, called(g.stepper(b, "uint64", "$")), indexed(g.table(b, "uint64", rest))
}

// styleStride keeps all slots in one table of numbers.
func styleStride(g *goGen, b *goBank) {
	table, look, p := g.name(), g.name(), g.field()
	order := g.draw.order(4)
	at := [4]int{}
	for i, part := range order {
		at[part] = i
	}
	var rows []string
	for _, s := range b.slots {
		parts := s.parts()
		var row []string
		for _, part := range order {
			row = append(row, g.draw.number(parts[part]))
		}
		rows = append(rows, strings.Join(row, ", "))
	}
	g.decl("var %s = [...]uint64{\n\t%s,\n}", table, strings.Join(rows, ",\n\t"))
	g.decl("func %s(%s int) uint64 {\n\treturn %s.AddUint64(&%[4]s[%[2]s+%[5]d], %[4]s[%[2]s+%[6]d]) %% %[4]s[%[2]s+%[7]d]\n}",
		look, p, g.pkg("sync/atomic"), table, at[partStart], at[partStep], at[partMod])
	b.key = func(slot int) string { return strconv.Itoa(4 * slot) }
	b.lhs = called(look)
	b.rhs = func(index string) string { return fmt.Sprintf("%s[%s+%d]", table, index, at[partRest]) }
}

// styleKeyed keeps the slots in a map, which is only read.
func styleKeyed(g *goGen, b *goBank) {
	typ, order, f := g.structure()
	table, look, p := g.name(), g.name(), g.field()
	keys := map[int]bool{}
	var of []int
	for range b.slots {
		k := 100 + g.draw.below(1<<20)
		for keys[k] {
			k++
		}
		keys[k] = true
		of = append(of, k)
	}
	g.decl("var %s = map[int]*%s{%s}", table, typ, g.rows(b, order, func(slot int) string { return strconv.Itoa(of[slot]) + ": " }))
	g.decl("func (%s *%s) %s() uint64 {\n\treturn %s.AddUint64(&%[1]s.%[5]s, %[1]s.%[6]s) %% %[1]s.%[7]s\n}",
		p, typ, look, g.pkg("sync/atomic"), f[partStart], f[partStep], f[partMod])
	b.key = func(slot int) string { return strconv.Itoa(of[slot]) }
	b.lhs = func(index string) string { return table + "[" + index + "]." + look + "()" }
	b.rhs = func(index string) string { return table + "[" + index + "]." + f[partRest] }
}

// styleClosures keeps the slots in variables of functions.
func styleClosures(g *goGen, b *goBank) {
	maker, table, p := g.name(), g.name(), g.fields(3)
	g.decl("func %s(%s, %s, %s uint64) func() uint64 {\n\treturn func() uint64 { return %s.AddUint64(&%[2]s, %[3]s) %% %[4]s }\n}",
		maker, p[0], p[1], p[2], g.pkg("sync/atomic"))
	var rows strings.Builder
	for _, s := range b.slots {
		rows.WriteString("\n\t" + maker + "(" + g.draw.number(s.start) + ", " + g.draw.number(s.step) + ", " + g.draw.number(s.mod) + "),")
	}
	g.decl("var %s = [...]func() uint64{%s\n}", table, rows.String())
	b.key, b.rhs = plainKey, indexed(g.table(b, "uint64", rest))
	b.lhs = func(index string) string { return table + "[" + index + "]()" }
}

// styleMethod keeps the slots in a slice with a method.
func styleMethod(g *goGen, b *goBank) {
	n := len(b.slots)
	typ, table, look, p := g.name(), g.name(), g.name(), g.fields(2)
	var parts []string
	for i := range 4 {
		parts = append(parts, g.column(b, func(s goParam) uint64 { return s.parts()[i] }))
	}
	g.decl("type %s []uint64", typ)
	g.decl("var %s = %s{\n\t%s,\n}", table, typ, strings.Join(parts, ",\n\t"))
	g.decl("func (%s %s) %s(%s int) uint64 {\n\treturn %s.AddUint64(&%[1]s[%[4]s], %[1]s[%[4]s+%[6]d]) %% %[1]s[%[4]s+%[7]d]\n}",
		p[0], typ, look, p[1], g.pkg("sync/atomic"), n, 2*n)
	b.key, b.lhs = plainKey, called(table+"."+look)
	b.rhs = func(index string) string { return fmt.Sprintf("%s[%s+%d]", table, index, 3*n) }
}

// styleFloat compares floating-point numbers, which hold every remainder.
func styleFloat(g *goGen, b *goBank) {
	b.key, b.lhs, b.rhs = plainKey, called(g.stepper(b, "float64", "float64($)")), indexed(g.table(b, "float64", rest))
}

// styleMask hides the remainder behind an exclusive or.
func styleMask(g *goGen, b *goBank) {
	mask := g.draw.uint64()
	look := g.stepper(b, "uint64", "($) ^ "+g.draw.number(mask))
	b.key, b.lhs, b.rhs = plainKey, called(look), indexed(g.table(b, "uint64", func(p goParam) uint64 { return p.rest ^ mask }))
}

// styleProduct multiplies the remainder by an odd number, modulo 2^64.
func styleProduct(g *goGen, b *goBank) {
	factor := g.draw.uint64() | 1
	look := g.stepper(b, "uint64", "($) * "+g.draw.number(factor))
	b.key, b.lhs, b.rhs = plainKey, called(look), indexed(g.table(b, "uint64", func(p goParam) uint64 { return p.rest * factor }))
}

// styleSum adds a number at the place that looks.
func styleSum(g *goGen, b *goBank) {
	add := g.draw.between(1<<10, 1<<50)
	variable, look := g.name(), g.stepper(b, "uint64", "$")
	g.decl("var %s uint64 = %s", variable, g.draw.number(add))
	b.key, b.rhs = plainKey, indexed(g.table(b, "uint64", func(p goParam) uint64 { return p.rest + add }))
	b.lhs = func(index string) string { return look + "(" + index + ")+" + variable }
}

// styleLock keeps the slots behind a lock.
func styleLock(g *goGen, b *goBank) {
	typ, order, f := g.structure()
	table, lock, look, p := g.name(), g.name(), g.name(), g.fields(2)
	g.decl("var %s %s.Mutex", lock, g.pkg("sync"))
	g.decl("var %s = []%s{%s}", table, typ, g.rows(b, order, noPrefix))
	g.decl("func %s(%s int) uint64 {\n\t%s.Lock()\n\tdefer %[3]s.Unlock()\n\t%[4]s := &%[5]s[%[2]s]\n\t%[4]s.%[6]s += %[4]s.%[7]s\n\treturn %[4]s.%[6]s %% %[4]s.%[8]s\n}",
		look, p[0], lock, p[1], table, f[partStart], f[partStep], f[partMod])
	b.key, b.lhs = plainKey, called(look)
	b.rhs = func(index string) string { return table + "[" + index + "]." + f[partRest] }
}

// styleInterface looks through an interface.
func styleInterface(g *goGen, b *goBank) {
	typ, value, look, p := g.name(), g.name(), g.name(), g.fields(2)
	inner := g.stepper(b, "uint64", "$")
	g.decl("type %s struct{}", typ)
	g.decl("func (%s) %s(%s int) uint64 { return %s(%[3]s) }", typ, look, p[0], inner)
	g.decl("var %s interface{ %s(%s int) uint64 } = %s{}", value, look, p[1], typ)
	b.key, b.lhs, b.rhs = plainKey, called(value+"."+look), indexed(g.table(b, "uint64", rest))
}

// stylePair compares two halves at once.
func stylePair(g *goGen, b *goBank) {
	inner, look, table, p := g.stepper(b, "uint64", "$"), g.name(), g.name(), g.fields(2)
	var rows strings.Builder
	for _, s := range b.slots {
		rows.WriteString("\n\t{" + g.draw.number(s.rest&(1<<32-1)) + ", " + g.draw.number(s.rest>>32) + "},")
	}
	g.decl("var %s = [...][2]uint32{%s\n}", table, rows.String())
	g.decl("func %s(%s int) [2]uint32 {\n\t%s := %s(%[2]s)\n\treturn [2]uint32{uint32(%[3]s), uint32(%[3]s >> 32)}\n}", look, p[0], p[1], inner)
	b.key, b.lhs, b.rhs = plainKey, called(look), indexed(table)
}
