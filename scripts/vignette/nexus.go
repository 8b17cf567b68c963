package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// caller is a holder of a credential.
type caller struct{ name, token string }

// nexus is the authority as everybody outside sees it.
type nexus struct {
	url    string
	client http.Client
}

func newNexus(url string) *nexus {
	return &nexus{url: url, client: http.Client{Timeout: 30 * time.Second}}
}

// request is one call. A mutation has a key.
type request struct {
	as           caller
	method, path string
	key          string
	body         any
}

// post is a mutation with a key.
func (c caller) post(path, key string, body any) request {
	return request{as: c, method: http.MethodPost, path: path, key: key, body: body}
}

// answer is what came back, to the byte.
type answer struct {
	status   int
	replayed bool
	raw      []byte
}

// doc is the document of an answer; nil when it is none.
func (a answer) doc() any {
	v, _ := parse(a.raw) // what is no document has no members
	return v
}

// text is a text in the answer. A refusal has a code.
func (a answer) text(path ...string) string { return text(a.doc(), path...) }

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// send does a call once; only a call without an answer is an error.
func (n *nexus) send(ctx context.Context, r request) (answer, error) {
	var body io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return answer{}, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, n.url+r.path, body)
	if err != nil {
		return answer{}, err
	}
	if r.as.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.as.token)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	return answer{resp.StatusCode, resp.Header.Get("Idempotency-Replayed") == "true", raw}, nil
}

// do does a call that must be answered with a status, and reads the answer
// into v.
func (n *nexus) do(ctx context.Context, r request, status int, v any) answer {
	a := need(n.send(ctx, r))
	if a.status != status {
		giveUp("%s %s as %s: status %d, want %d: %s", r.method, r.path, r.as.name, a.status, status, a.raw)
	}
	if v == nil {
		return a
	}
	if err := json.Unmarshal(a.raw, v); err != nil {
		giveUp("%s %s: %w", r.method, r.path, err)
	}
	return a
}

// get reads something.
func (n *nexus) get(ctx context.Context, as caller, path string, v any) answer {
	return n.do(ctx, request{as: as, method: http.MethodGet, path: path}, http.StatusOK, v)
}

// refused does a call that must be refused, and records status and code.
func (n *nexus) refused(ctx context.Context, s *step, text string, r request, status int, code string) {
	a := need(n.send(ctx, r))
	s.ok(a.status == status && a.text("code") == code && a.text("request_id") != "", text,
		fmt.Sprintf("status %d, want %d with code %s: %s", a.status, status, code, a.raw))
}

// repeated does a call twice with one key and records that the second answer is
// the stored first one, byte for byte.
func (n *nexus) repeated(ctx context.Context, s *step, text string, r request, status int, v any) answer {
	first := n.do(ctx, r, status, v)
	again := need(n.send(ctx, r))
	s.ok(!first.replayed && again.replayed && again.status == first.status && bytes.Equal(again.raw, first.raw), text,
		fmt.Sprintf("first %d %s, again %d (replayed: %v) %s", first.status, first.raw, again.status, again.replayed, again.raw))
	return first
}
