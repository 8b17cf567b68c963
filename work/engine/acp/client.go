package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"remit/work/engine/agent"
	"remit/work/sandbox"
)

const (
	// handshake is how long an agent may take to be ready: slow ones load for
	// ten seconds on a quiet machine.
	handshake = 2 * time.Minute
	// grace is how long an agent may take to end after its last answer.
	grace = 5 * time.Second
	// drain is how long output of a dead agent is waited for, which a process
	// that it left behind can hold open.
	drain = time.Second
)

// Process is the client: it has one conversation with the agent and prints
// what it hears. The first word of args is an object with what session/new is
// to have beside what it always has, or in its place; the second is the prompt,
// the others are the agent's command. The exit code is 0 if the agent answered
// the prompt.
func Process(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, "acp client: there is no agent to talk to")
		return 1
	}
	if cwd, err := os.Getwd(); err != nil || cwd != sandbox.WorkspacePath {
		fmt.Fprintln(os.Stderr, "acp client: an agent is driven in the sandbox only, where nothing else is in its reach")
		return 1
	}
	session := map[string]any{"cwd": sandbox.WorkspacePath, "mcpServers": []any{}}
	if err := json.Unmarshal([]byte(args[0]), &session); err != nil {
		fmt.Fprintln(os.Stderr, "acp client: what is said of the session is no object:", err)
		return 1
	}
	c := &client{session: session, prompt: args[1], argv: args[2:], out: os.Stdout, err: os.Stderr, handshake: handshake, grace: grace}
	return c.run(ctx)
}

// client is one conversation with one agent.
type client struct {
	session      map[string]any // what session/new has
	prompt       string
	argv         []string
	out          io.Writer
	err          io.Writer // of the agent
	handshake    time.Duration
	grace        time.Duration
	printing     sync.Mutex
	writing      sync.Mutex
	toAgent      io.WriteCloser
	answers      chan *message // the agent's, in their order
	deaf         error         // why nothing more is heard; set before answers is closed
	dead         chan struct{} // closed when the agent's process is gone
	stopped      chan struct{} // closed when no request waits for an answer any more
	conversation string        // the session's id
}

// run starts the agent, talks to it and ends it.
func (c *client) run(ctx context.Context) int {
	c.answers, c.dead, c.stopped = make(chan *message), make(chan struct{}), make(chan struct{})
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Stderr = c.err
	cmd.WaitDelay = drain // of stderr, where it is no file
	r, w, err := os.Pipe()
	if err == nil {
		cmd.Stdout = w
		c.toAgent, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.note(note{Event: noteFailed, Problem: "the agent cannot be started: " + err.Error()})
		return 1
	}
	_ = w.Close() // the agent has it
	heard := make(chan struct{})
	go func() { defer close(heard); c.listen(r) }()
	go func() {
		defer close(c.dead)
		_ = cmd.Wait() // its state says how it ended
	}()

	code := 0
	if request, err := c.converse(ctx); err != nil {
		code = 1
		c.note(note{Event: noteFailed, Request: request, Problem: err.Error(), Gone: errors.Is(err, errGone)})
	}
	close(c.stopped)
	_ = c.toAgent.Close() // which asks the agent to end
	killed := c.end(cmd, code)
	select {
	case <-heard:
	case <-time.After(drain):
	}
	_ = r.Close()
	c.note(ended(cmd.ProcessState, killed))
	return code
}

// end waits until the agent is gone, and kills it if it stays. After a failed
// conversation there is nothing to wait for.
func (c *client) end(cmd *exec.Cmd, code int) (killed bool) {
	patience := c.grace
	if code != 0 {
		patience = min(patience, drain)
	}
	select {
	case <-c.dead:
		return false
	case <-time.After(patience):
		_ = cmd.Process.Kill() // unless it is gone this very moment
		<-c.dead
		return true
	}
}

func ended(state *os.ProcessState, killed bool) note {
	n := note{Event: noteEnded, Killed: killed}
	if state != nil {
		n.Exit = state.ExitCode()
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			n.Signal = status.Signal().String()
		}
	}
	return n
}

// converse leads the agent from its first answer to its last. A failure names
// the request that it is about.
func (c *client) converse(ctx context.Context) (request string, err error) {
	ready, cancel := context.WithTimeoutCause(ctx, c.handshake, fmt.Errorf("there was no answer within %s", c.handshake))
	defer cancel()
	result, err := c.call(ready, methodInitialize, map[string]any{
		"protocolVersion": version,
		// Neither files nor terminals: the agent has its own, in the same sandbox.
		"clientCapabilities": map[string]any{"fs": map[string]bool{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         map[string]string{"name": "remit", "title": "Remit", "version": "1"},
	})
	if err != nil {
		return methodInitialize, err
	}
	var hello struct{ ProtocolVersion json.RawMessage }
	if err := json.Unmarshal(result, &hello); err != nil || string(hello.ProtocolVersion) != fmt.Sprint(version) {
		return methodInitialize, fmt.Errorf("the agent speaks version %.20q of the protocol, not %d", hello.ProtocolVersion, version)
	}
	if result, err = c.call(ready, methodNew, c.session); err != nil {
		return methodNew, err
	}
	var opened struct{ SessionID string }
	if err := json.Unmarshal(result, &opened); err != nil || opened.SessionID == "" {
		return methodNew, errors.New("the answer names no session")
	}
	c.conversation = opened.SessionID
	_, err = c.call(ctx, methodPrompt, map[string]any{"sessionId": c.conversation,
		"prompt": []any{map[string]string{"type": "text", "text": c.prompt}}})
	return methodPrompt, err
}

// call sends a request and waits for its answer. A prompt that is interrupted
// is cancelled, and may still be answered.
func (c *client) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	// An agent that does not listen is heard of otherwise.
	_ = c.send(map[string]any{"jsonrpc": "2.0", "id": requests[method], "method": method, "params": params})
	interrupted := ctx.Done()
	var patience <-chan time.Time
	for {
		select {
		case m, open := <-c.answers:
			switch {
			case !open:
				return nil, c.silence()
			case !m.answers(method):
				continue
			case m.Error != nil:
				return nil, fmt.Errorf("the agent answered with the error %d: %s", m.Error.Code, agent.Said(m.Error.Message))
			case len(m.Result) == 0:
				return nil, errors.New("the answer has neither a result nor an error")
			}
			return m.Result, nil
		case <-interrupted:
			if method != methodPrompt {
				return nil, context.Cause(ctx)
			}
			_ = c.send(map[string]any{"jsonrpc": "2.0", "method": methodCancel, "params": map[string]string{"sessionId": c.conversation}})
			interrupted, patience = nil, time.After(c.grace)
		case <-patience:
			return nil, fmt.Errorf("it was cancelled, and the agent did not say so: %w", context.Cause(ctx))
		}
	}
}

// errGone says that the agent's process ended too early.
var errGone = errors.New("the agent ended before it answered")

// silence says why nothing more is heard.
func (c *client) silence() error {
	if c.deaf != nil {
		return c.deaf
	}
	select {
	case <-c.dead:
		return errGone
	case <-time.After(drain):
		return errors.New("the agent closed its output before it answered")
	}
}

// listen prints what the agent says, answers its requests and hands on its
// answers, until it says nothing more.
func (c *client) listen(r *os.File) {
	defer close(c.answers)
	go func() {
		<-c.dead
		_ = r.SetReadDeadline(time.Now().Add(drain)) // another process may hold the pipe
	}()
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		raw, err := readLine(lines, maxMessage)
		if errors.Is(err, errLong) {
			c.deaf = err
		}
		if err != nil {
			return
		}
		said, m := envelope(raw)
		c.print(said)
		switch {
		case m == nil:
		case m.asks():
			c.reply(m)
		case m.Method == "":
			select {
			case c.answers <- m:
			case <-c.stopped:
			}
		}
	}
}

// reply answers a request of the agent. It may do once what it asks for; there
// is no user who could allow it for good, and nothing else is offered.
func (c *client) reply(m *message) {
	answer := map[string]any{"jsonrpc": "2.0", "id": m.ID}
	if m.Method == methodPermission {
		option := permitted(m.Params)
		c.note(note{Event: notePermission, Option: option})
		outcome := map[string]string{"outcome": "cancelled"}
		if option != "" {
			outcome = map[string]string{"outcome": "selected", "optionId": option}
		}
		answer["result"] = map[string]any{"outcome": outcome}
	} else {
		answer["error"] = map[string]any{"code": codeMethodNotFound, "message": "this client has no such method"}
	}
	_ = c.send(answer) // as in call
}

// permitted is the option that allows a thing once, "" if there is none.
func permitted(params json.RawMessage) string {
	var asked struct {
		Options []struct{ OptionID, Kind string }
	}
	_ = json.Unmarshal(params, &asked) // then nothing is permitted
	for _, o := range asked.Options {
		if o.Kind == "allow_once" {
			return o.OptionID
		}
	}
	return ""
}

func (c *client) send(v any) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.toAgent.Write(append(encode(v), '\n'))
	return err
}

func (c *client) note(n note) { c.print(encode(line{Client: &n})) }

func (c *client) print(text []byte) {
	c.printing.Lock()
	defer c.printing.Unlock()
	_, _ = c.out.Write(append(text, '\n')) // without a listener the sandbox is about to end
}
