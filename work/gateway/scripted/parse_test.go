package scripted

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remit/proof/reason"
)

// TestBadScripts: each mistake is named with its line, field and what is wrong.
func TestBadScripts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, want string }{
		{"empty", "", "s.yaml:1: expected a mapping, found nothing"},
		{"no mapping", "- text: hi\n", "s.yaml:1:1: expected a mapping, found a list"},
		{"no answers", "name: x\n", "s.yaml:1:1: a script needs turns, otherwise or conversations"},
		{"unknown key", "turns: [{text: hi}]\ntruns: []\n", `s.yaml:2:1: truns: unknown key "truns"`},
		{"unknown key of an answer", "turns:\n  - text: hi\n    speed: 3\n", `s.yaml:3:5: turns[0].speed: unknown key "speed"`},
		{"twice", "turns: [{text: a}]\nname: a\nname: b\n", `s.yaml:3:1: name: key "name" stands on line 2 already`},
		{"two kinds", "turns: [{text: a}]\nconversations: [{otherwise: {text: b}}]\n", "s.yaml:2:16: conversations: conversations do not go together"},
		{"wrong type", "turns: [{text: 17}]", `s.yaml:1:16: turns[0].text: expected a text, found a number`},
		{"wrong type of turns", "turns: {text: a}", "turns: expected a list, found a mapping"},
		{"no turns", "turns: []", "turns: 0 items, where 1 to 1000 are possible"},
		{"conversation of nothing", "conversations: [{when: {user: x}}]", "conversations[0]: a conversation needs turns or otherwise"},
		{"answer of nothing", "turns:\n  - text: a\n  - times: 2\n", "s.yaml:3:5: turns[1]: the answer says nothing"},
		{"empty any", "turns: [{any: []}]", "turns[0].any: 0 items"},
		{"any beside others", "turns: [{any: [{text: a}], text: b}]", `turns[0].any: unknown key "any"`},
		{"status and text", "turns:\n  - status: 500\n    text: hi\n", "s.yaml:3:11: turns[0].text: status and text do not go together"},
		{"status too small", "turns: [{status: 101}]", "turns[0].status: 101 is not a whole number from 200 to 599"},
		{"status no number", `turns: [{status: "500"}]`, "turns[0].status: expected a whole number, found a text"},
		{"retry without a status", "turns: [{text: a, retry_after: 1}]", "turns[0].retry_after: retry_after needs a status"},
		{"body and error", "turns: [{status: 500, body: a, error: {code: b}}]", "turns[0].error: body and error do not go together"},
		{"error of odd keys", "turns: [{status: 500, error: {kind: b}}]", "turns[0].error.kind: unknown key"},
		{"break in what is not there", "turns: [{reasoning: a, break: {at: text, how: abort}}]", "turns[0].break.at: the answer has no text to break off in"},
		{"break of a refusal", "turns: [{status: 500, break: {at: text, how: abort}}]", "turns[0].break.at: an answer with a status has no text"},
		{"break without how", "turns: [{text: a, break: {at: text}}]", "turns[0].break: a break needs at and how"},
		{"break of nothing", "turns: [{text: a, break: {}}]", "turns[0].break: a break needs at and how"},
		{"break somewhere", "turns: [{text: a, break: {at: middle, how: abort}}]", `turns[0].break.at: "middle" is not known here`},
		{"break after a point", "turns: [{text: a, break: {at: end, after: 3, how: abort}}]", "turns[0].break.after: end is a point"},
		{"break after no bytes", "turns: [{text: a, break: {at: bytes, how: abort}}]", "turns[0].break.after: bytes needs after"},
		{"close before the start", "turns: [{break: {at: start, how: close}}]", "turns[0].break.how: an answer that has not begun cannot end with close"},
		{"error between bytes", "turns: [{text: a, break: {at: bytes, after: 1, how: error}}]", "turns[0].break.how: an event cannot begin"},
		{"shape", "turns: [{text: a, shape: round}]", `turns[0].shape: "round" is not known here`},
		{"shape that says nothing", "turns: [{text: a, shape: html}]", "turns[0].shape: an answer of shape html says nothing"},
		{"call without a name", "turns: [{calls: [{arguments: {}}]}]", "turns[0].calls[0].name: a call needs the name of a tool"},
		{"call in two ways", "turns: [{calls: [{name: a, arguments: {}, input: x}]}]", "turns[0].calls[0]: turns[0].calls[0].arguments and turns[0].calls[0].input do not go together"},
		{"arguments", "turns: [{calls: [{name: a, arguments: ls}]}]", "turns[0].calls[0].arguments: expected a mapping, found a text"},
		{"sizes", "turns: [{text: a, chunks: [3, 0]}]", "turns[0].chunks[1]: 0 is not a whole number from 1 to"},
		{"no sizes", "chunks: []\nturns: [{text: a}]", "s.yaml:1:9: chunks: 0 items"},
		{"usage", "turns: [{text: a, usage: {in: -1}}]", "turns[0].usage.in: -1 is not a whole number"},
		{"too much reasoning", "turns: [{text: a, usage: {out: 1, reasoning: 2}}]", "turns[0].usage.reasoning: reasoning is a part of out: 2 of 1"},
		{"usage of a word", "turns: [{text: a, usage: some}]", "turns[0].usage: expected a mapping, found a text"},
		{"none at the top", "usage: none\nturns: [{text: a}]", "usage: expected a mapping, found a text"},
		{"huge", "turns: [{text: '" + strings.Repeat("x", 100) + "', repeat: 1000000}]", "turns[0].repeat: the text has 100000000 bytes"},
		{"times", "turns: [{text: a, times: 0}]", "turns[0].times: 0 is not a whole number from 1 to"},
		{"delay", "turns: [{text: a, delay: soon}]", `turns[0].delay: "soon" is not a time`},
		{"long delay", "turns: [{text: a, delay: 11m}]", `turns[0].delay: "11m" is not a time`},
		{"pattern", "conversations: [{when: {user: '('}, otherwise: {text: a}}]", "conversations[0].when.user: not a regular expression"},
		{"protocol", "conversations: [{when: {protocol: smtp}, otherwise: {text: a}}]", `conversations[0].when.protocol: "smtp" is not known here`},
		{"protocols", "conversations: [{when: {protocol: [chat, smtp]}, otherwise: {text: a}}]", `conversations[0].when.protocol[1]: "smtp" is not known here`},
		{"boolean", "conversations: [{when: {stream: maybe}, otherwise: {text: a}}]", "conversations[0].when.stream: expected true or false, found a text"},
		{"condition of a script alone", "when: {stream: true}\nturns: [{text: a}]", `s.yaml:1:1: when: unknown key "when"`},
		{"capture without a group", "turns: [{text: a, capture: {x: abc}}]", "turns[0].capture.x: the expression has 0 groups instead of 1"},
		{"name of a capture", "turns: [{text: a, capture: {X-1: (abc)}}]", `turns[0].capture.X-1: "X-1" is no name`},
		{"header", "turns: [{text: a, headers: {'a b': c}}]", `turns[0].headers.a b: "a b" is no name of a header`},
		{"header that splits", "turns: [{text: a, headers: {a: \"b\\r\\nc: d\"}}]", "turns[0].headers.a: expected printable ASCII"},
		{"framing", "turns: [{text: a, headers: {Content-Length: 3}}]", "turns[0].headers.Content-Length: Content-Length is about how the bytes travel"},
		{"not YAML", "turns: [{text: a}\nname", "s.yaml:2:1: not valid YAML"},
		{"anchor", "turns: [&a {text: a}, *a]", "s.yaml:1:9: Anchor is refused"},
		{"tag", "turns: [{text: !!binary aGk=}]", "Tag is refused"},
		{"two documents", "turns: [{text: a}]\n---\nturns: [{text: b}]\n", "more than one YAML document"},
		{"control character", "turns:\n  - text: \"a\x01\"\n", "s.yaml:2: invalid UTF-8 or control character"},
		{"no UTF-8", "turns: [{text: \"\xff\"}]", "s.yaml:1: invalid UTF-8"},
		{"colon in a text", "turns: [{text: a: b}]", "unquoted text contains a colon and a space"},
		{"octal", "turns: [{calls: [{name: a, arguments: {n: 0o17}}]}]", `"0o17" is not a number that JSON has`},
		{"infinite", "turns: [{calls: [{name: a, arguments: {n: .inf}}]}]", "infinity is not read here"},
		{"key that is no text", "turns: [{calls: [{name: a, arguments: {1: b}}]}]", "a key that is no text"},
		{"deep", "turns: " + strings.Repeat("[", 60) + strings.Repeat("]", 60), "nested more than 48 deep"},
		{"deep in dashes", "turns:\n" + strings.Repeat("- ", 60) + "a", "nested more than 48 deep"},
		{"many tokens", "turns: [" + strings.Repeat("a,", 30_000) + "]", "more than 50000 YAML tokens"},
		{"large", strings.Repeat("#", MaxScriptBytes+1), "1048577 bytes, at most 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := Parse("s.yaml", []byte(c.script))
			if err == nil {
				t.Fatalf("accepted: %+v", s)
			}
			if !strings.Contains(err.Error(), c.want) || reason.CodeOf(err) != reason.ScriptInvalid {
				t.Errorf("%v\nwant %s", err, c.want)
			}
			if n := strings.Count(err.Error(), "\n"); n > 0 {
				t.Errorf("one mistake is %d problems:\n%v", n+1, err)
			}
		})
	}
}

// TestAllProblems: everything that is wrong is said at once, in the order of
// the file.
func TestAllProblems(t *testing.T) {
	t.Parallel()
	_, err := Parse("s.yaml", []byte("nmae: x\nturns:\n  - text: 1\n  - status: 99\n  - calls: [{name: \"\"}]\n"))
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 4 {
		t.Fatalf("%v", err)
	}
	for i, line := range []int{1, 3, 4, 5} {
		if problems[i].Line != line || problems[i].File != "s.yaml" {
			t.Errorf("%+v", problems[i])
		}
	}
	if len(problems.Unwrap()) != 4 {
		t.Error(problems.Unwrap())
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"good.yaml": "name: n\nturns: [{text: a}]\n", "bad.yaml": "turns: 1\n", "large.yaml": strings.Repeat("#", MaxScriptBytes+2)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := Load(filepath.Join(dir, "good.yaml")); err != nil || s.Name != "n" {
		t.Errorf("%+v %v", s, err)
	}
	for name, want := range map[string]string{"bad.yaml": "bad.yaml:1:8: turns: expected a list", "none.yaml": "none.yaml: cannot read", ".": "not a regular file", "large.yaml": "more than 1048576 bytes"} {
		if _, err := Load(filepath.Join(dir, name)); reason.CodeOf(err) != reason.ScriptInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fenced is a script in a document.
var fenced = regexp.MustCompile("(?s)```yaml\n(# script\n.*?)```")

// TestDocumentedScripts: what docs/engines.md shows is read, and every key that
// exists is explained there.
func TestDocumentedScripts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	all := fenced.FindAllSubmatch(text, -1)
	if len(all) < 3 {
		t.Fatalf("only %d scripts found", len(all))
	}
	for _, m := range all {
		if _, err := Parse("docs/engines.md", m[1]); err != nil {
			t.Errorf("%v\n%s", err, m[1])
		}
	}
	src, err := os.ReadFile("decode.go")
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`\{"([a-z_]+)", (?:r\.|oneOf|way|func|later)`).FindAllSubmatch(src, -1)
	if len(keys) < 30 {
		t.Fatalf("only %d keys found", len(keys))
	}
	for _, k := range keys {
		if !strings.Contains(string(text), "`"+string(k[1])+"`") {
			t.Errorf("docs/engines.md does not explain %s", k[1])
		}
	}
	for _, word := range []shape{asStream, asJSON, withCRLF, withComments, withoutSpaces, untyped, halfJSON, bareLines, unframed, emptyBody, doneOnly, htmlPage} {
		if !strings.Contains(string(text), "`"+string(word)+"`") {
			t.Errorf("docs/engines.md does not explain the shape %s", word)
		}
	}
}
