// Package fake is the deterministic fixture engine: the default validation
// lane, with which every other engine is compared. It applies a given patch
// file by file and tells about it in the events of a real agent.
//
// It is a real process in the sandbox (this same binary, started as
// [Process]), so that everything around an agent is exercised: confinement,
// captured output, the event stream, the diff of the workspace. Without a
// patch it changes nothing.
package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/sandbox"
)

// Name is the engine's name in contracts and reports.
const Name = "fake"

const version = "1"

// Argument is the first argument that makes the remit binary the fake agent.
const Argument = "__fake-agent"

// Where the agent and its patch stand inside the sandbox.
const (
	insideBinary = "/opt/remit/bin/remit"
	insidePatch  = "/opt/remit/fake.patch"
)

// Engine applies the patch in the file Patch ("" for none). Binary is the
// remit executable that runs inside.
type Engine struct {
	Patch  string
	Binary string
}

// Identity digests the patch.
func (e *Engine) Identity(context.Context) (evidence.EngineIdentity, error) {
	var patch []byte
	if e.Patch != "" {
		var err error
		if patch, err = os.ReadFile(e.Patch); err != nil {
			return evidence.EngineIdentity{}, reason.Errorf(reason.ProviderUnavailable, "reading the fake engine's patch: %w", err).
				WithHint("give a readable file with --fake-patch")
		}
	}
	return evidence.EngineIdentity{Name: Name, Version: version, SHA256: canon.Digest(patch)}, nil
}

// Invocation starts the agent over the lent patch.
func (e *Engine) Invocation(context.Context, engine.Task) (*engine.Invocation, error) {
	inv := &engine.Invocation{
		Argv:     []string{insideBinary, Argument},
		Binds:    []sandbox.Bind{{Host: e.Binary, Inside: insideBinary}},
		Protocol: newProtocol,
	}
	if e.Patch != "" {
		inv.Argv = append(inv.Argv, insidePatch)
		inv.Binds = append(inv.Binds, sandbox.Bind{Host: e.Patch, Inside: insidePatch})
	}
	return inv, nil
}

// message is one line of the agent's stdout.
type message struct {
	Type   string          `json:"type"`
	ID     string          `json:"id,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Output string          `json:"output,omitempty"`
	Exit   *int            `json:"exit,omitempty"`
	Paths  []string        `json:"paths,omitempty"`
	Text   string          `json:"text,omitempty"`
}

type protocol struct {
	emit func(engine.Event)
	end  engine.End
}

func newProtocol(emit func(engine.Event)) engine.Protocol {
	return &protocol{emit: emit, end: engine.End{Problem: "the agent did not say that it ended"}}
}

// Line reads one message; a line that is none is kept in the raw output only.
func (p *protocol) Line(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return
	}
	switch m.Type {
	case "tool_call":
		p.emit(engine.Event{Kind: engine.ToolCall, ID: m.ID, Tool: m.Tool, Params: m.Params})
	case "tool_result":
		p.emit(engine.Event{Kind: engine.ToolResult, ID: m.ID, Output: m.Output, Exit: m.Exit, Paths: m.Paths, OK: m.Exit == nil || *m.Exit == 0})
	case "message":
		p.emit(engine.Event{Kind: engine.Message, Text: m.Text})
	case "end":
		p.end = engine.End{Complete: true, Summary: m.Text}
	}
}

// End tells how the agent ended.
func (p *protocol) End() engine.End { return p.end }

// Process is the agent itself: it applies the patch named by args in the
// working directory, prints its messages and returns its exit code.
func Process(args []string) int {
	out := json.NewEncoder(os.Stdout)
	say := func(m message) { _ = out.Encode(m) } // a closed pipe ends the agent at its next write anyway
	if len(args) == 0 {
		say(message{Type: "end", Text: "There was no patch to apply; nothing was changed."})
		return 0
	}
	paths, err := patchPaths(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake agent:", err)
		return 1
	}
	for i, path := range paths {
		id := fmt.Sprintf("call_%d", i+1)
		params, _ := json.Marshal(map[string]string{"path": evidence.DisplayPath(path)}) // a string map always encodes
		say(message{Type: "tool_call", ID: id, Tool: "apply_patch", Params: params})
		output, code := applyPath(args[0], path)
		say(message{Type: "tool_result", ID: id, Output: output, Exit: &code, Paths: []string{path}})
		if code != 0 {
			return 1
		}
	}
	say(message{Type: "end", Text: fmt.Sprintf("Applied the known fix to %d file(s).", len(paths))})
	return 0
}
