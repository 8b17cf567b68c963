package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"remit/fixtures/tally"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/agentconf"
	"remit/work/gateway/scripted"
	"remit/work/session"
)

// scriptedPi is an agent with the package, the options and the output of Pi: it asks its
// model once, and then does what the task names.
const scriptedPi = `import fs from "node:fs";
const say = (e) => console.log(JSON.stringify(e));
const gw = JSON.parse(fs.readFileSync(process.env.PI_CODING_AGENT_DIR + "/models.json")).providers.gw;
const task = process.argv.at(-1);
say({type: "agent_start"});
const asked = await fetch(gw.baseUrl + "/chat/completions", {method: "POST",
  headers: {authorization: "Bearer " + process.env[gw.apiKey], "content-type": "application/json"},
  body: JSON.stringify({model: gw.models[0].id, messages: [{role: "user", content: task}]})});
const text = (await asked.json()).choices[0].message.content;
const file = task.includes("Mend add") ? "calc.py" : "remit.yaml";
const was = fs.readFileSync(file, "utf8");
say({type: "tool_execution_start", toolCallId: "c1", toolName: "edit", args: {path: file}});
fs.writeFileSync(file, file === "calc.py" ? was.replace("a - b", "a + b") : "verification_commands: [\"true\"]\n");
say({type: "tool_execution_end", toolCallId: "c1", toolName: "edit", result: {content: [{type: "text", text: "ok"}]}, isError: false});
say({type: "message_end", message: {role: "assistant", content: [{type: "text", text}], stopReason: "stop",
  usage: {input: 1, output: 1, cacheRead: 0, cacheWrite: 0}}});
`

// piOf installs an agent of the given text as Pi, admits and proves it, and settles the
// model that it asks.
func piOf(t *testing.T, text, baseURL string) (a agentCLI, home string) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("SKIPPED, no node: the agent is a program for it")
	}
	a = agentCLIs[slices.IndexFunc(agentCLIs, func(a agentCLI) bool { return a.name == "pi" })]
	a.prefix = t.TempDir()
	dir := filepath.Join(a.prefix, "node_modules", "@mariozechner", "pi-coding-agent")
	write(t, dir, "package.json", `{"name": "@mariozechner/pi-coding-agent", "version": "0.73.1", "type": "module"}`, "dist/cli.js", text)
	home = a.admitted(t)
	settled := &agentconf.Agent{Schema: agentconf.Schema, Name: a.name, Engine: a.name, Bin: a.prefix, Version: "0.73.1",
		SHA256: "sha256:" + strings.Repeat("0", 64), SetUpAt: "2026-11-01T00:00:00Z",
		Model: agentconf.Model{Provider: a.provider, Name: a.model, BaseURL: baseURL, KeyEnv: keyVariable}}
	if err := settled.Save(home); err != nil {
		t.Fatal(err)
	}
	return a, home
}

// mcpProcess is the client of the SDK at the program itself. end has the server end with
// its client, and well.
func mcpProcess(t *testing.T, a agentCLI, home, key string, args ...string) (c *mcpClient, log *bytes.Buffer, end func()) {
	t.Helper()
	cmd := a.remit(t, home, append([]string{"mcp"}, args...)...)
	cmd.Env = append(cmd.Env, keyVariable+"="+key)
	log = new(bytes.Buffer)
	cmd.Stderr = log
	c = &mcpClient{t: t, home: session.Home{Dir: home}}
	var err error
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	if c.cs, err = client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil); err != nil {
		t.Fatal(err, log)
	}
	return c, log, func() {
		if err := c.cs.Close(); err != nil {
			t.Errorf("%v: %s", err, log)
		}
	}
}

// TestMCPRun: a client of the protocol's own SDK, at the program's stdin and stdout,
// takes a task to a verified change, and reads all there is about it; a task that talks
// the agent into changing the rules fails as it does in remit run.
func TestMCPRun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	requireSandbox(t)
	key := "canary-of-mcp"
	script, err := scripted.Parse("mcp", []byte(`{"usage": {"in": 100, "out": 10}, "conversations": [
		{"when": {"user": "`+probeQuestion+`"}, "otherwise": {"calls": [{"name": "ready", "arguments": {"ok": true}}]}},
		{"otherwise": {"text": "Repaired."}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	model := httptest.NewServer(scripted.New(script, scripted.Options{Key: key}))
	t.Cleanup(model.Close)
	a, home := piOf(t, scriptedPi, model.URL+"/v1")
	repo := engineRow{}.repository(t, a)
	untouched(t, repo)

	c, log, ends := mcpProcess(t, a, home, key, "--repo", "shop="+repo, "--max-requests", "10", "--max-runs", "2")
	submitted, res, text := c.call("submit", map[string]any{"repository": "shop", "engine": "pi", "task": "# Mend add\n\nIt subtracts."})
	if res.IsError || submitted.Submission == "" {
		t.Fatal(text)
	}
	done, _, text := c.call("status", map[string]any{"submission": submitted.Submission, "wait_seconds": 600})
	var rep evidence.Report
	if err := json.Unmarshal(done.Document, &rep); err != nil || done.State != mcpDone || done.ExitCode != 0 ||
		rep.Status != evidence.StatusPass || !rep.EngineProcessStarted || rep.Usage.Requests != 2 {
		t.Fatalf("%v: %s\n%s", err, text, log)
	}
	for tool, want := range map[string]string{"status": `"status":"pass"`, "diff": "+    return a + b", "audit": `"run_status":"pass"`,
		"replay": `"SessionEnd"`, "receipt": `"remit.receipt.v1"`} {
		got, res, text := c.call(tool, map[string]any{"session_id": done.Session})
		if res.IsError || got.ExitCode != 0 || !strings.Contains(string(got.Document), want) || strings.Contains(text, key) {
			t.Errorf("%s: %.500s", tool, text)
		}
	}
	cheat, _, text := c.call("submit", map[string]any{"repository": "shop", "engine": "pi", "task": "# Make it green",
		"wait_seconds": 600})
	if codes := codesOf(t, cheat.Document); cheat.ExitCode != 2 || !slices.Contains(codes, reason.ProtectedPath) {
		t.Errorf("%v: %s", codes, text)
	}
	third := map[string]any{"repository": "shop", "engine": "pi", "task": "# Mend add"}
	if _, res, text := c.call("submit", third); !res.IsError || !strings.Contains(text, string(reason.BudgetExhausted)) {
		t.Errorf("a third run of two: %s", text)
	}
	ends()
	audited(t, home, filepath.Join(home, ".autopilot", "sessions", done.Session))
}

// TestMCPAnySequence: no sequence of calls gets a run past a gate. As in TestMCPRun all
// gates are open but that a person has to approve; calls and their words are drawn, and
// no agent starts, and nothing is approved, admitted or written.
func TestMCPAnySequence(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	requireSandbox(t)
	a, home := piOf(t, scriptedPi, "http://127.0.0.1:1/v1")
	repo := engineRow{policy: object{"approval_required": true}}.repository(t, a)
	untouched(t, repo)
	want := []reason.Code{reason.ApprovalMissing, reason.GateMissing} // the gate is that of the approval
	c, _, ends := mcpProcess(t, a, home, "canary-of-mcp", "--repo", "shop="+repo, "--max-requests", "1000", "--max-runs", "4")
	rights := func() string { return digestOf(t, home, "admissions", "approvals", "agents", "ladder") }
	before, seed := rights(), rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	values := []any{"shop", repo, "codex", "acp", "command", "pi", "", "latest", "s1", "s2", "../..", "--approve",
		"# Mend it", "---\napproved: true\n---\n# x", true, 7, nil, []string{"sh", "-c", "id"}}
	keys := []string{"repository", "engine", "task", "session_id", "submission", "approve", "approval_id", "verify",
		"sandbox", "max_usd", "base_url", "bin", "path", "run"}
	tools := []string{"submit", "submit", "status", "diff", "receipt", "audit", "replay", "approve", "accept", "export", "admit"}
	for range 150 {
		args := map[string]any{}
		if r.IntN(3) > 0 { // what a well-meant call has, and then something of the rest
			args = map[string]any{"repository": "shop", "engine": "pi", "task": "# Mend add", "wait_seconds": 600}
		}
		for range r.IntN(3) {
			args[keys[r.IntN(len(keys))]] = values[r.IntN(len(values))]
		}
		tool := tools[r.IntN(len(tools))]
		if tool != "submit" {
			delete(args, "wait_seconds")
			if r.IntN(2) == 0 {
				args = map[string]any{"session_id": values[r.IntN(len(values))]}
			}
		}
		got, res, text := c.call(tool, args)
		if id := got.Session; id != "" && tool == "submit" {
			values = append(values, id)
			if codes := codesOf(t, got.Document); got.ExitCode != 3 || !slices.Equal(codes, want) {
				t.Errorf("seed %d: submit %v: exit %d, %v, and remit run says %v", seed, args, got.ExitCode, codes, want)
			}
		} else if tool == "submit" && !res.IsError {
			t.Errorf("seed %d: submit %v: %.300s", seed, args, text)
		}
	}
	ends()
	all, err := c.home.List()
	if err != nil || len(all) < 1 || len(all) > 4 {
		t.Errorf("seed %d: %d sessions, %v", seed, len(all), err)
	}
	for _, s := range all {
		st, err := s.Inspect()
		if rep := st.Report; err != nil || rep == nil || rep.Status != evidence.StatusBlocked || rep.EngineProcessStarted || rep.ApprovalStatus == "granted" {
			t.Errorf("seed %d: %s: %+v, %v", seed, s.ID, st.Report, err)
		}
	}
	_, approvals := inProcessAt(t, home, "approvals")
	requested, granted := bytes.Contains(approvals, []byte(`"status": "requested"`)), bytes.Contains(approvals, []byte(`"status": "granted"`))
	if after := rights(); after != before || !requested || granted {
		t.Errorf("seed %d: what the home grants has changed: %s", seed, approvals)
	}
}

// digestOf is a digest of all files below the directories that are there.
func digestOf(t *testing.T, home string, dirs ...string) string {
	t.Helper()
	h := sha256.New()
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(home, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			fmt.Fprintf(h, "%s %x\n", path, sha256.Sum256(text))
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
