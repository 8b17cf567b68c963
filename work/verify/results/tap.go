package results

import (
	"io"
	"strconv"
	"strings"

	"remit/proof/form"
)

// TAP is the Test Anything Protocol.
const TAP = "tap"

var tap = &Adapter{
	Name: TAP, Title: "TAP 13 and 14", Tried: "node --test 20, bats 1.8.2",
	Asked:   "nothing: it is read where a command prints it",
	Check:   "plan against lines, numbers in order, exit status",
	Forgery: "a test that writes to the stream of the runner writes result lines; plan and numbers show some",
	Config:  []string{`\.taprc`},
	weak:    true, read: readTAP, line: func(line string) bool { return tapStart().MatchString(line) },
}

var (
	tapStart     = form.Lazy(`^(?:TAP version 1[34]|1\.\.\d+(?:\s*#.*)?)$`)
	tapTest      = form.Lazy(`^(not )?ok\b(?: +(\d+))?(?: +-)? ?(.*)$`)
	tapPlan      = form.Lazy(`^1\.\.(\d+)(?:\s*#\s*(.*))?$`)
	tapVersion   = form.Lazy(`^TAP version \d+$`)
	tapDirective = form.Lazy(`(?i)(?:^|[^\\])#\s*(skip|todo)`)
)

// tapLevel is one level of subtests: its lines wait for the name of the test
// that contains them, which follows.
type tapLevel struct {
	tests []Test
	lines int // test lines of the level itself
	plan  int // -1 before it is seen
}

// readTAP reads TAP 13 and 14. Subtests are indented by four spaces a level
// and belong to the test line that follows them; their identity is
// "parent > child". A failing TODO test is skipped; a test without a
// description is named by its number.
func readTAP(r io.Reader) (*Report, error) { return readPlanned(r, TAP) }

// readPlanned reads TAP that a named runner printed.
func readPlanned(r io.Reader, runner string) (*Report, error) {
	var c collector
	levels := []tapLevel{{plan: -1}}
	plans, yaml := 0, false
	in := newLines(r, &c)
	for {
		line, ok := in.text()
		if !ok {
			break
		}
		text := strings.TrimLeft(line, " ")
		depth := (len(line) - len(text)) / 4
		switch {
		case yaml:
			yaml = strings.TrimSpace(line) != "..."
			continue
		case text == "---" && strings.HasPrefix(line, "  "):
			yaml = true
			continue
		case strings.HasPrefix(text, "Bail out!"):
			c.fail("Bail out!")
			c.lose("the run bailed out")
			continue
		case depth >= MaxDepth:
			continue
		case tapVersion().MatchString(line):
			if levels[0].lines > 0 || levels[0].plan >= 0 { // another program of the same command
				closeTAP(&c, levels)
				levels = []tapLevel{{plan: -1}}
			}
			continue
		}
		if m := tapPlan().FindStringSubmatch(text); m != nil {
			levels = openTAP(levels, depth)
			levels[depth].announce(&c, m[1])
			plans++
		} else if m := tapTest().FindStringSubmatch(text); m != nil {
			levels = openTAP(levels, depth)
			levels = recordTAP(&c, levels, depth, m)
		}
	}
	if in.err != nil {
		return nil, in.err
	}
	if yaml {
		c.lose("a diagnostic block has no end")
	}
	closeTAP(&c, levels)
	rep := c.report(runner)
	rep.Complete = rep.Complete && plans > 0
	return rep, nil
}

// openTAP makes sure that the level exists.
func openTAP(levels []tapLevel, depth int) []tapLevel {
	for len(levels) <= depth {
		levels = append(levels, tapLevel{plan: -1})
	}
	return levels
}

func (l *tapLevel) announce(c *collector, number string) {
	n, err := strconv.Atoi(number)
	if err != nil || n > MaxInput {
		c.lose("an impossible plan")
		return
	}
	if l.plan >= 0 {
		c.lose("more than one plan")
		return
	}
	l.plan = n
}

// recordTAP files a test line, and under it the subtests that came before it.
func recordTAP(c *collector, levels []tapLevel, depth int, m []string) []tapLevel {
	l := &levels[depth]
	l.lines++
	if m[2] != "" && m[2] != strconv.Itoa(l.lines) {
		c.lose("test %s is out of order", cleanID(m[2]))
	}
	name, outcome := tapNameOutcome(m[1] != "", m[3])
	if name == "" {
		name = strconv.Itoa(l.lines)
	}
	room := MaxTests
	for _, level := range levels {
		room -= len(level.tests)
	}
	if room <= 0 {
		c.lose("more than %d tests", MaxTests)
		return levels
	}
	if depth+1 < len(levels) {
		children := levels[depth+1]
		children.check(c)
		for _, t := range children.tests {
			l.tests = append(l.tests, Test{ID: cleanID(name + " > " + t.ID), Outcome: t.Outcome})
		}
		// Deeper levels without a parent in between cannot be placed.
		for _, lost := range levels[min(depth+2, len(levels)):] {
			if lost.lines > 0 {
				c.lose("subtests without a test")
			}
		}
		levels = levels[:depth+1]
	}
	levels[depth].tests = append(levels[depth].tests, Test{ID: cleanID(name), Outcome: outcome})
	return levels
}

func tapNameOutcome(failed bool, description string) (string, Outcome) {
	outcome := Pass
	if failed {
		outcome = Fail
	}
	if at := tapDirective().FindStringSubmatchIndex(description); at != nil {
		directive := strings.ToLower(description[at[2]:at[3]])
		if directive == "skip" || failed {
			outcome = Skip
		}
		if directive == "skip" && failed {
			outcome = Fail
		}
		description = description[:strings.LastIndexByte(description[:at[2]], '#')]
	}
	return strings.TrimSpace(description), outcome
}

func (l *tapLevel) check(c *collector) {
	if l.plan != l.lines && (l.plan >= 0 || l.lines > 0) {
		c.lose("the plan says %d tests, %d have a line", l.plan, l.lines)
	}
}

func closeTAP(c *collector, levels []tapLevel) {
	levels[0].check(c)
	for _, t := range levels[0].tests {
		c.add(t.ID, t.Outcome)
	}
	for _, l := range levels[1:] {
		if l.lines > 0 {
			c.lose("subtests without a test")
		}
		for _, t := range l.tests {
			c.add(t.ID, t.Outcome)
		}
	}
}
