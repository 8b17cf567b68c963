package task

import (
	"os"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"remit/proof/form"
	"remit/proof/reason"
)

// Agent is an engine that asks a model, as the operator of a provider offers it
// to jobs.
type Agent struct {
	Name    string // that jobs use
	Engine  string
	Bin     string   // where its program is; "": where the engine looks
	Command []string // of an agent of the engine acp
	Wire    string   // what such an agent speaks to its model, "" if it is not known
	// MaxMicroUSD is the most that one job may cost; nil: what the job allows.
	MaxMicroUSD *int64
	Models      []AgentModel // at least one
	Prices      map[string]ModelPrice

	File string // where it stands, for messages
	Line int
}

// AgentModel is one model of an agent, and the way to it. The key itself is never
// a part of it, only where the gateway finds one.
type AgentModel struct {
	Name        string // that jobs use, and that its admission has
	Provider    string
	BaseURL     string // "": the well-known one
	Local       bool
	EngineModel string // what the agent calls it; "": the same
	CAFile      string
	KeyEnv      string // at most one of the three
	KeyFile     string
	KeyCommand  []string
	Line        int
}

const (
	maxAgents      = 64
	maxAgentModels = 64
	maxKeyWords    = 64
)

// agentName is a name that stands in requests and receipts.
var agentName = form.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// variableName is a name that a variable can have. A key is none: a key that
// stands in its place is refused, and not shown.
var variableName = form.Lazy(`^[A-Z_][A-Z0-9_]{0,127}$`)

// LoadAgents reads the agents of a provider: JSON or YAML,
//
//	coder:
//	  engine: codex
//	  max_usd: 0.50
//	  models:
//	    gpt-5.5: {provider: openai, key_file: /etc/remit/openai.key}
//
// It is read as strictly as a task file. A user who can write the file can have
// programs started as the operator (key_command) and keys sent anywhere, so one
// that others can write is refused. The error is Problems, or a *reason.Error
// when the file cannot be read.
func LoadAgents(path string) ([]Agent, error) {
	src, err := readRegular(path, MaxSourceBytes)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		e := reason.Errorf(reason.ContractUnreadable, "others can write it (mode %o), and so name programs that are started for a key", info.Mode().Perm())
		e.File = path
		return nil, e.WithHint("chmod go-w, and read it again first")
	}
	return ParseAgents(path, src)
}

// ParseAgents reads the agents of a provider, in their order. The name is used in
// messages only.
func ParseAgents(file string, src []byte) ([]Agent, error) {
	r := newReport(file)
	top := r.document(src)
	if top == nil {
		return nil, r.err()
	}
	var read []*Agent
	named(maxAgents, "agents", isAgentName, func(name string, at place) reader {
		a := &Agent{Name: name, File: file, Line: at.Line}
		read = append(read, a)
		return agent(a)
	})(r, "", top)
	if err := r.err(); err != nil {
		return nil, err
	}
	agents := make([]Agent, len(read))
	for i, a := range read {
		agents[i] = *a
	}
	return agents, nil
}

// named reads a mapping whose keys are names of the user's.
func named(most int, what string, valid func(string) string, value func(name string, at place) reader) reader {
	return func(r *report, field string, n ast.Node) {
		m, ok := n.(*ast.MappingNode)
		switch {
		case !ok:
			r.wrongType(field, n, "a mapping")
			return
		case len(m.Values) > most:
			r.add(placeOfNode(m), field, reason.ContractTooLarge, "", "%d %s, at most %d", len(m.Values), what, most)
			return
		case len(m.Values) == 0:
			r.add(placeOfNode(m), field, reason.ContractValue, "name one", "no %s", what)
			return
		}
		var keys []key
		known := map[string]bool{}
		for _, entry := range m.Values {
			name, _ := keyName(entry.Key)
			if why := valid(name); why != "" {
				r.add(placeOfNode(entry.Key), join(field, name), reason.ContractValue, "", "%s", why)
			}
			if !known[name] {
				known[name] = true
				keys = append(keys, key{name, value(name, placeOfNode(entry.Key))})
			}
		}
		object(keys)(r, field, m)
	}
}

func isAgentName(name string) string {
	if !agentName().MatchString(name) {
		return "the name of an agent has 1 to 64 letters, digits, dots, dashes and underscores, and begins with a letter or digit"
	}
	return ""
}

// isModelName accepts what a request can carry.
func isModelName(name string) string {
	const longest = 128
	if name == "" || len(name) > longest || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "the name of a model has 1 to 128 visible ASCII characters and no blanks"
	}
	return ""
}

// agent reads one agent.
func agent(a *Agent) reader {
	return func(r *report, field string, n ast.Node) {
		object([]key{
			{"engine", text(&a.Engine)},
			{"bin", text(&a.Bin)},
			{"command", texts(&a.Command)},
			{"wire", text(&a.Wire)},
			{"max_usd", optional(&a.MaxMicroUSD, usd)},
			{"models", named(maxAgentModels, "models", isModelName, func(name string, at place) reader {
				a.Models = append(a.Models, AgentModel{Name: name, Line: at.Line})
				return agentModel(&a.Models, len(a.Models)-1)
			})},
			{"prices", prices(&a.Prices)},
		})(r, field, n)
		for name, value := range map[string]string{"engine": a.Engine, "bin": a.Bin, "wire": a.Wire} {
			checkText(r, join(field, name), value, false)
		}
		checkWords(r, join(field, "command"), a.Command)
		if a.Engine == "" {
			r.field(join(field, "engine"), reason.ContractMissingKey, "one of the engines that ask a model, such as codex", "engine is missing")
		}
		if len(a.Models) == 0 {
			r.field(join(field, "models"), reason.ContractMissingKey, "as in models: {gpt-5.5: {provider: openai}}", "models is missing")
		}
	}
}

// agentModel reads the model at a place of the list, which may move while others
// are found.
func agentModel(all *[]AgentModel, i int) reader {
	return func(r *report, field string, n ast.Node) {
		m := &(*all)[i]
		object([]key{
			{"provider", text(&m.Provider)},
			{"base_url", text(&m.BaseURL)},
			{"local", boolean(&m.Local)},
			{"engine_model", text(&m.EngineModel)},
			{"ca_file", text(&m.CAFile)},
			{"key_env", text(&m.KeyEnv)},
			{"key_file", text(&m.KeyFile)},
			{"key_command", texts(&m.KeyCommand)},
		})(r, field, n)
		for name, value := range map[string]string{"provider": m.Provider, "base_url": m.BaseURL, "engine_model": m.EngineModel,
			"ca_file": m.CAFile, "key_file": m.KeyFile} {
			checkText(r, join(field, name), value, false)
		}
		if m.Provider == "" {
			r.field(join(field, "provider"), reason.ContractMissingKey, "whose model it is: openai, anthropic or a name of yours", "provider is missing")
		}
		m.checkKey(r, field)
	}
}

// checkKey: a key comes from one place.
func (m *AgentModel) checkKey(r *report, field string) {
	var given []string
	for _, source := range []struct {
		name  string
		there bool
	}{{"key_env", m.KeyEnv != ""}, {"key_file", m.KeyFile != ""}, {"key_command", len(m.KeyCommand) > 0}} {
		if source.there {
			given = append(given, source.name)
		}
	}
	if len(given) > 1 {
		r.field(join(field, given[1]), reason.ContractValue, "keep one of them", "the key comes from more than one place: %s", strings.Join(given, ", "))
	}
	if m.KeyEnv != "" && !variableName().MatchString(m.KeyEnv) {
		r.field(join(field, "key_env"), reason.ContractValue, "the name of a variable, such as OPENAI_API_KEY; the key itself has no place in this file",
			"not the name of a variable")
	}
	checkWords(r, join(field, "key_command"), m.KeyCommand)
}

// checkWords holds the words of a command against what a program can be given.
func checkWords(r *report, field string, words []string) {
	switch {
	case words == nil:
	case len(words) == 0 || words[0] == "":
		r.field(field, reason.ContractValue, "a list: the program and its arguments", "no program")
	case len(words) > maxKeyWords:
		r.field(field, reason.ContractTooLarge, "", "%d words, at most %d", len(words), maxKeyWords)
	default:
		for _, word := range words {
			if strings.ContainsRune(word, 0) || !utf8.ValidString(word) {
				r.field(field, reason.ContractValue, "", "a word that no program can be given")
			}
		}
	}
}
