// Package codex is the engine that drives the Codex CLI.
//
// The native program of the platform's package is lent to the sandbox alone:
// not the node launcher, not the programs beside it. It gets everything on
// its command line and reads no configuration of the user or the repository
// (AGENTS.md excepted, which is part of its instructions). Its own sandbox is
// off: it could not start under the filter of ours, which is the wall here.
// Plug-ins, apps, further agents, telemetry, feedback, update checks and web
// search are off. Its commands see the environment without the gateway's
// token.
//
// It speaks the responses protocol. Which tools it offers to the model depends
// on the model's name, so the name should be one that it knows; the gateway
// maps it.
package codex

import (
	"context"
	"encoding/json"
	"runtime"

	"remit/proof/evidence"
	"remit/work/engine"
	"remit/work/engine/agent"
	"remit/work/sandbox"
)

// Name is the engine's name in contracts and reports.
const Name = "codex"

var cli = agent.Agent{Name: Name, Program: "codex", Package: "@openai/codex", Major: "0", Platform: func(goos, goarch string) []string {
	if p, ok := platforms[goos+"/"+goarch]; ok {
		return []string{"@openai/codex-" + p.name}
	}
	return nil
}}

// platforms are how the packages and their directories are named.
var platforms = map[string]struct{ name, triple string }{
	"linux/amd64": {"linux-x64", "x86_64-unknown-linux-musl"},
	"linux/arm64": {"linux-arm64", "aarch64-unknown-linux-musl"},
}

// inside is where the program stands in the sandbox.
const inside = agent.InsideDir + "/codex"

// native is the program in the package of the platform.
var native = "vendor/" + platforms[runtime.GOOS+"/"+runtime.GOARCH].triple + "/bin/codex"

// tokenVariable holds the gateway's token. Its name is one that Codex keeps
// from its commands.
const tokenVariable = "GATEWAY_TOKEN"

// Engine is the Codex CLI.
type Engine struct{ bin string }

// New returns the engine of the agent at bin: the program, its package's
// directory or an npm prefix; "" looks in the known places.
func New(bin string) *Engine { return &Engine{bin} }

// Wire is the protocol of the agent.
func (*Engine) Wire() string { return "responses" }

// Identity digests the native program.
func (e *Engine) Identity(context.Context) (evidence.EngineIdentity, error) {
	return cli.NativeIdentity(e.bin, native)
}

// Invocation starts `codex exec`.
func (e *Engine) Invocation(_ context.Context, t engine.Task) (*engine.Invocation, error) {
	_, file, err := cli.NativeProgram(e.bin, native)
	if err != nil {
		return nil, err
	}
	m, prompt, err := agent.Briefing(Name, t)
	if err != nil {
		return nil, err
	}
	argv := append([]string{inside, "exec", "--json", "--ephemeral", "--ignore-user-config", "--ignore-rules", "--skip-git-repo-check",
		"--color", "never",
		"-s", "danger-full-access", "-m", m.Name}, settings(m.URL)...)
	return &engine.Invocation{
		Argv:     agent.Launch{Home: "codex", Variables: []string{"CODEX_HOME"}, Argv: append(argv, "--", prompt)}.Words(),
		Env:      map[string]string{tokenVariable: m.Token},
		Binds:    []sandbox.Bind{{Host: file, Inside: inside}},
		Scratch:  []string{agent.GitDir},
		Protocol: newProtocol,
	}, nil
}

// settings are the -c words, each a key and a TOML value.
func settings(url string) []string {
	provider := map[string]any{
		"name": "gw", "base_url": url + "/v1", "wire_api": "responses", "env_key": tokenVariable,
		// The gateway tries again, within the budget; here it would be hidden.
		"request_max_retries": 0, "stream_max_retries": 0,
	}
	var words []string
	set := func(key string, value any) {
		b, err := json.Marshal(value)
		if err != nil {
			panic(err) // a checked address and literals
		}
		words = append(words, "-c", key+"="+string(b))
	}
	set("model_provider", "gw")
	for _, key := range []string{"name", "base_url", "wire_api", "env_key", "request_max_retries", "stream_max_retries"} {
		set("model_providers.gw."+key, provider[key])
	}
	set("analytics.enabled", false)
	set("feedback.enabled", false)
	set("check_for_update_on_startup", false)
	set("otel.metrics_exporter", "none")
	set("web_search", "disabled")
	set("history.persistence", "none")
	set("tools.update_plan.enabled", true)
	// The sandbox made the environment and its Go settings are needed; the
	// default excludes keep what is named like a key or a token.
	set("shell_environment_policy.inherit", "all")
	set("shell_environment_policy.ignore_default_excludes", false)
	// Neither instructions nor programs of the repository's choosing.
	set("project_doc_max_bytes", 0)
	set("skills.include_instructions", false)
	for _, feature := range []string{"plugins", "apps", "multi_agent", "goals", "shell_snapshot", "hooks", "skill_search",
		"unbounded_connection_retries", "enable_request_compression"} {
		words = append(words, "--disable", feature)
	}
	return words
}
