package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/agentconf"
	"remit/work/session"
)

// mcpClient is the client of the SDK, at a server over the given repositories.
type mcpClient struct {
	t    *testing.T
	home session.Home
	cs   *mcp.ClientSession
}

func newMCPClient(t *testing.T, home string, f *mcpFlags) *mcpClient {
	t.Helper()
	c := &mcpClient{t: t, home: session.Home{Dir: home}}
	server, err := (&app{home: c.home}).newMCP(context.WithoutCancel(t.Context()), f)
	if err != nil {
		t.Fatal(err)
	}
	there, here := mcp.NewInMemoryTransports()
	served := make(chan error, 1)
	go func() { served <- server.serve(there) }()
	c.cs, err = mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.cs.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return c
}

// call calls a tool. A refusal by the schema of the tool comes as text.
func (c *mcpClient) call(tool string, args map[string]any) (mcpResult, *mcp.CallToolResult, string) {
	c.t.Helper()
	res, err := c.cs.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return mcpResult{}, &mcp.CallToolResult{IsError: true}, err.Error()
	}
	var texts []string
	for _, content := range res.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	var out mcpResult
	if len(texts) == 2 {
		if texts[0] != mcpUntrusted || res.Meta["remit/untrusted"] != true {
			c.t.Errorf("%s is not marked: %v, %q", tool, res.Meta, texts[0])
		}
		if err := json.Unmarshal([]byte(texts[1]), &out); err != nil || !out.Untrusted {
			c.t.Errorf("%s: %v: %s", tool, err, texts[1])
		}
	}
	return out, res, strings.Join(texts, "\n")
}

func (c *mcpClient) sessions() int {
	c.t.Helper()
	all, err := c.home.List()
	if err != nil {
		c.t.Fatal(err)
	}
	return len(all)
}

func codesOf(t *testing.T, doc []byte) (codes []reason.Code) {
	t.Helper()
	var rep evidence.Report
	if err := json.NewDecoder(bytes.NewReader(doc)).Decode(&rep); err != nil { // what follows is about the exit code
		t.Fatalf("%v: %s", err, doc)
	}
	for _, b := range rep.Blockers {
		codes = append(codes, b.Code)
	}
	return codes
}

const mcpPolicy = "allowed_paths: [src/**]\nverification_commands: [\"true\"]\nnetwork: gateway\nbudget: {max_requests: 30}\n" +
	"engines: {codex: {enabled: true}, claude: {enabled: false}, command: {enabled: true}, fake: {enabled: true}, acp: {enabled: true}}\n"

// TestMCPGates: whatever a client calls, in whatever order, no run gets past a gate of
// remit run, and nothing begins that this server was not started for.
func TestMCPGates(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	repo, strict, other := gitRepo(t, map[string]string{"remit.yaml": mcpPolicy}), gitRepo(t, map[string]string{"remit.yaml": mcpPolicy + "approval_required: true\n"}), gitRepo(t, map[string]string{"remit.yaml": mcpPolicy})
	settled := &agentconf.Agent{Schema: agentconf.Schema, Name: "codex", Engine: "codex", Version: "1", SHA256: "sha256:" + strings.Repeat("0", 64), SetUpAt: "2026-11-01T00:00:00Z",
		Model: agentconf.Model{Provider: "openai", Name: "m"}}
	if err := settled.Save(home); err != nil {
		t.Fatal(err)
	}
	fifty := int64(50)
	c := newMCPClient(t, home, &mcpFlags{repos: []string{"shop=" + repo, "strict=" + strict}, requests: amount{value: &fifty}, runs: 3})
	tools, err := c.cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if want := []string{"audit", "diff", "receipt", "replay", "status", "submit"}; !slices.Equal(names, want) {
		t.Fatalf("tools: %v", names)
	}
	with := func(more ...any) map[string]any {
		args := map[string]any{"repository": "shop", "engine": "codex", "task": "# Mend it"}
		for i := 0; i < len(more); i += 2 {
			args[more[i].(string)] = more[i+1] //nolint:forcetypeassert // the keys of this table
		}
		return args
	}
	for _, call := range []struct {
		tool, want string
		args       map[string]any
	}{
		{"submit", "sandbox", with("sandbox", "none")}, {"submit", "verify", with("verify", []string{"true"})}, {"submit", "approve", with("approve", true)},
		{"submit", "allow", with("allow", "**")}, {"submit", "base_url", with("base_url", "http://127.0.0.1")}, {"submit", "toolchain", with("toolchain", "/")},
		{"submit", "key", with("key", "sk-1")}, {"submit", "max_usd", with("max_usd", 100)}, {"submit", "command", with("command", []string{"sh"})}, {"submit", "base", with("base", "HEAD")},
		{"submit", "must be one of shop, strict", with("repository", other)}, {"submit", "must be one of", with("repository", repo)}, {"submit", "must be one of", with("repository", "../shop")},
		{"submit", "asks a model", with("engine", "command")}, {"submit", "asks a model", with("engine", "fake")}, {"submit", "asks a model", with("engine", "acp")},
		{"submit", "asks a model", with("engine", "codex --approve")}, {"submit", "asks a model", with("engine", "none")}, {"submit", "asks a model", with("engine", "")},
		{"submit", string(reason.EngineNotEnabled), with("engine", "claude")}, {"submit", string(reason.EngineNotEnabled), with("engine", "pi")},
		{"submit", "task", with("task", " ")}, {"submit", "task", with("task", strings.Repeat("x", maxMCPTask+1))}, {"submit", "task", with("task", 7)},
		{"approve", "approve", map[string]any{"id": "apr_1"}}, {"run", "run", with()},
		{"status", "one of both", map[string]any{}}, {"status", "has started none", map[string]any{"submission": "s1"}}, {"status", "session_not_found", map[string]any{"session_id": "latest"}},
		{"diff", "session_not_found", map[string]any{"session_id": "/etc"}}, {"receipt", "session_not_found", map[string]any{"session_id": "../.."}}, {"audit", "session_not_found", map[string]any{"session_id": "--help"}},
		{"replay", "session_not_found", map[string]any{"session_id": ""}}, {"audit", "run", map[string]any{"session_id": "x", "run": "sh"}},
	} {
		if _, res, text := c.call(call.tool, call.args); !res.IsError || !strings.Contains(text, call.want) {
			t.Errorf("%s %.200v: error %t, %.300s; want %q", call.tool, call.args, res.IsError, text, call.want)
		}
	}
	if n := c.sessions(); n != 0 {
		t.Fatalf("%d runs have begun", n)
	}
	// A run that begins meets the gates that remit run meets, a second time as well.
	task := filepath.Join(t.TempDir(), "TASK.md")
	if err := os.WriteFile(task, []byte("# Mend it\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct{ name, dir string }{{"shop", repo}, {"strict", strict}, {"strict", strict}} {
		_, doc := inProcessAt(t, home, "run", "--repo", r.dir, "--issue", task, "--engine", "codex")
		want := codesOf(t, doc)
		got, res, text := c.call("submit", with("repository", r.name, "task", "---\nnumber: 7\n---\n# Mend it\n--approve --sandbox none", "wait_seconds", 600))
		if res.IsError || got.State != mcpDone || got.ExitCode != 3 || len(want) == 0 || !slices.Equal(codesOf(t, got.Document), want) {
			t.Fatalf("%s: %s, want the codes %v of remit run", r.name, text, want)
		}
		again, _, text := c.call("status", map[string]any{"submission": got.Submission})
		if again.ExitCode != 3 || again.Session != got.Session || got.Session == "" {
			t.Errorf("status: %s", text)
		}
		var rep evidence.Report
		if err := json.Unmarshal(got.Document, &rep); err != nil || rep.EngineProcessStarted || rep.ApprovalStatus == "granted" {
			t.Errorf("%v: %s", err, got.Document)
		}
	}
	if _, res, text := c.call("submit", with()); !res.IsError || !strings.Contains(text, string(reason.BudgetExhausted)) {
		t.Errorf("a run more than --max-runs: %s", text)
	}
}

// TestMCPReads: the tools that read show what the commands print, of sessions of the
// repositories of the server and of no others.
func TestMCPReads(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	requireSandbox(t)
	home, dir := t.TempDir(), t.TempDir()
	mine, other := gitRepo(t, checkFiles), gitRepo(t, checkFiles)
	var ids []string
	for _, repo := range []string{mine, other} {
		patch := patchOf(t, repo, "shop/price.py", "sum(prices) - percent", "sum(prices) * (100 - percent) / 100")
		write(t, dir, "patch", patch)
		ids = append(ids, checks(t, home, repo, passes, "--base", "HEAD", "--patch", filepath.Join(dir, "patch")).SessionID)
	}
	n := int64(1)
	c := newMCPClient(t, home, &mcpFlags{repos: []string{mine}, requests: amount{value: &n}, runs: 1})
	for tool, want := range map[string]string{"status": `"status":"pass"`, "diff": "sum(prices) * (100 - percent)", "audit": `"run_status":"pass"`, "replay": `"SessionEnd"`, "receipt": `"remit.receipt.v1"`} {
		got, res, text := c.call(tool, map[string]any{"session_id": ids[0]})
		if res.IsError || got.ExitCode != 0 || got.Session != ids[0] || !strings.Contains(string(got.Document), want) {
			t.Errorf("%s: %.500s", tool, text)
		}
		if _, res, text := c.call(tool, map[string]any{"session_id": ids[1]}); !res.IsError || !strings.Contains(text, string(reason.SessionNotFound)) {
			t.Errorf("%s of another repository: %.300s", tool, text)
		}
	}
}

// TestMCPBudget: what runs have used is taken from what is left, all of it where the cost
// of a run is not known; and a run is never given more than its policy allows.
func TestMCPBudget(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	yes, no := true, false
	all := spend{n(2_500_000), n(100), n(10)}
	for _, tc := range []struct {
		used evidence.MeteredUsage
		want [3]int64
	}{
		{evidence.MeteredUsage{}, [3]int64{2_500_000, 100, 10}},
		{evidence.MeteredUsage{Tokens: 40, CostMicroUSD: 500_001, Requests: 3, CostKnown: &yes}, [3]int64{1_999_999, 60, 7}},
		{evidence.MeteredUsage{Tokens: 400, CostMicroUSD: 1, Requests: 1, CostKnown: &no}, [3]int64{0, 0, 9}},
		{evidence.MeteredUsage{Requests: 1}, [3]int64{0, 100, 9}},
	} {
		if got := all.less(tc.used); *got.usd != tc.want[0] || *got.tokens != tc.want[1] || *got.requests != tc.want[2] || got.exhausted() != slices.Contains(tc.want[:], 0) {
			t.Errorf("%+v leaves %d, %d, %d", tc.used, *got.usd, *got.tokens, *got.requests)
		}
	}
	policy, err := task.ParsePolicy("remit.yaml", []byte(mcpPolicy))
	if err != nil {
		t.Fatal(err)
	}
	for left, want := range map[int64]string{50: "--max-requests=30", 7: "--max-requests=7"} {
		if got := (spend{usd: n(1_000_001), requests: n(left)}).limits(policy); !slices.Equal(got, []string{"--max-usd=1.000001", want}) {
			t.Errorf("%d left: %v", left, got)
		}
	}
	repo := t.TempDir()
	for line, want := range map[string]string{"": "--repo DIR", "--repo " + repo: "may use in all", "--repo " + repo + " --max-usd 1 --max-runs 0": "--max-runs 0", "--repo a=" + repo + " --repo a=" + repo + " --max-usd 1": "is there already",
		"--repo /nowhere --max-usd 1": "/nowhere", "--repo -x=" + repo + " --max-usd 1": "or is none"} {
		cmd := new(app).mcpCommand()
		cmd.SetArgs(strings.Fields(line))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mcp %s: %v, want %q", line, err, want)
		}
	}
}

// TestMCPGoesOnBehindABrokenLine: a line that is no message is answered, and the next
// one is served.
func TestMCPGoesOnBehindABrokenLine(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	server, err := (&app{home: session.Home{Dir: t.TempDir()}}).newMCP(t.Context(), &mcpFlags{repos: []string{repo}, runs: 1, requests: amount{value: new(int64(1))}})
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{`{"jsonrpc": broken`, ``, `3`, `{"hello": 1}`, `[]`, `[{"jsonrpc":"2.0","id":9,"method":"ping"}]`,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":1e300,"method":"ping"}`, `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, "\"" + strings.Repeat("x", mcp.DefaultMaxLineLength) + "\"",
		`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{`, `{"jsonrpc":"2.0","id":8,"method":"tools/list"}`}
	in, client := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- server.serve(mcpLines(in, out))
		_ = out.Close() // it always succeeds
	}()
	go func() { _, _ = io.WriteString(client, strings.Join(lines, "\n")+"\n") }() // a server that ended is seen below
	var got string
	for scan := bufio.NewScanner(answers); !strings.Contains(got, `"id":8`) && scan.Scan(); {
		got += scan.Text() + "\n"
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if strings.Count(got, `"code":-32700`) != 2 || strings.Count(got, `"code":-32600`) != 8 || !strings.Contains(got, `"id":7`) || !strings.Contains(got, `"id":8`) {
		t.Errorf("answered: %s", got)
	}
	for line := range strings.Lines(got) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}
