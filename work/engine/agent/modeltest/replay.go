package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"remit/proof/canon"
	"remit/work/engine"
)

// Replay has a protocol read a recorded stream.
func Replay(protocol func(func(engine.Event)) engine.Protocol, stream []byte) ([]engine.Event, engine.End) {
	var events []engine.Event
	p := protocol(func(e engine.Event) { events = append(events, e) })
	for line := range bytes.Lines(stream) {
		p.Line(bytes.TrimSuffix(line, []byte("\n")))
	}
	return events, p.End()
}

// Reordered is a stream with the keys of every object in another order, with
// other white space, with unknown keys in it, and with lines of unknown types
// and of noise between its own.
func Reordered(stream []byte) ([]byte, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(stream) {
		var o map[string]any
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, err
		}
		o["aaa_unknown"], o["zzz_unknown"] = []any{1.5, nil}, map[string]any{"type": "result"}
		b, err := json.Marshal(o) // sorted: "type" comes late
		if err != nil {
			return nil, err
		}
		out.WriteString("  ")
		out.Write(b)
		out.WriteString(" \r\n")
		out.WriteString(`{"zzz":1,"type":"of.the.future","item":7,"message":[],"usage":"x"}` + "\n")
		out.WriteString("(node:7) Warning: noise\n\n[1]\n\"{\"\nnull\n")
	}
	return out.Bytes(), nil
}

// Installed is the npm prefix of make agents, "" if there is none.
func Installed() (string, error) {
	if os.Getenv("REMIT_AGENTS") != "" {
		return "", nil // the engine looks there itself
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		prefix := filepath.Join(dir, ".tools/agents")
		if _, err := os.Stat(prefix); err == nil {
			return prefix, nil
		}
	}
	return "", nil
}

// CheckEvents replays a stream and panics if what comes out of it is not what
// a journal can hold: ids that pair up, parameters that are an object, paths
// below the workspace, an end that is complete or says why not.
func CheckEvents(protocol func(func(engine.Event)) engine.Protocol, stream []byte) {
	events, end := Replay(protocol, stream)
	open, seen := map[string]bool{}, map[string]bool{}
	for _, e := range events {
		switch e.Kind {
		case engine.ToolCall:
			if seen[e.ID] || e.ID == "" || !bytes.HasPrefix(e.Params, []byte("{")) {
				panic("call " + e.ID + " with " + string(e.Params))
			}
			if _, err := canon.Marshal(e.Params); err != nil {
				panic(err)
			}
			open[e.ID], seen[e.ID] = true, true
		case engine.ToolResult:
			if !open[e.ID] {
				panic("a result of no call: " + e.ID)
			}
			delete(open, e.ID)
			for _, p := range e.Paths {
				if !filepath.IsLocal(p) {
					panic("path " + p)
				}
			}
		}
	}
	if end.Complete == (end.Problem != "") {
		panic(fmt.Sprintf("%+v", end))
	}
}
