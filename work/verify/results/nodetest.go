package results

import (
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
)

// NodeTest is the format of the reporter that Remit has for node --test.
const NodeTest = "node"

var nodeTest = &Adapter{
	Name: NodeTest, Title: "node --test", Tried: "node 20.20.2",
	Asked:   "`NODE_OPTIONS=--require` with a hook that starts the runner with one more `--test-reporter`",
	Check:   "the file against the runner's counts, against the lines \"pass\" and \"fail\" of the spec reporter, exit status",
	Forgery: "a test file is a process of its own, so it forges only its own tests: it prints the runner's events, or makes assertions do nothing; the twins show it",
	Config:  []string{`node\.config\.json`},
	Idioms:  []string{"assert.strictEqual(got, want)", "assert.deepStrictEqual", "assert.throws", "t.assert.equal"},
	call:    nodeTestCall, mute: []string{"--watch"},
	weak: true, file: fileOfJest(NodeTest), sum: sumOfNode,
}

// nodeTestCall finds --test among the options of node.
func nodeTestCall(words []word) (int, bool) {
	script := slices.IndexFunc(words, func(w word) bool {
		return slices.ContainsFunc([]string{".js", ".mjs", ".cjs", ".ts", ".mts"}, func(ext string) bool { return strings.HasSuffix(w.text, ext) && w.text[0] != '-' })
	})
	at := slices.IndexFunc(words, func(w word) bool { return w.text == "--test" })
	return at + 1, words[0].program("node") && at > 0 && (script < 0 || at < script)
}

var nodeSum = form.Lazy(`^ℹ (pass|fail|cancelled|skipped|todo) (\d+)$`)

// sumOfNode reads the end of what the spec reporter prints. That of TAP is read
// beside the test lines.
func sumOfNode(line string, t *tally) bool {
	if !strings.HasPrefix(line, "ℹ ") {
		return false
	}
	m := nodeSum().FindStringSubmatch(line)
	if m == nil {
		return false
	}
	n, _ := strconv.Atoi(m[2]) // digits; too many of them are 0, and disagree
	switch m[1] {
	case "pass":
		return t.add(n, 0, 0)
	case "fail", "cancelled":
		return t.add(0, n, 0)
	}
	return t.add(0, 0, n)
}
