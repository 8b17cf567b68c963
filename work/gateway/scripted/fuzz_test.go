package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
)

// seeds are scripts with everything in them.
func seeds() []string {
	all := []string{whole, "otherwise: {text: a}", "conversations: [{when: {protocol: [chat], model: a, system: b, user: c, tool_output: d, stream: true, tools: false}, turns: [{any: [{times: 1, text: a}]}]}]",
		"turns: [{capture: {a: (b)}, text: '${a}', delay: 1s, pace: 1ms, headers: {X-A: b}}]", "turns: [{text: &a b}]", "turns:\n- - a", "{", "a: b: c", "turns: [{calls: [{name: a, arguments: {a: [1.5e3, null, -0]}}]}]"}
	for _, f := range faults() {
		if !strings.Contains(f.answer, "repeat") {
			all = append(all, "turns: ["+f.answer+"]")
		}
	}
	return all
}

// played asks once, without a network and without waiting, and reports whether
// the answer broke off.
func played(s *Server, p Protocol, body []byte) (w *httptest.ResponseRecorder, broke bool) {
	w = httptest.NewRecorder()
	s.wait = func(context.Context, time.Duration) error { return nil }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, paths[p], bytes.NewReader(body))
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // it is a value of its own, as net/http compares it
				panic(p)
			}
			broke = true
		}
	}()
	for _, alternatives := range s.script.conversations {
		for _, turn := range append(alternatives.turns, alternatives.otherwise) {
			for _, a := range turn {
				if a.cut != nil && a.cut.how == byHang {
					a.cut.how = byClose // no client would leave
				}
			}
		}
	}
	s.ServeHTTP(w, r)
	return w, s.Count().Broken > 0
}

// FuzzParse: no source crashes the parser; what it refuses, it explains; what
// it accepts, can be played over each protocol.
func FuzzParse(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if _, err := Parse("s.yaml", src); err != nil {
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("not a list of problems: %v", err)
			}
			for _, p := range problems {
				if p.Code != reason.ScriptInvalid || p.File != "s.yaml" || p.Message == "" {
					t.Errorf("%+v", p)
				}
			}
			return
		}
		if bytes.Contains(src, []byte("repeat")) {
			return // nothing new, and slow
		}
		for _, p := range protocols {
			for _, c := range []conversed{{}, {plain: true}, {past: []exchange{{said: "x", outputs: []string{"y b"}}}}} {
				s, err := Parse("s.yaml", src)
				if err != nil {
					t.Fatal(err)
				}
				server := New(s, Options{})
				w, broke := played(server, p, request(p, c))
				if kind := w.Header().Get("Content-Type"); !broke && w.Code == http.StatusOK && kind == "application/json" && server.Count().Completed == 1 && !json.Valid(w.Body.Bytes()) {
					t.Errorf("%s: %q is not JSON", p, w.Body)
				}
				if n := server.Count(); n.Requests != 1 || n.Completed+n.Broken+n.Refused+n.Unscripted != 1 {
					t.Errorf("%s: %+v", p, n)
				}
			}
		}
	})
}

// FuzzRequest: no request crashes the server or makes it say that it is at
// fault.
func FuzzRequest(f *testing.F) {
	for _, p := range protocols {
		for _, c := range []conversed{{}, {plain: true, noTools: true}, {system: "a", user: "b", past: []exchange{{said: "x", outputs: []string{"y", "z"}}}}} {
			f.Add(request(p, c))
		}
	}
	f.Add([]byte(`{"model":"m","input":"a","instructions":"b"}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"tool_result","content":"x"}]}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, p := range protocols {
			s, err := Parse("s.yaml", []byte("conversations: [{when: {tool_output: y, tools: true}, turns: [{text: a}, {capture: {x: '(.*)'}, text: '${x}', calls: [{name: a, arguments: {b: '${x}'}}]}]}, {otherwise: {text: b}}]"))
			if err != nil {
				t.Fatal(err)
			}
			server := New(s, Options{})
			w, _ := played(server, p, body)
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
				t.Errorf("%s: status %d", p, w.Code)
			}
			if n := server.Count(); n.Requests != 1 || n.Completed+n.Unscripted != 1 {
				t.Errorf("%s: %+v", p, n)
			}
			if w.Code == http.StatusOK && strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
				if h := listen(t, p, w.Body.String()); !h.terminal {
					t.Errorf("%s: %+v", p, h)
				}
			}
		}
	})
}
