package scripted

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files of testdata/wire anew")

// onTheWire are the answers that testdata/wire has to the byte, framing of
// HTTP included, so that a change of any byte is seen and meant.
var onTheWire = []struct {
	name, answer string
	plain        bool
}{
	{"text", `{text: "Hello, you", chunks: [4]}`, false},
	{"text plain", `{text: "Hello, you"}`, true},
	{"reasoning", `{reasoning: "hm", usage: {in: 3, cache_read: 2, cache_write: 1, out: 4, reasoning: 4}}`, false},
	{"calls", `{text: Look, calls: [{name: read, arguments: {path: a.py}}, {name: apply_patch, input: "*** Begin Patch\n"}], chunks: [9]}`, false},
	{"calls plain", `{calls: [{name: read, arguments: {path: a.py}}, {name: apply_patch, input: "*** Begin Patch\n"}]}`, true},
	{"limit", `{text: Hel, stop: length}`, false},
	{"refused by rate", `{status: 429, retry_after: 7}`, false},
	{"refused", `{status: 400, error: {type: bad, message: "no \"such\" tool", code: no_tool}}`, false},
	{"close in text", `{text: "Hello, you", chunks: [4], break: {at: text, how: close}}`, false},
	{"abort in arguments", `{calls: [{name: read, arguments: {path: a.py}}], break: {at: arguments, after: 9, how: abort}}`, false},
	{"error in text", `{text: "Hello, you", break: {at: text, after: 2, how: error}}`, false},
	{"hang in text", `{text: "Hello, you", break: {at: text, after: 2, how: hang}}`, false},
	{"no end marker", `{text: Hi, break: {at: end, how: close}}`, false},
	{"abort in plain", `{text: Hello, break: {at: text, how: abort}}`, true},
	{"crlf", `{text: Hi, shape: crlf}`, false},
	{"comments", `{text: Hi, shape: comments}`, false},
	{"tight", `{text: Hi, shape: tight}`, false},
	{"half json", `{text: Hi, shape: half_json}`, false},
	{"bare", `{text: Hi, shape: bare}`, false},
	{"unframed", `{text: Hi, shape: unframed}`, false},
	{"empty", `{shape: empty}`, false},
	{"done", `{shape: done}`, false},
	{"html", `{shape: html}`, false},
	{"odd writes", `{text: Hi, writes: [50, 1, 300]}`, false},
}

var date = regexp.MustCompile(`(?m)^Date: .*\r\n`)

// TestWire holds the bytes of every kind of answer against testdata/wire.
func TestWire(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			for _, c := range onTheWire {
				s, address := serve(t, "turns: ["+c.answer+"]", Options{})
				all, end := raw(t, s, address, p, request(p, conversed{plain: c.plain}))
				fmt.Fprintf(&got, "== %s: %s\n", c.name, end)
				for line := range strings.Lines(date.ReplaceAllString(all, "")) {
					quoted := strconv.Quote(line)
					fmt.Fprintf(&got, "%s\n", strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`))
				}
			}
			name := filepath.Join("testdata", "wire", string(p)+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, strings.Split(got.String(), "\n"), strings.Split(string(want), "\n"))
		})
	}
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	section := ""
	for i, line := range want {
		if strings.HasPrefix(line, "== ") {
			section = line
		}
		if i >= len(got) || got[i] != line {
			t.Fatalf("%s, line %d\ngot  %s\nwant %s", section, i+1, append(got, make([]string, len(want))...)[i], line)
		}
	}
	if len(got) > len(want) {
		t.Fatalf("%d lines more than expected: %q", len(got)-len(want), got[len(want)])
	}
}

// TestCutAtEveryByte: a stream that breaks off after n bytes is the first n
// bytes of the one that does not.
func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			s, address := serve(t, `turns: [{text: "Hi – you", chunks: [2]}]`, Options{})
			_, right := bodyOf(t, first(raw(t, s, address, p, request(p, conversed{}))))
			for n := 0; n < len(right); n += 101 {
				how, want := "abort", aborted
				if n%2 == 0 {
					how, want = "close", clean
				}
				s, address := serve(t, fmt.Sprintf(`turns: [{text: "Hi – you", chunks: [2], break: {at: bytes, after: %d, how: %s}}]`, n, how), Options{})
				all, end := raw(t, s, address, p, request(p, conversed{}))
				if _, body := bodyOf(t, all); body != right[:n] || end != want {
					t.Errorf("after %d bytes it ended %s with %q", n, end, body)
				}
			}
		})
	}
}

func first[A, B any](a A, _ B) A { return a }

// TestSameAgain: the same requests get the same bytes from another server.
func TestSameAgain(t *testing.T) {
	t.Parallel()
	run := func() (all string) {
		s, address := serve(t, whole+"  - {text: two, calls: [{name: bash}], writes: [5]}\notherwise: {text: done}\n", Options{})
		for _, p := range protocols {
			for turn := range 3 {
				got, _ := raw(t, s, address, p, request(p, conversed{past: make([]exchange, turn)}))
				all += date.ReplaceAllString(got, "")
			}
		}
		return all
	}
	if one, two := run(), run(); one != two {
		t.Errorf("not the same:\n%s\n%s", one, two)
	}
}
