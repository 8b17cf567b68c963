package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"remit/work/verify/results"
)

// Hints say what can be done about a command that did not do what its author
// expected. They decide nothing.

// noProgram is the exit code of a shell that did not find a program.
const noProgram = 127

// noExecution is that of one that found a program and could not execute it.
const noExecution = 126

var (
	// What shells, env and make say of a program that is not there. The words
	// come from a hostile process: only what can be a name is repeated.
	notFound = whenUsed(`(?m)(?:^|[\s:'"‘])([A-Za-z0-9._+/@-]{1,100})['"’]?: (?:command not found|not found|No such file or directory)$`)
	// A make that went on reports the code in a line of its own.
	makeSays = whenUsed(`(?m)^g?make(?:\[\d+\])?: \*\*\* .*\bError 127$`)
	// What env and shells say of a script whose first line ends as in Windows.
	lineEnd = whenUsed(`(?m)(?:\r|\\r|\^M)['"’]?: (?:bad interpreter|No such file or directory)`)
	// The first word of a command that is no assignment.
	firstWord = whenUsed(`^(?:\s*[A-Za-z_][A-Za-z0-9_]*=\S*)*\s*([A-Za-z0-9._+/@-]{1,100})(?:\s|$)`)
)

// MissingProgram is the hint for a command that ended because a program is not
// in the sandbox, or does not work there, "" for any other. output is the end of what
// the command wrote, searched is PATH inside the sandbox, "" if it is not known.
func MissingProgram(c CommandResult, output, searched string) string {
	if c.Started && !c.TimedOut && c.Signal == "" && c.ExitCode == noExecution {
		return "a program of the command is in the tree and cannot be executed: make it executable (chmod +x FILE, and commit that), or name its interpreter (sh FILE)"
	}
	if c.Started && strings.Contains(output, "LeakSanitizer does not work under ptrace") {
		return "LeakSanitizer looks into its own process from another one, which nothing in the sandbox may: put ASAN_OPTIONS=detect_leaks=0 in front of the command"
	}
	if !c.Started || c.TimedOut || c.Signal != "" || c.ExitCode != noProgram && (c.ExitCode == 0 || !makeSays().MatchString(output)) {
		return ""
	}
	if lineEnd().MatchString(output) {
		return "the first line of a script that the command starts has a line end of Windows, so that no interpreter has that name: take it out (sed -i 's/\\r$//' FILE), and commit that"
	}
	program := ""
	if all := notFound().FindAllStringSubmatch(strings.ReplaceAll(output, "\r", ""), -1); len(all) > 0 {
		program = all[len(all)-1][1]
	} else if m := firstWord().FindStringSubmatch(c.Command); m != nil {
		program = m[1]
	}
	where := ""
	if searched != "" {
		where = " (PATH there is " + searched + ")"
	}
	switch {
	case program == "":
		return "a program that the command starts is not in the sandbox" + where + ": install it below /usr, or lend its directory with --toolchain DIR"
	case strings.HasPrefix(program, "/"):
		return fmt.Sprintf("%s is not in the sandbox, which shows /usr and the directories of --toolchain DIR: install it below /usr, or lend its directory", program)
	case strings.Contains(program, "/"):
		return fmt.Sprintf("%s is not in the tree that is verified, which has what is committed and nothing else: commit it, or let the command make it first; or it is there, and the interpreter in its first line is not (a line end of Windows does that, too)", program)
	}
	return fmt.Sprintf("%s is not in the sandbox%s: install it below /usr, or lend its directory with --toolchain DIR (its bin, or DIR itself if it has none, is put on PATH); "+
		"a package of the repository's lock file is prepared by environment in remit.yaml", program, where)
}

// FailsBefore is the hint for a command that fails on the head as it fails on the
// base, "" if it does not: then it is the command, or what it needs, and not only
// the change that is to be looked at.
func FailsBefore(base, head CommandResult) string {
	if base.Command != head.Command || base.Passed || head.Passed || !endedAlike(base, head) {
		return ""
	}
	before, after := failingTests(base), failingTests(head)
	switch {
	case !slices.Equal(before, after) || (base.PerTest == nil) != (head.PerTest == nil):
		return ""
	case len(before) > 0:
		return fmt.Sprintf("your command fails before the change too, in the same way: the change fixes none of the %d tests that fail there", len(before))
	}
	return fmt.Sprintf("your command fails before the change too, in the same way (%s): the change does not mend what fails there, or the command needs something that is not committed; `remit logs SESSION` shows what it printed before and after", endOf(head))
}

// endedAlike says whether two runs of a command ended alike.
func endedAlike(a, b CommandResult) bool {
	return a.Started == b.Started && a.ExitCode == b.ExitCode && a.Signal == b.Signal && a.TimedOut == b.TimedOut && a.OutputExceeded == b.OutputExceeded
}

func failingTests(c CommandResult) []string {
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(c.PerTest)) {
		if c.PerTest[name] == results.Fail {
			failed = append(failed, name)
		}
	}
	return failed
}

func endOf(c CommandResult) string {
	switch {
	case !c.Started:
		return "it was not started"
	case c.TimedOut:
		return "it ran out of time"
	case c.OutputExceeded:
		return "it wrote too much"
	case c.Signal != "":
		return "signal " + c.Signal
	}
	return fmt.Sprintf("exit code %d", c.ExitCode)
}

// Why says in a few words how a command ended that did not pass.
func (c CommandResult) Why() string {
	switch {
	case c.Started && !c.TimedOut && !c.OutputExceeded && c.Signal == "" && c.ExitCode == 0:
		return "it exits with 0 and reports no test that ran and passed"
	case c.Tests != nil && c.Tests.Failed > 0:
		return fmt.Sprintf("%s, %d of %d tests fail", endOf(c), c.Tests.Failed, c.Tests.Passed+c.Tests.Failed)
	}
	return endOf(c)
}

// Tail is the end of what a command printed that failed, "" for any other. It
// comes from a hostile process: nothing of it is fit for a terminal as it is.
func (c CommandResult) Tail() string { return c.tail }
