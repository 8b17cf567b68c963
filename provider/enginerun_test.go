package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"remit/fixtures/tally"
	"remit/law/audit"
	"remit/law/job"
	"remit/law/task"
	"remit/nexus/api"
	nexus "remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/session"
	"remit/work/verify"
	"remit/work/workspace"
)

// engineProgram is a program of the operator. The task chooses nothing about it,
// so what it does comes from a file of the repository.
const engineProgram = `#!/bin/sh
echo "what is printed"
if [ -f script.sh ]; then . ./script.sh; else echo fixed > a.txt; fi
`

// offering makes a daemon that has the engine, and may read one directory.
func offering(t *testing.T, source string) func(*Config) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "fixer")
	if err := os.WriteFile(program, []byte(engineProgram), 0o700); err != nil {
		t.Fatal(err)
	}
	return func(c *Config) {
		c.Engines = map[string][]string{"fixer": {program}, "shell": {"sh", "-c", "echo fixed > a.txt"}}
		if source != "" {
			c.Sources = []string{source}
		}
	}
}

// scripted is a repository in which the engine does what a script says.
func scripted(t *testing.T, script string) (dir, commit, tree string) {
	t.Helper()
	dir = repository(t)
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, "script.sh"), []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		gitIn(t, dir, "add", ".")
		gitIn(t, dir, "commit", "-qm", "script")
	}
	return dir, gitIn(t, dir, "rev-parse", "HEAD"), gitIn(t, dir, "rev-parse", "HEAD^{tree}")
}

// contractText is the canonical contract of a task file.
func contractText(t *testing.T, base, verify, more string) string {
	t.Helper()
	c, err := task.Parse("task.yaml", []byte("task_id: fix\ninstructions: Fix it.\nallowed_paths: [\"*.txt\"]\nbase: \""+base+"\"\n"+
		"forbidden_actions: ["+strings.Join(task.DefaultForbiddenActions(), ", ")+"]\n"+"verification_commands: ["+verify+"]\n"+more))
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// engineRequest asks for a run of the engine that is fine.
func engineRequest(contract, source, commit, tree string, change func(*job.EngineRunRequest)) job.EngineRunRequest {
	r := job.EngineRunRequest{Contract: contract, Baseline: job.EngineBaseline{Source: source, Commit: commit, Tree: tree},
		Engine: job.EngineChoice{Name: "fixer"}, Budget: job.EngineBudget{WallSecs: 100, CPUMillis: 1000, MemoryMB: 512}}
	if change != nil {
		change(&r)
	}
	r.ContractSHA256 = canon.Digest([]byte(r.Contract))
	return r
}

// runEngine executes a request, and reads the response as the authority does.
func (d *Daemon) runEngine(ctx context.Context, t *testing.T, r job.EngineRunRequest) (job.EngineRunResponse, string) {
	t.Helper()
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	resp, files, err := (&engineRun{Daemon: d, req: r, caps: d.binding(nil), runID: "run_1", dir: dir}).run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	read, err := job.ParseEngineRunResponse(body)
	if err != nil {
		t.Fatalf("the authority would not read %s: %v", body, err)
	}
	if left, err := os.ReadDir(d.scratch); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if bytes.Contains(body, []byte(d.scratch)) {
		t.Errorf("the response tells a path of this host: %s", body)
	}
	if len(files) != len(read.Artifacts) || len(files) > 1 || len(files) == 1 && files[0].SHA256 != read.BundleSHA256 {
		t.Errorf("%+v, and files %+v", read, files)
	}
	return read, filepath.Join(dir, bundleFile)
}

// audited is the report of a bundle that holds.
func audited(t *testing.T, path string) *evidence.Report {
	t.Helper()
	extracted := filepath.Join(t.TempDir(), "bundle")
	opt := bundle.Options{Extract: extracted}
	opt.Gates, opt.Further = audit.Gates()
	report, err := bundle.Audit(t.Context(), path, opt)
	if err != nil || report.Status != bundle.Pass {
		text, _ := json.Marshal(report)
		t.Fatalf("the bundle does not hold: %v %s", err, text)
	}
	rep, err := session.Session{Dir: extracted}.Report()
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// noFault is any outcome for which the provider is not to blame.
const noFault job.Outcome = "no fault"

const anyTree = "1111111111111111111111111111111111111111"

// TestLongCommandsAreCut: a response has the commands for people, and stays below its
// bound whatever they are: the bundle has them whole.
func TestLongCommandsAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("<é", task.MaxCommandBytes/3)
	runs := []evidence.CommandRun{{Phase: "base", Command: "the unchanged tree"}, {Phase: verify.PhaseHead, Command: "true"}}
	for range task.MaxListEntries - 1 {
		runs = append(runs, evidence.CommandRun{Phase: verify.PhaseHead, Command: long, ExitCode: 3, DurationMS: 7})
	}
	got := verified(runs)
	text, err := json.Marshal(got)
	if err != nil || len(got) != task.MaxListEntries || len(text) > job.MaxResponseBytes/2 {
		t.Fatalf("%d commands in %d bytes, %v", len(got), len(text), err)
	}
	if last := got[len(got)-1]; !utf8.ValidString(last.Command) || !strings.HasPrefix(long, strings.TrimSuffix(last.Command, "…")) ||
		last.ExitCode != 3 || last.DurationMS != 7 || got[0].Command != "true" {
		t.Errorf("%+v, %+v", got[0], last)
	}
	if few := verified(runs[:3]); few[1].Command != long {
		t.Error("a command was cut where there is room for it")
	}
}

// TestEngineRun runs real engines. Whatever a request, a repository or an engine
// does, the response is never a fault of the provider, unless it is one.
func TestEngineRun(t *testing.T) {
	t.Parallel()
	fixed := `"grep fixed a.txt"`
	for name, c := range map[string]struct {
		script, verify, more string // of the engine, and of the contract
		change               func(*job.EngineRunRequest)
		outcome              job.Outcome
		status               job.Status
		exit                 int32
		says                 reason.Code // of the refusal, or the report's first blocker
	}{
		"passes":                  {"", fixed, "", nil, job.Passed, job.Success, 0, ""},
		"a command of the system": {"", fixed, "", func(r *job.EngineRunRequest) { r.Engine.Name = "shell" }, job.Passed, job.Success, 0, ""},
		"with its version":        {"", fixed, "", func(r *job.EngineRunRequest) { r.Engine.Version = "2" }, job.Passed, job.Success, 0, ""},
		"nothing to change":       {"true", `"true"`, "expect_diff: false\n", nil, job.Passed, job.Success, 0, ""},
		"does not verify":         {"echo wrong > a.txt", fixed, "", nil, job.JobFailed, job.Failed, 2, reason.VerificationFailed},
		"writes elsewhere":        {"echo fixed > a.txt; echo x > sub/b.txt", fixed, "", nil, job.JobFailed, job.Failed, 2, reason.DisallowedFileChange},
		"changes nothing":         {"true", fixed, "", nil, job.JobFailed, job.Failed, 2, reason.NoDiff},
		"engine fails":            {"exit 7", fixed, "", nil, job.JobFailed, job.Failed, 2, reason.EngineFailed},
		"needs an approval":       {"", fixed, "approval_required: true\n", nil, job.JobFailed, job.Failed, 3, reason.ApprovalMissing},
		"verifies nothing":        {"", "", "", nil, job.JobFailed, job.Failed, 3, reason.MissingTestCommand},
		"uses up the memory":      {"head -c 300m /dev/zero | tail", fixed, "limits: {memory_mb: 100000}\n", func(r *job.EngineRunRequest) { r.Budget.MemoryMB, r.Budget.DiskMB = 64, 32 }, job.JobFailed, job.Failed, 2, reason.ResourceLimit},
		"has no room":             {"", fixed, "limits: {memory_mb: 16, disk_mb: 1, pids: 16}\n", nil, noFault, "", 0, ""},
		"has no processor":        {"", fixed, "limits: {cpus_milli: 1}\nbudget: {wall_seconds: 1}\n", nil, noFault, "", 0, ""},
		"has no output":           {"", fixed, "limits: {output_bytes: 1}\n", nil, noFault, "", 0, ""},
		"has no change":           {"", fixed, "limits: {changed_paths: 1, patch_mb: 1}\n", nil, job.Passed, job.Success, 0, ""},
		"uses up its time":        {"sleep 600", fixed, "budget: {wall_seconds: 600000}\n", func(r *job.EngineRunRequest) { r.Budget.WallSecs = 2 }, job.JobFailed, job.Timeout, 3, reason.Cancelled},
		"prints too much":         {"head -c 17m /dev/zero", fixed, "limits: {output_bytes: 100000000000}\n", nil, job.JobFailed, job.Failed, 2, reason.OutputLimit},

		"unknown engine":   {"", fixed, "", func(r *job.EngineRunRequest) { r.Engine.Name = "codex" }, job.JobFailed, job.Failed, 3, reason.EngineUnknown},
		"the fake engine":  {"", fixed, "", func(r *job.EngineRunRequest) { r.Engine.Name = "fake" }, job.JobFailed, job.Failed, 3, reason.EngineUnknown},
		"a program":        {"", fixed, "", func(r *job.EngineRunRequest) { r.Engine.Name = "/bin/sh" }, job.JobFailed, job.Failed, 3, reason.EngineUnknown},
		"another version":  {"", fixed, "", func(r *job.EngineRunRequest) { r.Engine.Version = "1" }, job.JobFailed, job.Failed, 3, reason.EngineUnknown},
		"a model":          {"", fixed, "", func(r *job.EngineRunRequest) { r.Engine.Model = "m" }, job.JobFailed, job.Failed, 3, reason.JobInvalid},
		"another tree":     {"", fixed, "", func(r *job.EngineRunRequest) { r.Baseline.Tree = anyTree }, job.JobFailed, job.Failed, 3, reason.JobInvalid},
		"another commit":   {"", fixed, "", func(r *job.EngineRunRequest) { r.Baseline.Commit = anyTree }, job.JobFailed, job.Failed, 3, reason.JobInvalid},
		"no such base":     {"", fixed, "base_: x", func(r *job.EngineRunRequest) { r.Contract = strings.Replace(r.Contract, `"base":"`, `"base":"0`, 1) }, job.JobFailed, job.Failed, 3, reason.BaseNotFound},
		"elsewhere":        {"", fixed, "", func(r *job.EngineRunRequest) { r.Baseline.Source = "/etc" }, job.JobFailed, job.Failed, 3, reason.Forbidden},
		"no digest":        {"", fixed, "", func(r *job.EngineRunRequest) { r.Baseline.Source = "artifact:sha256:x" }, job.JobFailed, job.Failed, 3, reason.JobInvalid},
		"no contract":      {"", fixed, "", func(r *job.EngineRunRequest) { r.Contract = "{}" }, job.JobFailed, job.Failed, 3, reason.JobInvalid},
		"has no memory":    {"", fixed, "limits: {memory_mb: 1}\n", nil, job.JobFailed, job.Failed, 3, reason.JobInvalid},
		"buys no memory":   {"", fixed, "", func(r *job.EngineRunRequest) { r.Budget.MemoryMB = 1 }, job.JobFailed, job.Failed, 3, reason.JobInvalid},
		"has no processes": {"", fixed, "limits: {pids: 1}\n", nil, job.JobFailed, job.Failed, 3, reason.JobInvalid},
		"held-out tests":   {"", fixed, "held_out_tests: [{path: t.txt, source: passwd}]\n", nil, job.JobFailed, job.Failed, 3, reason.JobInvalid},
		"a way out as id": {"", fixed, "", func(r *job.EngineRunRequest) {
			r.Contract = strings.Replace(r.Contract, `"task_id":"fix"`, `"task_id":"../../x"`, 1)
		}, job.JobFailed, job.Failed, 3, reason.JobInvalid},
		"our credential":   {"", fixed, "title: \"see " + testCredential + "\"\n", nil, job.JobFailed, job.Failed, 3, reason.SecretLeak},
		"a private key":    {"", fixed, "title: \"AKIA" + "QWERTYUIOP234567\"\n", nil, job.JobFailed, job.Failed, 3, reason.SecretLeak},
		"odd words":        {"", fixed, "title: \"</script>$(id) `id` %s %n ; rm -rf /\"\n", nil, job.Passed, job.Success, 0, ""},
		"fences of output": {"printf '=== end head fail\\n--- stdout 0\\n\\033[31m'; echo fixed > a.txt", fixed, "", nil, job.Passed, job.Success, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tally.AtItsTurn(t, tally.Place(name), 3)
			dir, commit, tree := scripted(t, c.script)
			d := daemon(t, "http://127.0.0.1:1", offering(t, filepath.Dir(dir)))
			d.credential = testCredential
			more := strings.TrimPrefix(c.more, "base_: x")
			r := engineRequest(contractText(t, commit, c.verify, more), dir, commit, tree, c.change)
			resp, path := d.runEngine(t.Context(), t, r)
			v := job.Check(r, resp)
			text, _ := json.Marshal(resp)
			t.Logf("%s", text[:min(len(text), 1500)])
			if c.outcome == noFault {
				c.outcome, c.status, c.exit = v.Outcome, resp.Status, resp.ExitCode
				if v.Outcome == job.ProviderFault {
					t.Fatalf("the provider is to blame: %+v", v)
				}
			}
			if v.Outcome != c.outcome || resp.Status != c.status || resp.ExitCode != c.exit {
				t.Fatalf("outcome %s, status %s, exit %d, verdict %+v", v.Outcome, resp.Status, resp.ExitCode, v)
			}
			if resp.Refusal != nil {
				if resp.Refusal.Code != c.says || strings.Contains(resp.Refusal.Message, testCredential) {
					t.Errorf("refused: %+v", resp.Refusal)
				}
				return
			}
			report := audited(t, path)
			if c.says != "" && (len(report.Blockers) == 0 || report.Blockers[0].Code != c.says) {
				t.Errorf("blockers %+v", report.Blockers)
			}
			if digest := contractOf(t, path); digest != r.ContractSHA256 {
				t.Errorf("the bundle is for the contract %s", digest)
			}
			if resp.Usage == nil || resp.Caps != nil && (resp.Caps.MemoryMB > r.Budget.MemoryMB || resp.Caps.TimeoutSecs > r.Budget.WallSecs) {
				t.Errorf("caps %+v, usage %+v", resp.Caps, resp.Usage)
			}
		})
	}
}

// testCredential is long enough to be searched for.
const testCredential = "rmt_provider_" + "Zq8vT2xLk4_Jw7nR5bYc9dHs3mPf6gQe"

// contractOf is the digest of the contract in a bundle.
func contractOf(t *testing.T, path string) string {
	t.Helper()
	return canon.Digest(bytes.TrimSuffix(memberOf(t, path, evidence.ContractFile), []byte("\n")))
}

// memberOf reads a file of a bundle that holds.
func memberOf(t *testing.T, path, name string) []byte {
	t.Helper()
	var content []byte
	opt := bundle.Options{}
	opt.Gates, opt.Further = audit.Gates()
	opt.Further = append(opt.Further, bundle.Gate{Name: "look", Check: func(_ context.Context, files fs.FS) []reason.Finding {
		var err error
		if content, err = fs.ReadFile(files, name); err != nil {
			t.Error(err)
		}
		return nil
	}})
	if _, err := bundle.Audit(t.Context(), path, opt); err != nil {
		t.Fatal(err)
	}
	return content
}

// TestEngineRunKeepsTheCaps gives a contract that asks for everything to a
// machine that gives little. The evidence says what was enforced.
func TestEngineRunKeepsTheCaps(t *testing.T) {
	t.Parallel()
	dir, commit, tree := scripted(t, "")
	d := daemon(t, "http://127.0.0.1:1", offering(t, dir), func(c *Config) {
		c.Caps = api.Caps{CPUMillis: 700, MemoryMb: 300, DiskMb: 90, Pids: 60, TimeoutSecs: 50}
	})
	r := engineRequest(contractText(t, commit, `"grep fixed a.txt"`, "limits: {cpus_milli: 64000, memory_mb: 1000000, pids: 100000, disk_mb: 1000000, output_bytes: 1000000000000}\n"+
		"budget: {wall_seconds: 600000}\n"), dir, commit, tree, func(r *job.EngineRunRequest) {
		r.Budget = job.EngineBudget{WallSecs: 40, CPUMillis: 900, MemoryMB: 200, DiskMB: 100}
	})
	resp, path := d.runEngine(t.Context(), t, r)
	if resp.Status != job.Success {
		t.Fatalf("%+v", resp)
	}
	enforced := map[string]int64{"cpu_millis": 700, "memory_mb": 200, "disk_mb": 90, "pids": 60, "timeout_secs": 40}
	text, err := json.Marshal(resp.Caps)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range enforced {
		if n, _ := got[name].(float64); int64(n) != want && n != 0 { // 0: not enforced here
			t.Errorf("%s is %v, want %d", name, got[name], want)
		}
	}
	if resp.Caps.Network != job.NetworkNone || resp.Usage.WallMillis <= 0 || resp.Usage.CPUMillis <= 0 {
		t.Errorf("%s, %+v", text, resp.Usage)
	}
	for line := range bytes.Lines(memberOf(t, path, evidence.JournalFile)) {
		var e struct {
			Outputs struct {
				Caps []evidence.Cap `json:"caps"`
			} `json:"outputs"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		for _, c := range e.Outputs.Caps {
			if most := map[string]int64{"cpu": 700, "memory": 400 << 20, "disk": 90 << 20, "pids": 60, "output_bytes": 16 << 20, "wall": 40_000}[c.Name]; most > 0 && c.Limit > most {
				t.Errorf("the evidence has %+v", c)
			}
		}
	}
}

// TestSandboxIsUsedOnceAtATime: the caps are those of the job, not of each part.
func TestSandboxIsUsedOnceAtATime(t *testing.T) {
	t.Parallel()
	box := newCapped(nil, job.EngineBudget{WallSecs: 1, CPUMillis: 1, MemoryMB: 1}, api.Caps{})
	box.turn <- struct{}{}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	if _, err := box.Run(ctx, sandbox.Spec{}); !errors.Is(err, errCancelled) {
		t.Error(err)
	}
	if l := box.lower(sandbox.Limits{}, 1000); l.OutputBytes != maxOutput/1000 || l.CPUsMilli != 1 || l.MemoryMB != 1 || l.DiskMB != 2048 || l.Wall != time.Second {
		t.Errorf("%+v", l)
	}
}

// TestBaselineThatMoves has a repository of this machine change between the look
// at it and the run.
func TestBaselineThatMoves(t *testing.T) {
	t.Parallel()
	dir, commit, tree := scripted(t, "")
	d := daemon(t, "http://127.0.0.1:1", offering(t, dir))
	r := engineRequest(contractText(t, "HEAD", `"true"`, ""), dir, commit, tree, nil)
	run := &engineRun{Daemon: d, req: r, caps: d.binding(nil), dir: t.TempDir()}
	ask, err := run.prepare(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "commit", "-q", "--allow-empty", "-m", "two")
	var resp job.EngineRunResponse
	if _, err := run.pipeline(t.Context(), ask, newCapped(d.driver, r.Budget, d.caps), &resp); reason.CodeOf(err) != reason.JobInvalid || resp.BundleSHA256 != "" {
		t.Errorf("%v, %+v", err, resp)
	}
	if resp, _ := d.runEngine(t.Context(), t, r); resp.Refusal == nil || resp.Refusal.Code != reason.JobInvalid {
		t.Errorf("%+v", resp)
	}
}

// TestEngineThatIsGone is a fault of the machine, and says no more than that.
func TestEngineThatIsGone(t *testing.T) {
	t.Parallel()
	dir, commit, tree := scripted(t, "")
	offer := offering(t, dir)
	d := daemon(t, "http://127.0.0.1:1", offer, func(c *Config) { c.Engines["absent"] = []string{"no-such-program"} })
	if err := os.Remove(d.engines["fixer"].Argv[0]); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]reason.Code{"fixer": reason.ProviderUnavailable, "absent": reason.ProgramNotFound} {
		r := engineRequest(contractText(t, commit, `"true"`, ""), dir, commit, tree, func(r *job.EngineRunRequest) { r.Engine.Name = name })
		resp, _ := d.runEngine(t.Context(), t, r)
		if v := job.Check(r, resp); resp.Status != job.Errored || v.Outcome != job.ProviderFault || *resp.Error != "the provider could not run the job: "+string(code) {
			t.Errorf("%s: %+v", name, resp)
		}
	}
}

// TestRepositoryAround names a directory that may be read, in a repository that
// may not.
func TestRepositoryAround(t *testing.T) {
	t.Parallel()
	dir, commit, tree := scripted(t, "")
	d := daemon(t, "http://127.0.0.1:1", offering(t, filepath.Join(dir, "sub")))
	r := engineRequest(contractText(t, commit, `"true"`, ""), filepath.Join(dir, "sub"), commit, tree, nil)
	if resp, _ := d.runEngine(t.Context(), t, r); resp.Refusal == nil || resp.Refusal.Code != reason.Forbidden {
		t.Errorf("%+v", resp)
	}
}

// TestEngineIsNotReplaced puts a file of the engine's name into the repository.
func TestEngineIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	if err := os.WriteFile(filepath.Join(dir, "fixer"), []byte("#!/bin/sh\necho mine > a.txt\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "an engine")
	offer := offering(t, dir)
	d := daemon(t, "http://127.0.0.1:1", offer, func(c *Config) {
		program := c.Engines["fixer"][0]
		here, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		relative, err := filepath.Rel(here, program)
		if err != nil {
			t.Fatal(err)
		}
		c.Engines["fixer"] = []string{relative}
	})
	commit, tree := gitIn(t, dir, "rev-parse", "HEAD"), gitIn(t, dir, "rev-parse", "HEAD^{tree}")
	r := engineRequest(contractText(t, commit, `"grep fixed a.txt"`, ""), dir, commit, tree, nil)
	if resp, _ := d.runEngine(t.Context(), t, r); resp.Status != job.Success {
		t.Errorf("%+v", resp)
	}
}

// TestCancelledEngineIsKilled cancels a run whose engine would go on for long.
func TestCancelledEngineIsKilled(t *testing.T) {
	t.Parallel()
	dir, commit, tree := scripted(t, "echo fixed > a.txt; echo begun; sleep 600")
	d := daemon(t, "http://127.0.0.1:1", offering(t, dir))
	r := engineRequest(contractText(t, commit, `"true"`, ""), dir, commit, tree, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	spool := t.TempDir()
	run := &engineRun{Daemon: d, req: r, caps: d.binding(nil), dir: spool, progress: watcher(func(line string) {
		if strings.Contains(line, "begun") {
			cancel(errCancelled)
		}
	})}
	resp, files, err := run.run(ctx)
	if err != nil || resp.Status != job.Cancelled || len(files) != 1 {
		t.Fatalf("%v %+v", err, resp)
	}
	if report := audited(t, filepath.Join(spool, bundleFile)); report.Status != evidence.StatusBlocked || report.Blockers[0].Code != reason.Cancelled || len(report.ChangedFiles) != 1 {
		t.Errorf("%+v", report)
	}
}

// watcher sees every line that an engine prints.
type watcher func(string)

func (watcher) Step(string, string, string) {}
func (w watcher) Output(line string)        { w(line) }

// TestLostLeaseKillsTheEngine has the authority give the lease away.
func TestLostLeaseKillsTheEngine(t *testing.T) {
	t.Parallel()
	dir, commit, tree := scripted(t, "sleep 600")
	r := engineRequest(contractText(t, commit, `"true"`, ""), dir, commit, tree, nil)
	a := &authority{t: t, lease: engineLease(r), refuse: map[string]reason.Code{"renew": reason.StaleFence}}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	d := daemon(t, s.URL, offering(t, dir), func(c *Config) { c.LeaseTTL = 500 * time.Millisecond })
	ran, err := d.Once(t.Context(), 0)
	if !ran || !errors.Is(err, errStale) || len(a.completed) != 0 {
		t.Errorf("%v %v %+v", ran, err, a.completed)
	}
	for _, dir := range []string{d.spool.dir, d.scratch} {
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Error(left, err)
		}
	}
}

func engineLease(r job.EngineRunRequest) *api.Lease {
	return &api.Lease{Fence: 7, LeaseUntil: api.TimeOf(time.Now().UnixMilli()), Job: api.Job{JobID: "job_1", RunID: "run_1", JobType: job.EngineRun, JobHash: r.Hash(), Request: api.JobDocument(r.Canonical())}}
}

// TestFinishedEngineRunIsKept hands a bundle in once, by a later life of the
// daemon, which does not run the engine again.
func TestFinishedEngineRunIsKept(t *testing.T) {
	t.Parallel()
	dir, commit, tree := scripted(t, "")
	r := engineRequest(contractText(t, commit, `"grep fixed a.txt"`, ""), dir, commit, tree, nil)
	a := &authority{t: t, lease: engineLease(r), refuse: map[string]reason.Code{"complete": reason.StoreUnavailable}}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	state := State{}
	d := daemon(t, s.URL, offering(t, dir), func(c *Config) { state = c.State })
	working, stop := context.WithCancel(t.Context())
	defer stop()
	a.refused = func(step string) {
		if step == "complete" {
			stop()
		}
	}
	if _, err := d.Once(working, 0); reason.CodeOf(err) != reason.StoreUnavailable {
		t.Fatal(err)
	}
	if left, err := d.spool.all(); err != nil || len(left) != 1 || left[0].Files[0].Name != bundleFile {
		t.Fatal(left, err)
	}
	delete(a.refuse, "complete")
	a.uploads = 0
	later := daemon(t, s.URL, func(c *Config) { c.State = state }) // it offers no engine at all
	for range 2 {
		if ran, err := later.Once(t.Context(), 0); ran || err != nil {
			t.Fatal(ran, err)
		}
	}
	if len(a.completed) != 1 || a.uploads != 1 || !strings.Contains(string(a.completed[0].Response), `"status":"success"`) {
		t.Errorf("%d answers, %d uploads", len(a.completed), a.uploads)
	}
	if left, err := os.ReadDir(d.spool.dir); err != nil || len(left) != 0 {
		t.Error(left, err)
	}
}

// TestEngineRunEndToEnd is the way of a job with a real authority: the owner
// stores a pack of the base commit, the provider lets the engine work on it and
// hands in the bundle, and is paid for the change that was verified only.
func TestEngineRunEndToEnd(t *testing.T) {
	t.Parallel()
	if _, err := openDriver(); err != nil {
		t.Skipf("NO SANDBOX ON THIS HOST, no job was run: %v", err)
	}
	ctx := t.Context()
	n := startNexus(t)
	alice := n.client(t, "user:alice")
	account := must(api.OpenAccount.Do(ctx, alice, "a", api.None{}, api.AccountRequest{Limit: 100_000}))(t).Value
	must(api.FundAccount.Do(ctx, n.client(t, ""), "f", api.None{}, api.FundRequest{AccountID: account.AccountID, Amount: 10_000}))(t)
	d := n.joinWithEngines(t, alice)
	d.logClosing = time.Minute // its last lines are looked at

	dir, commit, tree := scripted(t, "")
	pack := packOf(t, dir, commit)
	for i, c := range []struct {
		verify, status string
		change         func(*job.EngineRunRequest)
	}{
		{`"grep fixed a.txt"`, "released", nil},
		{`"grep nothing a.txt"`, "withheld", nil},
		{`"true"`, "withheld", func(r *job.EngineRunRequest) { r.Engine.Name = "other" }},
	} {
		key := func(step string) string { return fmt.Sprintf("%s-%d", step, i) }
		run := must(api.CreateRun.Do(ctx, alice, key("r"), api.None{}, api.RunRequest{RepoRef: key("repo")}))(t)
		must(api.PutRunArtifact.Put(ctx, alice, key("p"),
			api.PutRunArtifactParams{RunID: run.RunID, Digest: canon.Digest(pack), Name: "source.pack"}, contentOf(pack)))(t)
		r := engineRequest(contractText(t, commit, c.verify, ""), "artifact:"+canon.Digest(pack), commit, tree, c.change)
		sent := must(api.DispatchJob.Do(ctx, alice, key("j"), run.RunID,
			api.DispatchRequest{JobType: job.EngineRun, Request: api.JobDocument(r.Canonical())}))(t).Value
		if ran, err := d.Once(ctx, 0); !ran || err != nil {
			t.Fatal(ran, err)
		}
		settled := must(api.SettleJob.Do(ctx, alice, key("s"), sent.JobID, api.None{}))(t)
		if string(settled.SettlementStatus) != c.status {
			t.Fatalf("%+v", settled)
		}
		if left, err := os.ReadDir(d.spool.dir); err != nil || len(left) != 0 {
			t.Error(left, err)
		}
		if c.change != nil {
			continue
		}
		answer := must(api.GetJob.Get(ctx, alice, sent.JobID))(t)
		var resp struct {
			BundleSHA256 string `json:"bundle_sha256"`
			HeadTree     string `json:"head_tree"`
		}
		if err := json.Unmarshal(*answer.Response, &resp); err != nil {
			t.Fatal(err)
		}
		zip := filepath.Join(t.TempDir(), bundleFile)
		if err := os.WriteFile(zip, must(api.GetArtifact.Read(ctx, alice,
			api.GetArtifactParams{JobID: sent.JobID, Digest: resp.BundleSHA256}))(t), 0o600); err != nil {
			t.Fatal(err)
		}
		report := audited(t, zip)
		if (report.Status == evidence.StatusPass) != (c.status == "released") || contractOf(t, zip) != r.ContractSHA256 || resp.HeadTree == tree {
			t.Errorf("%+v", report)
		}
		var chunks []store.LogChunk
		err := n.store.View(ctx, func(tx *store.Tx) (err error) {
			chunks, err = jobs.Log(tx, nexus.Principal{ID: "user:alice", Owner: "alice", Kind: nexus.User, Scopes: []string{nexus.ScopeRead}}, sent.JobID, "system", 0, 10)
			return err
		})
		var log strings.Builder
		for _, chunk := range chunks {
			log.Write(chunk.Body)
		}
		if err != nil || !strings.Contains(log.String(), "engine.run started\n| what is printed\n") || !strings.Contains(log.String(), "run.completed "+report.Status+"\n") {
			t.Errorf("%v: the log says %q", err, log.String())
		}
	}
	if p := must(State{Dir: filepath.Dir(d.spool.dir)}.Status(ctx, api.Options{}))(t); p.Strikes.Violations != 0 || p.Strikes.Failures != 0 || p.Strikes.Successes != 1 || len(p.Capabilities) != 2 {
		t.Errorf("%+v", p)
	}
}

// packOf is the pack of a commit of a repository.
func packOf(t *testing.T, repo, commit string) []byte {
	t.Helper()
	ctx := t.Context()
	src := must(workspace.OpenSource(ctx, repo))(t)
	base := must(src.Resolve(ctx, commit))(t)
	st := must(workspace.NewStore(ctx, filepath.Join(t.TempDir(), "store"), src, base))(t)
	defer st.Close()
	var b bytes.Buffer
	if err := st.Pack(ctx, commit, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// joinWithEngines registers a machine as an operator does, and enables it.
func (n *realNexus) joinWithEngines(t *testing.T, owner *api.Client, change ...func(*Config)) *Daemon {
	t.Helper()
	ctx := t.Context()
	self := "alice"
	token := must(api.CreateToken.Do(ctx, owner, "t", api.None{}, api.TokenRequest{Kind: api.TokenRequestKindRegistration, Owner: &self}))(t)
	state := State{Dir: t.TempDir()}
	made := must(state.Join(ctx, Registration{Nexus: n.url, Token: token.Token, Name: "one", Version: "test", PriceMsats: 1000, Engines: true}))(t)
	must(api.SetCaps.Do(ctx, owner, "c", api.SetCapsParams{ProviderID: made.ProviderID},
		api.Caps{CPUMillis: 2000, MemoryMb: 1024, DiskMb: 512, Pids: 256, TimeoutSecs: 120, Concurrency: 1, Network: "none"}))(t)
	must(api.EnableProvider.Do(ctx, owner, "e", api.EnableProviderParams{ProviderID: made.ProviderID}, api.None{}))(t)
	d := daemon(t, n.url, append(change, offering(t, ""), func(c *Config) { c.State = state })...)
	if err := d.heartbeat(ctx, api.HeartbeatRequestStatusRunning); err != nil {
		t.Fatal(err)
	}
	return d
}
