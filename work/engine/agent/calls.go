package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"remit/proof/canon"
	"remit/work/engine"
	"remit/work/sandbox"
)

const (
	// maxParams bounds the parameters of a call in the journal; the raw output
	// has them whole.
	maxParams = 256 << 10
	// paramsStart is how much is kept of longer ones.
	paramsStart = 4 << 10
	maxTool     = 100
)

// Calls turns an agent's tool calls into events. Agents take their ids from the
// model, which may repeat one or make it of anything: the events are numbered.
type Calls struct {
	emit func(engine.Event)
	open map[string]string // the agent's id -> ours
	n    int
}

// NewCalls emits to emit.
func NewCalls(emit func(engine.Event)) *Calls {
	return &Calls{emit: emit, open: map[string]string{}}
}

// Begin tells of a call. A second beginning of an open one is a repetition.
func (c *Calls) Begin(id, tool string, params json.RawMessage) {
	if c.Open(id) {
		return
	}
	c.n++
	c.open[id] = fmt.Sprintf("call_%d", c.n)
	c.emit(engine.Event{Kind: engine.ToolCall, ID: c.open[id], Tool: cut(tool, maxTool), Params: fitting(params)})
}

// Open reports whether a call has begun and not ended.
func (c *Calls) Open(id string) bool {
	_, open := c.open[id]
	return open
}

// End tells how a call ended. Its kind and id are set here; the end of a call
// that is not open is a repetition.
func (c *Calls) End(id string, e engine.Event) {
	own, open := c.open[id]
	if !open {
		return
	}
	delete(c.open, id)
	e.Kind, e.ID = engine.ToolResult, own
	c.emit(e)
}

// fitting makes parameters an object that the journal can hold. What it
// cannot (a fraction, a name that is not ASCII, a name twice) is kept as text.
func fitting(params json.RawMessage) json.RawMessage {
	params = bytes.TrimSpace(params)
	if len(params) == 0 || string(params) == "null" {
		return json.RawMessage(`{}`)
	}
	if len(params) <= maxParams && params[0] == '{' {
		if b, err := canon.Canonicalize(params); err == nil {
			return b
		}
	}
	kept := map[string]any{"json": cut(string(params), maxParams)}
	if len(params) > maxParams {
		kept = map[string]any{"bytes": len(params), "sha256": canon.Digest(params), "json_start": cut(string(params), paramsStart)}
	}
	b, err := json.Marshal(kept)
	if err != nil {
		panic(err) // a number and valid text
	}
	return b
}

// cut shortens text at a rune boundary and makes it valid UTF-8.
func cut(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}

// maxPaths bounds the paths of one call.
const maxPaths = 1000

// Paths are the places in the workspace among what an agent says it changed.
func Paths(named ...string) []string {
	var out []string
	for _, p := range named[:min(len(named), maxPaths)] {
		if path.IsAbs(p) {
			below, ok := strings.CutPrefix(path.Clean(p), sandbox.WorkspacePath+"/")
			if !ok {
				continue
			}
			p = below
		}
		if p = path.Clean(p); p != "." && p != ".." && !strings.HasPrefix(p, "../") {
			out = append(out, p)
		}
	}
	return out
}

// Lines decodes the lines of a protocol, and remembers whether one broke off
// that could have mattered.
type Lines struct {
	number int
	broken int // number of the first one that broke off, 0 for none
}

// Decode reads a line into v and reports whether it is an object. What does
// not fit a field of v leaves it at zero, as if it were absent. The types that
// decide nothing may break off: agents repeat whole conversations in some.
func (l *Lines) Decode(line []byte, v any, harmless ...string) bool {
	l.number++
	if line = bytes.TrimSpace(line); len(line) == 0 || line[0] != '{' {
		return false // noise of a runtime, say
	}
	err := json.Unmarshal(line, v)
	if _, misfit := errors.AsType[*json.UnmarshalTypeError](err); err == nil || misfit {
		return true
	}
	if l.broken == 0 && !slices.Contains(harmless, typeOf(line)) {
		l.broken = l.number
	}
	return false
}

// Broken says which line broke off, "" if none did.
func (l *Lines) Broken() string {
	if l.broken == 0 {
		return ""
	}
	return fmt.Sprintf("line %d of the output breaks off", l.broken)
}

// typeOf finds the type of an object that breaks off, wherever it stands in
// what is left.
func typeOf(line []byte) string {
	d := json.NewDecoder(bytes.NewReader(line))
	if _, err := d.Token(); err != nil {
		return ""
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return ""
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return ""
		}
		var text string
		if key == "type" && json.Unmarshal(value, &text) == nil {
			return text
		}
	}
	return ""
}
