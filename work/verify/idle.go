package verify

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// A command that succeeds because make had nothing to do answers nothing: there is a
// file or a directory with the name of the target. Its exit status is the only thing
// that is known of it, so its words count.

const idleHint = "where a file or directory has the name of the target, add .PHONY: and that name to the makefile, or verify with the command behind it"

var (
	upToDate  = form.Lazy("^g?make(?:\\[\\d+\\])?: [`'‘](.+)['’] is up to date\\.$")
	nothingTo = form.Lazy("^g?make: Nothing to be done for [`'‘](.+)['’]\\.$")
	moveMake  = form.Lazy(`^g?make(?:\[\d+\])?: (?:Entering|Leaving) directory `)
)

// idleOf returns the line in which make says that it did nothing for a target that checks
// something, as a file has its name; or that there was nothing to do for any that the
// command names, where the output has nothing else. "" otherwise.
func idleOf(command string, stdout, stderr *stream) (string, error) {
	text, err := tailOf(stdout, stderr)
	if err != nil {
		return "", err
	}
	idle, only := "", kept(stdout)+kept(stderr) < maxTail
	var done []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := upToDate().FindStringSubmatch(line); m != nil {
			if asksTarget().MatchString(m[1]) {
				return line, nil
			}
			continue
		}
		m := nothingTo().FindStringSubmatch(line)
		switch {
		case m != nil && asksTarget().MatchString(m[1]):
			idle, done = line, append(done, m[1])
		case line == "" || m != nil || moveMake().MatchString(line):
		default:
			only = false
		}
	}
	ran := slices.ContainsFunc(fileWords(command), func(w string) bool { return asksTarget().MatchString(w) && !slices.Contains(done, w) })
	if !only || ran {
		return "", nil
	}
	return idle, nil
}
