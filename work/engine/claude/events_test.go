package claude

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
)

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRecorded: what the real agent printed when it could do its work, and when
// something was wrong.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		complete bool
		code     reason.Code
		problem  string // part of it
	}{
		{"fix", true, "", ""},
		{"auth", false, reason.AuthUnavailable, "invalid key"},
		{"no-model", false, reason.ProviderUnavailable, "selected model"},
		{"budget", false, reason.BudgetExhausted, "has spent its budget"},
		{"rate-limit", false, reason.ProviderUnavailable, "slow down"},
		{"failure", false, reason.ProviderUnavailable, "internal failure"},
		{"empty", false, reason.ResponseShape, "without receiving any events"},
		{"html", false, reason.ResponseShape, "without receiving any events"},
		{"cut", false, reason.ProviderUnavailable, "Connection"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, end := modeltest.Replay(newProtocol, recorded(t, test.name))
			if end.Complete != test.complete || end.Code != test.code || !strings.Contains(end.Problem, test.problem) || end.Complete == (end.Problem != "") {
				t.Errorf("%+v", end)
			}
		})
	}
}

// TestEvents: each thing that the agent did is one event.
func TestEvents(t *testing.T) {
	t.Parallel()
	events, end := modeltest.Replay(newProtocol, recorded(t, "fix"))
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
	want := []string{"message I look at the function.", "tool_call call_1 Bash", "tool_result call_1", "tool_call call_2 Read", "tool_result call_2",
		"tool_call call_3 Edit", "tool_result call_3", "message Fixed.", "usage "}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestLenient: neither the order of keys nor what is unknown makes a difference.
func TestLenient(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fix", "auth", "failure"} {
		other, err := modeltest.Reordered(recorded(t, name))
		if err != nil {
			t.Fatal(err)
		}
		events, end := modeltest.Replay(newProtocol, recorded(t, name))
		events2, end2 := modeltest.Replay(newProtocol, other)
		if !reflect.DeepEqual(drop(events), drop(events2)) || end != end2 {
			t.Errorf("%s:\n%+v %+v\n%+v %+v", name, events, end, events2, end2)
		}
	}
}

// drop leaves out what an unknown key of a tool call is part of.
func drop(events []engine.Event) []engine.Event {
	out := append([]engine.Event{}, events...)
	for i := range out {
		out[i].Params = nil
	}
	return out
}

// TestBrokenOff: a stream that ends anywhere before the event that decides is
// never complete.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	stream := recorded(t, "fix")
	decisive := bytes.Index(stream, []byte(`"type":"result"`))
	if decisive < 0 {
		t.Fatal("the deciding line is not there")
	}
	line := decisive + bytes.IndexByte(stream[decisive:], '\n')
	step := 1 + len(stream)/250
	for n := 0; n < line; n += step {
		if _, end := modeltest.Replay(newProtocol, stream[:n]); end.Complete || end.Problem == "" {
			t.Fatalf("complete after %d of %d bytes: %+v", n, line, end)
		}
	}
	if _, end := modeltest.Replay(newProtocol, stream[:line]); !end.Complete {
		t.Errorf("not complete at its end: %+v", end)
	}
}

// TestLongLines: an event of any length is read whole, and one that was cut
// is a failure only where it could be the deciding one.
func TestLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 2<<20)
	stream := strings.ReplaceAll(string(recorded(t, "fix")), "Fixed.", long)
	if _, end := modeltest.Replay(newProtocol, []byte(stream)); !end.Complete || end.Summary != long {
		t.Errorf("%v %q %d", end.Complete, end.Problem, len(end.Summary))
	}
	for line, harmless := range map[string]bool{
		`{"type":"user","message":{"content":[{"type":"tool_result","conten`: true,
		`{"uuid":"1","type":"assistant","message":`:                          true,
		`{"subtype":"success","is_error":true,"type":"result","usa`:          false,
		`{"subtype":"success","result":"all is go`:                           false,
	} {
		fix := recorded(t, "fix")
		if _, end := modeltest.Replay(newProtocol, append([]byte(line+"\n"), fix...)); end.Complete != harmless {
			t.Errorf("%s: %+v", line, end)
		}
	}
}

func FuzzLine(f *testing.F) {
	names, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(names) == 0 {
		f.Fatal("no recorded streams", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		modeltest.CheckEvents(newProtocol, stream)
	})
}
