package results

import (
	"strconv"

	"remit/proof/form"
)

// Mocha is the format of the reporter that Remit has for mocha.
const Mocha = "mocha"

var mocha = &Adapter{
	Name: Mocha, Title: "mocha", Tried: "mocha 12.0.3",
	Asked:   "`NODE_OPTIONS=--require` with a hook that puts a reporter of Remit around the command's own",
	Check:   "the file against mocha's counts, against the lines \"passing\" and \"failing\" and the exit status",
	Forgery: "code in the test process rewrites the file when the process ends, and prints other lines; the twins show it",
	Config:  []string{`\.mocharc.*`, `\.nycrc.*`},
	Idioms:  []string{"assert.equal(got, want)", "assert.strictEqual", "assert.deepStrictEqual", "expect(got).to.equal(want)", "got.should.equal(want)"},
	call:    nodeProgram("mocha"), mute: []string{"--dry-run", "--list-files", "--list-reporters", "--list-interfaces", "--version", "-V", "--help", "-h"},
	weak: true, file: fileOfJest(Mocha), sum: sumOfMocha,
}

var mochaSum = form.Lazy(`^  (\d+) (?:(passing) \(\d+(?:ms|s|m|h|d)\)|(failing)|(pending))$`)

func sumOfMocha(line string, t *tally) bool {
	if len(line) < 2 || line[:2] != "  " {
		return false
	}
	m := mochaSum().FindStringSubmatch(line)
	if m == nil {
		return false
	}
	n, _ := strconv.Atoi(m[1]) // digits; too many of them are 0, and disagree
	switch {
	case m[2] != "":
		return t.add(n, 0, 0)
	case m[3] != "":
		return t.add(0, n, 0)
	}
	return t.add(0, 0, n)
}
