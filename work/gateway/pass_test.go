package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/record"
)

// An admitted request comes through in every protocol, with the credential on
// one side only, and is metered to the token.
func TestAnswerComesThrough(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s stream %t", p, stream), func(t *testing.T) {
				t.Parallel()
				want := wholes(p, model)
				handler := plain(http.StatusOK, "application/json; charset=utf-8", want)
				if stream {
					want = strings.Join(streams(p, model), "")
					handler = sse(streams(p, model)...)
				}
				up := newProvider(t, handler)
				e := open(t, up.URL+"/v1", nil, nil)
				got := e.post(t, paths[p], ask(p, stream, `,"stream_options":{"include_usage":true}`))
				if got.err != nil || got.StatusCode != http.StatusOK || got.body != want {
					t.Fatalf("status %d, error %v, got:\n%s\nwant:\n%s", got.StatusCode, got.err, got.body, want)
				}
				kind := "application/json"
				if stream {
					kind = "text/event-stream"
				}
				if got.Header.Get("Content-Type") != kind {
					t.Errorf("content type %q", got.Header.Get("Content-Type"))
				}
				asked, sent := up.last(t)
				checkSent(t, p, asked, sent)
				rec := e.record(t)
				cost := int64(80*5 + 10 + 7*30) // gpt-5.5: $5, $0.50, $30
				if rec.Protocol != p || rec.Stream != stream || rec.Status != 200 || rec.Refused != "" || rec.Failed != "" || rec.Mismatch ||
					rec.Usage != wantUsage || !rec.UsageKnown || rec.CostMicroUSD != cost || !rec.CostKnown ||
					rec.ModelAsked != model || rec.ModelAnswered != model {
					t.Errorf("record: %+v", rec)
				}
				if rec.RequestSHA256 != canon.Digest([]byte(sent)) || rec.RequestBytes != int64(len(sent)) ||
					rec.ResponseSHA256 != canon.Digest([]byte(want)) || rec.ResponseBytes != int64(len(want)) {
					t.Errorf("digests: %+v", rec)
				}
				if total := e.Totals(); total.Usage != wantUsage || total.Requests != 1 || total.CostMicroUSD != cost || !total.CostKnown ||
					len(total.Models) != 1 || total.Models[0] != model || total.Refused != 0 || total.Exhausted != "" {
					t.Errorf("totals: %+v", total)
				}
				e.checkKept(t, rec)
			})
		}
	}
}

// checkSent looks at what left for the provider.
func checkSent(t *testing.T, p Protocol, asked *http.Request, sent string) {
	t.Helper()
	if asked.URL.Path != paths[p] || asked.Method != http.MethodPost {
		t.Errorf("asked for %s %s", asked.Method, asked.URL.Path)
	}
	bearer, key := asked.Header.Get("Authorization"), asked.Header.Get("X-Api-Key")
	if p == Messages && (bearer != "" || key != canary) || p != Messages && (bearer != "Bearer "+canary || key != "") {
		t.Errorf("credential: %q, %q", bearer, key)
	}
	if strings.Contains(fmt.Sprint(asked.Header), token) || strings.Contains(sent, token) {
		t.Error("the engine's token left the machine")
	}
	if !json.Valid([]byte(sent)) {
		t.Errorf("sent no JSON: %s", sent)
	}
}

// checkKept holds kept bodies against the record's digests.
func (e *engine) checkKept(t *testing.T, rec record.ModelRequest) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	want := map[string]string{fmt.Sprintf("%06d-request.json", rec.Seq): rec.RequestSHA256}
	answer := "response.json"
	if rec.Stream {
		answer = "response.sse"
	}
	want[fmt.Sprintf("%06d-%s", rec.Seq, answer)] = rec.ResponseSHA256
	for name, digest := range want {
		f := e.kept[name]
		if f == nil || !f.closed || canon.Digest(f.Bytes()) != digest {
			t.Errorf("%s is not kept, not closed or not what the record says: %v", name, f)
		}
	}
	if len(e.kept) != len(want) {
		t.Errorf("kept %d bodies, want %d", len(e.kept), len(want))
	}
}

// A stream is passed on as it comes: the engine has each event before the
// provider sends the next.
func TestStreamIsNotBuffered(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			parts := streams(p, model)
			goOn := make(chan struct{})
			up := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, part := range parts {
					io.WriteString(w, part)
					w.(http.Flusher).Flush()
					select {
					case <-goOn:
					case <-r.Context().Done():
						return
					}
				}
			})
			e := open(t, up.URL+"/v1", nil, nil)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+paths[p],
				strings.NewReader(ask(p, true, `,"stream_options":{"include_usage":true}`)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Api-Key", token)
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for i, part := range parts {
				got := make([]byte, len(part))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != part {
					t.Fatalf("part %d: %q, %v", i, got, err)
				}
				goOn <- struct{}{}
			}
			if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
				t.Errorf("after the end: %q, %v", rest, err)
			}
		})
	}
}

// However a provider cuts its stream into packets, the engine gets the same
// events and the meter counts the same.
func TestStreamInOddPieces(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		whole := strings.Join(streams(p, model), "")
		for name, text := range map[string]string{"lf": whole, "crlf": strings.ReplaceAll(whole, "\n", "\r\n"), "comments": ": hello\n\n" + whole} {
			for _, size := range []int{1, 3, 17, 4095} {
				t.Run(fmt.Sprintf("%s %s %d", p, name, size), func(t *testing.T) {
					t.Parallel()
					var parts []string
					for rest := text; rest != ""; {
						n := min(size, len(rest))
						parts, rest = append(parts, rest[:n]), rest[n:]
					}
					e := open(t, newProvider(t, sse(parts...)).URL, nil, nil)
					got := e.post(t, paths[p], ask(p, true, `,"stream_options":{"include_usage":true}`))
					// By events: a CR LF that comes in two packets may lose its LF.
					if want := collect(t, text, len(text)); got.err != nil || fmt.Sprint(collect(t, got.body, len(got.body))) != fmt.Sprint(want) || len(want) < 5 {
						t.Errorf("%v: %q", got.err, got.body)
					}
					if name != "crlf" && got.body != text {
						t.Errorf("changed: %q", got.body)
					}
					if rec := e.record(t); rec.Usage != wantUsage || rec.Failed != "" {
						t.Errorf("record: %+v", rec)
					}
				})
			}
		}
	}
}

// The usage chunk of a chat stream goes only to an engine that asked for it.
func TestUsageOfChatStreams(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options string
		want    bool
	}{
		"asked":     {`,"stream_options":{"include_usage":true}`, true},
		"not asked": {``, false},
		"declined":  {`,"stream_options":{"include_usage":false,"include_obfuscation":false}`, false},
		"null":      {`,"stream_options":null`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newProvider(t, sse(streams(Chat, model)...))
			e := open(t, up.URL, nil, nil)
			got := e.post(t, "/chat/completions", ask(Chat, true, test.options))
			if has := strings.Contains(got.body, `"usage"`); has != test.want {
				t.Errorf("usage chunk: %t, want %t", has, test.want)
			}
			if !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
				t.Errorf("end: %q", got.body)
			}
			_, sent := up.last(t)
			if strings.Count(sent, "stream_options") != 1 || !strings.Contains(sent, `"include_usage":true`) || strings.Contains(sent, `"include_usage":false`) {
				t.Errorf("sent: %s", sent)
			}
			if name == "declined" && !strings.Contains(sent, `"include_obfuscation":false`) {
				t.Errorf("other options are lost: %s", sent)
			}
			if rec := e.record(t); rec.Usage != wantUsage {
				t.Errorf("record: %+v", rec)
			}
		})
	}
}

// An engine may know the model by another name.
func TestModelIsMapped(t *testing.T) {
	t.Parallel()
	up := newProvider(t, sse(streams(Responses, "qwen3-coder")...))
	e := open(t, up.URL, func(o *Options) {
		o.Model = "qwen3-coder"
		o.Upstream.Models = map[string]string{model: "qwen3-coder", "gpt-4.1": "other"}
	}, nil)
	if got := e.post(t, "/responses", ask(Responses, true, "")); got.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
	if _, sent := up.last(t); !strings.HasPrefix(sent, `{"model":"qwen3-coder",`) {
		t.Errorf("sent: %s", sent)
	}
	if got := e.post(t, "/responses", strings.Replace(ask(Responses, true, ""), model, "gpt-4.1", 1)); got.StatusCode != statusRefused {
		t.Errorf("the name of another model: %d", got.StatusCode)
	}
	rec := e.all()[0]
	if rec.ModelAsked != model || rec.ModelAnswered != "qwen3-coder" || rec.Mismatch || rec.CostKnown {
		t.Errorf("record: %+v", rec)
	}
}

// The model that answers is recorded, and another one is said to be another.
func TestAnotherModelAnswers(t *testing.T) {
	t.Parallel()
	for answered, mismatch := range map[string]bool{
		model: false, model + "-2026-04-23": false, model + "-20260423": false,
		"gpt-5.5-mini": true, "gpt-5.5-20269999": true, "gpt-5": true, "GPT-5.5": true, "gpt-5.5 ": true, "gpt-5.5-2026-04-23-mini": true, "": false,
	} {
		for _, p := range protocols {
			t.Run(fmt.Sprintf("%s %q", p, answered), func(t *testing.T) {
				t.Parallel()
				e := open(t, newProvider(t, sse(streams(p, answered)...)).URL, nil, nil)
				e.post(t, paths[p], ask(p, true, ""))
				rec := e.record(t)
				if rec.Mismatch != mismatch || rec.ModelAnswered != answered {
					t.Errorf("answered %q, mismatch %t", rec.ModelAnswered, rec.Mismatch)
				}
				if want := e.Totals().Mismatches == 1; want != mismatch {
					t.Errorf("totals: %+v", e.Totals())
				}
			})
		}
	}
}

// Each piece of a stream may name a model: one that is another's is enough.
func TestAnotherModelAnswersLater(t *testing.T) {
	t.Parallel()
	for p, at := range map[Protocol]int{Chat: 1, Responses: 4, Messages: 1} {
		parts := streams(p, model)
		switch p {
		case Chat:
			parts[at] = strings.Replace(parts[at], `{"id"`, `{"model":"evil","id"`, 1)
		case Responses:
			parts[at] = strings.Replace(parts[at], model, "evil", 1)
		case Messages:
			parts = append(parts[:1:1], append([]string{strings.Replace(parts[0], model, "evil", 1)}, parts[1:]...)...)
		}
		e := open(t, newProvider(t, sse(parts...)).URL, nil, nil)
		e.post(t, paths[p], ask(p, true, ""))
		if rec := e.record(t); !rec.Mismatch || rec.ModelAnswered != "evil" {
			t.Errorf("%s: %+v", p, rec)
		}
	}
}

// A provider that named its model to the probe and does not name it any more
// hides something; one that never does is an old server.
func TestModelIsNamedNoMore(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		e := open(t, newProvider(t, sse(streams(p, model)...), sse(streams(p, "")...), sse(streams(p, "")[:2]...)).URL, nil, nil)
		if err := e.Probe(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		e.post(t, paths[p], ask(p, true, ""))
		e.post(t, paths[p], ask(p, true, "")) // breaks off before it could
		if all := e.waitFor(t, 3); all[0].Mismatch || !all[1].Mismatch || all[1].ModelAnswered != "" || all[2].Mismatch {
			t.Errorf("%s: %+v", p, all)
		}
	}
}

// The record says why an answer ended, in one word for all protocols.
func TestStops(t *testing.T) {
	t.Parallel()
	words := map[Protocol]map[string]Stop{
		Chat:      {"stop": StopEnd, "tool_calls": StopEnd, "length": StopLength, "content_filter": StopFilter},
		Messages:  {"end_turn": StopEnd, "tool_use": StopEnd, "max_tokens": StopLength, "model_context_window_exceeded": StopLength, "refusal": StopFilter},
		Responses: {"": StopEnd, "max_output_tokens": StopLength, "content_filter": StopFilter},
	}
	was := map[Protocol]string{Chat: `"finish_reason":"stop"`, Messages: `"stop_reason":"end_turn"`}
	thought := map[Protocol]string{
		Chat: chatDelta(`{"reasoning_content":"hm"}`), Responses: item(`{"type":"reasoning"}`), Messages: block(`{"type":"thinking"}`, `{"type":"thinking_delta","thinking":"hm"}`),
	}
	seen := func(p Protocol, stream bool, answer string) Stop {
		m := meter{protocol: p}
		if !stream {
			if err := m.whole([]byte(answer)); err != nil {
				t.Fatal(err)
			}
			return m.ended()
		}
		_, m = metered(p, []byte(answer), 100)
		return m.ended()
	}
	for p, stops := range words {
		for word, want := range stops {
			stream, whole := strings.Join(streams(p, model), ""), wholes(p, model)
			if p == Responses && word != "" {
				more := fmt.Sprintf(`"incomplete_details":{"reason":%q},"usage":{"input`, word)
				stream, whole = strings.Replace(stream, `"usage":{"input`, more, 1), strings.Replace(whole, `"usage":{"input`, more, 1)
			} else if p != Responses {
				now := strings.Split(was[p], ":")[0] + `:"` + word + `"`
				stream, whole = strings.Replace(stream, was[p], now, 1), strings.Replace(whole, was[p], now, 1)
			}
			if got := seen(p, true, stream); got != want {
				t.Errorf("%s, stream, %q: %q", p, word, got)
			}
			if got := seen(p, false, whole); got != want {
				t.Errorf("%s, whole, %q: %q", p, word, got)
			}
		}
		if got := seen(p, true, strings.Join(saying(p, thought[p]), "")); got != StopReasoning {
			t.Errorf("%s, nothing but thoughts: %q", p, got)
		}
		if got := seen(p, true, strings.Join(streams(p, model)[:3], "")); got != "" {
			t.Errorf("%s, no end: %q", p, got)
		}
	}
	for answer, p := range map[string]Protocol{
		`{"choices":[{"message":{"content":"","reasoning_content":"hm"},"finish_reason":"stop"}]}`:    Chat,
		`{"status":"completed","output":[{"type":"reasoning","summary":[]}]}`:                         Responses,
		`{"type":"message","content":[{"type":"thinking","thinking":"hm"}],"stop_reason":"end_turn"}`: Messages,
	} {
		if got := seen(p, false, answer); got != StopReasoning {
			t.Errorf("%s: %q", answer, got)
		}
	}
	for answer, p := range map[string]Protocol{
		`{"choices":[{"message":{"content":[{"type":"text","text":"x"}],"reasoning":"hm"},"finish_reason":"stop"}]}`:         Chat,
		`{"choices":[{"message":{"content":null,"reasoning":"hm","tool_calls":[{"index":0,"function":{"arguments":""}}]}}]}`: Chat,
		`{"status":"completed","output":[{"type":"reasoning"},{"type":"custom_tool_call","input":"x"}]}`:                     Responses,
		`{"type":"message","content":[{"type":"thinking"},{"type":"tool_use","name":"x"}],"stop_reason":"tool_use"}`:         Messages,
	} {
		if got := seen(p, false, answer); got != StopEnd {
			t.Errorf("%s: %q", answer, got)
		}
	}
}
