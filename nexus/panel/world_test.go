package panel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"remit/law/task"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/blob"
	"remit/nexus/identity"
	"remit/nexus/server"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// hostile is text that an attacker may put into every field of text.
const hostile = "evil\"'><script>alert(1)</script><img src=x onerror=alert(1)></textarea></pre><a href=\"javascript:alert(1)\">{{.}}" +
	"\u202etxt.exe\u2066\u200b\u2028\x1b[31m\x00\x07end"

// world is a real authority with the panel in front of it.
type world struct {
	t     testing.TB
	store *store.Store
	url   string
	home  Home

	restart func() // another process on the same store
}

func newWorld(t testing.TB, home Home, loopback bool) *world {
	t.Helper()
	return newWorldWith(t, home, loopback, nil)
}

// newWorldWith has a control summary of its machine besides.
func newWorldWith(t testing.TB, home Home, loopback bool, control func(context.Context) (json.RawMessage, error), options ...func(*Options)) *world {
	t.Helper()
	return newWorldAt(t, place{}, home, loopback, control, options...)
}

// place is where a world has its store, and how many servers it has.
type place struct {
	dsn      func(testing.TB) string // nil is SQLite
	replicas int                     // behind a proxy that asks them in turn, if there are several
	clock    func() time.Time        // nil is the clock
	dress    func(*Panel)            // changes what pages load; nil changes nothing
}

// newWorldAt makes one on a store of another kind, or with several replicas.
func newWorldAt(t testing.TB, at place, home Home, loopback bool, control func(context.Context) (json.RawMessage, error), options ...func(*Options)) *world {
	t.Helper()
	dsn := storetest.SQLite(t)
	if at.dsn != nil {
		dsn = at.dsn(t)
	}
	blobs, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := blobs.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, home: home}
	var addresses []string
	var restarts []func()
	for range max(at.replicas, 1) {
		st := storetest.Open(t, dsn, store.Options{Clock: at.clock})
		if w.store == nil {
			w.store = st
		}
		address, restart := replica(t, server.Options{Store: st, Blobs: blobs, Control: control, Clock: at.clock},
			Options{Loopback: loopback, Home: home, Clock: at.clock}, at.dress, options)
		addresses, restarts = append(addresses, address), append(restarts, restart)
	}
	w.url = addresses[0]
	if len(addresses) > 1 {
		w.url = inTurn(t, addresses)
	}
	w.restart = func() {
		for _, restart := range restarts {
			restart()
		}
	}
	return w
}

// replica serves the API and the panel, and returns where and how it is started anew.
func replica(t testing.TB, so server.Options, opt Options, dress func(*Panel), options []func(*Options)) (address string, restart func()) {
	t.Helper()
	quick := server.Rate{PerSecond: 1e6, Burst: 1e6}
	so.Log, so.Version, so.Rate, so.Failures, so.Sweep = slog.New(slog.DiscardHandler), "test", quick, quick, server.Sweep{Every: -1}
	opt.Log, opt.Version = so.Log, so.Version
	var s *server.Server
	var pages atomic.Pointer[Panel]
	restart = func() {
		old := s
		s = server.New(so)
		here := opt
		here.API = s.Handler()
		for _, change := range options {
			change(&here)
		}
		p, err := New(here)
		if err != nil {
			t.Fatal(err)
		}
		if dress != nil {
			dress(p)
		}
		if pages.Store(p); old != nil {
			old.Close()
		}
	}
	restart()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { pages.Load().ServeHTTP(w, r) }))
	t.Cleanup(func() {
		s.Close()
		h.Close()
	})
	return h.URL, restart
}

// inTurn is a proxy that sends each request to the next of some servers.
func inTurn(t testing.TB, addresses []string) string {
	t.Helper()
	var asked atomic.Uint64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(addresses[asked.Add(1)%uint64(len(addresses))])
		if err != nil {
			panic(err) // of a server that was started here
		}
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}, ErrorLog: log.New(io.Discard, "", 0)}
	h := httptest.NewServer(proxy)
	t.Cleanup(h.Close)
	return h.URL
}

// token makes a credential of a person.
func (w *world) token(owner string, scopes ...string) string {
	w.t.Helper()
	return w.mint(identity.Grant{Kind: authority.User, Principal: "user:" + owner, Owner: owner, Scopes: scopes, TTL: time.Hour})
}

func (w *world) mint(g identity.Grant) (text string) {
	w.t.Helper()
	err := w.store.Update(w.t.Context(), func(tx *store.Tx) (err error) {
		text, _, err = identity.Mint(tx, g)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

func (w *world) client(token string) *api.Client {
	w.t.Helper()
	c, err := api.Connect(w.url, token, api.Options{Retry: api.Retry{Attempts: 1}})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// browser is a client with one cookie at most, that follows nothing.
type browser struct {
	w      *world
	cookie *http.Cookie
	csrf   string
	header http.Header // of every request
	host   string
}

// got is an answer.
type got struct {
	status int
	header http.Header
	body   string
}

func (b *browser) do(method, path string, form url.Values) got {
	b.w.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(b.w.t.Context(), method, b.w.url+path, body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	if b.host != "" {
		r.Host = b.host
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", b.w.url)
	}
	for name, values := range b.header {
		r.Header[name] = values
		if values[0] == "" {
			r.Header.Del(name)
		}
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		if b.cookie = c; c.MaxAge < 0 {
			b.cookie = nil
		}
	}
	return got{resp.StatusCode, resp.Header, string(text)}
}

func (b *browser) get(path string) got { b.w.t.Helper(); return b.do(http.MethodGet, path, nil) }

// login logs a new browser in.
func (w *world) login(token string) *browser {
	w.t.Helper()
	b := &browser{w: w}
	if out := b.do(http.MethodPost, "/login", url.Values{"token": {token}}); out.status != http.StatusSeeOther || b.cookie == nil {
		w.t.Fatalf("login: %d %s", out.status, out.body)
	}
	b.csrf = between(b.get("/health").body, `data-csrf="`, `"`)
	return b
}

func between(s, from, to string) string {
	_, rest, _ := strings.Cut(s, from)
	out, _, _ := strings.Cut(rest, to)
	return out
}

// memoryHome is a home of sessions that were never on a disk.
type memoryHome struct {
	sessions []*Session
	files    map[string]string
	dir      string // where the files are, else in memory
	version  int64
	running  bool
}

// onDisk writes the files to a directory, as old as those of a run that has ended.
func (h *memoryHome) onDisk(t testing.TB) *memoryHome {
	t.Helper()
	h.dir = t.TempDir()
	for name, text := range h.files {
		path := filepath.Join(h.dir, name)
		old := time.Now().Add(-time.Hour)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *memoryHome) List(context.Context) (list []Summary, all int, err error) {
	for _, s := range h.sessions {
		list = append(list, s.Summary)
	}
	return list, len(list), nil
}

func (h *memoryHome) Session(_ context.Context, id string) (*Session, error) {
	for _, s := range h.sessions {
		if s.ID == id {
			return s, nil
		}
	}
	return nil, reason.Errorf(reason.NotFound, "there is no session %.100q", id)
}

func (h *memoryHome) Version(ctx context.Context, id string) (int64, bool, error) {
	_, err := h.Session(ctx, id)
	return h.version, h.running, err
}

type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error { return nil }

func (h *memoryHome) Open(_ context.Context, _, name string) (io.ReadSeekCloser, int64, error) {
	text, ok := h.files[name]
	if !ok {
		return nil, 0, reason.Errorf(reason.NotFound, "the session has no file %.200q", name)
	}
	if h.dir != "" {
		f, err := os.Open(filepath.Join(h.dir, name))
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		return f, info.Size(), err
	}
	return memoryFile{bytes.NewReader([]byte(text))}, int64(len(text)), nil
}

func (h *memoryHome) Export(_ context.Context, _, to string, w io.Writer) error {
	text, ok := h.files["export/"+to]
	if !ok {
		return reason.Errorf(reason.NotAcceptable, "%s", hostile)
	}
	if _, err := io.WriteString(w, text); err != nil || to != "atif" {
		return err
	}
	return errors.New("the disk is gone")
}

func (h *memoryHome) Audit(context.Context, string) (*bundle.Report, error) {
	return &bundle.Report{Status: bundle.Fail, ExitCode: 2, Gates: []bundle.GateResult{{Name: "manifest.hashes", Status: bundle.Fail,
		Findings: []reason.Finding{{Code: "hash_mismatch", Path: hostile, Detail: hostile}}}}}, nil
}

// entry makes an entry of a journal, ended unless its status says that it began.
func entry(seq int64, name, step string, status journal.Status, at, took time.Duration, in, out any) journal.Entry {
	raw := func(v any) json.RawMessage {
		if v == nil {
			return json.RawMessage("{}")
		}
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return b
	}
	begin := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC).Add(at)
	e := journal.Entry{V: 1, Seq: seq, StepID: step, Name: name, Status: status, StartedAt: begin.Format(time.RFC3339Nano), Inputs: raw(in), Outputs: raw(out),
		EntryHash: "sha256:" + strings.Repeat("ab", 32)}
	if status != journal.Started {
		end := begin.Add(took).Format(time.RFC3339Nano)
		e.CompletedAt = &end
	}
	return e
}

// hostileSession is a run in which every text is hostile that others write.
func hostileSession(id string) *Session {
	done := journal.Completed
	block := []evidence.Blocker{{Code: "verification_failed", Message: hostile, Evidence: hostile, Hint: hostile}}
	model := hostile
	entries := []journal.Entry{
		entry(0, evidence.StepRunOpened, "run", done, 0, 0, evidence.RunOpened{Title: hostile, CaseID: hostile, ContractSHA256: "sha256:" + strings.Repeat("1", 64),
			Engine: evidence.EngineIdentity{Name: hostile, Version: hostile}, Model: &model, ModelProvider: &model, BaselineCommit: "abc"}, nil),
		entry(1, evidence.StepEligibility, "eligibility", done, 0, 0, nil, map[string]any{"decision": gates{Required: []string{hostile}, Passed: []string{hostile},
			Missing: []string{hostile}, Ways: []string{hostile}}}),
		entry(2, evidence.StepEngine, "engine", journal.Started, time.Second, 0, evidence.EngineStarted{Engine: hostile}, nil),
		entry(3, evidence.StepTool, "call", journal.Started, time.Second, 0, evidence.ToolCalled{Tool: hostile, Params: json.RawMessage(`{"a":"<script>alert(1)</script>"}`)}, nil),
		entry(4, evidence.StepTool, "call", done, time.Second, time.Second, nil, evidence.ToolReturned{}),
		entry(5, evidence.StepMessage, "message", done, 2*time.Second, 0, nil, evidence.Message{Role: "assistant", Text: hostile}),
		entry(6, evidence.StepEngine, "engine", done, time.Second, 3*time.Second, nil, evidence.EngineFinished{Summary: hostile,
			Caps: []evidence.Cap{{Name: hostile, Limit: 5, Observed: 1, Enforced: true, How: hostile}}}),
		entry(7, evidence.StepPatch, "patch", done, 4*time.Second, 0, nil, evidence.PatchCaptured{Files: []evidence.ChangedFile{{Path: hostile, Added: 1}}}),
		entry(8, evidence.StepArtifact, "artifact", done, 5*time.Second, 0, nil, evidence.ArtifactRecorded{Path: hostile, SHA256: "sha256:" + strings.Repeat("2", 64)}),
		entry(9, evidence.StepProof, "proof", done, 5*time.Second, 0, evidence.ProofRecorded{Name: hostile}, map[string]any{"x": hostile}),
		entry(10, evidence.StepVerification, "verify", journal.Failed, 6*time.Second, 0, nil, evidence.VerificationCompleted{FailToPass: []string{hostile},
			PassToFail: []string{hostile}, Missing: []string{hostile}, Control: &evidence.Control{Status: "none", Reason: hostile}, Blockers: block,
			Untracked:   []string{hostile},
			Observation: &evidence.Observation{Mode: "all", Unobserved: []evidence.HunkOfPatch{{Path: hostile, First: 1, Last: 1}}}}),
		entry(11, evidence.StepRunCompleted, "run", done, 7*time.Second, 0, nil, evidence.RunCompleted{Status: "fail", Blockers: block}),
		entry(12, evidence.StepOutcome, "outcome", done, 8*time.Second, 0, nil, evidence.Outcome{Outcome: "rejected", Actor: hostile, Reason: hostile}),
	}
	rep := &evidence.Report{Status: "fail", Blockers: block, OperatorOutcome: "rejected"}
	return &Session{Summary: Summarize(id, Sealed, hostile, entries), Journal: entries, Report: rep}
}

// hostileHome has two attempts at one task.
func hostileHome() *memoryHome {
	result := func(phase, outcome string) string {
		b, err := json.Marshal(evidence.TestResult{Phase: phase, Command: hostile, Test: hostile, Outcome: outcome, File: hostile, Message: hostile})
		if err != nil {
			panic(err)
		}
		return string(b) + "\n"
	}
	return &memoryHome{sessions: []*Session{hostileSession("20261123T100000Z-b-2"), hostileSession("20261123T100000Z-a-1")}, version: 1, files: map[string]string{
		evidence.PatchFile:   fmt.Sprintf("diff --git a/x b/x\n--- a/x\n+++ b/%s\n@@ -1,2 +1,2 @@ %s\n-%s\n+%s\n %s\n", oneLine, oneLine, oneLine, oneLine, oneLine),
		evidence.TestLogFile: hostile + "\n" + hostile + "\n", "evil.html": "<script>alert(1)</script>", "evil.svg": "<svg onload=alert(1)>",
		evidence.TestResultsFile: result("base", "pass") + result("head", "fail"),
	}}
}

var oneLine = strings.ReplaceAll(hostile, "\n", " ")

// contract is one that an agent would be given, with hostile words.
func contract(t testing.TB) string {
	t.Helper()
	yaml, err := json.Marshal(map[string]any{"task_id": "evil", "title": "evil <script>alert(1)</script> title", "instructions": "evil </pre><script>alert(1)</script> `code`",
		"allowed_paths": []string{"src/**"}, "forbidden_actions": task.DefaultForbiddenActions(), "verification_commands": []string{"echo '<script>alert(1)</script>'"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := task.Parse("task.yaml", yaml)
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
