package agent

import (
	"regexp"
	"strconv"
)

// ExitCode is how a command ended, for agents that have no field for it: 0 if
// the call did not fail, else what its output states. Nil if that does not tell,
// since the command was stopped, or did not run.
func ExitCode(stated *regexp.Regexp, output string, failed bool) *int {
	if !failed {
		return new(0)
	}
	return StatedExit(stated, output)
}

// StatedExit is the exit code that an output states, nil if it states none. The
// expression has one group, a number of at most three digits.
func StatedExit(stated *regexp.Regexp, output string) *int {
	m := stated.FindStringSubmatch(output)
	if m == nil {
		return nil
	}
	code, _ := strconv.Atoi(m[1]) // digits
	return &code
}
