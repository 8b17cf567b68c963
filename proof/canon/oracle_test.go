package canon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"remit/proof/canon"
	"remit/proof/reason"
)

// corpus is text around the edges of the subset, one value each, no raw LF.
func corpus() []string {
	texts := []string{
		`null`, ` [ ] `, `{}`, `""`, `0`, `-1`, `[true,false,null]`,
		`{"b":1,"a":{"d":[1,2,{}],"c":"x"}}`,
		`{"\\":1,"]":2,"\"":3,"[":4,"":5,"\u0000":6,"\u007f":7,"A":8,"a":9,"_":10}`,
		`{"final_confidence":0.07,"step_utility":-0.5}`,
		`{"final_confidence":9999999999999.99}`,
		`[9007199254740991,-9007199254740991]`,
		`"\u0000\u0001\u0007\b\t\n\u000b\f\r\u001f \u0022\u005c\/"`,
		"\"\x7f\u0080\u2028\u2029\ufeff\ufffd\uffff😀\U0010ffff\"",
		`"\ud83d\ude00\u00e9\u0065\u0301"`,
		`"<script>alert('&')</script>"`,
		// outside the subset
		`1.0`, `0.5`, `1e2`, `-0`, `{"a":1,"a":2}`, `{"é":1}`, `"\ud800"`, `[1,]`, `{"final_confidence":0.125}`,
		"\"\xff\"", `9007199254740992`, `nul`, `1 2`, ``,
	}
	for i := range 0x300 {
		texts = append(texts, fmt.Sprintf(`{"k":"\u%04x","z":"a%cb"}`, i, max(i, ' ')))
	}
	for h := canon.Hundredths(-101); h <= 101; h++ {
		texts = append(texts, fmt.Sprintf(`{"step_utility": %s}`, h))
	}
	return texts
}

// FuzzCanonicalAgainstJCS compares with another implementation of RFC 8785:
// whatever we accept, it accepts, and it writes the same bytes.
func FuzzCanonicalAgainstJCS(f *testing.F) {
	for _, text := range corpus() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		before := bytes.Clone(src)
		got, err := canon.Canonicalize(src)
		if !bytes.Equal(src, before) {
			t.Fatal("input was changed")
		}
		if checked := canon.Check(src); (checked == nil) != (err == nil && bytes.Equal(got, src)) {
			t.Fatalf("Check = %v, but Canonicalize = %s, %v", checked, got, err)
		}
		if err != nil {
			if reason.CodeOf(err) != reason.NotCanonical {
				t.Fatalf("error without code: %v", err)
			}
			return
		}
		want, err := jcs.Transform(src)
		if err != nil {
			t.Fatalf("jcs refuses %q: %v", src, err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%q becomes\n%s, with jcs\n%s", src, got, want)
		}
		again, err := canon.Canonicalize(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("not idempotent: %s becomes %s, %v", got, again, err)
		}
		marshalled, err := canon.Marshal(json.RawMessage(src))
		if err != nil || !bytes.Equal(marshalled, got) {
			t.Fatalf("Marshal differs from Canonicalize: %s, %v", marshalled, err)
		}
	})
}

// pythonCanonical writes one canonical line a line of input, an empty line for
// input that is not JSON.
const pythonCanonical = `
import json, sys
for line in sys.stdin.buffer:
    try:
        value = json.loads(line.decode("utf-8"))
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")
    except ValueError:
        text = b""
    sys.stdout.buffer.write(text + b"\n")
`

// A verifier in plain Python hashes the same bytes without a JCS library.
func TestCanonicalEqualsPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	texts := corpus()
	values := valueGenerator()
	for seed := range 500 {
		b, err := json.Marshal(values.Example(seed))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	cmd := exec.CommandContext(t.Context(), python, "-I", "-c", pythonCanonical)
	cmd.Stdin = strings.NewReader(strings.Join(texts, "\n") + "\n")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(texts) {
		t.Fatalf("python wrote %d lines for %d", len(lines), len(texts))
	}
	compared := 0
	for i, text := range texts {
		got, err := canon.Canonicalize([]byte(text))
		if err != nil {
			continue
		}
		compared++
		if string(got) != lines[i] {
			t.Errorf("%q becomes\n%s, with python\n%s", text, got, lines[i])
		}
	}
	if compared < len(texts)*9/10 {
		t.Errorf("only %d of %d texts are in the subset", compared, len(texts))
	}
}

// valueGenerator makes Go values whose JSON is in the subset.
func valueGenerator() *rapid.Generator[any] {
	text := rapid.String().AsAny()
	integer := rapid.Int64Range(-(1<<53 - 1), 1<<53-1).AsAny()
	scalar := rapid.OneOf(text, integer, rapid.Bool().AsAny(), rapid.Just[any](nil))
	key := rapid.StringOf(rapid.RuneFrom(nil, asciiTable))
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return scalar
		}
		inner := value(depth - 1)
		return rapid.OneOf(scalar,
			rapid.SliceOfN(inner, 0, 5).AsAny(),
			rapid.MapOfN(key, inner, 0, 8).AsAny(),
			rapid.Map(rapid.IntRange(-1000, 1000), func(n int) any {
				return map[string]any{"step_utility": canon.Hundredths(n)}
			}))
	}
	return value(4)
}

func TestMarshalOfAnyValueIsCanonical(t *testing.T) {
	t.Parallel()
	values := valueGenerator()
	rapid.Check(t, func(t *rapid.T) {
		v := values.Draw(t, "value")
		got, err := canon.Marshal(v)
		if err != nil {
			t.Fatalf("Marshal: %v", err)
		}
		if err := canon.Check(got); err != nil {
			t.Fatalf("Check: %v", err)
		}
		plain, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		want, err := jcs.Transform(plain)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %s\njcs %s, %v", got, want, err)
		}
	})
}

// The vector was made by an independent implementation of the trajectory hash.
func TestTrajectoryVector(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile(filepath.Join("..", "..", "vectors", "canon", "trajectory_hash.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vector struct {
		Events    json.RawMessage `json:"events"`
		Canonical string          `json:"trajectory_canonical"`
		Lines     []string        `json:"replay_lines"`
		Expected  struct {
			Trajectory string `json:"trajectory_hash"`
			Replay     string `json:"replay_hash"`
			Events     int    `json:"event_count"`
		} `json:"expected"`
	}
	if err := json.Unmarshal(src, &vector); err != nil {
		t.Fatal(err)
	}
	if got := canon.Digest([]byte(vector.Canonical)); got != vector.Expected.Trajectory {
		t.Errorf("digest of the canonical trajectory is %s, want %s", got, vector.Expected.Trajectory)
	}
	if got, err := canon.Canonicalize(vector.Events); err != nil || string(got) != vector.Canonical {
		t.Errorf("events become\n%s, %v, want\n%s", got, err, vector.Canonical)
	}
	if got, err := canon.DigestOf(vector.Events); err != nil || got != vector.Expected.Trajectory {
		t.Errorf("digest of the events is %s, %v", got, err)
	}
	var events []any
	if err := json.Unmarshal(vector.Events, &events); err != nil || len(events) != vector.Expected.Events {
		t.Errorf("%d events, %v; want %d", len(events), err, vector.Expected.Events)
	}
	if got, err := canon.DigestOf(events); err != nil || got != vector.Expected.Trajectory {
		t.Errorf("digest of the decoded events is %s, %v", got, err)
	}
	// The replay lines come from a writer that spells whole numbers 1.0. They
	// are hashed as bytes; as a value of ours that line is refused.
	if got := canon.Digest([]byte(strings.Join(vector.Lines, "\n") + "\n")); got != vector.Expected.Replay {
		t.Errorf("digest of the replay is %s, want %s", got, vector.Expected.Replay)
	}
	last := len(vector.Lines) - 1
	for i, line := range vector.Lines {
		if err := canon.Check([]byte(line)); (err == nil) != (i != last) {
			t.Errorf("line %d: Check = %v", i+1, err)
		}
	}
}
