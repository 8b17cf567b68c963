package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/evidence"
)

// TestRefusalStartsNothing: a trace of the system calls of a refusal shows no
// process, no file of the target where a record refuses, and remit.yaml alone
// where the policy does. Its session is whole all the same.
func TestRefusalStartsNothing(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace")
	}
	agent := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(agent, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	asks := []string{"--title", "fix", "--allow", "**", "--verify", "true", "--model-provider", "acme", "--model", "m", "--local-model", "--base-url", "http://127.0.0.1:1/v1"}
	codex := append([]string{"run", "--engine", "acp", "--bin", agent, "--acp-wire", "chat"}, asks...)
	widest := filepath.Join(t.TempDir(), "task.yaml") // the mode has a name of another harness
	if err := os.WriteFile(widest, []byte("task_id: wide\ninstructions: fix\nallowed_paths: [\"**\"]\nmutation_mode: candidate-default\nverification_commands: [\"true\"]\n"+
		"forbidden_actions: ["+strings.Join(task.DefaultForbiddenActions(), ", ")+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args   []string
		policy string
		admit  bool
		prove  int // through which stage
		code   string
		opened []string // of the target
	}{
		"no record":         {args: codex, code: "source_not_admitted"},
		"no program":        {args: append([]string{"run", "--engine", "pi", "--bin", "/nowhere"}, asks...), code: "provider_unavailable"},
		"beyond its mode":   {args: []string{"run", "--task", widest, "--", "true"}, policy: "tests: free\n", code: "mode_exceeds_stage"},
		"nothing proved":    {args: codex, admit: true, code: "mode_exceeds_stage"},
		"proved too little": {args: append(slices.Clone(codex), "--mutation-mode", "copied-repo"), admit: true, prove: 2, code: "mode_exceeds_stage"},
		"the policy":        {args: codex, policy: "engines: {acp: {enabled: false}}\n", admit: true, prove: 3, code: "engine_not_enabled", opened: []string{"remit.yaml"}},
		"no policy":         {args: codex, admit: true, prove: 3, code: "engine_not_enabled", opened: []string{"remit.yaml"}},
		"every lane":        {args: append([]string{"compare", "--engines", "pi,codex", "--bin", "pi=/nowhere", "--bin", "codex=/nowhere"}, asks...), code: "provider_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tally.AtItsTurn(t, tally.Place(name), 3)
			home, files := t.TempDir(), map[string]string{"a.txt": "a\n"}
			if test.policy != "" {
				files["remit.yaml"] = test.policy
			}
			repo := gitRepo(t, files)
			if test.admit {
				for _, admit := range [][]string{{"admit", "source", "--engine", "acp", "--bin", agent}, {"admit", "model", "--provider", "acme", "--model", "m", "--class", "local", "--credential", "none", "--network", "loopback"}} {
					if out, err := cli(t, home, append(admit, "--decision", "admitted", "--reason", "test")...).CombinedOutput(); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
				}
			}
			if test.prove > 0 {
				e, err := agentAt("acp", agent, "chat")
				if err != nil {
					t.Fatal(err)
				}
				grant(e, "acme", "m", test.prove).In(t, home)
			}
			trace := filepath.Join(t.TempDir(), "trace")
			cmd := cli(t, home, append([]string{test.args[0], "--repo", repo}, test.args[1:]...)...)
			cmd.Args = slices.Concat([]string{strace, "-f", "-e", "trace=process,open,openat,openat2", "-o", trace, cmd.Path}, cmd.Args[1:])
			cmd.Path = strace
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			_ = cmd.Run() // the exit code is looked at below
			if code := cmd.ProcessState.ExitCode(); code != 3 {
				t.Fatalf("exit code %d, want 3\n%s", code, out.String())
			}
			started, opened := traced(t, trace, repo)
			if len(started) != 1 || !slices.Equal(opened, test.opened) {
				t.Errorf("started %q, opened of the target %q, want %q", started, opened, test.opened)
			}
			sessions, err := filepath.Glob(filepath.Join(home, ".autopilot", "sessions", "*"))
			if err != nil || len(sessions) == 0 {
				t.Fatalf("no session (%v)\n%s", err, out.String())
			}
			for _, dir := range sessions {
				wholeRefusal(t, home, dir, repo, test.code)
			}
		})
	}
}

var (
	execCall = regexp.MustCompile(`execve(?:at)?\(`)
	forkCall = regexp.MustCompile(`(?:^|\s)(?:v?fork|clone3?)\(`)
	openCall = regexp.MustCompile(`open(?:at2?)?\([^"]*"([^"]*)"`)
)

// traced reads from a trace which programs were executed, and which files below
// the target were opened. A thread is no process.
func traced(t *testing.T, trace, target string) (started, opened []string) {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		switch {
		case execCall.MatchString(line), forkCall.MatchString(line) && !strings.Contains(line, "CLONE_THREAD"):
			started = append(started, line)
		}
		if m := openCall.FindStringSubmatch(line); m != nil && strings.HasPrefix(m[1], target) {
			opened = append(opened, strings.TrimPrefix(m[1], target+"/"))
		}
	}
	slices.Sort(opened)
	return started, slices.Compact(opened)
}

// wholeRefusal looks at the session of a refusal.
func wholeRefusal(t *testing.T, home, dir, repo, code string) {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var report evidence.Report
	if err := json.Unmarshal([]byte(read(evidence.ReportFile)), &report); err != nil {
		t.Fatal(err)
	}
	if report.Status != evidence.StatusBlocked || len(report.Blockers) == 0 || string(report.Blockers[0].Code) != code || report.EngineProcessStarted {
		t.Errorf("%s, %+v", report.Status, report.Blockers)
	}
	for _, reason := range []string{"baseline_commit", "source_repository_mutated", "event:engine.started", "event:plan.updated"} {
		if report.NotApplicable[reason] == "" {
			t.Errorf("nothing says why there is no %s", reason)
		}
	}
	if !strings.Contains(read(evidence.ContextFile), `"baseline_commit":null`) || read(evidence.PatchFile) != "" || !strings.Contains(read(evidence.TestLogFile), "NOT RUN") {
		t.Error("the refusal has a baseline, a patch or a verification")
	}
	if log := read("backend/gate.log"); !strings.Contains(log, code) || !strings.Contains(log, "not asked sandbox:confined") {
		t.Errorf("gate.log:\n%s", log)
	}
	if code == "provider_unavailable" && !strings.HasPrefix(read("backend/provider-unavailable.txt"), code) {
		t.Error("provider-unavailable.txt does not say why")
	}
	var inspected struct {
		Started  []string `json:"processes_started"`
		Searched []struct {
			Place  string   `json:"place"`
			Values int      `json:"values"`
			Naming []string `json:"naming_target"`
		} `json:"searched"`
	}
	if err := json.Unmarshal([]byte(read("proofs/no-target-inspection.json")), &inspected); err != nil || len(inspected.Started) != 0 || len(inspected.Searched) != 4 {
		t.Fatalf("%+v, %v", inspected, err)
	}
	for _, s := range inspected.Searched {
		if s.Place == "argv" && len(s.Naming) == 0 || s.Place == "contract" && len(s.Naming) > 0 || s.Values == 0 {
			t.Errorf("%+v", s)
		}
	}
	for _, name := range []string{evidence.ReportFile, evidence.JournalFile, evidence.TraceFile, "backend/gate.log", "proofs/no-target-inspection.json"} {
		if strings.Contains(read(name), repo) {
			t.Errorf("%s names the path of the target", name)
		}
	}
	if out, err := cli(t, home, "audit", dir).CombinedOutput(); err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
	if python, err := exec.LookPath("python3"); err == nil {
		if out, err := exec.Command(python, "../../vectors/verify.py", dir).CombinedOutput(); err != nil {
			t.Errorf("verify.py: %v\n%s", err, out)
		}
	}
}
