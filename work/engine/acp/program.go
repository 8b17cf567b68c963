package acp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent"
	"remit/work/engine/claude"
	"remit/work/engine/codex"
	"remit/work/sandbox"
)

// program is what is executed: a file, with the packages that it belongs to
// and needs, or alone.
type program struct {
	name     string           // for people
	file     string           // absolute, without symbolic links
	packages []*agent.Package // the first has the file; none for a file that is in no package
	driven   string           // the program that an adapter drives, "" for none
}

// find looks for the agent. It starts nothing.
func (e *Engine) find() (*program, error) {
	if e.known != nil {
		return e.known.program(e.bin)
	}
	file, err := located(e.command[0])
	if err != nil {
		return nil, reason.Errorf(reason.ProviderUnavailable, "the agent %q: %w", filepath.Base(e.command[0]), withoutPath(err)).
			WithHint("name a program on PATH or the path of one; acp knows %s by name", strings.Join(Known(), ", "))
	}
	p := &program{name: filepath.Base(e.command[0]), file: file}
	owner, err := agent.Owner(file)
	if err != nil || owner == nil {
		return p, err
	}
	all, err := owner.Closure()
	if err != nil {
		return nil, err
	}
	p.packages = first(owner, all)
	return p, nil
}

// first puts the owner before the others, which stay sorted.
func first(owner *agent.Package, all []*agent.Package) []*agent.Package {
	rest := slices.DeleteFunc(slices.Clone(all), func(p *agent.Package) bool { return p.Dir == owner.Dir })
	return append([]*agent.Package{owner}, rest...)
}

// program finds an agent of the table.
func (k *known) program(bin string) (*program, error) {
	owner, err := k.Find(bin)
	if err != nil {
		return nil, err
	}
	dir := owner.Dir
	if k.Platform != nil {
		if dir, err = k.Native(owner); err != nil {
			return nil, err
		}
	}
	p := &program{name: k.Program}
	if p.file, err = agent.File(dir, k.entry); err != nil {
		return nil, err
	}
	if dir != owner.Dir {
		if owner, err = agent.Owner(p.file); err != nil {
			return nil, err
		}
	}
	p.packages = []*agent.Package{owner}
	if k.driven != nil {
		// Beside the adapter, where it is one prefix of all agents, else where it always is.
		if p.driven, err = k.driven(bin); err != nil && bin != "" {
			p.driven, err = k.driven("")
		}
		if err != nil {
			return nil, err
		}
	}
	if k.alone {
		return p, nil
	}
	all, err := owner.Closure()
	if err != nil {
		return nil, err
	}
	p.packages = first(owner, slices.DeleteFunc(all, k.unused))
	return p, nil
}

// unused reports whether a package is one that the agent does not get.
func (k *known) unused(p *agent.Package) bool {
	return slices.ContainsFunc(k.without, func(prefix string) bool { return strings.HasPrefix(p.Name, prefix) })
}

// located is the file that a word names: a path, or a program on PATH.
func located(word string) (string, error) {
	if !strings.Contains(word, "/") {
		var err error
		if word, err = exec.LookPath(word); err != nil {
			return "", err
		}
	}
	file, err := filepath.EvalSymlinks(word)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	return file, err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// withoutPath keeps places of this machine out of what becomes evidence.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

// digest is that of everything that could be executed: of a single file if
// there is no more, else of the list of all of them.
func (p *program) digest(ctx context.Context) (string, error) {
	if len(p.packages) == 0 {
		return agent.FileDigest(p.file)
	}
	list, err := agent.Digests(ctx, p.packages[0].Modules(), p.packages, func(string) bool { return true })
	if err != nil {
		return "", err
	}
	if p.driven != "" {
		digest, err := agent.FileDigest(p.driven)
		if err != nil {
			return "", err
		}
		list = append(list, digest+"  driven") // no path: those are quoted
	}
	slices.Sort(list)
	return canon.Digest([]byte(strings.Join(list, "\n") + "\n")), nil
}

// start is the command in the sandbox, and what has to be lent for it.
func (p *program) start() (argv []string, lent []sandbox.Bind, err error) {
	inside := path.Join(insideProgram, filepath.Base(p.file))
	if len(p.packages) == 0 {
		if strings.HasPrefix(p.file, "/usr/") { // which every sandbox shows
			inside = p.file
		} else {
			lent = []sandbox.Bind{{Host: p.file, Inside: inside}}
		}
	} else {
		root := p.packages[0].Modules()
		sorted := slices.Clone(p.packages)
		slices.SortFunc(sorted, func(a, b *agent.Package) int { return strings.Compare(a.Dir, b.Dir) })
		if lent, err = agent.Lend(root, sorted, insideModules); err != nil {
			return nil, nil, err
		}
		below, err := filepath.Rel(root, p.file)
		if err != nil {
			return nil, nil, reason.Errorf(reason.ProviderUnavailable, "the program of %s: %w", p.name, err)
		}
		inside = path.Join(insideModules, filepath.ToSlash(below))
	}
	if p.driven != "" {
		lent = append(lent, sandbox.Bind{Host: p.driven, Inside: insideOwn})
	}
	if !forNode(p.file) {
		return []string{inside}, lent, nil
	}
	node, more, err := agent.Node(p.name)
	return []string{node, inside}, append(lent, more...), err
}

// forNode reports whether node executes a file: by its name, or as its first
// line wants it.
func forNode(file string) bool {
	switch filepath.Ext(file) {
	case ".js", ".mjs", ".cjs":
		return true
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 200))
	if err != nil || !bytes.HasPrefix(head, []byte("#!")) {
		return false
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return slices.Contains(strings.FieldsFunc(string(line), func(r rune) bool { return strings.ContainsRune(" /\t\r", r) }), "node")
}

// known is an agent of which it is known how it finds its model,
// and how it is kept from what a repository configures.
type known struct {
	agent.Agent
	entry     string // the program in its package; that of this platform if it has one
	wire      string
	arguments []string // if the user gives none
	// alone says that the program has everything that it executes in one file:
	// the packages that it names are not needed.
	alone bool
	// driven is the program that an adapter drives, nil if it is an agent
	// itself. The packages with a program of the adapter's own are left out.
	driven  func(bin string) (string, error)
	without []string
	with    func(engine.Model) with
}

// with is what an agent is started with.
type with struct {
	env      map[string]string
	home     []string // variables that name its directory
	settings []agent.Setting
	session  map[string]any // what session/new has beside what it always has, or in its place
}

// table are the agents that were tried, by the name of their program.
var table = map[string]*known{
	"codex-acp": {
		Agent: agent.Agent{Name: Name, Program: "codex-acp", Package: "@agentclientprotocol/codex-acp", Major: "2"},
		entry: "dist/index.js", wire: "responses", alone: true, driven: codex.Program, with: withCodex,
	},
	"claude-agent-acp": {
		Agent: agent.Agent{Name: Name, Program: "claude-agent-acp", Package: "@agentclientprotocol/claude-agent-acp", Major: "0"},
		entry: "dist/index.js", wire: "messages", driven: claude.Program, without: []string{"@anthropic-ai/claude-agent-sdk-"}, with: withClaude,
	},
	"opencode": {
		Agent: agent.Agent{Name: "opencode", Program: "opencode", Package: "opencode-ai", Major: "1", Platform: func(goos, goarch string) []string {
			arch, ok := map[string]string{"amd64": "x64", "arm64": "arm64"}[goarch]
			if goos != "linux" || !ok {
				return nil
			}
			return []string{"opencode-linux-" + arch, "opencode-linux-" + arch + "-baseline"}
		}},
		entry: "bin/opencode", wire: "chat", arguments: []string{"acp"}, alone: true, with: withOpencode,
	},
}

// Known are the names of the agents in the table.
func Known() []string { return slices.Sorted(maps.Keys(table)) }

func withCodex(m engine.Model) with {
	return with{
		// The adapter declares the directory of a session trusted, which would
		// have Codex take servers, hooks and instructions from the repository.
		// Under this name of it Codex finds no such word, only the one of its
		// configuration, which is about the workspace.
		session:  map[string]any{"cwd": sandbox.WorkspacePath + "/."},
		home:     []string{"CODEX_HOME"},
		settings: []agent.Setting{{Name: "config.toml", Text: codex.Configuration(m, sandbox.WorkspacePath)}},
		env: map[string]string{
			"CODEX_PATH":        insideOwn,
			codex.TokenVariable: m.Token,
			// Its own sandbox could not start in ours, which is the wall.
			"INITIAL_AGENT_MODE": "agent-full-access",
			"NO_BROWSER":         "1",
		},
	}
}

func withClaude(m engine.Model) with {
	env := claude.Environment(m)
	env["CLAUDE_CODE_EXECUTABLE"], env["ANTHROPIC_MODEL"] = insideOwn, m.Name
	return with{
		home: []string{"CLAUDE_CONFIG_DIR"},
		env:  env,
		// Else the repository's own settings are read, hooks too.
		session: map[string]any{"_meta": map[string]any{"claudeCode": map[string]any{"options": map[string]any{
			"settingSources": []string{"user"}, "strictMcpConfig": true, "tools": claude.Tools()}}}},
	}
}

func withOpencode(m engine.Model) with {
	const token = "GATEWAY_TOKEN"
	env := map[string]string{
		token: m.Token,
		"OPENCODE_CONFIG_CONTENT": string(encode(map[string]any{
			"model": "gw/" + m.Name, "small_model": "gw/" + m.Name, "share": "disabled", "autoupdate": false,
			"provider": map[string]any{"gw": map[string]any{
				"npm": "@ai-sdk/openai-compatible", "name": "gw",
				"options": map[string]any{"baseURL": m.URL + "/v1", "apiKey": "{env:" + token + "}"},
				"models":  map[string]any{m.Name: map[string]any{"name": m.Name, "limit": map[string]int{"context": 128000, "output": 8192}}},
			}},
		})),
	}
	for _, off := range []string{"PROJECT_CONFIG", "CLAUDE_CODE", "EXTERNAL_SKILLS", "DEFAULT_PLUGINS", "MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "SHARE"} {
		env["OPENCODE_DISABLE_"+off] = "1"
	}
	env["OPENCODE_PURE"] = "1" // no plug-ins
	return with{session: map[string]any{}, env: env}
}

// generic is for an agent that is not in the table.
func generic(m engine.Model) with {
	return with{session: map[string]any{}, env: map[string]string{
		"OPENAI_BASE_URL": m.URL + "/v1", "OPENAI_API_KEY": m.Token,
		"ANTHROPIC_BASE_URL": m.URL, "ANTHROPIC_API_KEY": m.Token,
		"REMIT_MODEL": m.Name,
	}}
}
