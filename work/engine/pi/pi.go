// Package pi is the engine that drives the Pi coding agent.
//
// Pi is a tree of npm packages that the system's node executes. The packages
// that it depends on, as node would find them, are lent to the sandbox and
// nothing that is installed beside them; the engine's digest covers every file
// of theirs that node can load. It does not cover node, which belongs to the
// system as the C library does.
//
// Extensions, skills, prompt templates, themes and context files are off by
// options. The repository's own settings, which can put a command before every
// other, and its system prompts have no option: they are looked for in a
// directory that cannot exist, see nowhere.
//
// It speaks chat completions. Its commands see the environment, the token of
// the gateway too: it is worth nothing elsewhere, and there is no switch.
//
// Its output says the whole message again for every piece that arrives, which
// is quadratic and more than any limit on output allows. A filter in front of
// the raw output drops those lines by how they begin: an object that begins
// with that type has it, and one that has it elsewhere passes and is skipped
// by the protocol.
package pi

import (
	"context"
	"encoding/json"
	"path"
	"strings"

	"remit/proof/evidence"
	"remit/work/engine"
	"remit/work/engine/agent"
)

// Name is the engine's name in contracts and reports.
const Name = "pi"

var cli = agent.Agent{Name: Name, Program: "pi", Package: "@mariozechner/pi-coding-agent", Major: "0"}

// entry is the program in the package.
const entry = "dist/cli.js"

// insideModules is where the packages stand in the sandbox.
const insideModules = agent.InsideDir + "/pi/node_modules"

// Engine is Pi.
type Engine struct{ bin string }

// New returns the engine of the agent at bin: the program, its package's
// directory or an npm prefix; "" looks in the known places.
func New(bin string) *Engine { return &Engine{bin} }

// Wire is the protocol of the agent.
func (*Engine) Wire() string { return "chat" }

// packages finds the agent and what it loads.
func (e *Engine) packages() (p *agent.Package, all []*agent.Package, err error) {
	if p, err = cli.Find(e.bin); err != nil {
		return nil, nil, err
	}
	if _, err = agent.File(p.Dir, entry); err != nil {
		return nil, nil, err
	}
	all, err = p.Closure()
	return p, all, err
}

// Identity digests every file of the agent and of its dependencies that node
// could load.
func (e *Engine) Identity(ctx context.Context) (evidence.EngineIdentity, error) {
	p, all, err := e.packages()
	if err != nil {
		return evidence.EngineIdentity{}, err
	}
	digest, err := agent.TreeDigest(ctx, p.Modules(), all)
	return evidence.EngineIdentity{Name: Name, Version: p.Release(), SHA256: digest}, err
}

// Invocation starts `pi --mode json`.
func (e *Engine) Invocation(_ context.Context, t engine.Task) (*engine.Invocation, error) {
	p, all, err := e.packages()
	if err != nil {
		return nil, err
	}
	m, prompt, err := agent.Briefing(Name, t)
	if err != nil {
		return nil, err
	}
	lent, err := agent.Lend(p.Modules(), all, insideModules)
	if err != nil {
		return nil, err
	}
	node, lentNode, err := agent.Node(Name)
	if err != nil {
		return nil, err
	}
	home := path.Join(insideModules, cli.Package)
	argv := []string{node, path.Join(home, entry), "--mode", "json", "--no-session", "-ne", "-ns", "-np", "-nc", "--no-themes",
		"--tools", "read,bash,edit,write", "--provider", "gw", "--model", m.Name, prompt}
	return &engine.Invocation{
		Argv: agent.Launch{Home: "pi", Variables: []string{"PI_CODING_AGENT_DIR", "PI_PACKAGE_DIR"}, Settings: settings(p, m),
			Links: []agent.Link{{Name: "dist", Target: path.Join(home, "dist")}}, Argv: argv, Drop: repeated}.Words(),
		Env:      map[string]string{tokenVariable: m.Token, "PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"},
		Binds:    append(lent, lentNode...),
		Scratch:  []string{agent.GitDir},
		Protocol: newProtocol,
	}, nil
}

// tokenVariable holds the gateway's token.
const tokenVariable = "GATEWAY_TOKEN"

// repeated are the lines that carry the whole message, or the whole output of a
// tool, once for every piece that arrives: what they say stands in the line
// that ends the message or the call.
const repeated = `^{"type":"\(message_update\|tool_execution_update\)",`

// nowhere is the name of the directory in which the agent looks for what a
// repository wants: settings with a command to run before every other, system
// prompts. No option turns that off, but the name is read from package.json,
// and no file system has one of this length.
var nowhere = strings.Repeat("-", 300)

// settings are the agent's configuration files, and what it shall take for its
// package's description.
func settings(p *agent.Package, m engine.Model) []agent.Setting {
	return []agent.Setting{
		{Name: "package.json", Text: encode(map[string]any{"name": p.Name, "version": p.Version, "type": "module",
			"piConfig": map[string]any{"configDir": nowhere}})},
		{Name: "models.json", Text: encode(map[string]any{"providers": map[string]any{"gw": map[string]any{
			"baseUrl": m.URL + "/v1", "api": "openai-completions", "apiKey": tokenVariable,
			"models": []any{map[string]any{"id": m.Name, "contextWindow": 128000, "maxTokens": 8192}},
		}}})},
		// The gateway tries again, within the budget; here it would be hidden.
		{Name: "settings.json", Text: encode(map[string]any{"retry": map[string]any{"enabled": false,
			"provider": map[string]any{"maxRetries": 0}}})},
	}
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // literals and checked text
	}
	return string(b)
}
