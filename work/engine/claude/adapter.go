package claude

import (
	"maps"
	"slices"

	"remit/work/engine"
	"remit/work/engine/agent"
)

// What follows is for an adapter that drives Claude Code in the place of
// `claude -p`: the same program, under the same switches.

// Program is the native program of the Claude Code below bin, which is what an engine takes, or in
// the known places for "".
func Program(bin string) (string, error) {
	_, file, err := cli.NativeProgram(bin, native)
	return file, err
}

// Environment leads the program to the gateway and switches off everything
// that is not the task.
func Environment(m engine.Model) map[string]string {
	env := maps.Clone(environment)
	env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_API_KEY"] = m.URL, m.Token
	return env
}

// Tools are the ones that the model is offered.
func Tools() []string { return slices.Clone(tools) }

// StatedExit is the exit code that the output of a command states, nil if it
// states none.
func StatedExit(output string) *int { return agent.StatedExit(exitLine(), output) }
