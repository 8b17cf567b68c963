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
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent"
	"remit/work/sandbox"
)

// Name is the engine's name in contracts and reports.
const Name = "pi"

var cli = agent.Agent{Name: Name, Program: "pi", Package: "@mariozechner/pi-coding-agent", Major: "0"}

// entry is the program in the package.
const entry = "dist/cli.js"

// Where things stand in the sandbox.
const (
	insideModules = agent.InsideDir + "/pi/node_modules"
	insideNode    = agent.InsideDir + "/node"
)

// Options say where the agent is.
type Options struct {
	// Bin is the program, its package's directory or an npm prefix; "" looks in
	// the known places.
	Bin string
}

// Engine is Pi.
type Engine struct{ bin string }

// New returns the engine.
func New(o Options) *Engine { return &Engine{bin: o.Bin} }

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
	digest, err := agent.TreeDigest(ctx, modules(p), all)
	return evidence.EngineIdentity{Name: Name, Version: p.Release(), SHA256: digest}, err
}

// modules is the node_modules directory that a package is installed in.
func modules(p *agent.Package) string { return filepath.Dir(filepath.Dir(p.Dir)) }

// binds lends the packages: the whole directory if nothing else is installed in
// it, else each alone, since what lies beside them is nobody's business inside.
func binds(root string, all []*agent.Package) ([]sandbox.Bind, error) {
	var out []sandbox.Bind
	lent := map[string]bool{}
	for _, p := range all {
		if n := len(out); n > 0 && strings.HasPrefix(p.Dir, out[n-1].Host+"/") {
			continue // sorted: what lies in a package comes right after it
		}
		below, err := filepath.Rel(root, p.Dir)
		if err != nil || !filepath.IsLocal(below) {
			return nil, reason.Errorf(reason.ProviderUnavailable, "the package %s is not installed beside the agent", p.Name).
				WithHint("make agents installs it in a place of its own")
		}
		lent[below] = true
		out = append(out, sandbox.Bind{Host: p.Dir, Inside: path.Join(insideModules, filepath.ToSlash(below))})
	}
	if onlyThese(root, lent) {
		return []sandbox.Bind{{Host: root, Inside: insideModules}}, nil
	}
	return out, nil
}

// onlyThese reports whether a node_modules directory has no other package than
// the named ones. A directory that cannot be read has.
func onlyThese(root string, lent map[string]bool) bool {
	top, err := os.ReadDir(root)
	for _, e := range top {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, "."): // npm's own: links and a list of the packages
		case strings.HasPrefix(name, "@"):
			scope, scopeErr := os.ReadDir(filepath.Join(root, name))
			for _, in := range scope {
				if !lent[filepath.Join(name, in.Name())] {
					return false
				}
			}
			err = errors.Join(err, scopeErr)
		case !lent[name]:
			return false
		}
	}
	return err == nil
}

// Invocation starts `pi --mode json`.
func (e *Engine) Invocation(_ context.Context, t engine.Task) (*engine.Invocation, error) {
	p, all, err := e.packages()
	if err != nil {
		return nil, err
	}
	m, err := agent.Model(Name, t)
	if err != nil {
		return nil, err
	}
	prompt, err := agent.Prompt(t)
	if err != nil {
		return nil, err
	}
	lent, err := binds(modules(p), all)
	if err != nil {
		return nil, err
	}
	node, err := exec.LookPath("node")
	if err == nil {
		node, err = filepath.EvalSymlinks(node)
	}
	if err != nil {
		return nil, reason.Errorf(reason.ProviderUnavailable, "pi needs node, and there is no such program on PATH").WithHint("install Node.js 20.6 or newer")
	}
	if !strings.HasPrefix(node, "/usr/") { // which every sandbox shows
		lent = append(lent, sandbox.Bind{Host: node, Inside: insideNode})
		node = insideNode
	}
	home := path.Join(insideModules, cli.Package)
	argv := []string{node, path.Join(home, entry), "--mode", "json", "--no-session", "-ne", "-ns", "-np", "-nc", "--no-themes",
		"--tools", "read,bash,edit,write", "--provider", "gw", "--model", m.Name, prompt}
	return &engine.Invocation{
		Argv: agent.Launch{Home: "pi", Variables: []string{"PI_CODING_AGENT_DIR", "PI_PACKAGE_DIR"}, Settings: settings(p, m),
			Links: []agent.Link{{Name: "dist", Target: path.Join(home, "dist")}}, Argv: argv, Drop: repeated}.Words(),
		Env:      map[string]string{tokenVariable: m.Token, "PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"},
		Binds:    lent,
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
		{Name: "package.json", Text: encode(map[string]any{"name": p.Name, "version": p.Version, "type": "module", "piConfig": map[string]any{"configDir": nowhere}})},
		{Name: "models.json", Text: encode(map[string]any{"providers": map[string]any{"gw": map[string]any{
			"baseUrl": m.URL + "/v1", "api": "openai-completions", "apiKey": tokenVariable,
			"models": []any{map[string]any{"id": m.Name, "contextWindow": 128000, "maxTokens": 8192}},
		}}})},
		// The gateway tries again, within the budget; here it would be hidden.
		{Name: "settings.json", Text: encode(map[string]any{"retry": map[string]any{"enabled": false, "provider": map[string]any{"maxRetries": 0}}})},
	}
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // literals and checked text
	}
	return string(b)
}
