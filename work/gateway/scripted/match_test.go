package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
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
