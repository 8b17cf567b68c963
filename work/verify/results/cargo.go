package results

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
)

// Cargo is the format of cargo test.
const Cargo = "cargo"

var cargo = &Adapter{
	Name: Cargo, Title: "cargo test", Tried: "cargo 1.95.0",
	Asked:   "`--no-fail-fast`: else a binary with a failed test ends the run, and those behind it are not known; the text names each test",
	Check:   "the lines of each test binary against the number that it announced and against its result line, exit status",
	Forgery: "code in the test process writes lines past the capture of output; the counts show those that it only adds",
	Config:  []string{`rust-toolchain(?:\.toml)?`},
	Idioms:  []string{"assert_eq!(got, want)", "assert_ne!", "assert!(…)", "#[should_panic]"},
	call:    cargoCall("test", "t"), ask: askCargo, both: readCargo,
	mute: []string{"--no-run", "--help", "-h", "-q", "--quiet", "--list"},
	line: func(line string) bool {
		return strings.HasPrefix(line, "test result: ") && cargoResult().MatchString(line)
	},
}

var (
	cargoBinary = form.Lazy(`^ +Running (?:unittests )?(\S+) \(\S*?([^/\\\s]+?)-[0-9a-f]{16}(?:\.exe)?\)$`)
	cargoDocs   = form.Lazy(`^ +Doc-tests (\S+)$`)
	cargoBegin  = form.Lazy(`^running (\d+) tests?$`)
	cargoTest   = form.Lazy(`^test (.+?)(?: - should panic| - compile fail| - compile)? \.\.\. (?:(ok|FAILED|ignored)\b.*|(bench):.*)$`)
	cargoResult = form.Lazy(`^test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured; \d+ filtered out(?:; finished in .*)?$`)
	cargoLine   = form.Lazy(` \(line \d+\)`)
)

// cargoCall finds a command of cargo, by one of its names, behind a toolchain and
// options without a value.
func cargoCall(names ...string) func(words []word) (int, bool) {
	return func(words []word) (int, bool) {
		i := 1
		for i < len(words) && (strings.HasPrefix(words[i].text, "+") || slices.Contains([]string{"--locked", "--offline", "--frozen"}, words[i].text)) {
			i++
		}
		return i + 1, words[0].program("cargo") && i < len(words) && slices.Contains(names, words[i].text)
	}
}

// askCargo has all test binaries run.
func askCargo(c call, command string) (string, bool) {
	if c.has("--no-fail-fast", "--fail-fast") {
		return command, true
	}
	return insert(command, c.words, c.args, "--no-fail-fast"), true
}

// cargoRun is the part of one test binary.
type cargoRun struct {
	tests                   []Test
	announced               int
	passed, failed, ignored int
}

// readCargo reads what cargo test prints. A test is "crate file > module::name".
// The binaries are named on standard error, in the order in which standard output
// has their tests; where the numbers of both differ no test is told from one of the
// same name in another binary. The line of a documentation test is left out.
func readCargo(stdout, stderr io.Reader) (*Report, error) {
	var c collector
	var runs []*cargoRun
	var inline, aside []string
	var open *cargoRun
	in := newLines(stdout, &c)
	for line, ok := in.text(); ok; line, ok = in.text() {
		if name, ok := cargoName(line); ok {
			inline = append(inline, name)
		} else if m := cargoBegin().FindStringSubmatch(line); m != nil && len(runs) < MaxTests {
			if open != nil {
				c.lose("a test binary began, and another one had not ended")
			}
			n, _ := strconv.Atoi(m[1]) // digits; too many of them are 0, and disagree
			open = &cargoRun{announced: n}
			runs = append(runs, open)
		} else if open != nil {
			if open.line(&c, line) {
				open = nil
			}
		} else if cargoResult().MatchString(line) || cargoTest().MatchString(line) {
			c.lose("a result outside of a test binary")
		}
	}
	if in.err != nil {
		return nil, in.err
	}
	if open != nil {
		c.lose("a test binary began and never ended")
		c.fail("a test binary that did not end")
	}
	other := newLines(stderr, &c)
	for line, ok := other.text(); ok && len(aside) <= MaxTests; line, ok = other.text() {
		if name, ok := cargoName(line); ok {
			aside = append(aside, name)
		}
	}
	if other.err != nil {
		return nil, other.err
	}
	fileCargo(&c, runs, inline, aside)
	rep := c.report(Cargo)
	rep.Complete = rep.Complete && len(runs) > 0
	return rep, nil
}

// cargoName is the name of a test binary in the line that announces it.
func cargoName(line string) (string, bool) {
	if !strings.HasPrefix(line, " ") {
		return "", false
	}
	if m := cargoBinary().FindStringSubmatch(line); m != nil {
		return m[2] + " " + m[1], true
	}
	if m := cargoDocs().FindStringSubmatch(line); m != nil {
		return m[1] + " docs", true
	}
	return "", false
}

// line takes a line of a binary; it reports whether it was the last.
func (r *cargoRun) line(c *collector, line string) bool {
	if m := cargoResult().FindStringSubmatch(line); m != nil {
		said := make([]int, 4)
		for i := range said {
			said[i], _ = strconv.Atoi(m[2+i]) // digits; too many of them are 0, and disagree
		}
		lines := r.passed + r.failed + r.ignored
		if said[0]+said[3] != r.passed || said[1] != r.failed || said[2] != r.ignored || lines != r.announced {
			c.lose("a test binary announced %d tests and counts %d passed and %d failed, and %d passed and %d failed have a line",
				r.announced, said[0]+said[3], said[1], r.passed, r.failed)
		}
		if (m[1] == "ok") != (r.failed == 0) {
			c.lose("a test binary ends with %s, and %d of its tests failed", m[1], r.failed)
		}
		return true
	}
	m := cargoTest().FindStringSubmatch(line)
	if m == nil {
		return false
	}
	outcome := Pass
	switch m[2] {
	case "FAILED":
		outcome = Fail
		r.failed++
	case "ignored":
		outcome = Skip
		r.ignored++
	default:
		r.passed++
	}
	if len(r.tests) < MaxTests {
		r.tests = append(r.tests, Test{ID: cleanID(strings.TrimSuffix(cargoLine().ReplaceAllString(m[1], ""), " -")), Outcome: outcome})
	}
	return false
}

// fileCargo names the tests of each binary.
func fileCargo(c *collector, runs []*cargoRun, inline, aside []string) {
	names := inline
	if len(inline) == 0 {
		names = aside
	}
	for i, r := range runs {
		name := ""
		if len(names) == len(runs) {
			name = names[i]
		}
		for _, t := range r.tests {
			c.add(identity(name, t.ID), t.Outcome)
		}
	}
}
