package modeltest

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/engine"
)

// Streams are the recorded streams of an agent, in testdata of its package, and
// what reads them. Its methods are what every engine's tests ask of them.
type Streams struct {
	Protocol func(func(engine.Event)) engine.Protocol
}

// Recorded is one stream.
func (Streams) Recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Ending is how a stream ends for its engine.
type Ending struct {
	Complete bool
	Code     reason.Code
	Problem  string // part of it
}

// Complete is the end of an agent that did its work.
func Complete() Ending { return Ending{Complete: true} }

// Incomplete is any other.
func Incomplete(code reason.Code, problem string) Ending { return Ending{Code: code, Problem: problem} }

// Ends holds how streams end against what is expected, by their names.
func (s Streams) Ends(t *testing.T, want map[string]Ending) {
	t.Helper()
	for name, want := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, end := Replay(s.Protocol, s.Recorded(t, name))
			if end.Complete != want.Complete || end.Code != want.Code ||
				!strings.Contains(end.Problem, want.Problem) || end.Complete == (end.Problem != "") {
				t.Errorf("%+v", end)
			}
		})
	}
}

// Events holds the events of the stream "fix" against one word each.
func (s Streams) Events(t *testing.T, want []string) {
	t.Helper()
	events, end := Replay(s.Protocol, s.Recorded(t, "fix"))
	if !end.Complete || end.Summary != "Fixed." {
		t.Errorf("%+v", end)
	}
	var got []string
	for _, e := range events {
		line := string(e.Kind) + " " + e.ID
		switch e.Kind {
		case engine.ToolCall:
			line += " " + e.Tool
		case engine.Message:
			line += e.Text
		}
		got = append(got, line)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Lenient checks that neither the order of keys nor what is unknown makes a
// difference. params says whether that holds for the parameters of calls too:
// an unknown key can be a part of them.
func (s Streams) Lenient(t *testing.T, params bool, names ...string) {
	t.Helper()
	for _, name := range names {
		stream := s.Recorded(t, name)
		other, err := Reordered(stream)
		if err != nil {
			t.Fatal(err)
		}
		events, end := Replay(s.Protocol, stream)
		events2, end2 := Replay(s.Protocol, other)
		if !params {
			events, events2 = withoutParams(events), withoutParams(events2)
		}
		if !reflect.DeepEqual(events, events2) || end != end2 {
			t.Errorf("%s:\n%+v %+v\n%+v %+v", name, events, end, events2, end2)
		}
	}
}

func withoutParams(events []engine.Event) []engine.Event {
	out := slices.Clone(events)
	for i := range out {
		out[i].Params = nil
	}
	return out
}

// BrokenOff checks that the stream "fix" is not complete wherever it ends before
// the line with these bytes, which decides.
func (s Streams) BrokenOff(t *testing.T, decides string) {
	t.Helper()
	stream := s.Recorded(t, "fix")
	decisive := bytes.Index(stream, []byte(decides))
	if decisive < 0 {
		t.Fatal("the deciding line is not there")
	}
	line := decisive + bytes.IndexByte(stream[decisive:], '\n')
	step := 1 + len(stream)/250
	for n := 0; n < line; n += step {
		if _, end := Replay(s.Protocol, stream[:n]); end.Complete || end.Problem == "" {
			t.Fatalf("complete after %d of %d bytes: %+v", n, line, end)
		}
	}
	if _, end := Replay(s.Protocol, stream[:line]); !end.Complete {
		t.Errorf("not complete at its end: %+v", end)
	}
}

// LongLines checks that an event of any length is read whole, and that one that
// was cut is a failure only where it could be the deciding one. cut says of
// beginnings of lines whether they are harmless.
func (s Streams) LongLines(t *testing.T, cut map[string]bool) {
	t.Helper()
	fix, long := s.Recorded(t, "fix"), strings.Repeat("a", 2<<20)
	if _, end := Replay(s.Protocol, bytes.ReplaceAll(fix, []byte("Fixed."), []byte(long))); !end.Complete || end.Summary != long {
		t.Errorf("%v %q %d", end.Complete, end.Problem, len(end.Summary))
	}
	for line, harmless := range cut {
		if _, end := Replay(s.Protocol, append([]byte(line+"\n"), fix...)); end.Complete != harmless {
			t.Errorf("%s: %+v", line, end)
		}
	}
}

// Fuzz reads whatever comes, beginning with the recorded streams.
func (s Streams) Fuzz(f *testing.F) {
	f.Helper()
	names, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(names) == 0 {
		f.Fatal("no recorded streams", err)
	}
	for _, name := range names {
		f.Add(s.Recorded(f, strings.TrimSuffix(filepath.Base(name), ".jsonl")))
	}
	f.Fuzz(func(_ *testing.T, stream []byte) { CheckEvents(s.Protocol, stream) })
}
