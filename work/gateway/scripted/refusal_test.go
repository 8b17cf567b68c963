package scripted

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestRefusals: what is no request of a model is refused in the form of the
// protocol, and everything that arrives is seen.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var seen []Seen
	s, address := serve(t, "turns: [{text: hi}]", Options{Key: "sk-test", Seen: func(r Seen) { seen = append(seen, r) }})
	good := map[Protocol][]byte{}
	for _, p := range protocols {
		good[p] = request(p, conversed{})
	}
	for _, c := range []struct {
		name, method, path, body string
		header                   [2]string
		status                   int
		want                     string
	}{
		{"bearer", "POST", paths[Chat], string(good[Chat]), [2]string{"Authorization", "Bearer sk-test"}, 200, "chat.completion.chunk"},
		{"x-api-key", "POST", paths[Messages], string(good[Messages]), [2]string{"X-Api-Key", "sk-test"}, 200, "message_stop"},
		{"no key", "POST", paths[Responses], string(good[Responses]), [2]string{}, 401, `"authentication_error"`},
		{"wrong key", "POST", paths[Messages], string(good[Messages]), [2]string{"X-Api-Key", "sk-test2"}, 401, `{"type":"error","error":{"type":"authentication_error"`},
		{"wrong scheme", "POST", paths[Chat], string(good[Chat]), [2]string{"Authorization", "Basic sk-test"}, 401, "key"},
		{"not POST", "GET", paths[Chat], "", [2]string{"X-Api-Key", "sk-test"}, 405, "POST"},
		{"no JSON", "POST", paths[Chat], "{", [2]string{"X-Api-Key", "sk-test"}, 400, "not the JSON"},
		{"no model", "POST", paths[Chat], "{}", [2]string{"X-Api-Key", "sk-test"}, 400, "names no model"},
		{"odd messages", "POST", paths[Chat], `{"model":"m","messages":{"a":1}}`, [2]string{"X-Api-Key", "sk-test"}, 400, "messages cannot be read"},
		{"odd input", "POST", paths[Responses], `{"model":"m","input":17}`, [2]string{"X-Api-Key", "sk-test"}, 400, "input cannot be read"},
		{"odd content", "POST", paths[Messages], `{"model":"m","messages":[{"role":"user","content":17}]}`, [2]string{"X-Api-Key", "sk-test"}, 400, "messages cannot be read"},
		{"past the end", "POST", paths[Chat], string(request(Chat, conversed{past: make([]exchange, 1)})), [2]string{"X-Api-Key", "sk-test"}, 400, "script_no_answer"},
		{"tokens", "POST", "/v1/messages/count_tokens", "12345678", [2]string{}, 200, `{"input_tokens":3}`},
		{"models", "GET", "/v1/models", "", [2]string{}, 200, `"object":"list"`},
		{"elsewhere", "GET", "/", "", [2]string{}, 404, "nothing is here"},
		{"elsewhere with POST", "POST", "/v1/completions", "{}", [2]string{}, 404, "nothing is here"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+address+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.header[0] != "" {
			r.Header.Set(c.header[0], c.header[1])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.status || !bytes.Contains(body, []byte(c.want)) {
			t.Errorf("%s: %d %s", c.name, answer.StatusCode, body)
		}
		if len(seen) == 0 || seen[len(seen)-1].Path != r.URL.Path || string(seen[len(seen)-1].Body) != c.body || seen[len(seen)-1].Seq != int64(len(seen)) {
			t.Fatalf("%s: not seen: %+v", c.name, seen)
		}
	}
	if got := seen[0]; got.Protocol != Chat || got.Model != "gw-model" || !got.Stream || got.Turn != 1 || got.Answer != "turns[0]" || got.Header.Get("Authorization") != "Bearer sk-test" {
		t.Errorf("%+v", got)
	}
	if got := seen[1]; got.Query != "beta=true" || got.Protocol != Messages {
		t.Errorf("%+v", got)
	}
	want := Counts{Usage: Usage{InUncached: 200, Out: 20}, Requests: 12, Completed: 2, Unscripted: 10, Elsewhere: 4, Models: []string{"gw-model"}}
	if got := s.Count(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	// The counts can be asked for, and asking changes nothing.
	r, err := http.Get("http://" + address + "/scripted/counts")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var over Counts
	if err := json.NewDecoder(r.Body).Decode(&over); err != nil || !reflect.DeepEqual(over, want) {
		t.Errorf("%v %+v", err, over)
	}
}

// TestConnect: no connection is made, and the attempt is seen.
func TestConnect(t *testing.T) {
	t.Parallel()
	var host string
	s, address := serve(t, "turns: [{text: hi}]", Options{Seen: func(r Seen) { host = r.Host }})
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusBadGateway || host != "api.example.com:443" || s.Count().Elsewhere != 1 || s.Count().Requests != 0 {
		t.Errorf("%d %q %+v", r.StatusCode, host, s.Count())
	}
}

// TestWaits: delay comes before the answer and pace between its events; a
// client that leaves is not waited for.
func TestWaits(t *testing.T) {
	t.Parallel()
	s := New(script(t, `turns: [{delay: 3s, pace: 20ms, text: "abcd", chunks: [1]}]`), Options{})
	var waited []time.Duration
	s.wait = func(_ context.Context, d time.Duration) error {
		waited = append(waited, d)
		return nil
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, paths[Chat], bytes.NewReader(request(Chat, conversed{}))))
	if len(waited) != 8 || waited[0] != 3*time.Second || waited[1] != 20*time.Millisecond || listen(t, Chat, w.Body.String()).text != "abcd" {
		t.Errorf("%v %s", waited, w.Body)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s = New(script(t, `turns: [{delay: 10m, text: "abcd"}]`), Options{})
	w = httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodPost, paths[Chat], bytes.NewReader(request(Chat, conversed{}))))
	if c := s.Count(); c.Broken != 1 || c.Completed != 0 || w.Body.Len() != 0 {
		t.Errorf("%+v %s", c, w.Body)
	}
}

// TestUsageOfChat: a stream reports its usage only to those who ask for it, and
// then it counts.
func TestUsageOfChat(t *testing.T) {
	t.Parallel()
	s, address := serve(t, "turns: [{text: hi}]", Options{})
	_, body := post(t, address, Chat, request(Chat, conversed{noUsage: true}))
	if strings.Contains(body, `"usage"`) || s.Count().Usage != (Usage{}) {
		t.Errorf("%+v %s", s.Count(), body)
	}
	if h := listen(t, Chat, body); !h.terminal {
		t.Errorf("%+v", h)
	}
}
