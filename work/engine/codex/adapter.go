package codex

import (
	"encoding/json"
	"strings"

	"remit/work/engine"
)

// What follows is for an adapter that drives Codex's app server in the place of
// `codex exec`: the same program, under the same switches.

// TokenVariable is what holds the gateway's token for a Codex that reads
// [Configuration]. Its name is one that Codex keeps from its commands.
const TokenVariable = tokenVariable

// Program is the native program of the Codex below bin, which is what an engine takes, or in
// the known places for "".
func Program(bin string) (string, error) {
	_, file, err := cli.NativeProgram(bin, native)
	return file, err
}

// Configuration is a config.toml that says what the command line of the engine
// says, and that the workspace is not trusted: an app server that may write
// takes the directory that it is started for as trusted, and then reads what
// the repository has below .codex.
func Configuration(m engine.Model, workspace string) string {
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			panic(err) // a string always has an encoding
		}
		return string(b)
	}
	lines := []string{"model = " + quoted(m.Name), `approval_policy = "never"`, `sandbox_mode = "danger-full-access"`}
	words := settings(m.URL)
	for i := 0; i+1 < len(words); i += 2 {
		switch word := words[i+1]; words[i] {
		case "-c":
			lines = append(lines, word)
		case "--disable":
			lines = append(lines, "features."+word+" = false")
		}
	}
	return strings.Join(append(lines, "[projects."+quoted(workspace)+"]", `trust_level = "untrusted"`), "\n")
}
