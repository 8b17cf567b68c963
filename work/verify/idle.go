package verify

import (
	"strings"

	"remit/proof/form"
)

// A command that succeeds because make had nothing to do answers nothing: there is a
// file or a directory with the name of the target. Its exit status is the only thing
// that is known of it, so its words count.

var (
	idleMake = form.Lazy("^g?make(?:\\[\\d+\\])?: (?:[`'‘]([^'’]+)['’] is up to date\\.|Nothing to be done for [`'‘]([^'’]+)['’]\\.)$")
	moveMake = form.Lazy(`^g?make(?:\[\d+\])?: (?:Entering|Leaving) directory `)
)

// maxIdle bounds what such a command prints, in bytes.
const maxIdle = 4 << 10

// idleOf returns the line in which make says that it had nothing to do for a target that
// checks something, where the output has nothing else; "" otherwise.
func idleOf(stdout, stderr *stream) (string, error) {
	if kept(stdout)+kept(stderr) > maxIdle {
		return "", nil
	}
	text, err := tailOf(stdout, stderr)
	if err != nil {
		return "", err
	}
	idle := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		m := idleMake().FindStringSubmatch(line)
		switch {
		case m != nil && asksName().MatchString(m[1]+m[2]):
			idle = line
		case line == "" || m != nil || moveMake().MatchString(line):
		default:
			return "", nil
		}
	}
	return idle, nil
}
