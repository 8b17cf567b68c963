package gateway

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
)

// saying replaces what a stream of the protocol says.
func saying(p Protocol, says ...string) []string {
	parts := streams(p, model)
	switch p {
	case Chat:
		return append(append([]string{parts[0]}, says...), parts[3:]...)
	case Responses:
		return append(append([]string{parts[0]}, says...), parts[4])
	default:
		return append(append([]string{parts[0]}, says...), parts[4:]...)
	}
}

func chatDelta(delta string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta)
}

func item(v string) string {
	return fmt.Sprintf("data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":%s}\n\n", v)
}

func block(start string, deltas ...string) string {
	out := fmt.Sprintf("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":%s}\n\n", start)
	for _, d := range deltas {
		out += fmt.Sprintf("data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":%s}\n\n", d)
	}
	return out
}

// The probe lets through what an engine can work with, and nothing else.
func TestProbe(t *testing.T) {
	t.Parallel()
	late := func(parts []string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			sse(parts[0])(w, r)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-r.Context().Done():
			}
			sse(parts[1:]...)(w, r)
		}
	}
	for name, test := range map[string]struct {
		p       Protocol
		handler http.HandlerFunc
		code    reason.Code
	}{
		"chat text":        {Chat, sse(streams(Chat, model)...), ""},
		"responses text":   {Responses, sse(streams(Responses, model)...), ""},
		"messages text":    {Messages, sse(streams(Messages, model)...), ""},
		"chat call":        {Chat, sse(saying(Chat, chatDelta(`{"tool_calls":[{"index":0,"function":{"name":"ready","arguments":""}}]}`), chatDelta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"ok\":tr"}}]}`), chatDelta(`{"tool_calls":[{"index":0,"function":{"arguments":"ue}"}}]}`))...), ""},
		"responses call":   {Responses, sse(saying(Responses, item(`{"type":"function_call","call_id":"c","arguments":"{}"}`))...), ""},
		"messages call":    {Messages, sse(saying(Messages, block(`{"type":"tool_use","name":"ready","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"ok\":true}"}`))...), ""},
		"chat late":        {Chat, late(saying(Chat, chatDelta(`{"reasoning_content":"hm"}`), chatDelta(`{"content":"ready"}`))), ""},
		"messages late":    {Messages, late(saying(Messages, block(`{"type":"thinking"}`, `{"type":"thinking_delta","thinking":"hm"}`), block(`{"type":"text","text":"ready"}`))), ""},
		"chat thinks":      {Chat, sse(saying(Chat, chatDelta(`{"reasoning_content":"hm"}`))...), reason.ResponseShape},
		"chat reasons":     {Chat, sse(saying(Chat, chatDelta(`{"reasoning":"hm"}`), chatDelta(`{"content":"\n"}`))...), reason.ResponseShape},
		"responses thinks": {Responses, sse(saying(Responses, item(`{"type":"reasoning"}`))...), reason.ResponseShape},
		"messages thinks":  {Messages, sse(saying(Messages, block(`{"type":"thinking"}`, `{"type":"thinking_delta","thinking":"hm"}`))...), reason.ResponseShape},
		"chat empty":       {Chat, sse(saying(Chat)...), reason.ResponseShape},
		"responses empty":  {Responses, sse(saying(Responses)...), reason.ResponseShape},
		"messages empty":   {Messages, sse(saying(Messages)...), reason.ResponseShape},
		"chat half call":   {Chat, sse(saying(Chat, chatDelta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"ok\":"}}]}`))...), reason.ResponseShape},
		"responses string": {Responses, sse(saying(Responses, item(`{"type":"function_call","arguments":"true"}`))...), reason.ResponseShape},
		"messages half":    {Messages, sse(saying(Messages, block(`{"type":"tool_use"}`, `{"type":"input_json_delta","partial_json":"{"}`))...), reason.ResponseShape},
		"html":             {Chat, plain(200, "text/html", "<html>"), reason.ResponseShape},
		"json":             {Chat, plain(200, "application/json", wholes(Chat, model)), reason.ResponseShape},
		"no end":           {Messages, sse(streams(Messages, model)[:4]...), reason.ProviderUnavailable},
		"no usage":         {Chat, sse(append(streams(Chat, model)[:4:4], "data: [DONE]\n\n")...), reason.ResponseShape},
		"no name":          {Chat, sse(streams(Chat, "")...), reason.ResponseShape},
		"another model":    {Responses, sse(streams(Responses, "gpt-4")...), reason.ModelMismatch},
		"wrong key":        {Messages, plain(401, "application/json", "{}"), reason.AuthUnavailable},
		"no such model":    {Chat, plain(404, "application/json", "{}"), reason.ProviderRefused},
		"failing":          {Chat, plain(500, "application/json", "{}"), reason.ProviderUnavailable},
		"error event":      {Chat, sse(`data: {"error":{"message":"x"}}` + "\n\n"), reason.ProviderRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newProvider(t, test.handler)
			e := open(t, up.URL, nil, nil)
			if err := e.Probe(t.Context(), test.p); reason.CodeOf(err) != test.code {
				t.Errorf("got %v, want %q", err, test.code)
			}
			if rec := e.record(t); !rec.Probe || !rec.Stream || rec.Protocol != test.p {
				t.Errorf("record: %+v", rec)
			}
			_, sent := up.last(t)
			var body struct {
				Model string
				Tools []any
			}
			if err := json.Unmarshal([]byte(sent), &body); err != nil || body.Model != model || len(body.Tools) != 1 || !strings.Contains(sent, "1024") {
				t.Errorf("sent: %s", sent)
			}
		})
	}
}

// What is wrong with the way to a provider is said, and not its address.
func TestProbeSaysWhy(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	self := httptest.NewUnstartedServer(sse(streams(Chat, model)...))
	self.Config.ErrorLog = discard
	self.StartTLS()
	t.Cleanup(self.Close)
	other := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(other, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: self.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ url, ca, want string }{
		"closed port":  {"http://" + closed.Addr().String(), "", "connection refused"},
		"no such name": {"http://no-such-host.invalid", "", "could not be reached"},
		"unknown CA":   {self.URL, "", "--model-ca"},
		"another name": {strings.Replace(self.URL, "127.0.0.1", "localhost", 1), other, "another name"},
		"no TLS":       {"https" + strings.TrimPrefix(newProvider(t, sse()).URL, "http"), "", "does not speak TLS"},
		"too many":     {newProvider(t, plain(429, "application/json", "{}", "Retry-After", "999")).URL, "", "no more requests for now"},
		"broken":       {newProvider(t, sse(streams(Chat, model)[:2]...)).URL, "", "broke off in the middle"},
		"no stream":    {newProvider(t, plain(200, "text/html", "x")).URL, "", "no event stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, test.url, func(o *Options) { o.Upstream.Class, o.Upstream.CAFile = Local, test.ca }, nil)
			e.wait = func(context.Context, time.Duration) error { return nil }
			err := e.Probe(t.Context(), Chat)
			host := strings.TrimPrefix(strings.TrimPrefix(test.url, "https://"), "http://")
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), host) {
				t.Errorf("got %v", err)
			}
			if rec := e.record(t); rec.Detail == "" || strings.Contains(rec.Detail, host) {
				t.Errorf("record: %+v", rec)
			}
		})
	}
}

// TestEveryTryCounts: a provider is never asked more often than the limit says,
// with Remit's own question and with every further try.
func TestEveryTryCounts(t *testing.T) {
	t.Parallel()
	for limit := int64(1); limit <= 7; limit++ {
		up := newProvider(t, sse(streams(Chat, model)...), plain(500, "application/json", `{}`), sse(streams(Chat, model)...), plain(429, "application/json", `{}`))
		e := open(t, up.URL, func(o *Options) { o.Limits = Limits{Requests: limit} }, nil)
		e.wait = func(context.Context, time.Duration) error { return nil }
		if err := e.Probe(t.Context(), Chat); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			e.post(t, "/v1/chat/completions", ask(Chat, true, ""))
		}
		total := e.Totals()
		if int64(up.count()) != limit || total.Requests+total.Retries != limit || total.Exhausted != reason.BudgetExhausted {
			t.Errorf("limit %d: the provider was asked %d times, %+v", limit, up.count(), total)
		}
	}
}

// A probe is paid for, and counts.
func TestProbeAndLimits(t *testing.T) {
	t.Parallel()
	up := newProvider(t, sse(streams(Chat, model)...))
	e := open(t, up.URL, func(o *Options) { o.Limits = Limits{Requests: 2, Tokens: 214} }, nil)
	if err := e.Probe(t.Context(), Chat); err != nil {
		t.Fatal(err)
	}
	if got := e.post(t, "/v1/chat/completions", ask(Chat, true, "")); got.StatusCode != http.StatusOK {
		t.Errorf("the engine's request: %d %s", got.StatusCode, got.body)
	}
	if got := e.post(t, "/v1/chat/completions", ask(Chat, true, "")); got.StatusCode != statusRefused {
		t.Errorf("the one after: %d", got.StatusCode)
	}
	if err := e.Probe(t.Context(), Chat); reason.CodeOf(err) != reason.BudgetExhausted {
		t.Errorf("a probe without money: %v", err)
	}
	if err := e.Probe(t.Context(), "telnet"); reason.CodeOf(err) != reason.LocalConfigMissing {
		t.Errorf("an unknown protocol: %v", err)
	}
	if total := e.Totals(); total.Requests != 2 || total.Probes != 1 || total.Tokens() != 214 {
		t.Errorf("totals: %+v", total)
	}
}
