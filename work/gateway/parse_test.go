package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// collect splits a stream that comes in pieces of a size.
func collect(t *testing.T, text string, size int) []string {
	t.Helper()
	s := splitter{limit: 1 << 20}
	var out []string
	for rest := text; rest != ""; {
		n := min(size, len(rest))
		if err := s.feed([]byte(rest[:n]), func(e event) bool {
			if e.some || e.name != "" {
				out = append(out, e.name+"|"+string(e.data))
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	return out
}

func TestSplitter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"one":                 {"data: a\n\n", []string{"|a"}},
		"no space":            {"data:a\n\n", []string{"|a"}},
		"two spaces":          {"data:  a\n\n", []string{"| a"}},
		"named":               {"event: x\ndata: a\n\n", []string{"x|a"}},
		"two lines":           {"data: a\ndata: b\n\n", []string{"|a\nb"}},
		"carriage returns":    {"data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		"both":                {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		"mixed":               {"data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []string{"|a", "|b", "|c"}},
		"comment":             {": x\n\ndata: a\n\n", []string{"|a"}},
		"unknown fields":      {"id: 7\nretry: 1\nfoo: bar\ndata: a\n\n", []string{"|a"}},
		"field without colon": {"data\n\n", []string{"|"}},
		"half at the end":     {"data: a\n\ndata: b\n", []string{"|a"}},
		"nothing":             {"\n\n\n", nil},
		"byte order mark":     {"\xEF\xBB\xBFdata: a\n\n", []string{"|a"}},
		"colon in it":         {"data: a: b\n\n", []string{"|a: b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for size := 1; size <= len(test.text); size++ {
				if got := collect(t, test.text, size); fmt.Sprint(got) != fmt.Sprint(test.want) {
					t.Errorf("pieces of %d: %q, want %q", size, got, test.want)
				}
			}
		})
	}
}

// A stream holds no more memory than what is incomplete.
func TestSplitterGivesMemoryBack(t *testing.T) {
	t.Parallel()
	s := splitter{limit: 1 << 20}
	drop := func(event) bool { return true }
	for range 100 {
		if err := s.feed(bytes.Repeat([]byte("x"), 8<<10), drop); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.feed([]byte("\n\nda"), drop); err != nil {
		t.Fatal(err)
	}
	if len(s.kept) != 2 || cap(s.kept) > 100 {
		t.Errorf("holds %d bytes in %d", len(s.kept), cap(s.kept))
	}
	if err := s.feed([]byte("ta: x\n\n"), drop); err != nil || s.kept != nil {
		t.Errorf("holds %q, %v", s.kept, err)
	}
	if err := s.feed(make([]byte, 1<<20+1), drop); err == nil {
		t.Error("an event without end")
	}
}

// The pieces in which a stream comes change neither its events nor what the
// meter makes of them, and no stream brings the meter down.
func FuzzStream(f *testing.F) {
	for i, p := range protocols {
		whole := strings.Join(streams(p, model), "")
		f.Add([]byte(whole), 5, i)
		f.Add([]byte(strings.ReplaceAll(whole, "\n", "\r\n")), 1, i)
		f.Add([]byte(strings.ReplaceAll(whole, "\n", "\r")), 2, i)
	}
	f.Add([]byte("data: {\"usage\":{\"prompt_tokens\":-1e300}}\n\ndata: [DONE]\n\n"), 3, 0)
	f.Fuzz(func(t *testing.T, text []byte, size, which int) {
		size = max(1, size%100)
		p := protocols[(which%3+3)%3]
		whole, wholeMeter := metered(p, text, max(1, len(text)))
		pieces, piecesMeter := metered(p, text, size)
		if whole != pieces || wholeMeter != piecesMeter {
			t.Fatalf("in pieces of %d:\n%q %+v\nwhole:\n%q %+v", size, pieces, piecesMeter, whole, wholeMeter)
		}
		u := wholeMeter.usage
		if min(u.InUncached, u.CacheRead, u.CacheWrite, u.Out, u.Reasoning) < 0 || u.Reasoning > u.Out || u.CacheWriteHour > u.CacheWrite || u.Tokens() > 4*maxTokens {
			t.Fatalf("usage: %+v", u)
		}
	})
}

// metered runs a stream through splitter and meter up to its end.
func metered(p Protocol, text []byte, size int) (string, meter) {
	s, m := splitter{limit: 1 << 20}, meter{protocol: p}
	var out strings.Builder
	for rest := text; len(rest) > 0; {
		n := min(size, len(rest))
		ended := false
		if err := s.feed(bytes.Clone(rest[:n]), func(e event) bool {
			step, err := m.event(e)
			fmt.Fprintf(&out, "%q %q %d %v\n", e.name, e.data, step, err)
			ended = err != nil || step == last || step == fatal
			return !ended
		}); err != nil || ended {
			break
		}
		rest = rest[n:]
	}
	m.words = nil // what comes in pieces is another pointer
	return out.String(), m
}

// What leaves names the admitted model and no other, for readers that take
// "Model" for "model" and the last of two names, and for those that do not.
func FuzzBody(f *testing.F) {
	for _, p := range protocols {
		f.Add([]byte(ask(p, true, `,"stream_options":{"a":1},"metadata":{},"tools":[]`)))
	}
	f.Add([]byte(`{"model":"gpt-5.5","Model":"x"}`))
	f.Add([]byte(`{"model":"gpt-5.5","stop":"\\\"","thinking":[{"c":"]}"}]}`))
	f.Add([]byte(` { "model" : "gpt-5.5" , "stop" : [ 1 , -2.5e3 , true , null , { } ] } `))
	g := &Gateway{model: model}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, p := range protocols {
			q, bad := inspect(p, body, false)
			if bad != nil {
				continue
			}
			if q.model != model {
				continue
			}
			sent := g.compose(p, q)
			var loose struct{ Model string }
			if err := json.Unmarshal(sent, &loose); err != nil || loose.Model != model {
				t.Fatalf("%s: %v %q", sent, err, loose.Model)
			}
			var before, after map[string]json.RawMessage
			if json.Unmarshal(body, &before) != nil || json.Unmarshal(sent, &after) != nil {
				t.Fatalf("not an object: %s", sent)
			}
			for name, v := range after {
				if name == "stream_options" || name == "prompt_cache_key" || name == "store" && p == Responses && string(v) == "false" {
					continue
				}
				if !bytes.Equal(bytes.TrimSpace(before[name]), bytes.TrimSpace(v)) && name != "model" {
					t.Fatalf("%q: %s became %s", name, before[name], v)
				}
			}
			for name := range before {
				if _, kept := after[name]; !kept && fields[p][name] {
					t.Fatalf("%q is lost: %s", name, sent)
				}
			}
		}
	})
}

// The readers of numbers, wherever a provider may put nonsense.
func TestStrangeUsage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		usage string
		want  Usage
		known bool
	}{
		"negative":       {`{"prompt_tokens":-5,"completion_tokens":-1}`, Usage{}, false},
		"too large":      {`{"prompt_tokens":1e30,"completion_tokens":3}`, Usage{Out: 3}, false},
		"text":           {`{"prompt_tokens":"7","completion_tokens":3}`, Usage{Out: 3}, false},
		"half a token":   {`{"prompt_tokens":1.5,"completion_tokens":3}`, Usage{Out: 3}, false},
		"a whole float":  {`{"prompt_tokens":2.0,"completion_tokens":3e0}`, Usage{InUncached: 2, Out: 3}, true},
		"null count":     {`{"prompt_tokens":2,"completion_tokens":null}`, Usage{InUncached: 2}, true},
		"strange detail": {`{"prompt_tokens":2,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":-1}}`, Usage{InUncached: 2, Out: 1}, false},
		"more cached":    {`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":99,"cache_write_tokens":5}}`, Usage{CacheRead: 10}, true},
		"written":        {`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":5}}`, Usage{InUncached: 1, CacheRead: 4, CacheWrite: 5}, true},
		"more reasoning": {`{"prompt_tokens":1,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":9}}`, Usage{InUncached: 1, Out: 2, Reasoning: 2}, true},
		"null details":   {`{"prompt_tokens":1,"prompt_tokens_details":null,"completion_tokens_details":null}`, Usage{InUncached: 1}, true},
		"empty":          {`{}`, Usage{}, false},
		"null":           {`null`, Usage{}, false},
		"list":           {`[]`, Usage{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := meter{protocol: Chat}
			if err := m.whole([]byte(`{"choices":[{"message":{}}],"usage":` + test.usage + `}`)); err != nil || m.usage != test.want || m.known() != test.known {
				t.Errorf("got %+v, %t, %v", m.usage, m.known(), err)
			}
		})
	}
	m := meter{protocol: Messages}
	for _, e := range []string{
		`{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_1h_input_tokens":20},"output_tokens":1}}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"input_tokens":8,"cache_creation_input_tokens":0}}`,
	} {
		if _, err := m.event(event{data: []byte(e), some: true}); err != nil {
			t.Fatal(err)
		}
	}
	if want := (Usage{InUncached: 8, CacheWrite: 30, CacheWriteHour: 20, Out: 9}); m.usage != want || !m.metered {
		t.Errorf("got %+v", m.usage)
	}
}
