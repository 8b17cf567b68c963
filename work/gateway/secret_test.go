package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remit/law/secret"
	"remit/proof/reason"
)

// letterEscape is a letter as JSON may write it, or JSON inside of JSON.
var letterEscape = regexp.MustCompile(`\\+u00[0-9a-fA-F]{2}`)

// nowhere fails if a text holds a secret in any of its usual forms.
func nowhere(t *testing.T, where, text string) {
	t.Helper()
	if strings.Contains(text, `\u00`) {
		text = letterEscape.ReplaceAllStringFunc(text, func(s string) string {
			b, err := hex.DecodeString(s[len(s)-2:])
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		})
	}
	for _, v := range []string{canary, token} {
		digits := hex.EncodeToString([]byte(v))
		for _, form := range []string{v, digits, strings.ToUpper(digits), base64.StdEncoding.EncodeToString([]byte(v)), url.QueryEscape(v)} {
			if strings.Contains(text, form) {
				t.Errorf("%s holds a secret: %q", where, text)
			}
		}
	}
}

// escaped writes every letter as JSON may.
func escaped(text string) string {
	var b strings.Builder
	for i, c := range []byte(text) {
		fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[i%2], c)
	}
	return b.String()
}

// A provider that repeats the credential, in its headers, an error, a plain
// answer or a stream, does not hand it to the engine, to a record or to a kept
// body.
func TestEcho(t *testing.T) {
	t.Parallel()
	forms := map[string]string{
		"raw": canary, "hex": hex.EncodeToString([]byte(canary)), "base64": base64.StdEncoding.EncodeToString([]byte(canary)),
		"inside base64": base64.StdEncoding.EncodeToString([]byte("x:" + canary)), "the token": token,
		"upper hex": strings.ToUpper(hex.EncodeToString([]byte(canary))), "letters escaped": escaped(canary), "one letter escaped": canary[:4] + `\u0061` + canary[5:],
		"escaped twice": strings.ReplaceAll(escaped(canary), `\`, `\\`),
	}
	for form, text := range forms {
		stream := strings.Replace(strings.Join(streams(Chat, model), ""), "hel", text, 1)
		var drip []string
		for i := 0; i < len(stream); i += 7 {
			drip = append(drip, stream[i:min(i+7, len(stream))])
		}
		for name, test := range map[string]struct {
			handler http.HandlerFunc
			stream  bool
		}{
			"header":        {plain(200, "application/json", wholes(Chat, model), "X-Request-Id", text, "X-Echo", text, "Set-Cookie", "k="+text), false},
			"error":         {plain(400, "application/json", `{"error":{"message":"Incorrect key: `+text+`"}}`), false},
			"refused key":   {plain(401, "application/json", `{"error":{"message":"Incorrect key: `+text+`"}}`), false},
			"error page":    {plain(500, "text/html", "<pre>"+text+"</pre>", "Retry-After", "999"), false},
			"answer":        {plain(200, "application/json", strings.Replace(wholes(Chat, model), "hello", text, 1)), false},
			"model's name":  {plain(200, "application/json", wholes(Chat, text)), false},
			"stream":        {sse(stream), true},
			"dripped":       {sse(drip...), true},
			"error event":   {sse(`data: {"error":{"message":"` + text + `"}}` + "\n\n"), true},
			"event's name":  {sse("event: " + text + "\n" + stream), true},
			"broken stream": {sse("data: {\"" + text + "\n\n"), true},
		} {
			t.Run(form+" "+name, func(t *testing.T) {
				t.Parallel()
				e := open(t, newProvider(t, test.handler).URL, nil, nil)
				got := e.post(t, "/v1/chat/completions", ask(Chat, test.stream, ""))
				nowhere(t, "the answer", got.body)
				nowhere(t, "a header", fmt.Sprint(got.Header))
				nowhere(t, "the record", fmt.Sprintf("%+v", e.record(t)))
				for name, f := range e.kept {
					nowhere(t, name, f.String())
				}
				if name == "answer" && (got.StatusCode != http.StatusOK || !strings.Contains(got.body, "[redacted:credential:")) {
					t.Errorf("%d %s", got.StatusCode, got.body)
				}
			})
		}
	}
}

// An engine that prints its environment sends its token nowhere, and what it
// puts into paths and models is not repeated.
func TestEngineTellsItsToken(t *testing.T) {
	t.Parallel()
	up := newProvider(t, plain(200, "application/json", wholes(Chat, model)))
	e := open(t, up.URL, nil, nil)
	e.post(t, "/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"tool","content":"GATEWAY_TOKEN=`+token+`"}]}`)
	e.post(t, "/v1/"+token, "{}")
	e.post(t, "/v1/chat/completions", `{"model":"`+token+`","messages":[]}`)
	e.post(t, "/v1/chat/completions", `{"model":"x\u001b[2J`+strings.Repeat("y", 5000)+`"}`)
	_, sent := up.last(t)
	nowhere(t, "what left", sent)
	if !strings.Contains(sent, "GATEWAY_TOKEN=[redacted:credential:gateway-token]") {
		t.Errorf("sent: %s", sent)
	}
	for _, r := range e.all() {
		nowhere(t, "a record", fmt.Sprintf("%+v", r))
		if len(r.ModelAsked) > maxShown+3 || strings.Contains(r.ModelAsked, "\x1b") {
			t.Errorf("model: %q", r.ModelAsked)
		}
	}
	for name, f := range e.kept {
		nowhere(t, name, f.String())
	}
}

// However a text is cut, the filter finds what is whole in it, and passes on
// the rest unchanged.
func TestFilterInPieces(t *testing.T) {
	t.Parallel()
	s := newSecrets(secret.Value{Name: "a", Value: canary}, secret.Value{Name: "b", Value: token})
	text := "x" + canary[:10] + canary + token + "\n" + token[:5] + "\n" + canary[:20] + "y" + canary
	want := "x" + canary[:10] + "[redacted:credential:a][redacted:credential:b]\n" + token[:5] + "\n" + canary[:20] + "y[redacted:credential:a]"
	for size := 1; size <= len(text); size++ {
		f := filter{secrets: s}
		var out bytes.Buffer
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			out.Write(f.pass([]byte(rest[:n]), false))
			rest = rest[n:]
		}
		out.Write(f.pass(nil, true))
		if out.String() != want {
			t.Fatalf("pieces of %d:\n%s\nwant:\n%s", size, out.String(), want)
		}
	}
}

// Placeholders that local servers are given for a key stand in ordinary text,
// and stay there.
func TestPlaceholdersAreNoSecrets(t *testing.T) {
	t.Parallel()
	s := newSecrets(secret.Value{Name: "provider", Value: "ollama"}, secret.Value{Name: "x", Value: ""})
	if got := s.redact([]byte("I run ollama")); string(got) != "I run ollama" {
		t.Errorf("got %q", got)
	}
}

func FuzzFilter(f *testing.F) {
	f.Add([]byte("a"+canary+"b"), 3)
	f.Add([]byte(canary[:9]+canary+canary[3:]), 7)
	f.Add([]byte(`\\`+escaped(canary)+`\/\u00`), 5)
	s := newSecrets(secret.Value{Name: "a", Value: canary})
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		size = max(1, size%64)
		want := s.redact(bytes.Clone(text))
		if plain, _ := unescaped(want); bytes.Contains(want, []byte(canary)) || bytes.Contains(plain, []byte(canary)) {
			t.Fatalf("left in: %q", want)
		}
		fl := filter{secrets: s}
		var out []byte
		for rest := text; len(rest) > 0; {
			n := min(size, len(rest))
			out = append(out, fl.pass(bytes.Clone(rest[:n]), false)...)
			rest = rest[n:]
		}
		out = append(out, fl.pass(nil, true)...)
		if bytes.Contains(out, []byte(canary)) {
			t.Fatalf("left in: %q", out)
		}
	})
}

// Each source of a credential, and what is wrong with it. No error shows it.
func TestCredentialSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"KEY": canary, "EMPTY": " \n", "LINES": canary + "\nx", "WIDE": canary + "é"}[name]
		return v, ok
	}
	run := func(_ context.Context, argv []string) ([]byte, error) {
		if argv[0] == "fails" {
			return []byte(canary), errors.New("it printed " + canary)
		}
		return []byte(strings.Join(argv[1:], " ") + "\n"), nil
	}
	for name, test := range map[string]struct {
		c    Credential
		want string
		code reason.Code
	}{
		"none":             {Credential{}, "", ""},
		"variable":         {Credential{Env: "KEY"}, canary, ""},
		"file":             {Credential{File: write("key", canary+"\n")}, canary, ""},
		"command":          {Credential{Command: []string{"print", canary}}, canary, ""},
		"no variable":      {Credential{Env: "OTHER"}, "", reason.AuthUnavailable},
		"empty variable":   {Credential{Env: "EMPTY"}, "", reason.AuthUnavailable},
		"two lines":        {Credential{Env: "LINES"}, "", reason.AuthUnavailable},
		"not ascii":        {Credential{Env: "WIDE"}, "", reason.AuthUnavailable},
		"no file":          {Credential{File: filepath.Join(dir, "other")}, "", reason.AuthUnavailable},
		"a directory":      {Credential{File: dir}, "", reason.AuthUnavailable},
		"a device":         {Credential{File: "/dev/zero"}, "", reason.AuthUnavailable},
		"a large file":     {Credential{File: write("large", strings.Repeat("x", maxCredential+1))}, "", reason.AuthUnavailable},
		"a command fails":  {Credential{Command: []string{"fails"}}, "", reason.AuthUnavailable},
		"a command is mum": {Credential{Command: []string{"print"}}, "", reason.AuthUnavailable},
		"two sources":      {Credential{Env: "KEY", File: "x"}, "", reason.LocalConfigMissing},
		"another style":    {Credential{Env: "KEY", Style: "basic"}, "", reason.LocalConfigMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{LookupEnv: env, RunCommand: run}
			got, err := test.c.read(t.Context(), o)
			if got != test.want || reason.CodeOf(err) != test.code {
				t.Errorf("got %q, %v", got, err)
			}
			if err != nil {
				for e := err; e != nil; e = errors.Unwrap(e) {
					nowhere(t, "the error", e.Error())
					if strings.Contains(e.Error(), dir) {
						t.Errorf("the error shows a path: %v", e)
					}
				}
			}
		})
	}
	if _, err := (Credential{Command: []string{"x"}}).read(t.Context(), Options{}); reason.CodeOf(err) != reason.AuthUnavailable {
		t.Errorf("nothing may start a command: %v", err)
	}
}

// How the credential is presented.
func TestCredentialStyles(t *testing.T) {
	t.Parallel()
	for style, want := range map[Style]map[Protocol]string{
		ByProtocol: {Chat: "Authorization", Responses: "Authorization", Messages: "X-Api-Key"},
		Bearer:     {Chat: "Authorization", Messages: "Authorization"},
		APIKey:     {Chat: "X-Api-Key", Messages: "X-Api-Key"},
	} {
		for p, header := range want {
			u := upstream{credential: canary, style: style}
			h := u.header(p, true, http.Header{})
			if got := h.Get(header); got != canary && got != "Bearer "+canary || len(h.Values("Authorization"))+len(h.Values("X-Api-Key")) != 1 {
				t.Errorf("%q %s: %v", style, p, h)
			}
		}
	}
	u := upstream{}
	if h := u.header(Chat, true, http.Header{"Authorization": {"Bearer x"}}); h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" {
		t.Errorf("without a credential: %v", h)
	}
}

// full is a file on a full disk.
type full struct{ after int }

func (f *full) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}
func (f *full) Close() error { return nil }

// A policy that wants bodies kept is not passed over: without a place for the
// request nothing leaves, and an answer that cannot be kept is said to be so.
func TestBodiesCannotBeKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keep   func(string) (io.WriteCloser, error)
		status int
		asked  int
	}{
		"no file": {func(string) (io.WriteCloser, error) {
			return nil, &os.PathError{Op: "open", Path: "/home/ann/x", Err: os.ErrPermission}
		}, 500, 0},
		"full at once": {func(string) (io.WriteCloser, error) { return &full{0}, nil }, 500, 0},
		"full later":   {func(string) (io.WriteCloser, error) { return &full{100}, nil }, 200, 1},
		"answer no file": {func(name string) (io.WriteCloser, error) {
			return &full{1000}, map[bool]error{true: os.ErrPermission}[strings.Contains(name, "response")]
		}, 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newProvider(t, plain(200, "application/json", wholes(Chat, model)))
			e := open(t, up.URL, func(o *Options) { o.KeepBodies = test.keep }, nil)
			got := e.post(t, "/v1/chat/completions", ask(Chat, false, ""))
			if got.StatusCode != test.status || up.count() != test.asked || strings.Contains(got.body, "/home") {
				t.Errorf("%d %s, asked %d times", got.StatusCode, got.body, up.count())
			}
			if rec := e.record(t); rec.Failed != reason.ArtifactWriteFailure {
				t.Errorf("record: %+v", rec)
			}
		})
	}
}

// That a refused request cannot be kept does not hide why it was refused.
func TestRefusedAndNotKept(t *testing.T) {
	t.Parallel()
	up := newProvider(t, plain(http.StatusOK, "application/json", wholes(Chat, model)))
	e := open(t, up.URL, func(o *Options) {
		o.KeepBodies = func(string) (io.WriteCloser, error) { return nil, os.ErrPermission }
	}, nil)
	got := e.post(t, "/v1/chat/completions", `{"model":"o3","messages":[]}`)
	refusedForm(t, &got, reason.ModelMismatch)
	if rec := e.record(t); rec.Refused != reason.ModelMismatch || rec.Failed != reason.ArtifactWriteFailure || up.count() != 0 {
		t.Errorf("record: %+v", rec)
	}
}
