// Package npm installs the coding agents that Remit is tested with from the npm
// registry: exact versions, each in a directory of its own. No script of a package
// is run and no agent is started; npm is the user's, with the user's configuration
// of registries. scripts/agents.sh does the same for a clone of Remit, and a test
// holds the versions of both to each other.
package npm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/reason"
)

// Agent is what is installed for an agent.
type Agent struct {
	Packages []string // NAME@VERSION, the agent's own first
	Options  []string // of npm
	// Native is what must be there afterwards, below node_modules; ARCH stands for
	// npm's name of the processor.
	Native string
}

// agents are those that can be installed, by the names of their programs. The parts
// of Pi ask each other for ranges, so they are named too. Each adapter of acp would
// bring its own build of the agent that it drives, of hundreds of megabytes.
var agents = map[string]Agent{
	"pi": {Packages: []string{"@mariozechner/pi-coding-agent@0.73.1", "@mariozechner/pi-agent-core@0.73.1", "@mariozechner/pi-ai@0.73.1", "@mariozechner/pi-tui@0.73.1"},
		Native: "@mariozechner/pi-coding-agent/dist/cli.js"},
	"codex":  {Packages: []string{"@openai/codex@0.169.0"}, Native: "@openai/codex-linux-ARCH/vendor/*/bin/codex"},
	"claude": {Packages: []string{"@anthropic-ai/claude-code@2.1.329"}, Native: "@anthropic-ai/claude-code-linux-ARCH*/claude"},
	"codex-acp": {Packages: []string{"@agentclientprotocol/codex-acp@2.6.0"}, Options: []string{"--omit=optional"},
		Native: "@agentclientprotocol/codex-acp/dist/index.js"},
	"claude-agent-acp": {Packages: []string{"@agentclientprotocol/claude-agent-acp@0.49.0"}, Options: []string{"--omit=optional"},
		Native: "@agentclientprotocol/claude-agent-acp/dist/index.js"},
}

// Known reports what is installed for an agent, and whether anything is known of it.
func Known(name string) (Agent, bool) {
	a, ok := agents[name]
	return a, ok
}

// maxSaid bounds what a message repeats of npm's.
const maxSaid = 2000

// Install puts an agent below prefix, in a directory of its name, which is what the
// engines take for a place of it. What npm says goes to log. The directory appears
// whole or not at all; one that is there is replaced.
func Install(ctx context.Context, prefix, name, arch string, log io.Writer) (dir string, err error) {
	a, ok := Known(name)
	if !ok {
		return "", reason.Errorf(reason.ProviderUnavailable, "it is not known how to install %s", name).WithHint("install it, and say with --bin where it is")
	}
	program, err := exec.LookPath("npm")
	if err != nil {
		return "", reason.Errorf(reason.ProviderUnavailable, "%s is installed with npm, which is not there", name).
			WithHint("install Node.js 20.6 or newer (https://nodejs.org), or %s itself, and say with --bin where it is", name)
	}
	if err := os.MkdirAll(prefix, 0o700); err != nil {
		return "", fmt.Errorf("installing %s: %w", name, err)
	}
	// Outside of any project: npm would look upwards for a package.json.
	fresh, err := os.MkdirTemp(prefix, ".new-")
	if err != nil {
		return "", fmt.Errorf("installing %s: %w", name, err)
	}
	defer func() { _ = os.RemoveAll(fresh) }() // moved away, if all went well
	words := slices.Concat([]string{"install", "--prefix", fresh, "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund",
		"--no-update-notifier", "--loglevel", "error"}, a.Options, []string{"--"}, a.Packages)
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, words...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = fresh, io.MultiWriter(&said, log), io.MultiWriter(&said, log)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		text := strings.TrimSpace(said.String())
		return "", reason.Errorf(reason.ProviderUnavailable, "npm could not install %s: %w: %s", a.Packages[0], err, text[max(0, len(text)-maxSaid):]).
			WithHint("npm needs its registry: `npm config get registry` says which that is")
	}
	if err := a.there(filepath.Join(fresh, "node_modules"), arch); err != nil {
		return "", err
	}
	dir = filepath.Join(prefix, name)
	if err := errors.Join(os.RemoveAll(dir), os.Rename(fresh, dir)); err != nil {
		return "", fmt.Errorf("installing %s: %w", name, err)
	}
	return dir, nil
}

// archOf is npm's name of a processor.
var archOf = map[string]string{"amd64": "x64", "arm64": "arm64"}

// there says what of the pinned versions is not there.
func (a Agent) there(modules, arch string) error {
	for _, pin := range a.Packages {
		at := strings.LastIndexByte(pin, '@')
		if p := Read(filepath.Join(modules, filepath.FromSlash(pin[:at]))); p.Version != pin[at+1:] {
			return reason.Errorf(reason.ProviderUnavailable, "npm installed version %q in the place of %s", p.Version, pin)
		}
	}
	found, err := filepath.Glob(filepath.Join(modules, filepath.FromSlash(strings.ReplaceAll(a.Native, "ARCH", archOf[arch]))))
	if err != nil || len(found) == 0 {
		return reason.Errorf(reason.ProviderUnavailable, "%s has no program for this machine (%s)", a.Packages[0], arch)
	}
	return nil
}

// Package is what a package says of itself.
type Package struct{ Name, Version, License string }

// maxManifest bounds a package.json.
const maxManifest = 1 << 20

// Read reads the package.json of a directory; the zero value is one that cannot be
// read.
func Read(dir string) Package {
	f, err := os.Open(filepath.Join(dir, "package.json"))
	if err != nil {
		return Package{}
	}
	defer f.Close()
	var p struct {
		Name, Version string
		License       any // a text, in old packages an object
	}
	if err := json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(&p); err != nil {
		return Package{}
	}
	license, _ := p.License.(string)
	return Package{Name: p.Name, Version: p.Version, License: license}
}

// Licence is what the agent's own package below a prefix says of its licence, "" if
// it says nothing.
func (a Agent) Licence(prefix, name string) string {
	pkg := a.Packages[0][:strings.LastIndexByte(a.Packages[0], '@')]
	for _, below := range []string{"node_modules", filepath.Join(name, "node_modules"), "lib/node_modules"} {
		if p := Read(filepath.Join(prefix, below, filepath.FromSlash(pkg))); p.Name != "" {
			return p.License
		}
	}
	return Read(prefix).License
}
