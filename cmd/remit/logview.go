package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"remit/proof/form"
)

// loggedRun is one command of test.log, see docs/format.md.
type loggedRun struct {
	tree           string // base, head, unedited, or that of a control
	repetition     string
	command        string
	exit, tests    string // as the log has them
	stdout, stderr []byte
}

// shownTrees are the runs that a person asks for, in their words. All others are
// controls: some of them have to fail.
var shownTrees = map[string]string{
	"base":     "on the base commit",
	"head":     "on the patched tree",
	"unedited": "on the patched tree, with the tests of the base",
}

// controlTrees are the others.
var controlTrees = map[string]string{
	"twin":      "with edited tests, some so that they must fail",
	"new-tests": "the new tests on the code of the base",
	"hunk":      "without one part of the change",
	"control":   "with planted tests",
}

var sectionLine = form.Lazy(`^=== (?:base|head) tree=([a-z-]+) repetition=([0-9]+) command=[0-9]+/[0-9]+$`)

// runsOf reads test.log. Lines between two commands are kept as they are, under
// no tree. It reports false for a log that it does not understand.
func runsOf(log []byte) (runs []loggedRun, ok bool) {
	next := func() string {
		line, rest, _ := bytes.Cut(log, []byte("\n"))
		log = rest
		return string(line)
	}
	for len(log) > 0 {
		line := next()
		m := sectionLine().FindStringSubmatch(line)
		if m == nil {
			if line != "" {
				runs = append(runs, loggedRun{stdout: []byte(line + "\n")})
			}
			continue
		}
		r := loggedRun{tree: m[1], repetition: m[2]}
		for line = next(); !strings.HasPrefix(line, "--- stdout "); line = next() {
			switch key, value, found := strings.Cut(line, ": "); {
			case !found:
				return nil, false
			case key == "command":
				r.command = value
			case key == "exit":
				r.exit = value
			case key == "tests":
				r.tests = value
			}
		}
		take := func(prefix string) ([]byte, bool) {
			n, err := strconv.Atoi(strings.TrimPrefix(line, prefix))
			if err != nil || n < 0 || n >= len(log) {
				return nil, false
			}
			text := log[:n]
			log = log[n+1:]
			line = next()
			return text, true
		}
		var okOut, okErr bool
		if r.stdout, okOut = take("--- stdout "); okOut {
			r.stderr, okErr = take("--- stderr ")
		}
		if !okErr || !strings.HasPrefix(line, "=== end ") {
			return nil, false
		}
		runs = append(runs, r)
	}
	return runs, true
}

// printTestLog prints test.log for a person: each command with its result and what
// it printed, without the control runs unless all is set.
func printTestLog(w io.Writer, runs []loggedRun, all bool) {
	hidden := 0
	for _, r := range runs {
		where := shownTrees[r.tree]
		if r.tree == "" {
			printPlain(w, r.stdout)
			continue
		}
		if where == "" && !all {
			hidden++
			continue
		}
		if where == "" {
			where = "control: " + controlTrees[r.tree]
		}
		if r.repetition != "1" {
			where += ", repetition " + r.repetition
		}
		result := "exit " + r.exit
		if r.tests != "" {
			result += ": " + r.tests
		}
		fmt.Fprintf(w, "==> %s, %s (%s) <==\n", plain(r.command), where, plain(result))
		printPlain(w, goText(r.stdout))
		printPlain(w, r.stderr)
	}
	if hidden > 0 {
		fmt.Fprintf(w, "==> %d control run(s) are not shown: --all prints them, --raw every byte <==\n", hidden)
	}
}

// goText is what a Go test printed, if the output is that of go test -json;
// other output stays as it is.
func goText(out []byte) []byte {
	if !bytes.HasPrefix(out, []byte(`{"`)) {
		return out
	}
	var text bytes.Buffer
	for line := range bytes.Lines(out) {
		var event struct{ Action, Output string }
		if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &event) != nil || event.Action == "" {
			text.Write(line)
			continue
		}
		switch trimmed := strings.TrimSpace(event.Output); {
		case strings.HasPrefix(trimmed, "=== RUN"), strings.HasPrefix(trimmed, "=== PAUSE"), strings.HasPrefix(trimmed, "=== CONT"), strings.HasPrefix(trimmed, "=== NAME"):
		default:
			text.WriteString(event.Output)
		}
	}
	return text.Bytes()
}

// printPlain prints text of strangers, line by line.
func printPlain(w io.Writer, text []byte) {
	for line := range bytes.Lines(text) {
		fmt.Fprintln(w, plain(string(line)))
	}
}
