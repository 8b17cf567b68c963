package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/bridge"
)

// bridgeRelay runs the built-in relay as a process.
func bridgeRelay(t *testing.T) string {
	t.Helper()
	_, out := background(t, t.TempDir(), "bridge", "relay", "--listen", "127.0.0.1:0", "--json")
	var said struct {
		URL string `json:"url"`
	}
	if err := out.Decode(&said); err != nil || !strings.HasPrefix(said.URL, "ws://127.0.0.1:") {
		t.Fatalf("the relay said %+v: %v", said, err)
	}
	return said.URL
}

// remit runs a command against the nexus and returns its exit code.
func (n *nexus) remit(token string, v any, args ...string) (code int, text string) {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), program(), args...)
	cmd.Env = append(os.Environ(), "REMIT_HOME="+n.t.TempDir(), "REMIT_NEXUS="+n.url, "REMIT_TOKEN="+token)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		n.t.Fatal(err)
	}
	if v != nil {
		if err := json.Unmarshal(out.Bytes(), v); err != nil {
			n.t.Fatalf("remit %v: exit %d: %v: %s%s", args, code, err, out.String(), errs.String())
		}
	}
	return code, out.String() + errs.String()
}

// TestBridgeMirrors takes a job from a provider to its settlement, as processes,
// and finds it at two relays: an ad, and pointers to both receipts.
func TestBridgeMirrors(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	relay, second := bridgeRelay(t), bridgeRelay(t)
	n := startNexus(t, "--relay", relay, "--relay", second+"/")
	alice := n.do(n.admin, "POST", "/v1/tokens", "alice", object{"kind": "user", "owner": "alice",
		"scopes": []string{"runs:write", "jobs:write", "providers:write", "treasury:write", "read"}}, http.StatusCreated).text("token")
	account := n.do(alice, "POST", "/v1/treasury/accounts", "account", object{"limit": 10_000}, http.StatusCreated)
	n.do(n.admin, "POST", "/v1/treasury/fund", "fund", object{"account_id": account.text("account_id"), "amount": 5_000}, http.StatusOK)
	repo := gitRepo(t, map[string]string{"hello.txt": "hello\n"})
	provider, home := n.enrol("alice", "one")
	background(t, home, "provider", "start", "--unenforced-caps", "--source", repo)
	n.lane(t.Context(), alice, "fleet:user:alice:workers", func(e api.Event) bool {
		var seen struct {
			Heartbeat string `json:"heartbeat_state"`
		}
		_ = json.Unmarshal(e.Payload, &seen) // not every event is about a heartbeat
		return seen.Heartbeat == "fresh"
	})
	run := n.do(alice, "POST", "/v1/runs", "run", object{"repo_ref": "repo"}, http.StatusCreated).text("run_id")
	dispatched := n.do(alice, "POST", "/v1/runs/"+run+"/jobs", "dispatch", object{"job_type": job.SandboxRun, "request": object{
		"sandbox": object{"image_digest": "host", "provider": "local"}, "repo": object{"source": repo}, "commands": []object{{"cmd": "test -f hello.txt"}}}}, http.StatusCreated)
	n.lane(t.Context(), alice, "run:"+run+":events", func(e api.Event) bool {
		return strings.Contains(string(e.Payload), `"receipt_type":"JobCompleted"`)
	})
	settled := n.do(alice, "POST", "/v1/jobs/"+dispatched.text("job_id")+"/settle", "settle", nil, http.StatusOK)

	var published api.BridgePublished
	if code, text := n.remit(alice, &published, "bridge", "publish", "--json"); code != 0 || len(published.Relays) != 2 {
		t.Fatalf("publish: exit %d: %s", code, text)
	}
	for _, r := range published.Relays {
		if r.Waiting != 0 || r.Has != 3 || r.Refused != 0 {
			t.Errorf("relay %+v", r)
		}
	}
	for _, url := range []string{relay, second} {
		for _, token := range []string{alice, n.admin} {
			var report bridgeReport
			code, text := n.remit(token, &report, "bridge", "verify", "--json", "--relay", url, "--nexus", n.url)
			if code != 0 || !report.Passed || report.PubKey != published.Pubkey || report.Ads != 1 || report.Pointers != 2 || report.Receipts != 2 || report.Unchecked != 0 {
				t.Errorf("verify: exit %d: %s", code, text)
			}
		}
	}
	// A stranger needs no nexus.
	if code, text := n.remit("", nil, "bridge", "verify", "--relay", relay, "--pubkey", published.Pubkey); code != 0 || !strings.Contains(text, "1 provider ads, 2 receipt pointers") {
		t.Errorf("verify: exit %d: %s", code, text)
	}
	page := n.do(alice, "GET", "/v1/bridge/events", "", nil, http.StatusOK)
	if !strings.Contains(page.raw, settled.text("verification_receipt_sha256")) || !strings.Contains(page.raw, provider) || strings.Contains(page.raw, `"waiting"`) {
		t.Errorf("events %s", page.raw)
	}
	// Again: the same events, so nothing new at the relay.
	if code, text := n.remit(n.admin, &published, "bridge", "publish", "--again", "--json"); code != 0 || published.Relays[0].Took != 3 {
		t.Errorf("again: exit %d: %s", code, text)
	}
	if code, text := n.remit(n.admin, nil, "bridge", "verify", "--relay", relay, "--nexus", n.url); code != 0 {
		t.Errorf("verify: exit %d: %s", code, text)
	}
	// A relay that took nothing from this nexus lacks nothing; one that is away cannot be verified.
	if code, text := n.remit(n.admin, nil, "bridge", "verify", "--relay", "ws://127.0.0.1:1", "--nexus", n.url); code != 3 || !strings.Contains(text, "connecting to the relay") {
		t.Errorf("verify: exit %d: %s", code, text)
	}
}

// TestBridgeVerifyFails holds a relay that lies against its own events.
func TestBridgeVerifyFails(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		if _, _, err := c.Read(r.Context()); err != nil {
			return
		}
		lie, err := json.Marshal([]any{"EVENT", "remit", bridge.Event{ID: strings.Repeat("0", 64), PubKey: strings.Repeat("1", 64), Kind: 1, Content: "\x1b[2J", Sig: strings.Repeat("2", 128)}})
		if err != nil {
			t.Error(err)
		}
		for _, msg := range [][]byte{lie, []byte(`["EOSE","remit"]`)} {
			if c.Write(r.Context(), websocket.MessageText, msg) != nil {
				return
			}
		}
		_, _, _ = c.Read(r.Context()) // until the client has it all
	}))
	t.Cleanup(s.Close)
	n := &nexus{t: t}
	url := "ws" + strings.TrimPrefix(s.URL, "http")
	var report bridgeReport
	if code, text := n.remit("", &report, "bridge", "verify", "--json", "--relay", url); code != 2 || report.Passed || len(report.Findings) != 1 {
		t.Errorf("exit %d: %s", code, text)
	}
	if code, text := n.remit("", nil, "bridge", "verify", "--relay", url); code != 2 || !strings.Contains(text, "FAIL 0000") || strings.Contains(text, "\x1b") {
		t.Errorf("exit %d: %q", code, text)
	}
}

// TestBridgeKey starts a nexus with its own key, with a copy and with another.
func TestBridgeKey(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	const down = "ws://127.0.0.1:1" // a nexus starts while its relay is down
	p := serveNexus(t, "--data", data, "--relay", down)
	p.stop(t)
	key := filepath.Join(data, bridge.KeyFile)
	secret, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(key)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if text := strings.TrimSpace(string(secret)); len(text) != 64 || strings.Contains(p.log.String(), text) {
		t.Error("the key is no key, or in the log")
	}
	elsewhere := filepath.Join(t.TempDir(), "copy")
	if err := os.Rename(key, elsewhere); err != nil {
		t.Fatal(err)
	}
	n := &nexus{t: t}
	start := []string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--relay", down}
	if code, text := n.remit("", nil, start...); code != 3 || !strings.Contains(text, "bridge_key_mismatch") || !strings.Contains(text, "--bridge-key FILE") {
		t.Errorf("without its key: exit %d: %s", code, text)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, bytes.Repeat([]byte("17"), 32), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, text := n.remit("", nil, append(start, "--bridge-key", other)...); code != 3 || !strings.Contains(text, "bridge_key_mismatch") {
		t.Errorf("with another key: exit %d: %s", code, text)
	}
	again := serveNexus(t, "--data", data, "--relay", down, "--bridge-key", elsewhere)
	again.stop(t)
	if _, err := os.Stat(key); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a key was made beside the one that was given: %v", err)
	}
}
