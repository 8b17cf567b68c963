package matrix

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/work/engine"
	"remit/work/engine/claude"
	"remit/work/engine/codex"
	"remit/work/engine/workos"
	"remit/work/gateway"
	"remit/work/gateway/scripted"
	"remit/work/harness"
)

// The pair that the scripted model answers for.
const (
	ScriptedProvider = ladder.ScriptedPair
	ScriptedModel    = ladder.ScriptedPair
)

// engineModels are what engines call the scripted model, where they know models
// by name; others take any name.
var engineModels = map[string]string{"messages": "claude-opus-5-5", "responses": "gpt-5.5", "chat": "gpt-5.5"}

// Model is a scripted model that listens on the loopback of this machine.
type Model struct {
	server *http.Server
	done   chan struct{}
	url    string
	wire   string
}

// StartModel starts a model that has the agent run one shell command and say
// that it is done. It costs nothing and reaches no network.
func StartModel(e engine.Modelled, name, command string) (*Model, error) {
	text, err := json.Marshal(scriptFor(name, e.Wire(), command))
	if err != nil {
		return nil, err
	}
	script, err := scripted.Parse("script of the matrix", text)
	if err != nil {
		return nil, fmt.Errorf("writing the script of engine %q: %w", name, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the scripted model: %w", err)
	}
	m := &Model{server: &http.Server{Handler: scripted.New(script, scripted.Options{}), ReadHeaderTimeout: 10 * time.Second},
		done: make(chan struct{}), url: "http://" + l.Addr().String(), wire: e.Wire()}
	go func() {
		defer close(m.done)
		_ = m.server.Serve(l) // ends when Close closes it
	}()
	return m, nil
}

// Close stops the model.
func (m *Model) Close() {
	_ = m.server.Close() // connections of runs that have ended
	<-m.done
}

// Route is the way of a run to the model.
func (m *Model) Route() *harness.ModelRoute {
	base := m.url
	if m.wire != "messages" {
		base += "/v1"
	}
	return &harness.ModelRoute{Upstream: gateway.Upstream{Provider: ScriptedProvider, Class: gateway.Local, BaseURL: base},
		Model: ScriptedModel, EngineModel: engineModels[m.wire], Status: eligibility.ModelAdmitted,
		Detail: "the scripted model of this process", Prices: map[string]gateway.Price{ScriptedProvider + "/" + ScriptedModel: {}}}
}

type object = map[string]any

// scriptFor is what the model says: to the gateway's own question, to requests
// without tools, and to the agent.
func scriptFor(engine, wire, command string) object {
	conversations := []object{
		{"when": object{"user": "^Call the tool ready"}, "otherwise": calls("ready", object{"ok": true})},
		{"when": object{"tools": false}, "otherwise": object{"text": "ok"}},
	}
	if engine == workos.Name {
		return object{"conversations": append(conversations, roles(command)...)}
	}
	return object{"conversations": append(conversations, object{
		"turns": []object{shell(engine, wire, command)}, "otherwise": object{"text": "Done."}})}
}

func calls(name string, arguments object) object {
	return object{"calls": []object{{"name": name, "arguments": arguments}}}
}

// shell is the call of the tool that each agent runs commands with. An agent
// behind the Agent Client Protocol has the tools of the one that it speaks like.
func shell(engine, wire, command string) object {
	switch {
	case engine == codex.Name || wire == "responses":
		return calls("exec_command", object{"cmd": command})
	case engine == claude.Name || wire == "messages":
		return calls("Bash", object{"command": command, "description": "Do it"})
	}
	return calls("bash", object{"command": command})
}

// roles are the conversations of WorkOS Case, whose agents each end with a result.
func roles(command string) []object {
	const fine = `<<<AGENT_RESULT {"status":"completed","summary":"done","error":null} AGENT_RESULT>>>`
	commit := calls("bash", object{"command": command + " && git add -- . ':!.case/' && git commit -qm 'fix: the task'"})
	end := object{"text": fine}
	return []object{
		{"when": object{"system": "^# Implementer"}, "turns": []object{commit}, "otherwise": end},
		{"when": object{"system": "^# (Verifier|Reviewer|Retrospective)"}, "otherwise": end},
	}
}
