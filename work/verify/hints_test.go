package verify

import (
	"strings"
	"testing"

	"remit/work/verify/results"
)

func TestMissingProgram(t *testing.T) {
	t.Parallel()
	const path = "/usr/local/bin:/usr/bin:/bin"
	for name, tc := range map[string]struct {
		command, output string
		exit            int
		want            string // the hint begins so; "" for none
	}{
		"dash":               {"npm test", "sh: 1: npm: not found\n", 127, "npm is not in the sandbox (PATH there is " + path + "): install it below /usr, or lend its directory with --toolchain DIR"},
		"dash, with a path":  {"npm test", "/bin/sh: 1: npm: not found\n", 127, "npm is not in the sandbox"},
		"bash":               {"./ci.sh", "./ci.sh: line 3: cargo: command not found\n", 127, "cargo is not in the sandbox"},
		"env":                {"./t", "/usr/bin/env: ‘node’: No such file or directory\n", 127, "node is not in the sandbox"},
		"env, CRLF":          {"./t", "env: 'python3\r': No such file or directory\r\n", 127, "the first line of a script"},
		"env, CRLF, escaped": {"./t", "/usr/bin/env: ‘python3\\r’: No such file or directory\n", 127, "the first line of a script"},
		"bash, CRLF":         {"./t", "bash: ./t: /bin/sh^M: bad interpreter: No such file or directory\n", 127, "the first line of a script"},
		"not executable":     {"./t", "sh: 1: ./t: Permission denied\n", 126, "a program of the command is in the tree and cannot be executed"},
		"a script of npm":    {"npm test", "> test\n> jest\n\nsh: 1: jest: not found\n", 127, "jest is not in the sandbox"},
		"make":               {"make test", "go test ./...\nmake: go: No such file or directory\nmake: *** [Makefile:2: test] Error 127\n", 2, "go is not in the sandbox"},
		"make below make":    {"make test", "/bin/sh: 1: tox: not found\nmake[1]: *** [Makefile:2: t] Error 127\nmake: *** [Makefile:1: test] Error 2\n", 2, "tox is not in the sandbox"},
		"a file of the tree": {"node_modules/.bin/jest", "sh: 1: node_modules/.bin/jest: not found\n", 127, "node_modules/.bin/jest is not in the tree"},
		"an absolute file":   {"/opt/x/bin/y", "sh: 1: /opt/x/bin/y: not found\n", 127, "/opt/x/bin/y is not in the sandbox"},
		"nothing is said":    {"CI=1 mvn verify", "", 127, "mvn is not in the sandbox"},
		"nothing is known":   {"$(x)", "", 127, "a program that the command starts is not in the sandbox"},
		"hostile words":      {"t", "sh: 1: \x1b[31mevil $(x): not found\n", 127, "t is not in the sandbox"},
		"no leaks":           {"make test", "==1==HINT: LeakSanitizer does not work under ptrace (strace, gdb, etc)\nmake: *** [Makefile:3: test] Error 1\n", 2, "LeakSanitizer looks into its own process"},
		"another failure":    {"npm test", "sh: 1: npm: not found\n", 1, ""},
		"a pass":             {"npm test", "make: *** [x] Error 127\n", 0, ""},
	} {
		c := CommandResult{Command: tc.command, Started: true, ExitCode: tc.exit}
		if got := MissingProgram(c, tc.output, path); !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := MissingProgram(CommandResult{Command: "x", Started: true, ExitCode: 127}, "", ""); strings.Contains(got, "PATH there") {
		t.Errorf("an unknown path is shown: %q", got)
	}
	for name, c := range map[string]CommandResult{"not started": {ExitCode: 127}, "out of time": {Started: true, ExitCode: 127, TimedOut: true}, "killed": {Started: true, ExitCode: 127, Signal: "KILL"}} {
		if got := MissingProgram(c, "sh: 1: x: not found\n", ""); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestFailsBefore(t *testing.T) {
	t.Parallel()
	run := func(exit int, tests string) CommandResult {
		c := CommandResult{Command: "make test", Started: true, ExitCode: exit, Passed: exit == 0}
		for word := range strings.FieldsSeq(tests) {
			if c.PerTest == nil {
				c.PerTest = map[string]results.Outcome{}
			}
			name, failed := strings.CutPrefix(word, "-")
			c.PerTest[name] = map[bool]results.Outcome{true: results.Fail, false: results.Pass}[failed]
		}
		return c
	}
	for name, tc := range map[string]struct {
		base, head CommandResult
		want       string // part of it
	}{
		"alike, nothing is read": {run(2, ""), run(2, ""), "in the same way (exit code 2)"},
		"alike, test by test":    {run(1, "a -b -c"), run(1, "a d -b -c"), "fixes none of the 2 tests"},
		"another code":           {run(2, ""), run(1, ""), ""},
		"it was fixed":           {run(1, ""), run(0, ""), ""},
		"it was broken":          {run(0, ""), run(1, ""), ""},
		"one test is fixed":      {run(1, "-a -b"), run(1, "a -b"), ""},
		"another test fails":     {run(1, "-a b"), run(1, "a -b"), ""},
		"tests are read now":     {run(1, ""), run(1, "a"), ""},
	} {
		if got := FailsBefore(tc.base, tc.head); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
	late := run(137, "")
	late.TimedOut = true
	if got := FailsBefore(late, late); !strings.Contains(got, "it ran out of time") {
		t.Errorf("out of time twice: %q", got)
	}
	other := run(2, "")
	other.Command = "make check"
	if got := FailsBefore(run(2, ""), other); got != "" {
		t.Errorf("two commands: %q", got)
	}
}
