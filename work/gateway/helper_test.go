package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/proof/record"
)

const (
	canary = "sk-canary-Zq7w9Xr2Lm4Tn8Vb" // the provider's key
	token  = "run-token-5f2c8a71d94e"     // the engine's
	model  = "gpt-5.5"
)

// provider is a scripted provider that remembers what it was asked.
type provider struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []*http.Request
	bodies []string
	conns  map[string]bool
}

// newProvider answers each request with the next handler, the last one again
// and again.
func newProvider(t *testing.T, handlers ...http.HandlerFunc) *provider {
	t.Helper()
	p := &provider{conns: map[string]bool{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the provider got half a body: %v", err)
		}
		p.mu.Lock()
		n := len(p.asked)
		p.asked = append(p.asked, r)
		p.bodies = append(p.bodies, string(body))
		p.conns[r.RemoteAddr] = true
		p.mu.Unlock()
		handlers[min(n, len(handlers)-1)](w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

func (p *provider) last(t *testing.T) (*http.Request, string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 {
		t.Fatal("the provider was not asked")
	}
	return p.asked[len(p.asked)-1], p.bodies[len(p.bodies)-1]
}

// engine is a gateway with an address, and what it recorded.
type engine struct {
	*Gateway
	url  string
	addr string

	mu      sync.Mutex
	records []record.ModelRequest
	kept    map[string]*keptFile
}

type keptFile struct {
	bytes.Buffer
	closed bool
}

func (k *keptFile) Close() error { k.closed = true; return nil }

// open starts a gateway in front of a provider. change may alter the options
// before, and the bounds after, it is made; either may be nil.
func open(t testing.TB, base string, change func(*Options), tune func(*bounds)) *engine {
	t.Helper()
	e := &engine{kept: map[string]*keptFile{}}
	o := Options{
		Upstream: Upstream{Provider: "openai", BaseURL: base, Credential: Credential{Env: "KEY"}},
		Model:    model, Token: token,
		LookupEnv: func(string) (string, bool) { return canary, true },
		Record: func(r record.ModelRequest) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.records = append(e.records, r)
		},
		KeepBodies: func(name string) (io.WriteCloser, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.kept[name] != nil {
				return nil, fmt.Errorf("%s is kept twice", name)
			}
			e.kept[name] = &keptFile{}
			return e.kept[name], nil
		},
	}
	if change != nil {
		change(&o)
	}
	g, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	g.bounds.backoff = time.Millisecond
	if tune != nil {
		tune(&g.bounds)
		g.bodies = newPool(g.bounds.allBodies)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.Gateway, e.addr, e.url = g, l.Addr().String(), "http://"+l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return e
}

// all are the records so far.
func (e *engine) all() []record.ModelRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]record.ModelRequest(nil), e.records...)
}

// record closes the gateway, which waits for what is under way, and returns
// the one record that there must be.
func (e *engine) record(t *testing.T) record.ModelRequest {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	all := e.all()
	if len(all) != 1 {
		t.Fatalf("%d records, want 1: %+v", len(all), all)
	}
	return all[0]
}

// reply is an answer as an engine reads it.
type reply struct {
	*http.Response
	body string
	err  error // of reading the body: a connection that broke
}

// paths are where each protocol is asked for.
var paths = map[Protocol]string{Chat: "/v1/chat/completions", Responses: "/v1/responses", Messages: "/v1/messages"}

// post sends a body as an engine does.
func (e *engine) post(t testing.TB, path, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return reply{err: err, Response: &http.Response{}}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{res, string(b), err}
}

// raw sends bytes as they are and returns the first answer, nil if the gateway
// just closed the connection.
func (e *engine) raw(t *testing.T, text string) *reply {
	t.Helper()
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return &reply{res, string(b), err}
}

// ask is a small request of a protocol.
func ask(p Protocol, stream bool, more string) string {
	body := map[Protocol]string{
		Chat:      `"messages":[{"role":"user","content":"hi"}]`,
		Responses: `"input":[{"role":"user","content":"hi"}]`,
		Messages:  `"max_tokens":100,"messages":[{"role":"user","content":"hi"}]`,
	}[p]
	return fmt.Sprintf(`{"model":%q,"stream":%t,%s%s}`, model, stream, body, more)
}

// sse is a handler that sends the parts of a stream, each at once.
func sse(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, p := range parts {
			io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
	}
}

func plain(status int, kind, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// streams are whole streams of each protocol, with one text and a usage of 80
// uncached, 20 cached, 7 out, 3 of them reasoning.
func streams(p Protocol, modelName string) []string {
	switch p {
	case Chat:
		return []string{
			fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","model":%q,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n", modelName),
			`data: {"id":"c1","choices":[{"index":0,"delta":{"content":"hel"},"finish_reason":null}]}` + "\n\n",
			`data: {"id":"c1","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}` + "\n\n",
			`data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n",
			`data: {"id":"c1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":3}}}` + "\n\n",
			"data: [DONE]\n\n",
		}
	case Responses:
		return []string{
			fmt.Sprintf("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\",\"model\":%q,\"status\":\"in_progress\"}}\n\n", modelName),
			"event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\"}}\n\n",
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hello\"}\n\n",
			"event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"hello\"}]}}\n\n",
			fmt.Sprintf("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r1\",\"model\":%q,\"usage\":{\"input_tokens\":100,\"input_tokens_details\":{\"cached_tokens\":20},\"output_tokens\":7,\"output_tokens_details\":{\"reasoning_tokens\":3},\"total_tokens\":107}}}\n\n", modelName),
		}
	default:
		return []string{
			fmt.Sprintf("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"type\":\"message\",\"model\":%q,\"content\":[],\"usage\":{\"input_tokens\":80,\"cache_read_input_tokens\":20,\"cache_creation_input_tokens\":0,\"output_tokens\":1}}}\n\n", modelName),
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n",
			"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7,\"output_tokens_details\":{\"thinking_tokens\":3}}}\n\n",
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		}
	}
}

// wholes are answers without streaming, with the same usage.
func wholes(p Protocol, modelName string) string {
	switch p {
	case Chat:
		return fmt.Sprintf(`{"id":"c1","model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":3}}}`, modelName)
	case Responses:
		return fmt.Sprintf(`{"id":"r1","model":%q,"status":"completed","output":[{"type":"message","content":[{"text":"hello"}]}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":20},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3}}}`, modelName)
	default:
		return fmt.Sprintf(`{"id":"m1","type":"message","model":%q,"content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":80,"cache_read_input_tokens":20,"output_tokens":7,"output_tokens_details":{"thinking_tokens":3}}}`, modelName)
	}
}

var wantUsage = Usage{InUncached: 80, CacheRead: 20, Out: 7, Reasoning: 3}

var protocols = []Protocol{Chat, Responses, Messages}

// waitFor waits until there are so many records: an engine may have its answer
// before the record is there.
func (e *engine) waitFor(t *testing.T, n int) []record.ModelRequest {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); <-tick.C {
		if all := e.all(); len(all) >= n {
			return all
		}
	}
	t.Fatalf("%d records, want %d", len(e.all()), n)
	return nil
}
