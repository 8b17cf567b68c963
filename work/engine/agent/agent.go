// Package agent is what the engines of published coding agents share: how an
// agent's npm package is found and identified without starting anything, how
// its process is started in the sandbox, and how its line protocol is read.
//
// # Where an agent is
//
// [Find] looks for a package at the place that the user named, else in
// $REMIT_AGENTS, in .tools/agents below the current directory (where
// `make agents` puts the tested versions), and at last where the program's
// name on PATH leads to. The version is read from package.json beside the
// program. An agent without one has no version that could be found out without
// starting it, and is refused, as is a major version that was not tested.
//
// # How it is started
//
// [Launch] makes the workspace a git repository that is thrown away, writes the
// agent's configuration below $HOME of the sandbox, which no diff and no later
// command sees, and replaces itself by the agent. Nothing else enters the
// workspace. The token of the gateway travels in the environment,
// never on a command line, since command lines are evidence. Stdin is the null
// device (the sandbox sees to that).
//
// # How its output is read
//
// A protocol is one JSON object a line. Unknown types and keys, and lines that
// are no objects, are skipped: they are in the raw output. Only an object that
// breaks off can be the one that says how the agent ended, so a protocol asks
// [Line.Broken] and then is not complete. What an agent says can forge every
// event (its own tools run beside it, as the same user), so none is more than
// a claim: the change is judged by the verifier alone.
package agent

import (
	"remit/proof/reason"
)

// An Agent is what is known beforehand of a published coding agent.
type Agent struct {
	Name    string // the engine's
	Program string // on PATH
	Package string // at the npm registry
	Major   string // the tested major version
	// Platform names the package with the native program for an operating
	// system and an architecture of Go's, the best first; nil for an agent that
	// runs on node.
	Platform func(goos, goarch string) []string
}

// hint is for every way in which an agent can be missing.
const hint = "`remit agent setup NAME` installs the tested version, for codex, claude, pi and acp:PROGRAM; --bin names another place"

func unavailable(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.ProviderUnavailable, format, args...).WithHint(hint)
}
