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
	"context"
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

// heading begins what each agent is told.
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
