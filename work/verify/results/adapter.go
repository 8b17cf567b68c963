package results

import (
	"io"
	"regexp"
	"slices"
	"strings"
)

// Adapter is everything that Remit knows of one runner: how a command is seen to
// start it, how it is asked for the outcome of every test, how its answer is read,
// and what it is worth. docs/runners.md shows the rows; a test holds it to them.
type Adapter struct {
	Name  string // of the format, in reports and in the names of result files
	Title string // for people
	// Tried is what real runs it was tried with; "" means that only recorded
	// or written-down output was read.
	Tried string
	// Asked says how results are asked for, Check what has to agree before they
	// count, Forgery what code under test is known to be able to claim.
	Asked, Check, Forgery string
	// Config are expressions for the names of files that steer the runner and
	// do nothing else: a patch may not bend them.
	Config []string
	// Idioms are the assertions that tests of this runner are written with.
	Idioms []string

	// call finds the runner in the words of a simple command, from its program on,
	// and the place of its first argument.
	call func(words []word) (args int, ok bool)
	// ask adds flags to a call; ok is false for one that runs no tests. Without
	// it a call runs as given.
	ask func(c call, command string) (run string, ok bool)
	// mute are options with which a call runs no tests, or says nothing of them.
	mute []string

	// line says whether a line of output gives the format away.
	line func(line string) bool
	// weak formats are looked for only where no other is: a test may well print
	// such lines as data.
	weak bool
	// read reads standard output, or standard error with stderr, or both.
	read   func(io.Reader) (*Report, error)
	stderr bool
	both   func(stdout, stderr io.Reader) (*Report, error)
	// file reads a result file that the runner wrote; root is the directory that
	// paths are relative to.
	file func(r io.Reader, root string) (*Report, error)
	// sum adds what a line of output says about the whole run. It stands in for a
	// result file that is not there, and has to agree with one that is.
	sum func(line string, t *tally) bool
	// closes is set where a run always prints such a line: a result file without it was
	// written by a process that ended before its output was.
	closes bool
}

// adapters are the runners, one row each, in the order in which their formats are
// looked for in output.
var adapters = []*Adapter{
	goTest,
	goText,
	pytest,
	unittest,
	cargo,
	nextest,
	ctest,
	dotnet,
	deno,
	bun,
	junit,
	bats,
	tap,
	nodeTest,
	mocha,
	jest,
	vitest,
	rspec,
	minitest,
	phpunit,
	surefire,
	gradle,
}

// Adapters are the rows of the table.
func Adapters() []*Adapter { return slices.Clone(adapters) }

// adapterOf finds a row by its name, nil if there is none.
func adapterOf(name string) *Adapter {
	i := slices.IndexFunc(adapters, func(a *Adapter) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return adapters[i]
}

// NamesTests says whether the arguments of a call of the runner are its tests, and
// nothing else that steers it.
func NamesTests(runner string) bool {
	return runner == GoTest || runner == Pytest || runner == Unittest
}

// EndsWithSummary says whether a complete report of the runner has all of its tests: what
// says so is printed once, behind them.
func EndsWithSummary(runner string) bool { return runner == Pytest || runner == Unittest }

// EndsEarly says whether a runner that is not asked otherwise ends behind the first of its
// programs with a failed test.
func EndsEarly(runner string) bool { return runner == Cargo }

// lazy is an expression that is compiled at its first use.
type lazy = func() *regexp.Regexp

// nodeProgram finds a program of npm: by its path, behind npx and its like, or as
// the file that node is given.
func nodeProgram(name string) func(words []word) (int, bool) {
	return func(words []word) (int, bool) {
		i := 0
		switch {
		case words[0].program("npx", "bunx"):
			i = 1
		case words[0].program("npm", "pnpm", "yarn") && len(words) > 1 && words[1].text == "exec":
			i = 2
		case words[0].program("node") && len(words) > 1:
			return 2, strings.Contains(words[1].text, "node_modules/"+name+"/")
		}
		for i > 0 && i < len(words) && slices.Contains([]string{"--", "-y", "--yes", "--no", "--no-install"}, words[i].text) {
			i++
		}
		return i + 1, i < len(words) && words[i].program(name)
	}
}

// Collects says whether a command that runs a runner, "" for one that is not known,
// may have result files: all but those whose output says everything.
func Collects(runner string) bool {
	a := adapterOf(runner)
	return a == nil || a.file != nil
}

// tally is what a runner says of a whole run.
type tally struct {
	passed, failed, skipped int
	said                    bool
}

func (t *tally) add(passed, failed, skipped int) bool {
	t.passed, t.failed, t.skipped, t.said = t.passed+passed, t.failed+failed, t.skipped+skipped, true
	return true
}

// sums says whether a line is one that sums a run up.
func (a *Adapter) sums(line string) bool {
	var t tally
	return a.sum != nil && a.sum(line, &t)
}

// readSums reads the counts of a runner that names no test in its output.
func (a *Adapter) readSums(r io.Reader) (*Report, error) {
	var c collector
	var t tally
	in := newLines(r, &c)
	for line, ok := in.text(); ok; line, ok = in.text() {
		a.sum(line, &t)
	}
	rep := c.report(a.Name)
	rep.Passed, rep.Failed, rep.Skipped, rep.Listed = t.passed, t.failed, t.skipped, false
	rep.Complete = rep.Complete && t.said
	return rep, in.err
}
