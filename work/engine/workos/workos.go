// Package workos is the engine "case", which drives WorkOS Case.
//
// Case is a pipeline of agents in one native program, `ca`: an implementer, a
// verifier and a reviewer, who may send the change back twice, then a closer,
// who opens a pull request. The program is not published: it has no package, no
// releases and no --version, so the user builds it and names it with --bin, and
// its version is the beginning of its digest. A script in its place is refused:
// the digest would not cover what the script loads.
//
// # What it gets
//
// A task of its own form below .case of the workspace, and configuration,
// models and project list below $HOME, which is a tmpfs. Its agents want git:
// in the repository of the workspace the baseline is on main and the work on a
// branch. Both .case and .git are the engine's scratch:
// what stands there is never part of the change. The program runs in an empty
// directory: runtimes like its own load settings and code from where they are
// started, and the workspace belongs to the repository.
//
// # How it is stopped before any push
//
// The closer has a model that does not exist. The pipeline therefore dies when
// the closer is asked, which is after the review. Besides there is no remote,
// no network but the gateway, and git in the sandbox uses no protocol.
//
// # What its output means
//
// The launcher prints Case's event files, each line once. They hold no usage, no
// model and no word of an agent but its result. The change is finished when the
// latest ends of implement, verify and review are all completed and the phase
// close began; Case's exit code is 0 after failures and 1 after this success, so
// it decides nothing. A reviewer who fails a hard category of the rubric, names
// something critical or is blocked has rejected the change, even though Case
// itself closes when its two revisions are used up.
//
// Every failure of a model call looks the same in the events: an answer without
// AGENT_RESULT. What really happened is in the gateway's record.
package workos

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent"
	"remit/work/sandbox"
)

// Name is the engine's name in contracts and reports.
const Name = "case"

// inside is where the program stands in the sandbox.
const inside = agent.InsideDir + "/case/ca"

// ownDir is the name at the top of the workspace that is the engine's own.
const ownDir = ".case"

// taskID names the task to Case. It is a directory's name too.
const taskID = "remit"

// Engine is WorkOS Case.
type Engine struct{ bin string }

// New returns the engine of the program bin; there is no place where it could be
// expected.
func New(bin string) *Engine { return &Engine{bin} }

// Wire is the protocol of the agent.
func (*Engine) Wire() string { return "chat" }

// heading begins the prompt of each agent.
var heading = form.Lazy(`^# (Implementer|Verifier|Reviewer|Closer|Retrospective)\b`)

// AgentIn names the agent that gets a system text, as the events do.
func (*Engine) AgentIn(system string) string {
	if m := heading().FindStringSubmatch(strings.TrimSpace(system)); m != nil {
		return strings.ToLower(m[1])
	}
	return ""
}

// shownDigits are those of the digest that make a version.
const shownDigits = 12

// Identity digests the program.
func (e *Engine) Identity(context.Context) (evidence.EngineIdentity, error) {
	file, err := e.program()
	if err != nil {
		return evidence.EngineIdentity{}, err
	}
	digest, err := agent.FileDigest(file)
	if err != nil {
		return evidence.EngineIdentity{}, err
	}
	return evidence.EngineIdentity{Name: Name, Version: "sha256-" + digest[len("sha256:"):][:shownDigits], SHA256: digest}, nil
}

// environment is what Case and the shells of its agents see beside the token.
var environment = map[string]string{
	"CASE_QUIET": "1", // no second log beside the events
	// No protocol, no push.
	"GIT_CONFIG_COUNT": "1",
	"GIT_CONFIG_KEY_0": "protocol.allow", "GIT_CONFIG_VALUE_0": "never",
	"TERM": "dumb",
}

// tokenVariable holds the gateway's token. Case takes a key from the variable
// of a provider that it knows, and from nowhere else.
const tokenVariable = "OPENAI_API_KEY" //nolint:gosec // G101: a name, no key

// Invocation starts `ca run`.
func (e *Engine) Invocation(_ context.Context, t engine.Task) (*engine.Invocation, error) {
	file, err := e.program()
	if err != nil {
		return nil, err
	}
	m, err := agent.Model(Name, t)
	if err != nil {
		return nil, err
	}
	if t.InBaseline(ownDir) {
		return nil, reason.Errorf(reason.WorkspaceConflict, "the repository has %s, and that is where the engine case keeps its own files", ownDir)
	}
	files, err := settings(t, m)
	if err != nil {
		return nil, err
	}
	env := map[string]string{tokenVariable: m.Token}
	for name, value := range environment {
		env[name] = value
	}
	return &engine.Invocation{
		Argv:     agent.Launch{Home: home, Settings: files, Argv: []string{"/bin/sh", "-c", launcher, "remit-case", inside, taskID}}.Words(),
		Env:      env,
		Binds:    []sandbox.Bind{{Host: file, Inside: inside}},
		Scratch:  []string{ownDir, agent.GitDir},
		Protocol: newProtocol,
	}, nil
}

// hint says how to come by the program. GitHub has its source and nothing else.
const hint = "build it: check out commit 30b1fa1285a9 of the WorkOS Case repository, `npm install --save-exact bun@1.4.5`, " +
	"`bun install`, `bun run build:binary`; then --bin dist/ca"

func unavailable(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.ProviderUnavailable, format, args...).WithHint(hint)
}

// nativeMagic begins every program that the kernel loads by itself.
const nativeMagic = "\x7fELF"

// program checks what the user named, and returns its place without links.
func (e *Engine) program() (string, error) {
	if e.bin == "" {
		return "", unavailable("the agent case has no place of its own: its program has to be named with --bin")
	}
	file, err := filepath.EvalSymlinks(e.bin)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return "", unavailable("the agent case: %w", withoutPath(err))
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "", unavailable("the agent case: %w", withoutPath(err))
	case !info.Mode().IsRegular():
		return "", unavailable("the agent case: what was named is no file")
	case info.Mode()&0o111 == 0:
		return "", unavailable("the agent case: the file that was named cannot be executed")
	}
	if native, err := isNative(file); err != nil {
		return "", unavailable("the agent case: %w", withoutPath(err))
	} else if !native {
		return "", unavailable("the agent case: the file that was named is no native program, so its digest would not say what is executed")
	}
	return file, nil
}

func isNative(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	begin := make([]byte, len(nativeMagic))
	if _, err := io.ReadFull(f, begin); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return bytes.Equal(begin, []byte(nativeMagic)), nil
}

// withoutPath keeps places of this machine out of what becomes evidence.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// launcher runs in the sandbox; launch.sh says what it does.
//
//go:embed launch.sh
var launcher string

// home is the directory below $HOME that launch.sh finds the settings in.
const home = "case"

// What launch.sh puts in place of these: only the sandbox knows where the
// workspace is and what time it is, and a command line that is the same for the
// same task has one digest.
const (
	workspaceMark = "@workspace@"
	createdMark   = "@created@"
)

// project is how the task calls the repository.
const project = "workspace"

type object = map[string]any

// settings are the files of Case's two configuration directories, and the task:
// a pair of files, of which only the path of the second enters a prompt.
func settings(t engine.Task, m engine.Model) ([]agent.Setting, error) {
	extended := t
	extended.Instructions = strings.TrimSpace(t.Instructions) + criteria(t.Verify)
	text, err := agent.Prompt(extended)
	if err != nil {
		return nil, err
	}
	model := object{"provider": "openai", "model": m.Name}
	none := object{"provider": "none", "model": "none"} // who opens a pull request
	language, manager := languageOf(t)
	return []agent.Setting{
		{Name: "config.json", Text: encode(object{"version": 1, "projects": "./projects.json",
			"models": object{"default": model, "closer": none}})},
		{Name: "projects.json", Text: encode(object{"repos": []any{object{
			"name": project, "type": "library", "path": workspaceMark, "remote": "none", "description": t.Title,
			"language": language, "packageManager": manager, "commands": object{"setup": "true", "test": testCommand(t.Verify)},
		}}})},
		{Name: "models.json", Text: encode(object{"providers": object{"openai": object{
			"baseUrl": m.URL + "/v1", "api": "openai-completions", "apiKey": tokenVariable,
			"models": []any{object{"id": m.Name, "contextWindow": 128000, "maxTokens": 8192}},
		}}})},
		{Name: "task.json", Text: encode(object{
			"id": taskID, "status": "active", "created": createdMark, "repo": project, "issueType": "freeform", "issue": t.Title,
			"branch": "case/" + taskID, "mode": "unattended", "profile": "standard", "agents": object{}, "tested": false, "manualTested": false,
			"prUrl": nil, "prNumber": nil, "checkCommand": nil, "checkBaseline": nil, "checkTarget": nil,
		})},
		{Name: "task.md", Text: text},
	}, nil
}

// criteria are what the agents hold their work against.
func criteria(verify []string) string {
	var b strings.Builder
	b.WriteString("\n\n## Acceptance criteria\n\n- The task above is done, and nothing else was changed.\n")
	for _, command := range verify {
		fmt.Fprintf(&b, "- This command ends with exit code 0: %s\n", command)
	}
	return b.String()
}

// testCommand is one command that does what all do. Each gets a line of its own
// to end on, since it may end in a comment.
func testCommand(verify []string) string {
	switch len(verify) {
	case 0:
		return "true"
	case 1:
		return verify[0]
	}
	parts := make([]string, len(verify))
	for i, command := range verify {
		parts[i] = "( " + command + "\n)"
	}
	return strings.Join(parts, " && ")
}

// languages are those that Case has words for, by the file that shows each. The
// last is for everything else: there is no word for that.
var languages = []struct{ file, language, manager string }{
	{"go.mod", "go", "go"},
	{"pnpm-lock.yaml", "typescript", "pnpm"},
	{"yarn.lock", "typescript", "yarn"},
	{"package.json", "typescript", "npm"},
	{"Gemfile", "ruby", "bundler"},
	{"composer.json", "php", "composer"},
	{"mix.exs", "elixir", "mix"},
	{"build.gradle", "kotlin", "gradle"},
	{"build.gradle.kts", "kotlin", "gradle"},
	{"", "python", "pip"},
}

func languageOf(t engine.Task) (language, manager string) {
	for _, l := range languages {
		if l.file == "" || t.InBaseline(l.file) {
			return l.language, l.manager
		}
	}
	panic("the last language is for everything")
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // literals and text
	}
	return string(b)
}
