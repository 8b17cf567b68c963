package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"remit/fixtures/tally"
	"remit/nexus/api"
)

// TestDrainIsSeen stops a nexus that others stand in front of: while /readyz says
// 503 the listener is open, and what still comes is served.
func TestDrainIsSeen(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	p := serveNexus(t, "--drain-delay", "3s")
	n := &nexus{t, p.URL, p.Token}
	ready := func() int {
		resp, err := http.Get(p.URL + "/readyz") //nolint:noctx // it is on this machine
		if err != nil {
			t.Fatalf("the listener is closed: %v", err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
			t.Error("the answer does not say when to come again")
		}
		return resp.StatusCode
	}
	if got := ready(); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for ready() == http.StatusOK {
	}
	n.do(n.admin, "POST", "/v1/runs", "while-draining", object{"repo_ref": "r"}, http.StatusCreated)
	if got := n.do(n.admin, "GET", "/healthz", "", nil, http.StatusOK).text("status"); got != "draining" {
		t.Errorf("health says %q", got)
	}
	lane, err := api.Listen(t.Context(), n.client(), "fleet:user:admin:workers", -1)
	if err != nil {
		t.Errorf("no lane while the load balancer has not looked yet: %v", err)
	} else {
		lane.Close()
	}
	// A hangup ends nothing, and nothing sooner.
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if got := ready(); got != http.StatusServiceUnavailable {
		t.Errorf("after a hangup: %d", got)
	}
	p.wait(t)
}

func (n *nexus) client() *api.Client {
	n.t.Helper()
	c, err := api.Connect(n.url, n.admin, api.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// TestHangupReloads replaces the certificate and the level of the log under a
// nexus that runs; files that are wrong change nothing, and no hangup ends it.
func TestHangupReloads(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificate(t)
	newCert, newKey, newPool := certificate(t)
	level := filepath.Join(t.TempDir(), "level")
	write := func(to string, text []byte) {
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(from string) []byte {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write(level, []byte("warn\n"))
	p := serveNexus(t, "--tls-cert", cert, "--tls-key", key, "--log-level-file", level, "--log-format", "json")
	shown := func() *x509.Certificate {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(p.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	hangup := func() {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	trusted := func() bool {
		_, err := shown().Verify(x509.VerifyOptions{Roots: newPool})
		return err == nil
	}
	if trusted() {
		t.Fatal("the new certificate is there already")
	}
	oldKey := read(key)
	write(cert, read(newCert)) // half of it: the pair does not fit
	hangup()
	for range 5 {
		if trusted() {
			t.Fatal("a certificate without its key is used")
		}
	}
	write(level, []byte("debug"))
	write(key, read(newKey))
	hangup()
	for !trusted() {
		hangup()
	}
	write(key, oldKey)
	write(level, []byte("loud"))
	hangup()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: newPool, MinVersion: tls.VersionTLS12}}}
	c, err := api.Connect(p.URL, p.Token, api.Options{HTTP: client})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.GetHealth.Get(t.Context(), c, api.None{}); err != nil { // logged at the level debug only
		t.Error(err)
	}
	client.CloseIdleConnections()
	p.stop(t)
	text := p.log.String()
	for _, want := range []string{"private key does not match public key", `"msg":"reloaded"`, `"operation":"getHealth"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not have %q", want)
		}
	}
}

// TestRequestLog puts a secret everywhere in requests where people put them by
// mistake: each request has a line with its id, and no line has a secret.
func TestRequestLog(t *testing.T) {
	t.Parallel()
	p := serveNexus(t, "--log-format", "json", "--log-level", "debug", "--refused-burst", "1000", "--metrics-listen", "127.0.0.1:0")
	secret := "rmt_user_0123456789abcdef01234567_" + strings.Repeat("S", 43)
	ids := map[string]bool{}
	send := func(method, path string, header http.Header, body string) {
		req, err := http.NewRequestWithContext(t.Context(), method, p.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		ids[resp.Header.Get(api.HeaderRequestID)] = true
	}
	mine := func(more ...string) http.Header {
		h := http.Header{"Authorization": {"Bearer " + p.Token}, "Content-Type": {"application/json"}}
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	send("GET", "/v1/runs?token="+secret, mine(), "")
	send("GET", "/v1/runs/"+secret, mine(), "")
	send("POST", "/v1/tokens/"+secret+"/revoke", mine(api.HeaderKey, secret), "")
	send("GET", "/"+secret, http.Header{}, "")
	send("GET", "/v1/whoami", http.Header{"Authorization": {"Bearer " + secret}}, "")
	send("GET", "/v1/whoami", http.Header{"Cookie": {"remit_session=" + secret}}, "")
	send("POST", "/v1/runs", mine(api.HeaderKey, "k", "User-Agent", secret, "Referer", "http://x/?t="+secret, api.HeaderRequestID, secret), `{"repo_ref":"`+secret+`"}`)
	send("POST", "/v1/sessions", mine(api.HeaderKey, "s"), `{"token":"`+secret+`"}`)
	send("GET", "/v1/lanes/run:"+secret+":events?ticket="+secret, mine("Sec-WebSocket-Protocol", "remit.ticket."+secret), "")
	send("GET", "/v1/jobs/x/artifacts/sha256:0?name="+secret, mine(), "")
	send("RMTUSER", "/v1/runs", mine(), "")
	p.stop(t)
	if strings.Contains(p.log.String(), "SSSSSSSS") || strings.Contains(p.log.String(), "RMTUSER") {
		t.Error("the log holds what a caller has sent")
	}
	metrics := false
	lines := bufio.NewScanner(bytes.NewReader(p.log.Bytes()))
	for lines.Scan() {
		var line struct {
			Msg, Operation, URL string
			ID                  string `json:"request_id"`
			Status              int
			Took                *float64 `json:"took_ms"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("no JSON: %s", lines.Text())
		}
		metrics = metrics || line.Msg == "metrics" && strings.HasPrefix(line.URL, "http://127.0.0.1:") && strings.HasSuffix(line.URL, "/metrics")
		if line.Msg != "request" {
			continue
		}
		if !ids[line.ID] || line.Operation == "" || line.Status == 0 || line.Took == nil {
			t.Errorf("not the line of a request, or the second one: %s", lines.Text())
		}
		delete(ids, line.ID)
	}
	if !metrics {
		t.Error("the log does not say where the figures are")
	}
	if len(ids) > 0 {
		t.Errorf("%d requests have no line", len(ids))
	}
}

// TestServeFlagsAreDocumented compares the flags of remit serve with the table of
// docs/nexus.md, both ways, and every default.
func TestServeFlagsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/nexus.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Flags of remit serve\n")
	if !found {
		t.Fatal("docs/nexus.md has no table of flags")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| (.*?) \\|").FindAllStringSubmatch(section, -1) {
		if _, twice := documented[m[1]]; twice {
			t.Errorf("--%s is there twice", m[1])
		}
		documented[m[1]] = strings.Trim(m[2], "`")
	}
	serve, _, err := newRoot().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	flags := 0
	serve.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		flags++
		want, there := documented[f.Name]
		delete(documented, f.Name)
		switch is := f.DefValue; {
		case f.Name == "help":
		case !there:
			t.Errorf("--%s is not documented: add it to the table", f.Name)
		case is == "" || is == "[]" || is == "false" || is == "0" || is == "0s":
			if regexp.MustCompile(`^[0-9]`).MatchString(want) {
				t.Errorf("--%s has no default of its own, the table says %q", f.Name, want)
			}
		case want != shortTime(is):
			t.Errorf("--%s is %s, the table says %q", f.Name, shortTime(is), want)
		}
	})
	for name := range documented {
		t.Errorf("--%s is documented, and is no flag", name)
	}
	if flags < 40 {
		t.Errorf("%d flags: the test proves little", flags)
	}
}

// shortTime writes a time without what is zero.
func shortTime(s string) string {
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, ok := strings.CutSuffix(s, zero); ok {
			s = cut + zero[:1]
		}
	}
	return s
}

// TestLimitsAreChecked refuses numbers that would be taken for a default, or that
// would keep a nexus from working.
func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	var l limits
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	l.add(flags)
	if err := l.check(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		for _, bad := range []string{"-1", "0", "1e300", "-1s", "0s", "1ns", "999999h"} {
			if f.Name == "burst" && bad == "0" || strings.HasPrefix(bad, "0") && slices.Contains([]string{"run-silence", "keep-runs", "drain-delay"}, f.Name) {
				continue // twice the rate, never, and none
			}
			var l limits
			flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			l.add(flags)
			if flags.Set(f.Name, bad) == nil && l.check() == nil {
				t.Errorf("--%s %s is accepted", f.Name, bad)
			}
		}
	})
	opt := l.options()
	if opt.Lanes.PerPrincipal != 64 || l.storeOptions().Connections != 16 || opt.Rate.Burst != 401 {
		t.Errorf("%+v", opt)
	}
	if err := flags.Parse([]string{"--lanes-per-principal", "3", "--db-connections", "2", "--sweep-interval", "1s", "--burst", "9"}); err != nil {
		t.Fatal(err)
	}
	if opt = l.options(); opt.Lanes.PerPrincipal != 3 || l.storeOptions().Connections != 2 || fmt.Sprint(opt.Sweep.Every) != "1s" || opt.Rate.Burst != 9 {
		t.Errorf("%+v", opt)
	}
}
