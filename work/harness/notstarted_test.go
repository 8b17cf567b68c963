package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/work/redact"

	"remit/law/secret"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/command"
	"remit/work/sandbox"
	"remit/work/workspace"
)

// TestUnstartable: the commonest first mistakes have a code and a hint of their
// own, known from what the program is and not from what the kernel said.
func TestUnstartable(t *testing.T) {
	t.Parallel()
	repo, dir := t.TempDir(), t.TempDir()
	for name, file := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"ok.sh": {"#!/bin/sh\n", 0o755}, "plain.sh": {"#!/bin/sh\n", 0o644}, "crlf.sh": {"#!/bin/sh\r\necho\r\n", 0o755}, "env.py": {"#!/usr/bin/env python3\r\n", 0o755},
		"bad.sh": {"#!/usr/bin/nope -x\n", 0o755}, "data": {"\x7fELF", 0o755}, "empty": {"", 0o755}, "lone": {"#!", 0o755},
	} {
		for _, top := range []string{repo, dir} {
			if err := os.WriteFile(filepath.Join(top, name), []byte(file.text), file.mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(repo, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(repo, "out")); err != nil {
		t.Fatal(err)
	}
	const token = "sk-proj-Zq8vR2mL5tW9xK3nB7cF"
	r := &run{checkout: &workspace.Checkout{Dir: repo}, secrets: redact.New([]secret.Value{{Name: "T", Value: token}})}
	lent := "/opt/remit/bin/plain.sh"
	for name, test := range map[string]struct {
		word    string
		exit    int // 0: it was not started
		code    reason.Code
		message string
		hint    string
	}{
		"not on PATH":             {"fix.sh", 0, reason.ProgramNotFound, "there is no program fix.sh in the sandbox", "./fix.sh"},
		"in no place":             {"./nope.sh", 0, reason.ProgramNotFound, "neither in the base commit", "check the spelling"},
		"an absolute path":        {"/nowhere/x", 0, reason.ProgramNotFound, "absolute path", "--toolchain"},
		"out of the repository":   {"out/passwd", 0, reason.ProgramNotFound, "", ""},
		"above the repository":    {"../x", 0, reason.ProgramNotFound, "", ""},
		"not executable":          {"./plain.sh", 0, reason.ProgramNotExecutable, "./plain.sh is not executable", "chmod +x ./plain.sh in the repository, and commit that"},
		"not executable, lent":    {lent, 0, reason.ProgramNotExecutable, "is not executable", "chmod +x plain.sh)"},
		"a directory":             {"./src", 0, reason.ProgramNotExecutable, "is a directory", ""},
		"line ends of Windows":    {"./crlf.sh", 0, reason.ProgramLineEndings, "Windows", `sed -i 's/\r$//' ./crlf.sh`},
		"the same, behind env":    {"./env.py", 127, reason.ProgramLineEndings, "Windows", "sed"},
		"a bad interpreter":       {"./bad.sh", 0, reason.InterpreterNotFound, "/usr/bin/nope, which", "#!/usr/bin/env NAME"},
		"for another machine":     {"./data", 0, reason.ProgramNotExecutable, "cannot execute it", "#!/bin/sh"},
		"empty":                   {"./empty", 0, reason.ProgramNotExecutable, "cannot execute it", ""},
		"half a first line":       {"./lone", 0, reason.InterpreterNotFound, "", ""},
		"it ran, and said 127":    {"./ok.sh", 127, reason.EngineFailed, "exited with code 127", ""},
		"it ran, and is not kept": {"./plain.sh", 127, reason.EngineFailed, "exited with code 127", ""},
		"a secret in its name":    {"./" + token, 0, reason.ProgramNotFound, "[redacted", ""},
	} {
		inv := &engine.Invocation{Argv: []string{test.word}, Program: test.word}
		if test.word == lent {
			inv.Program, inv.Binds = "plain.sh", []sandbox.Bind{{Host: filepath.Join(dir, "plain.sh"), Inside: lent}}
		}
		f := evidence.EngineFinished{ProcessStarted: test.exit > 0}
		if test.exit > 0 {
			f.ExitCode = &test.exit
		}
		got := endBlockers(f, traffic{}, engine.End{Complete: true})
		r.explainStart(got, f, inv)
		if len(got) != 1 || got[0].Code != test.code || !strings.Contains(got[0].Message, test.message) || !strings.Contains(got[0].Hint, test.hint) ||
			strings.Contains(got[0].Message+got[0].Hint, token) || strings.Contains(got[0].Message+got[0].Hint, dir) {
			t.Errorf("%s: %+v", name, got)
		}
		// Of an agent the same is a fact about this machine.
		inv.Program = ""
		agent := endBlockers(f, traffic{}, engine.End{Complete: true})
		r.explainStart(agent, f, inv)
		if want := map[bool]reason.Code{true: reason.EngineFailed, false: reason.ProviderUnavailable}[test.exit > 0]; agent[0].Code != want {
			t.Errorf("%s, of an agent: %+v", name, agent)
		}
	}
}

// TestLastWords: the message of a failure has what the engine printed last,
// bounded and quoted, and no secret.
func TestLastWords(t *testing.T) {
	t.Parallel()
	const token = "sk-proj-Zq8vR2mL5tW9xK3nB7cF"
	d := realSandbox(t)
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n"}), nil, nil)
	req.Sandbox = d
	req.Engine = &command.Engine{Argv: []string{"sh", "-c", `seq 9 >&2; printf '\n%01000d\n' 0 >&2; printf '\033[31m"# Status: PASS\n  last words' >&2; exit 3`}, Dir: "/"}
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	b := out.Report.Blockers[0]
	if b.Code != reason.EngineFailed || !strings.HasSuffix(b.Message, `, "\x1b[31m\"# Status: PASS", "last words"`) || !strings.Contains(b.Message, "exited with code 3; it printed last: \"0000") ||
		strings.Contains(b.Message, "9") || len(b.Message) > lastLines*2*lastWidth {
		t.Errorf("%+v", b)
	}
	audited(t, out.Session)
	r := &run{secrets: redact.New([]secret.Value{{Name: "T", Value: token}})}
	s := &stream{}
	s.remember([]byte("the key is " + token))
	blockers := []evidence.Blocker{{Code: reason.EngineFailed}}
	if r.quoteLast(blockers, s); strings.Contains(blockers[0].Message, token) || !strings.Contains(blockers[0].Message, "the key is") {
		t.Error(blockers[0].Message)
	}
}

// TestMissingScript: an interpreter whose script is missing is a program that was
// not found, and no failure of the engine; one that has its script, and failed, is.
func TestMissingScript(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	if err := os.WriteFile(filepath.Join(repo, "fix.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &run{checkout: &workspace.Checkout{Dir: repo}, secrets: redact.New(nil)}
	for line, want := range map[string]reason.Code{
		"python3 fix.py": reason.EngineFailed, "python3 fxi.py": reason.ProgramNotFound, "sh ./nope.sh": reason.ProgramNotFound, "/usr/bin/perl sub/x.pl": reason.ProgramNotFound,
		"node /nowhere/x.js": reason.ProgramNotFound, "sh ls": reason.EngineFailed, "python3 -c x": reason.EngineFailed, "python3 -m x": reason.EngineFailed,
		"python3": reason.EngineFailed, "make fxi.py": reason.EngineFailed, "python3 /opt/remit/bin/1/lent.py": reason.EngineFailed,
	} {
		argv, exit := strings.Fields(line), 2
		inv := &engine.Invocation{Argv: argv, Program: argv[0], Binds: []sandbox.Bind{{Host: filepath.Join(repo, "fix.py"), Inside: "/opt/remit/bin/1/lent.py"}}}
		f := evidence.EngineFinished{ProcessStarted: true, ExitCode: &exit}
		got := endBlockers(f, traffic{}, engine.End{Complete: true})
		r.explainStart(got, f, inv)
		if got[0].Code != want || want == reason.ProgramNotFound && !strings.Contains(got[0].Message, "for "+filepath.Base(argv[0])+" to run") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
