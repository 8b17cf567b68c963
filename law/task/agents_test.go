//test:plain-package It only computes: there is one goroutine.

package task

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
)

const fullAgents = `coder:
  engine: codex
  bin: /opt/agents
  max_usd: 0.50
  models:
    gpt-5.5: {provider: openai, key_file: openai.key}
    qwen:30b:
      provider: local
      local: true
      base_url: http://127.0.0.1:8080/v1
      engine_model: gpt-5.5
      ca_file: ca.pem
      key_command: [pass, show, "local model"]
  prices:
    openai/gpt-5.5: {in: 5, cache_read: 0.50, cache_write: 5, out: 30}
other.1:
  engine: acp
  command: [./my-agent, --quiet]
  wire: chat
  models: {m: {provider: anthropic, key_env: ANTHROPIC_API_KEY}}
`

func TestAgents(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "agents.yaml")
	if err := os.WriteFile(file, []byte(fullAgents), 0o640); err != nil {
		t.Fatal(err)
	}
	agents, err := LoadAgents(file)
	if err != nil || len(agents) != 2 {
		t.Fatalf("%+v, %v", agents, err)
	}
	a, b := agents[0], agents[1]
	if a.Name != "coder" || a.Engine != "codex" || a.Bin != "/opt/agents" || *a.MaxMicroUSD != 500_000 || len(a.Models) != 2 || a.Prices["openai/gpt-5.5"].Out != 30_000_000 || a.File != file || a.Line != 1 {
		t.Errorf("%+v", a)
	}
	if m := fmt.Sprintf("%+v", a.Models); m != "[{Name:gpt-5.5 Provider:openai BaseURL: Local:false EngineModel: CAFile: KeyEnv: KeyFile:openai.key KeyCommand:[] Line:6} "+
		"{Name:qwen:30b Provider:local BaseURL:http://127.0.0.1:8080/v1 Local:true EngineModel:gpt-5.5 CAFile:ca.pem KeyEnv: KeyFile: KeyCommand:[pass show local model] Line:7}]" {
		t.Error(m)
	}
	if b.Wire != "chat" || !slices.Equal(b.Command, []string{"./my-agent", "--quiet"}) || b.MaxMicroUSD != nil || b.Prices != nil || b.Models[0].KeyEnv != "ANTHROPIC_API_KEY" || b.Line != 16 {
		t.Errorf("%+v", b)
	}
	if _, err := LoadAgents(file + "x"); reason.CodeOf(err) != reason.ContractUnreadable {
		t.Error(err)
	}
	// Who can write it names the programs that are started for keys.
	for _, mode := range []os.FileMode{0o620, 0o602} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadAgents(file); reason.CodeOf(err) != reason.ContractUnreadable || !strings.Contains(err.Error(), "others can write it") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// TestAgentsRefuse: what is wrong is reported with file and line, and a key that
// stands where none belongs is not repeated.
func TestAgentsRefuse(t *testing.T) {
	t.Parallel()
	const key = "sk-proj-0123456789"
	model := func(rest string) string { return "a: {engine: codex, models: {m: {provider: p" + rest + "}}}" }
	for src, want := range map[string]string{
		"a: {engine: codex}":                                  "contract_missing_key 1 a.models",
		"a: {models: {m: {provider: p}}}":                     "contract_missing_key 1 a.engine",
		"a:\n  engine: codex\n  models: {}":                   "contract_invalid_value 3 a.models",
		"a:\n  engine: codex\n  models: [m]":                  "contract_wrong_type 3 a.models",
		"a:\n  engine: codex\n  models: {m: {}}":              "contract_missing_key 3 a.models.m.provider",
		"a: {engine: codex, models: {'m n': {provider: p}}}":  "contract_invalid_value 1 a.models.m n",
		"a b: {engine: codex, models: {m: {provider: p}}}":    "contract_invalid_value 1 a b",
		"a/../b: {engine: codex, models: {m: {provider: p}}}": "contract_invalid_value 1 a/../b",
		"{}": "contract_invalid_value 1 ",
		"[]": "contract_syntax 1 ",
		"a: {engine: codex, models: {m: {provider: p}}}\na: {}":          "contract_duplicate_key 2 a",
		"a: {engine: x, models: {m: {provider: p}, m: {}}}":              "contract_duplicate_key 1 a.models.m",
		"a: {engine: x, models: {m: {provider: p}}, agent: x}":           "contract_unknown_key 1 a.agent",
		"a: {engine: x, models: {m: {provider: p}}, max_usd: -}":         "contract_wrong_type 1 a.max_usd",
		"a: {engine: x, models: {m: {provider: p}}, max_usd: 0.0000001}": "contract_invalid_value 1 a.max_usd",
		"a: {engine: x, models: {m: {provider: p}}, command: x}":         "contract_wrong_type 1 a.command",
		"a: {engine: x, models: {m: {provider: p}}, command: ['']}":      "contract_invalid_value 1 a.command",
		"a: {engine: x, models: {m: {provider: p}}, prices: {m: {}}}":    "contract_invalid_value 1 a.prices.m",
		"a: {engine: x, models: {m: {provider: p}}, prices: x.yaml}":     "contract_wrong_type 1 a.prices",
		"a: {engine: x, models: {m: {provider: p}}, prices: {p/m: {}}}":  "contract_missing_key 1 a.prices.p/m.in",
		model(", key: " + key):                       "contract_unknown_key 1 a.models.m.key",
		model(", key_env: " + key):                   "contract_invalid_value 1 a.models.m.key_env",
		model(", key_command: pass show x"):          "contract_wrong_type 1 a.models.m.key_command",
		model(", key_command: []"):                   "contract_invalid_value 1 a.models.m.key_command",
		model(", key_env: K, key_file: f"):           "contract_invalid_value 1 a.models.m.key_file",
		model(", key_file: f, key_command: [c]"):     "contract_invalid_value 1 a.models.m.key_command",
		model(", local: 1"):                          "contract_wrong_type 1 a.models.m.local",
		model(", base_url: \"http://x/\\u200b\\n\""): "contract_invalid_value 1 a.models.m.base_url",
		strings.Repeat("#", MaxSourceBytes+1):        "contract_too_large 0 ",
		"a: &x {engine: codex}":                      "contract_syntax 1 ",
		"a: {engine: codex, models: {" + strings.Repeat("m: {provider: p}, ", maxAgentModels+1) + "}}": "contract_too_large 1 a.models",
	} {
		_, err := ParseAgents("agents.yaml", []byte(src))
		if !slices.Contains(problemTexts(err), want) {
			t.Errorf("%.60s: got %v, want %s", src, problemTexts(err), want)
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("the key is repeated: %v", err)
		}
	}
}

// TestDocumentedAgents: the example in docs/nexus.md is read, and the keys there
// are the keys.
func TestDocumentedAgents(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "nexus.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n# agents\n")
	example, rest, _ := strings.Cut(rest, "```")
	if agents, err := ParseAgents("docs/nexus.md", []byte(example)); err != nil || len(agents) != 1 {
		t.Errorf("%+v, %v", agents, err)
	}
	src, err := os.ReadFile("agents.go")
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`\{"([a-z_]+)", (?:text|optional|boolean|named|prices)`).FindAllSubmatch(src, -1)
	if len(keys) != 15 {
		t.Errorf("%d keys found", len(keys))
	}
	for _, k := range keys {
		if !strings.Contains(rest, "`"+string(k[1])+"`") {
			t.Errorf("docs/nexus.md does not say what %s is", k[1])
		}
	}
}

// FuzzAgents: no file crashes the parser, and what it accepts has what a provider
// needs.
func FuzzAgents(f *testing.F) {
	f.Add([]byte(fullAgents))
	f.Add([]byte(`{"a": {"engine": "pi", "models": {"m": {"provider": "p", "key_command": ["x"]}}}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		agents, err := ParseAgents("fuzz.yaml", src)
		if err != nil && reason.CodeOf(err) == "" {
			t.Fatalf("not a problem: %v", err)
		}
		for _, a := range agents {
			if isAgentName(a.Name) != "" || a.Engine == "" || len(a.Models) == 0 || len(a.Models) > maxAgentModels || a.Line < 1 {
				t.Fatalf("%+v", a)
			}
			for _, m := range a.Models {
				if isModelName(m.Name) != "" || m.Provider == "" || m.KeyEnv != "" && m.KeyFile != "" || m.KeyEnv != "" && !variableName().MatchString(m.KeyEnv) {
					t.Fatalf("%+v", m)
				}
			}
		}
	})
}
