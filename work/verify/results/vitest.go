package results

import "remit/proof/form"

// Vitest is the format of vitest's JSON reporter.
const Vitest = "vitest"

var vitest = &Adapter{
	Name: Vitest, Title: "vitest", Tried: "vitest 4.1.0",
	Asked:   "`NODE_OPTIONS=--require` with a hook that adds `--reporter=json --outputFile.json=FILE`",
	Check:   "the file against its own counts, against the line \"Tests\" and the exit status",
	Forgery: "code in a test file changes what its worker reports, or writes another file and another line; the twins show it",
	Config:  []string{`(?:vitest|vite)\.(?:config|conf|workspace|projects).*`},
	Idioms:  []string{"expect(got).toBe(want)", "expect(got).toEqual(want)", "expect(f).toThrow()", "assert.equal(got, want)"},
	call:    nodeProgram("vitest"), ask: askVitest, mute: []string{"--version", "-v", "--help", "-h", "--merge-reports"},
	weak: true, file: fileOfJest(Vitest), sum: sumOfVitest,
}

// askVitest tells a run from the other commands of vitest.
func askVitest(c call, command string) (string, bool) {
	if c.args < len(c.words) {
		switch c.words[c.args].text {
		case "bench", "list", "init", "dev", "watch":
			return "", false
		}
	}
	return command, true
}

var vitestSum = form.Lazy(`^ +Tests +(\d+ [a-z]+(?: \| \d+ [a-z]+)*) \(\d+\)$`)

func sumOfVitest(line string, t *tally) bool { return sumOfWords(vitestSum)(line, t) }
