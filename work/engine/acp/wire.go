package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// version is the protocol version that the client speaks, and the only one.
const version = 1

// The requests of a conversation, in their order, which is also their id.
const (
	methodInitialize = "initialize"
	methodNew        = "session/new"
	methodPrompt     = "session/prompt"
	methodCancel     = "session/cancel"
	methodUpdate     = "session/update"
	methodPermission = "session/request_permission"
)

// requests gives each request its id.
var requests = map[string]int{methodInitialize: 1, methodNew: 2, methodPrompt: 3}

// message is a message of JSON-RPC 2.0 as far as the client has to look at it: a
// request or notification of the agent, or its answer to a request.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// answers reports whether the message is the answer to a request of ours. Some
// peers give a number back as text.
func (m *message) answers(method string) bool {
	id := strings.Trim(string(m.ID), `"`)
	return m.Method == "" && id == fmt.Sprint(requests[method])
}

// asks reports whether the message is a request.
func (m *message) asks() bool {
	return m.Method != "" && len(m.ID) > 0 && string(m.ID) != "null"
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// The codes of JSON-RPC and ACP that the client distinguishes.
const (
	codeMethodNotFound = -32601
	codeAuthRequired   = -32000
)

// line is a line of the client's stdout: exactly one of the fields is set.
type line struct {
	// Agent is a message of the agent, byte by byte.
	Agent json.RawMessage `json:"agent,omitempty"`
	// Text is the beginning of a line that is no message.
	Text string `json:"text,omitempty"`
	// Client is a note of the client itself.
	Client *note `json:"client,omitempty"`
}

// note is what the client did, or what became of the agent.
type note struct {
	Event string `json:"event"`
	// Of a permission: what was chosen, "" for a refusal.
	Option string `json:"option,omitempty"`
	// Of a failure: which request was not answered, and why.
	Request string `json:"request,omitempty"`
	Problem string `json:"problem,omitempty"`
	Gone    bool   `json:"gone,omitempty"` // since the agent's process ended
	// Of the end: how the agent's process ended.
	Exit   int    `json:"exit,omitempty"`
	Signal string `json:"signal,omitempty"`
	Killed bool   `json:"killed,omitempty"` // since it did not end by itself
}

// The events of notes.
const (
	notePermission = "permission"
	noteFailed     = "failed"
	noteEnded      = "ended"
)

const (
	// maxMessage bounds a line of the agent: an edit carries both versions of
	// a whole file. What is around it in the client's line fits what a run
	// reads of one event.
	maxMessage = 12 << 20
	// maxText bounds what is kept of a line that is no message.
	maxText = 4 << 10
)

// errLong says that the agent wrote a line that is too long to hold.
var errLong = errors.New("the agent wrote a line of more than 12 MiB")

// readLine reads one line without its end. The last one may have none.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var out []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(out)+len(part) > limit+1 {
			return nil, errLong
		}
		out = append(out, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil:
			return bytes.TrimRight(out, "\r\n"), nil
		case errors.Is(err, io.EOF) && len(out) > 0:
			return bytes.TrimRight(out, "\r\n"), nil
		}
		return nil, err
	}
}

// envelope is the client's line for one of the agent's, and the message in it,
// nil if it is none.
func envelope(raw []byte) ([]byte, *message) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '{' && json.Valid(raw) {
		m := new(message)
		_ = json.Unmarshal(raw, m) // what does not fit is as if it were absent
		return append(append([]byte(`{"agent":`), raw...), '}'), m
	}
	return encode(line{Text: strings.ToValidUTF8(string(raw[:min(len(raw), maxText)]), "")}), nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // made of literals and of what was JSON already
	}
	return b
}
