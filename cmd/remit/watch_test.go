package main

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/law/job"
	"remit/law/task"
	"remit/nexus/api"
	"remit/nexus/panel"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/session"
)

// TestServeSmoke: the command fetches pages without a login and with one, and every
// one is as it should be.
func TestServeSmoke(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home := session.Home{Dir: dir}
	if err := writtenSession(t, home, "20261123T100000Z-one-000001", "one").Close(); err != nil {
		t.Fatal(err)
	}
	code, out := inProcessAt(t, dir, "serve", "smoke")
	var got struct {
		Failed   int           `json:"failed"`
		Requests []smokeResult `json:"requests"`
	}
	if err := json.Unmarshal(out, &got); err != nil || code != 0 || got.Failed != 0 || len(got.Requests) < 20 {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	seen := map[string]int{}
	for _, r := range got.Requests {
		if r.Login {
			seen[r.Path] = r.Status
		}
	}
	if seen["/"] != 200 || seen["/runs/20261123T100000Z-one-000001"] != 200 {
		t.Errorf("%v", seen)
	}
}

// TestWatchShowsThePage: the line of a session has the figures of its row on the page,
// also those that are not known.
func TestWatchShowsThePage(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	full := panel.Summary{ID: "20261123T100000Z-one-000001", Phase: panel.Sealed, Status: "fail", Title: "Fix the clock", Engine: "codex", Model: "gpt-5.5", Started: begun,
		Ended: begun.Add(92 * time.Second), Code: "verification_failed", Why: "two broke", Changed: []string{"a.go"}, Added: 12, Removed: 3, Measured: true, Fixed: 8, Broken: 4,
		MicroUSD: 1_234_500, CostKnown: new(true)}
	none := panel.Summary{ID: "20261123T100000Z-two-000002", Phase: panel.Running, Status: panel.Running, Title: "Under way", Engine: "pi", Started: begun}
	world := &listedHome{list: []panel.Summary{full, none}}
	p, err := panel.New(panel.Options{API: loggedIn{}, Log: slog.New(slog.DiscardHandler), Version: "test", Home: world, Loopback: true, Clock: func() time.Time { return begun }})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
	r.RemoteAddr = "127.0.0.1:5"
	out := httptest.NewRecorder()
	p.ServeHTTP(out, r)
	page := html.UnescapeString(out.Body.String())
	for _, s := range world.list {
		line := runLine("session", s)
		for _, want := range []string{line.ID, line.Word, line.Fixed, line.Broken, line.Cost, line.Took, line.What, s.Engine, s.Code, s.Why} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q of the terminal", line.ID, want)
			}
		}
	}
	if got := runLine("session", full); got.Lines != "+12 -3" || got.Cost != "1.2345" || got.Took != "1m 32s" || got.Fixed != "8" || got.Broken != "4" || got.Word != "Fail" {
		t.Errorf("%+v", got)
	}
	if got := runLine("session", none); got.Fixed != "–" || got.Cost != "–" || got.Took != "" {
		t.Errorf("%+v", got)
	}
}

// TestWatchShowsTheNexus: of a nexus too the terminal says what the pages say, of a run
// that failed, a machine that was switched off and an approval that waits.
func TestWatchShowsTheNexus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := &app{home: session.Home{Dir: filepath.Join(dir, "home")}}
	err := a.withPanel(t.Context(), filepath.Join(dir, "nexus"), func(base, token string) error {
		run, machine, approval := attentionAt(t, base, token)
		file := filepath.Join(dir, "token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			return err
		}
		code, out := inProcessAt(t, a.home.Dir, "watch", "--once", "--nexus", base, "--token-file", file)
		lines := map[string]watched{}
		for d := json.NewDecoder(bytes.NewReader(out)); code == 0 && d.More(); {
			var line watched
			if err := d.Decode(&line); err != nil {
				return err
			}
			lines[line.ID] = line
		}
		cookie, err := logIn(t.Context(), &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, base, token)
		if err != nil {
			return err
		}
		says := func(path, id string, want ...string) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.AddCookie(cookie)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			page := html.UnescapeString(string(text))
			for _, word := range append(want, id) {
				if word == "" || !strings.Contains(page, word) {
					t.Errorf("%s of the terminal is %+v, and %s lacks %q", id, lines[id], path, word)
				}
			}
		}
		r, m, p := lines[run], lines[machine], lines[approval]
		says("/?from=nexus", run, append(strings.Split(r.By, " × "), r.Word, r.Fixed, r.Broken, r.Cost, r.Took, r.What, strings.Fields(r.Why)[0])...)
		says("/fleet", machine, m.Word, m.What, m.Why)
		says("/approvals", approval, append(strings.Split(strings.Replace(p.By, ", ", " × ", 1), " × "), p.What)...)
		if r.Word != "Fail" || r.Broken == "–" || m.Why != "it is loud" || !strings.Contains(p.By, "codex") {
			t.Errorf("%+v\n%+v\n%+v", r, m, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// attentionAt has a nexus know of a run that failed, a machine that is switched off and
// an approval that waits.
func attentionAt(t *testing.T, base, token string) (run, machine, approval string) {
	t.Helper()
	ctx := t.Context()
	c, err := api.Connect(base, token, api.Options{Retry: api.Retry{Attempts: 1}})
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(what, ": ", err)
		}
	}
	must("connect", err)
	log, err := journal.ReadFile(filepath.Join("../../vectors/evidence/valid/fail", evidence.JournalFile))
	must("read a journal", err)
	summary, err := evidence.SummaryOf(log.Entries)
	must("sum it up", err)
	body, err := canon.Marshal(summary)
	must("write it", err)
	made, err := api.CreateRun.Do(ctx, c, "run", api.None{}, api.RunRequest{RepoRef: "acme/links", Metadata: &map[string]string{"session_id": log.Entries[0].SessionID}})
	must("make a run", err)
	told := api.JournalReport{SessionID: log.Entries[0].SessionID, Summary: new(json.RawMessage(body))}
	for _, e := range log.Entries {
		told.Entries = append(told.Entries, api.EntryOf(e, 16<<10))
	}
	_, err = api.TellJournal.Do(ctx, c, "tell", made.RunID, told)
	must("tell of it", err)
	joined, err := api.RegisterProvider.Do(ctx, c, "join", api.None{}, api.ProviderRequest{Name: "attic", Version: "1", PriceMsats: 1, Capabilities: []string{job.SandboxRun}})
	must("register a machine", err)
	machine = joined.Provider.ProviderID
	_, err = api.SetCaps.Do(ctx, c, "caps", api.SetCapsParams{ProviderID: machine}, api.Caps{CPUMillis: 1000, MemoryMb: 64, DiskMb: 64, Pids: 64, TimeoutSecs: 60, Concurrency: 1,
		Network: api.CapsNetworkNone})
	must("cap it", err)
	_, err = api.EnableProvider.Do(ctx, c, "on", api.EnableProviderParams{ProviderID: machine}, api.None{})
	must("switch it on", err)
	_, err = api.DisableProvider.Do(ctx, c, "off", machine, api.ReasonRequest{Reason: new("it is loud")})
	must("switch it off", err)
	asked, err := task.FromIssue([]byte("# Change it\n"), "issue", nil)
	if err == nil {
		asked, err = task.Narrow(asked, task.Flags{Allow: []string{"**"}, Verify: []string{"make test"}})
	}
	must("write a contract", err)
	text, err := asked.Canonical()
	must("write a contract", err)
	got, err := api.RequestApproval.Do(ctx, c, "ask", api.None{}, api.ApprovalRequest{RepoRef: "acme/links", Contract: string(text),
		Asker: &api.ApprovalAsker{Engine: "codex", EngineVersion: "1.2", Model: "gpt-5.5", Lowered: []api.LoweredLimit{}}})
	must("ask for an approval", err)
	return made.RunID, machine, got.Value.ApprovalID
}

// listedHome lists sessions, and has nothing else of them.
type listedHome struct {
	panel.Home
	list []panel.Summary
}

func (h *listedHome) List(context.Context) ([]panel.Summary, int, error) {
	return h.list, len(h.list), nil
}

// loggedIn is an API that knows one reader, and nothing that waits.
type loggedIn struct{}

func (loggedIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answers := map[string]string{"/v1/sessions/current": `{"session_id":"s","principal":"user:a","owner":"a","scopes":["read"],"csrf_token":"c","token_id":"t","created_at":"2026-11-23T10:00:00.000Z","idle_at":"2099-01-01T00:00:00.000Z","expires_at":"2099-01-01T00:00:00.000Z"}`,
		"/v1/approvals": `{"items":[]}`}
	_, _ = io.WriteString(w, answers[r.URL.Path])
}

// TestWatch: what is new or has changed is a line, what has not is none, and what
// others wrote drives no terminal.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writtenSession(t, session.Home{Dir: dir}, "20261123T100000Z-one-000001", "evil\x1b[2J\u202e").Close(); err != nil {
		t.Fatal(err)
	}
	code, out := inProcessAt(t, dir, "watch", "--once")
	var line watched
	if err := json.Unmarshal(out, &line); err != nil || code != 0 || line.ID != "20261123T100000Z-one-000001" || line.Status != session.Interrupted {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
	var text bytes.Buffer
	w := watcher{out: &text, told: map[string]watched{}}
	for _, state := range [][]watched{{line}, {line}, {line, {Kind: "run", ID: "two", Status: "running", What: "evil\x1b[2J\u202e"}}} {
		if err := w.show(state); err != nil {
			t.Fatal(err)
		}
	}
	if got := text.String(); strings.Count(got, "\n") != 3 || strings.ContainsAny(got, "\x1b\u202e") || strings.Count(got, "KIND") != 1 {
		t.Errorf("%q", got)
	}
}
