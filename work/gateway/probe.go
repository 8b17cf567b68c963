package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"remit/proof/reason"
	"remit/proof/record"
)

// probeTokens is a realistic budget for a small answer. With less, a model that
// thinks first would fail without being unusable.
const probeTokens = 1024

// probeQuestion asks for the least that an engine needs: a text or a tool call.
const probeQuestion = "Call the tool ready with ok set to true. If you cannot call tools, answer with the single word ready."

// maxProbe bounds what is kept of the answer.
const maxProbe = 8 << 20

// Probe asks the model one small streamed question with one tool, the way an
// engine would, before an engine is started: some engines take a broken answer
// for success. It passes when the stream follows the protocol to its end,
// reports its usage, names the admitted model, and holds text or a tool call
// with arguments that parse; how long the model thinks first does not matter.
//
// Errors are [*reason.Error]: response_shape_unavailable (malformed, or nothing
// but reasoning), model_mismatch, and whatever refused or failed the request.
// A probe is recorded, paid for and counted as every request.
func (g *Gateway) Probe(ctx context.Context, p Protocol) error {
	body, path, err := g.probeRequest(p)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return reason.Errorf(reason.InfrastructureFault, "making the probe: %w", err)
	}
	req.RequestURI = path
	req.Header.Set("Content-Type", "application/json")
	w := &transcript{header: http.Header{}}
	var rec record.ModelRequest
	g.serve(w, req, &rec) // the same way as every request
	if err := g.judge(p, rec, w.body.Bytes()); err != nil {
		return err
	}
	g.names.Store(true)
	return nil
}

// probeRequest writes the question in a protocol.
func (g *Gateway) probeRequest(p Protocol) (body []byte, path string, err error) {
	schema := map[string]any{"type": "object", "properties": map[string]any{"ok": map[string]any{"type": "boolean"}},
		"required": []string{"ok"}}
	const name, what = "ready", "Says that tools can be called."
	user := []any{map[string]any{"role": "user", "content": probeQuestion}}
	v := map[string]any{"model": g.model, "stream": true}
	switch p {
	case Chat:
		path = "/v1/chat/completions"
		v["messages"] = user
		v["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": name, "description": what,
			"parameters": schema}}}
		// Hosted models that think take only the new name, many local servers only the old.
		if g.upstream.local {
			v["max_tokens"] = probeTokens
		} else {
			v["max_completion_tokens"] = probeTokens
		}
	case Responses:
		path = "/v1/responses"
		v["input"], v["store"], v["max_output_tokens"] = user, false, probeTokens
		v["tools"] = []any{map[string]any{"type": "function", "name": name, "description": what, "parameters": schema, "strict": false}}
	case Messages:
		path = "/v1/messages"
		v["messages"], v["max_tokens"] = user, probeTokens
		v["tools"] = []any{map[string]any{"name": name, "description": what, "input_schema": schema}}
	default:
		return nil, "", misconfigured("%q is no protocol of the gateway", string(p))
	}
	if body, err = json.Marshal(v); err != nil {
		return nil, "", reason.Errorf(reason.InfrastructureFault, "writing the probe: %w", err)
	}
	return body, path, nil
}

// judge decides what an answer to the probe is worth.
func (g *Gateway) judge(p Protocol, rec record.ModelRequest, stream []byte) error {
	failed := func(code reason.Code, why string) error {
		return reason.Errorf(code, "probing %q of %q over the %s protocol: %s", g.model, g.provider, p, why).WithHint("%s", Remedy(rec))
	}
	shape := func(format string, args ...any) error {
		return reason.Errorf(reason.ResponseShape, "probing %q of %q over the %s protocol: %s", g.model, g.provider, p,
			fmt.Sprintf(format, args...))
	}
	switch {
	case rec.Refused != "":
		return failed(rec.Refused, cmp.Or(rec.Detail, "the gateway refused the probe"))
	case rec.Failed == reason.ResponseShape:
		return shape("%s", cmp.Or(rec.Detail, "the answer does not follow the protocol"))
	case rec.Failed != "":
		return failed(rec.Failed, cmp.Or(rec.Detail, fmt.Sprintf("there is no usable answer (status %d)", rec.Status)))
	case rec.Mismatch:
		return reason.Errorf(reason.ModelMismatch, "probing %q of %q over the %s protocol: %q answered", g.model, g.provider, p,
			rec.ModelAnswered)
	case rec.ModelAnswered == "":
		return shape("the answer names no model")
	case !rec.UsageKnown || rec.Usage.Tokens() == 0:
		return shape("the answer reports no usage")
	}
	said := content{calls: map[string]*strings.Builder{}}
	var s splitter
	s.limit = maxProbe
	err := s.feed(stream, func(e event) bool {
		if e.some && string(e.data) != "[DONE]" {
			said.take(p, e.data)
		}
		return true
	})
	switch {
	case err != nil:
		return shape("%v", err)
	case said.broken():
		return shape("a tool call has arguments that are no JSON object")
	case !said.something() && said.thought:
		return shape("the model used %d tokens for reasoning and said nothing", rec.Usage.Out)
	case !said.something():
		return shape("the answer is empty")
	}
	return nil
}

// transcript is a response writer that keeps what is written.
type transcript struct {
	header http.Header
	body   bytes.Buffer
}

func (t *transcript) Header() http.Header { return t.header }
func (t *transcript) WriteHeader(int)     {}
func (t *transcript) Flush()              {}

// Write keeps the first part of what is written: an answer that is longer than
// a probe's can be is cut, and then has no end.
func (t *transcript) Write(p []byte) (int, error) {
	if room := maxProbe - t.body.Len(); room > 0 {
		t.body.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
