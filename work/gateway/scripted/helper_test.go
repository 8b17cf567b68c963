package scripted

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

var protocols = []Protocol{Chat, Responses, Messages}

// paths are where the protocols are asked, with a prefix as a gateway has it.
var paths = map[Protocol]string{Chat: "/r/1/v1/chat/completions", Responses: "/r/1/v1/responses", Messages: "/r/1/v1/messages?beta=true"}

// script parses a script that is right.
func script(t testing.TB, text string) *Script {
	t.Helper()
	s, err := Parse("script.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

// serve plays a script on a port of this host.
func serve(t testing.TB, text string, o Options) (*Server, string) {
	t.Helper()
	s := New(script(t, text), o)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.Listener.Addr().String()
}

// exchange is one turn of a conversation that was: what the model said and
// called, and what the tools said.
type exchange struct {
	said    string
	outputs []string
}

// conversation to ask a model with.
type conversed struct {
	model, system, user string
	past                []exchange
	plain, noTools      bool
	noUsage             bool
}

// request is the body of a request, in the form of a protocol.
func request(p Protocol, c conversed) []byte {
	if c.model == "" {
		c.model = "gw-model"
	}
	tools := list{}
	if !c.noTools {
		tools = list{object{"type", "function", "name", "bash"}}
	}
	body := object{"model", c.model, "stream", !c.plain, "tools", tools}
	user := func() object { return object{"role", "user", "content", c.user} }
	var all list
	switch p {
	case Chat:
		all = list{object{"role", "system", "content", c.system}, user()}
		for i, e := range c.past {
			calls := list{}
			for j := range e.outputs {
				calls = append(calls, object{"id", fmt.Sprint(i, j), "type", "function", "function", object{"name", "bash", "arguments", "{}"}})
			}
			all = append(all, object{"role", "assistant", "content", e.said, "tool_calls", calls})
			for j, text := range e.outputs {
				all = append(all, object{"role", "tool", "tool_call_id", fmt.Sprint(i, j), "content", text})
			}
		}
		body = append(body, "messages", all)
		if !c.plain && !c.noUsage {
			body = append(body, "stream_options", object{"include_usage", true})
		}
	case Responses:
		all = list{object{"type", "message", "role", "user", "content", list{object{"type", "input_text", "text", c.user}}}}
		for i, e := range c.past {
			all = append(all, object{"type", "reasoning", "summary", list{}}, object{"type", "message", "role", "assistant", "content", list{object{"type", "output_text", "text", e.said}}})
			for j := range e.outputs {
				all = append(all, object{"type", "function_call", "call_id", fmt.Sprint(i, j), "name", "bash", "arguments", "{}"})
			}
			for j, text := range e.outputs {
				all = append(all, object{"type", []string{"function_call_output", "custom_tool_call_output"}[j%2], "call_id", fmt.Sprint(i, j), "output", text})
			}
		}
		body = append(body, "instructions", c.system, "input", all)
	case Messages:
		all = list{user()}
		for i, e := range c.past {
			calls, results := list{object{"type", "text", "text", e.said}}, list{}
			for j, text := range e.outputs {
				calls = append(calls, object{"type", "tool_use", "id", fmt.Sprint(i, j), "name", "bash", "input", object{}})
				results = append(results, object{"type", "tool_result", "tool_use_id", fmt.Sprint(i, j), "content", list{object{"type", "text", "text", text}}})
			}
			all = append(all, object{"role", "assistant", "content", calls}, object{"role", "user", "content", results})
		}
		body = append(body, "system", list{object{"type", "text", "text", c.system}}, "messages", all)
	}
	return encoded(body)
}

// ending is how the bytes of an answer ended.
type ending string

const (
	clean   ending = "clean"
	aborted ending = "aborted"
	hanging ending = "hanging"
)

// raw asks over a connection of its own, without any library in between, and
// returns every byte that came and how they ended. Of a server that hangs it
// waits for what the server says it has sent.
func raw(t testing.TB, s *Server, address string, p Protocol, body []byte) (string, ending) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := s.hung.Load()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", paths[p], len(body), body)
	var got bytes.Buffer
	for deadline := time.Now().Add(time.Minute); ; {
		// What was sent before the answer began to hang is here at the latest now.
		hangs := s.hung.Load() > before
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := io.Copy(&got, c)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && n == 0 && hangs:
			return got.String(), hanging
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(deadline):
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			t.Fatalf("neither an end nor a break: %q", cutShort(got.String()))
		}
		return got.String(), endOf(got.Bytes(), err)
	}
}

// endOf tells from the framing of HTTP whether a body came to its end.
func endOf(all []byte, err error) ending {
	if err != nil || len(all) == 0 {
		return aborted
	}
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(all)), nil)
	if err != nil {
		return aborted
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return aborted
	}
	return clean
}

// bodyOf takes the framing away, as far as there is a body.
func bodyOf(t testing.TB, all string) (*http.Response, string) {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(all)), nil)
	if err != nil {
		t.Fatalf("%v in %q", err, all)
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body) // a cut body is what some tests are about
	return r, string(body)
}

// post asks with an ordinary client and returns status and body.
func post(t testing.TB, address string, p Protocol, body []byte) (int, string) {
	t.Helper()
	r, err := http.Post("http://"+address+paths[p], "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}
