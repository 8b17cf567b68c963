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
	"sync"
	"testing"
	"time"
)

// ask returns the text of the answer to a conversation, or the error.
func ask(t testing.TB, address string, p Protocol, c conversed) string {
	t.Helper()
	status, body := post(t, address, p, request(p, c))
	if status != http.StatusOK {
		return fmt.Sprintf("%d %s", status, body)
	}
	if c.plain {
		var v map[string]any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		return str(v, "choices", 0, "message", "content") + str(v, "output", 0, "content", 0, "text") + str(v, "content", 0, "text")
	}
	return listen(t, p, body).text
}

// TestTurns: the turn is read from the request, so one that is repeated gets
// the same answer, and a request beside the conversation shifts nothing.
func TestTurns(t *testing.T) {
	t.Parallel()
	const text = `
turns: [{text: one}, {text: two, calls: [{name: bash}]}, {text: three}]
otherwise: {text: done}`
	for _, p := range protocols {
		_, address := serve(t, text, Options{})
		two := exchange{said: "calls two tools", outputs: []string{"a", "b"}}
		for _, c := range []struct {
			past []exchange
			want string
		}{
			{nil, "one"}, {nil, "one"}, {[]exchange{two}, "two"}, {nil, "one"}, {[]exchange{two, {said: "x", outputs: []string{"c"}}}, "three"},
			{[]exchange{two}, "two"}, {[]exchange{two, two, two}, "done"}, {[]exchange{two, two, two, two, two}, "done"},
		} {
			if got := ask(t, address, p, conversed{past: c.past}); got != c.want {
				t.Errorf("%s, after %d turns: %q, want %q", p, len(c.past), got, c.want)
			}
		}
	}
}

// TestWhen: each condition alone, over each protocol.
func TestWhen(t *testing.T) {
	t.Parallel()
	yes := conversed{model: "gpt-5.5", system: "# Closer\nof runs", user: "fix it", past: []exchange{{said: "x", outputs: []string{"exit 0", "FAIL: slug"}}}}
	no := conversed{model: "claude", system: "# Verifier", user: "look", past: []exchange{{said: "FAIL: it", outputs: []string{"ok", "# Closer fix it"}}}, plain: true, noTools: true}
	for _, c := range []struct{ when, not string }{
		{`model: '^gpt-'`, ""}, {`system: '(?m)^# Closer$'`, ""}, {`user: 'fix (it|that)'`, ""}, {`tool_output: '^FAIL: \w+'`, ""},
		{`stream: true`, `stream: false`}, {`tools: true`, `tools: false`},
	} {
		for _, p := range protocols {
			_, address := serve(t, "conversations:\n  - {when: {"+c.when+"}, otherwise: {text: 'yes'}}\n  - {otherwise: {text: 'no'}}", Options{})
			if got := ask(t, address, p, yes) + ask(t, address, p, no); got != "yesno" {
				t.Errorf("%s over %s: %s", c.when, p, got)
			}
			if c.not == "" {
				continue
			}
			_, address = serve(t, "otherwise: {any: [{when: {"+c.not+"}, text: 'yes'}, {text: 'no'}]}", Options{})
			if got := ask(t, address, p, yes) + ask(t, address, p, no); got != "noyes" {
				t.Errorf("%s over %s: %s", c.not, p, got)
			}
		}
	}
	_, address := serve(t, "otherwise: {any: [{when: {protocol: chat}, text: c}, {when: {protocol: [messages, responses]}, text: other}]}", Options{})
	for p, want := range map[Protocol]string{Chat: "c", Responses: "other", Messages: "other"} {
		if got := ask(t, address, p, yes); got != want {
			t.Errorf("%s: %q", p, got)
		}
	}
}

// TestTimes: a fault that is given once is followed by the answer, and the
// first conversation that fits is the only one that is asked.
func TestTimes(t *testing.T) {
	t.Parallel()
	s, address := serve(t, `
conversations:
  - when: {user: once}
    turns:
      - any:
          - {times: 2, status: 429, retry_after: 1}
          - {times: 1, text: first}
  - otherwise: {text: never}
`, Options{})
	var got []string
	for range 4 {
		got = append(got, cutShort(ask(t, address, Messages, conversed{user: "once"}))[:5])
	}
	if want := []string{"429 {", "429 {", "first", "400 {"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	if c := s.Count(); c.Refused != 2 || c.Completed != 1 || c.Unscripted != 1 || c.Requests != 4 {
		t.Errorf("%+v", c)
	}
	// Many at the same time never get it twice.
	s, address = serve(t, "otherwise: {any: [{times: 3, text: rare}, {text: often}]}", Options{})
	var all sync.WaitGroup
	var mu sync.Mutex
	count := map[string]int{}
	for range 24 {
		all.Go(func() {
			text := ask(t, address, Chat, conversed{})
			mu.Lock()
			defer mu.Unlock()
			count[text]++
		})
	}
	all.Wait()
	if count["rare"] != 3 || count["often"] != 21 || s.Count().Completed != 24 {
		t.Errorf("%v, %+v", count, s.Count())
	}
}

// TestCapture: what a tool said goes into the next answer, quoted where that
// is JSON, and nothing of it is read as a part of the script.
func TestCapture(t *testing.T) {
	t.Parallel()
	const text = `
turns:
  - {text: start}
  - capture: {commit: 'commit ([0-9a-f]+)', rest: '(?s)rest: (.*)'}
    text: "is ${commit} ${unknown} $commit"
    calls: [{name: bash, arguments: {command: "git show ${commit}; echo '${rest}' $HOME ${HOME}"}}, {name: apply_patch, input: "${rest}"}]
`
	hostile := "\"; rm -rf \\ \n${commit} ${rest}"
	for _, p := range protocols {
		_, address := serve(t, text, Options{})
		past := []exchange{{said: "commit 0000", outputs: []string{"commit dead\nrest: old", "commit beef\nrest: " + hostile}}}
		status, body := post(t, address, p, request(p, conversed{past: past}))
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", p, status, body)
		}
		h := listen(t, p, body)
		var arguments struct{ Command, Input string }
		if err := json.Unmarshal([]byte(h.calls[0].arguments), &arguments); err != nil {
			t.Fatalf("%s: %v in %s", p, err, h.calls[0].arguments)
		}
		// rest comes after commit: what it brings in is not looked at again.
		if want := "git show beef; echo '" + hostile + "' $HOME ${HOME}"; arguments.Command != want || h.text != "is beef ${unknown} $commit" {
			t.Errorf("%s: %q, %q", p, arguments.Command, h.text)
		}
		input := h.calls[1].arguments
		if p == Messages {
			if err := json.Unmarshal([]byte(input), &arguments); err != nil {
				t.Fatal(err)
			}
			input = arguments.Input
		}
		if input != hostile {
			t.Errorf("%s: input %q", p, input)
		}
		if got := ask(t, address, p, conversed{past: []exchange{{said: "commit beef", outputs: []string{"nothing"}}}}); !strings.HasPrefix(got, "400") || !strings.Contains(got, "turns[1]") || !strings.Contains(got, "commit") {
			t.Errorf("%s: without a capture %q", p, got)
		}
	}
	// A tool that says much does not fill the memory.
	_, address := serve(t, "turns: [{text: x}, {capture: {a: '(?s)(.*)'}, text: '"+strings.Repeat("${a}", 2000)+"'}]", Options{})
	if got := ask(t, address, Chat, conversed{past: []exchange{{outputs: []string{strings.Repeat("x", 100_000)}}}}); !strings.Contains(got, "too long") {
		t.Errorf("%q", cutShort(got))
	}
}

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

// TestConnect: nobody is connected to anywhere, and the attempt is seen.
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
