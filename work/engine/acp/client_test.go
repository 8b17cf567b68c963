package acp

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
)

// talk has the client talk to the fake agent in a mode.
func talk(ctx context.Context, t *testing.T, mode string, change func(*client)) (code int, stdout, stderr string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	c := &client{session: map[string]any{"cwd": "/workspace", "mcpServers": []any{}}, prompt: "fix it", argv: []string{self, fakeArgument, mode}, out: &out, err: &errs,
		handshake: time.Minute, grace: time.Minute}
	if change != nil {
		change(c)
	}
	code = c.run(ctx)
	return code, out.String(), errs.String()
}

// TestConversation: how a conversation can go, and what is made of it.
func TestConversation(t *testing.T) {
	t.Parallel()
	deaf := func(c *client) { c.handshake = 300 * time.Millisecond }
	stays := func(c *client) { c.grace = 300 * time.Millisecond }
	for _, test := range []struct {
		mode     string
		change   func(*client)
		exit     int
		complete bool
		code     reason.Code
		problem  string // part of it
		heard    string // part of a message
	}{
		{mode: "well", complete: true, heard: "Done."},
		{mode: "noise", complete: true, heard: "Done."},
		{mode: "permission", complete: true, heard: `{"optionId":"once","outcome":"selected"}`},
		{mode: "permission-forever", complete: true, heard: `{"outcome":"cancelled"}`},
		{mode: "methods", complete: true, heard: `"code":-32601`},
		{mode: "stays", change: stays, complete: true, heard: "was stopped"},
		{mode: "twice", code: reason.AgentProtocolFailed, problem: "2 times"},
		{mode: "refusal", code: reason.EngineFailed, problem: "refusal"},
		{mode: "max_tokens", code: reason.EngineFailed, problem: "max_tokens"},
		{mode: "max_turn_requests", code: reason.EngineFailed, problem: "max_turn_requests"},
		{mode: "cancelled", code: reason.EngineFailed, problem: "cancelled"},
		{mode: "of the future", code: reason.AgentProtocolFailed, problem: "unknown reason"},
		{mode: "early", exit: 1, code: reason.EngineFailed, problem: "exit code 3"},
		{mode: "silent", exit: 1, code: reason.AgentProtocolFailed, problem: "exit code 0"},
		{mode: "crash", exit: 1, code: reason.EngineFailed, problem: "out of ideas"},
		{mode: "version", exit: 1, code: reason.AgentProtocolFailed, problem: `version "2"`},
		{mode: "malformed", change: deaf, exit: 1, code: reason.AgentProtocolFailed, problem: "no answer within"},
		{mode: "early-after-malformed", exit: 1, code: reason.EngineFailed, problem: "ended before it answered"},
		{mode: "neither", exit: 1, code: reason.AgentProtocolFailed, problem: "neither a result nor an error"},
		{mode: "auth", exit: 1, code: reason.AuthUnavailable, problem: "Authentication required"},
		{mode: "failed", exit: 1, code: reason.BudgetExhausted, problem: "has spent its budget"},
		{mode: "long", exit: 1, code: reason.AgentProtocolFailed, problem: "12 MiB"},
	} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			code, stdout, _ := talk(t.Context(), t, test.mode, test.change)
			events, end := modeltest.Replay(newProtocol, []byte(stdout))
			if code != test.exit || end.Complete != test.complete || end.Code != test.code || !strings.Contains(end.Problem, test.problem) || end.Complete == (end.Problem != "") {
				t.Errorf("exit %d, %+v\n%.2000s", code, end, stdout)
			}
			said := false
			for _, e := range events {
				said = said || e.Kind == engine.Message && strings.Contains(e.Text, test.heard)
			}
			if !said && test.heard != "" {
				t.Errorf("no agent said %q: %+v", test.heard, events)
			}
		})
	}
}

// TestStreams: what the agent prints on stderr is none of the conversation.
func TestStreams(t *testing.T) {
	t.Parallel()
	_, stdout, stderr := talk(t.Context(), t, "early", nil)
	if strings.Contains(stdout, "canary") || !strings.Contains(stderr, "canary") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

// TestCancel: an interrupted client tells the agent, which may say so.
func TestCancel(t *testing.T) {
	t.Parallel()
	for mode, problem := range map[string]string{"hang": "(cancelled)", "deaf": "did not say so"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			_, stdout, _ := talk(ctx, t, mode, func(c *client) {
				c.grace = 300 * time.Millisecond
				if mode == "hang" {
					c.grace = time.Minute
				}
				// The prompt is under way when the agent thinks about it.
				c.out = &watcher{Writer: c.out, until: "I think.", then: func() { cancel(errors.New("the test cancels")) }}
			})
			if _, end := modeltest.Replay(newProtocol, []byte(stdout)); end.Complete || !strings.Contains(end.Problem, problem) {
				t.Errorf("%+v\n%s", end, stdout)
			}
		})
	}
}

// TestNoAgent: a program that cannot be started is reported in the protocol.
func TestNoAgent(t *testing.T) {
	t.Parallel()
	code, stdout, _ := talk(t.Context(), t, "", func(c *client) { c.argv = []string{"/nonexistent/agent"} })
	if _, end := modeltest.Replay(newProtocol, []byte(stdout)); code != 1 || end.Complete || !strings.Contains(end.Problem, "cannot be started") {
		t.Errorf("exit %d, %+v", code, end)
	}
}
