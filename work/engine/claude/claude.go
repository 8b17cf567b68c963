// Package claude is the engine that drives Claude Code.
//
// The native program of the platform's package is lent to the sandbox alone.
// It reads the settings of a user who has none: neither hooks, skills, agents
// and servers of the repository nor its CLAUDE.md. Its tools are a fixed list,
// allowed beforehand, since no user can be asked and it refuses in silence
// what it would ask for. It runs as the sandbox's unprivileged user; as root it
// would not. Telemetry, updates and error reports are off.
//
// It speaks the messages protocol. Its commands see the environment, the token
// of the gateway too: it is worth nothing elsewhere. The switch that would hide
// it writes files into the work tree.
//
// A refusal with status 400 is tried a few times more with one feature less
// each time; no switch stops that.
package claude

import (
	"context"
	"strconv"
	"strings"

	"remit/proof/evidence"
	"remit/work/engine"
	"remit/work/engine/agent"
	"remit/work/sandbox"
)

// Name is the engine's name in contracts and reports.
const Name = "claude"

var cli = agent.Agent{Name: Name, Program: "claude", Package: "@anthropic-ai/claude-code", Major: "2", Platform: func(goos, goarch string) []string {
	arch, ok := map[string]string{"amd64": "x64", "arm64": "arm64"}[goarch]
	if goos != "linux" || !ok {
		return nil
	}
	native := "@anthropic-ai/claude-code-linux-" + arch
	return []string{native, native + "-musl"} // npm installs the one that fits
}}

// inside is where the program stands in the sandbox.
const inside = agent.InsideDir + "/claude"

// native is the program in the package of the platform.
const native = "claude"

// tools are the ones that the model is offered, all allowed without asking:
// no user can be asked, and the sandbox is the wall.
var tools = []string{"Read", "Edit", "Write", "Bash", "TaskCreate", "TaskUpdate"}

// maxTurns ends a conversation that goes round in circles. The budget of the
// gateway and the time limit are what a run is held to.
const maxTurns = 200

// environment switches off everything that is not the task, and has the agent
// leave trying again to the gateway.
var environment = map[string]string{
	"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
	"DISABLE_AUTOUPDATER":                      "1",
	"DISABLE_TELEMETRY":                        "1",
	"DISABLE_ERROR_REPORTING":                  "1",
	"CLAUDE_CODE_MAX_RETRIES":                  "0",
	// A stream that broke off was paid for, and would be asked for once more.
	"CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
	// A command that goes on behind the agent's back would be cut off with it, and
	// waking up for it costs requests and a second result.
	"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
	"TERM":                                 "dumb",
}

// Engine is Claude Code.
type Engine struct{ bin string }

// New returns the engine of the agent at bin: the program, its package's
// directory or an npm prefix; "" looks in the known places.
func New(bin string) *Engine { return &Engine{bin} }

// Wire is the protocol of the agent.
func (*Engine) Wire() string { return "messages" }

// Identity digests the native program.
func (e *Engine) Identity(context.Context) (evidence.EngineIdentity, error) {
	return cli.NativeIdentity(e.bin, native)
}

// Invocation starts `claude -p`.
func (e *Engine) Invocation(_ context.Context, t engine.Task) (*engine.Invocation, error) {
	_, file, err := cli.NativeProgram(e.bin, native)
	if err != nil {
		return nil, err
	}
	m, prompt, err := agent.Briefing(Name, t)
	if err != nil {
		return nil, err
	}
	argv := []string{inside, "-p", "--output-format", "stream-json", "--verbose", "--setting-sources", "user", "--strict-mcp-config",
		"--model", m.Name, "--max-turns", strconv.Itoa(maxTurns), "--no-session-persistence",
		"--tools", strings.Join(tools, ","), "--allowedTools", strings.Join(tools, ","), "--", prompt}
	return &engine.Invocation{
		Argv:     agent.Launch{Home: "claude", Variables: []string{"CLAUDE_CONFIG_DIR"}, Argv: argv}.Words(),
		Env:      Environment(m),
		Binds:    []sandbox.Bind{{Host: file, Inside: inside}},
		Scratch:  []string{agent.GitDir},
		Protocol: newProtocol,
	}, nil
}
