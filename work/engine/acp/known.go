package acp

import (
	"maps"
	"slices"

	"remit/work/engine"
	"remit/work/engine/agent"
	"remit/work/engine/claude"
	"remit/work/engine/codex"
	"remit/work/sandbox"
)

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
