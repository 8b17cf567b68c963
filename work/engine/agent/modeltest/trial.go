package modeltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"remit/work/engine"
	"remit/work/sandbox"
	"remit/work/tree"
)

// Token is what an agent presents in a trial.
const Token = "trial-token-4711"

// Trial is one run of an agent in a sandbox, with a server as its only way out.
type Trial struct {
	Engine engine.Engine
	Model  string
	Title  string
	// Instructions are the task, "fix it" if empty.
	Instructions string
	Lower        string // the tree that it works on
	Env          map[string]string
	Binds        []sandbox.Bind
	Server       http.Handler // a *Server, say
	Verify       []string
	Wall         time.Duration
	// Change, if set, may change what is about to be started.
	Change func(*engine.Invocation)
}

// Outcome is what became of a Trial.
type Outcome struct {
	Command        sandbox.CommandResult
	Stdout, Stderr bytes.Buffer
	Events         []engine.Event
	End            engine.End
	Changed        map[string]string // content of every changed file
}

// Run starts the agent and waits until all of its processes are gone.
func (t Trial) Run(ctx context.Context, d sandbox.Driver, spool string) (*Outcome, error) {
	if t.Instructions == "" {
		t.Instructions = "fix it"
	}
	inv, err := t.Engine.Invocation(ctx, engine.Task{Title: t.Title, Instructions: t.Instructions, Verify: t.Verify, InBaseline: t.inBaseline,
		Model: &engine.Model{URL: fmt.Sprintf("http://127.0.0.1:%d", sandbox.DefaultLoopbackPort), Token: Token, Name: t.Model}})
	if err != nil {
		return nil, err
	}
	if t.Change != nil {
		t.Change(inv)
	}
	env := maps.Clone(inv.Env)
	maps.Copy(env, t.Env)
	out := &Outcome{Changed: map[string]string{}}
	limits := sandbox.DefaultLimits()
	limits.Wall = t.Wall
	server := &http.Server{Handler: t.Server, ReadHeaderTimeout: time.Minute}
	defer func() { _ = server.Close() }() // its listener is closed already
	res, err := d.Run(ctx, sandbox.Spec{Lower: t.Lower, Env: env, Binds: append(inv.Binds, t.Binds...), Limits: limits, Capture: true,
		SpoolDir: spool,
		Commands: []sandbox.Command{{Argv: inv.Argv, Stdout: &out.Stdout, Stderr: &out.Stderr}},
		Loopback: func(l net.Listener) { go func() { _ = server.Serve(l) }() }}) // ends with the listener
	if err != nil {
		return nil, err
	}
	out.Command = res.Commands[0]
	for _, c := range inv.Changes(res.Changes, t.inBaseline) {
		if out.Changed[c.Path], err = content(c); err != nil {
			return nil, err
		}
	}
	protocol := inv.Protocol(func(e engine.Event) { out.Events = append(out.Events, e) })
	for line := range bytes.Lines(out.Stdout.Bytes()) {
		protocol.Line(bytes.TrimSuffix(line, []byte("\n")))
	}
	out.End = protocol.End()
	return out, nil
}

// inBaseline reports whether the tree has something at a relative path.
func (t Trial) inBaseline(name string) bool {
	_, err := os.Lstat(filepath.Join(t.Lower, filepath.FromSlash(name)))
	return err == nil
}

func content(c tree.Change) (string, error) {
	if c.Open == nil {
		return string(c.Kind), nil
	}
	r, err := c.Open()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), errors.Join(err, r.Close())
}
