// Package modeltest is a model server for the tests of the engines: it plays
// fixed turns to one agent, in the protocol that the agent asks in, and keeps
// what was asked. It knows no time and no chance.
//
// Which turn is played follows from the request alone: from how many results
// of tools it brings. A request that is made again gets the same answer, and a
// request that offers no tools (an agent asks for a title, say) is not one of
// the conversation.
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Turn is one answer of the model.
type Turn struct {
	Text  string
	Calls []Call
	// Status, if set, is an error; Body is then the message.
	Status int
	Body   string
	// Raw, if set, is sent as it is, with status 200, as event stream.
	Raw string
	// Cut breaks the connection after the first event of text or call.
	Cut bool
	// Pieces cuts text and arguments into so many parts, 0 for one.
	Pieces int
}

// Call is one use of a tool.
type Call struct {
	Name string
	Args any    // encoded as JSON
	Text string // instead of Args: the input of a tool that takes free text
}

// What every answer says that it cost.
const (
	InUncached = 60
	CacheRead  = 40
	Out        = 7
)

// Asked is one request.
type Asked struct {
	Path, Authorization, Key, Model string
	Prompt                          string // the whole body
	Results                         int
}

// Server plays Turns.
type Server struct {
	Turns []Turn

	mu    sync.Mutex
	asked []Asked
}

// Asked returns the requests so far.
func (s *Server) Asked() []Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Asked{}, s.asked...)
}

// maxBody bounds a request.
const maxBody = 64 << 20

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the agent went away
	}
	var q struct {
		Model    string
		Stream   bool
		Tools    []json.RawMessage
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Input []struct{ Type string }
	}
	_ = json.Unmarshal(body, &q) // what is missing is zero, and the answer then does not matter
	a := Asked{Path: r.URL.RequestURI(), Authorization: r.Header.Get("Authorization"), Key: r.Header.Get("X-Api-Key"), Model: q.Model,
		Prompt: string(body)}
	for _, m := range q.Messages {
		a.Results += strings.Count(string(m.Content), `"type":"tool_result"`)
		if m.Role == "tool" {
			a.Results++
		}
	}
	for _, item := range q.Input {
		if strings.HasSuffix(item.Type, "_call_output") {
			a.Results++
		}
	}
	s.mu.Lock()
	s.asked = append(s.asked, a)
	s.mu.Unlock()

	turn := s.turn(a.Results, len(q.Tools) > 0)
	out := &writer{w: w, model: q.Model, stream: q.Stream, turn: turn, step: a.Results}
	switch {
	case turn.Status != 0:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(turn.Status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":"error","message":%s}}`, quote(turn.Body))
	case turn.Raw != "":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, turn.Raw)
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		out.chat()
	case strings.HasSuffix(r.URL.Path, "/responses"):
		out.responses()
	case strings.HasSuffix(r.URL.Path, "/messages"):
		out.messages()
	default:
		http.NotFound(w, r)
	}
}

// turn chooses by the results of tools: each call of an earlier turn has one.
func (s *Server) turn(results int, tools bool) Turn {
	if !tools {
		return Turn{Text: "ok"}
	}
	for _, t := range s.Turns {
		if results < max(1, len(t.Calls)) {
			return t
		}
		results -= len(t.Calls)
	}
	return Turn{Text: "done"}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has an encoding
	}
	return string(b)
}
