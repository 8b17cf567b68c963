package twin

import (
	"fmt"
	"strconv"
	"strings"
)

// goTrace names the helpers of an edit that records a trace. It has one style:
// no hostile code looks at it.
type goTrace struct{ note, look, ended, write string }

// traced edits every place so that it records what happens.
func (g *goGen) traced() {
	var sites, turns, fails []string
	keys := make([][]string, len(g.file.places))
	entry := func(i, site, turn int) {
		p := g.file.places[i]
		keys[i] = append(keys[i], strconv.Itoa(len(sites)))
		sites = append(sites, strconv.Itoa(site))
		turns = append(turns, strconv.Itoa(turn))
		fails = append(fails, strconv.FormatBool(p.fails))
	}
	for i, p := range g.file.places {
		if p.named || len(p.offers) == 0 {
			entry(i, -1, goNever)
		}
		for _, o := range p.offers {
			entry(i, o.id, g.turn(p, o))
		}
	}
	g.noise = g.makeNoise()
	indexes := g.indexes(keys)
	one, two := g.name(), g.name()
	g.decl("var %s, %s = 1, 2", one, two)
	t := g.recorder(sites, turns, fails)
	bank := &goBank{lhs: called(t.look), rhs: func(string) string { return one }}
	g.banks = []*goBank{bank}
	for i := range g.file.places {
		g.spots = append(g.spots, goSpot{bank, indexes[i]})
	}
	g.plainBut(func(p *goPlace, index string) bool {
		switch p.form {
		case formCond:
			g.wrap(p, t.note+"("+index+", (", ") == ("+one+" < "+two+"))")
		case formErr, formNil:
			g.wrap(p, g.tracedValue(t, p.form)+"("+index+", ", ")")
		case formFirst:
			if p.outcome {
				h := g.handleName(p.t)
				g.edits = append(g.edits, goEdit{at: p.at, text: " " + h + ".Cleanup(" + t.ended + "(" + h + "));"})
			}
			return false
		default:
			return false
		}
		return true
	})
}

// tracedValue declares the helper of a flip that changes a value.
func (g *goGen) tracedValue(t goTrace, form goForm) string {
	return g.helper(fmt.Sprint("traced ", form), func(name string) {
		f := g.fields(4)
		typ, set := "error", f[1]+" != nil"
		if form == formNil {
			typ = "interface{}"
			set = g.isSet() + "(" + f[1] + ")"
		}
		other := g.message()
		if form == formErr {
			other = g.pkg("errors") + ".New(" + other + ")"
		}
		g.decls = append(g.decls, strings.NewReplacer(
			"$name", name, "$i", f[0], "$v", f[1], "$type", typ, "$is", f[2], "$set", set, "$note", t.note, "$other", other,
		).Replace("func $name($i int, $v $type) $type {\n\tif $is := $set; $note($i, $is) == $is {\n\t\treturn $v\n\t} else if $is {\n\t\treturn nil\n\t}\n\treturn $other\n}"))
	})
}

// recorder declares what records: a function that notes an evaluation and
// returns the condition, turned if it has to be, one that notes that a place
// is reached and returns 1 if it is turned, and one that notes how a test ended.
func (g *goGen) recorder(sites, turns, fails []string) goTrace {
	t := goTrace{note: g.name(), look: g.name(), ended: g.name(), write: g.name()}
	n := strings.NewReplacer(
		"$note", t.note, "$look", t.look, "$ended", t.ended, "$write", t.write, "$turned", g.name(),
		"$sites", g.name(), "$turns", g.name(), "$fails", g.name(), "$count", g.name(), "$failed", g.name(),
		"$atomic", g.pkg("sync/atomic"), "$os", g.pkg("os"), "$strconv", g.pkg("strconv"),
		"$SITES", strings.Join(sites, ", "), "$TURNS", strings.Join(turns, ", "), "$FAILS", strings.Join(fails, ", "),
		"$KEY", strconv.Quote(g.orders.Key+" "), "$PATH", strconv.Quote(g.orders.Trace), "$LEN", strconv.Itoa(len(sites)),
	)
	g.decls = append(g.decls, n.Replace(goRecorder))
	return t
}

const goRecorder = `var (
	$sites  = [...]int{$SITES}
	$turns  = [...]int64{$TURNS}
	$fails  = [...]bool{$FAILS}
	$count  [$LEN]int64
	$failed [$LEN]int64
)

func $write(line string) {
	line = $KEY + line + "\n"
	if len(line) > 512 {
		return
	}
	if f, err := $os.OpenFile($PATH, $os.O_APPEND|$os.O_CREATE|$os.O_WRONLY, 384); err == nil {
		f.WriteString(line)
		f.Close()
	}
}

func $turned(i int, n int64) bool { return $turns[i] == 0 || $turns[i] == n }

func $note(i int, c bool) bool {
	n := $atomic.AddInt64(&$count[i], 1)
	how, write := " ok", n == 1
	if c == $fails[i] {
		how = " failed"
		write = $atomic.AddInt64(&$failed[i], 1) <= 16 || write
	}
	if write && $sites[i] >= 0 {
		$write("E " + $strconv.Itoa($sites[i]) + " " + $strconv.FormatInt(n, 10) + how)
	}
	return c != $turned(i, n)
}

func $look(i int) int {
	if $atomic.AddInt64(&$count[i], 1) == 1 && $sites[i] >= 0 {
		$write("R " + $strconv.Itoa($sites[i]))
	}
	if $turns[i] >= 0 {
		return 1
	}
	return 0
}

func $ended(t interface {
	Name() string
	Failed() bool
	Skipped() bool
}) func() {
	return func() {
		how := " pass"
		if t.Failed() {
			how = " fail"
		} else if t.Skipped() {
			how = " skip"
		}
		$write("T " + t.Name() + how)
	}
}`
