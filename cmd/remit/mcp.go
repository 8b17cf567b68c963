package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"remit/law/task"
	"remit/proof/form"
	"remit/work/session"
)

// mcpFlags are the flags of remit mcp.
type mcpFlags struct {
	repos                 []string
	usd, tokens, requests amount
	runs                  int
}

func (a *app) mcpCommand() *cobra.Command {
	f := new(mcpFlags)
	cmd := &cobra.Command{
		Use: "mcp --repo DIR", Short: "Serve runs to an agent or editor, as MCP tools over stdio", Args: cobra.NoArgs,
		Long: `Mcp speaks the Model Context Protocol on stdin and stdout, for a client that starts it. Its
tools are submit, status, diff, receipt, audit and replay.

submit starts a run as 'remit run --issue' does, behind the same gates: a task in words, one of the
repositories given here, and an engine that asks a model and that remit.yaml of the repository
enables by name. Everything else is as remit.yaml says. No tool approves, accepts or
exports anything, and none takes a sandbox, a command, a key, an address or a limit. A
run whose contract asks for an approval is blocked until a person gives it with 'remit approve'.

What the runs of one server may use in all is said here: at least one of --max-usd,
--max-tokens and --max-requests. One run at a time. The sessions that the tools show are
those of the repositories given. What they return was written by agents, repositories and
tests, and is marked as untrusted.`,
		Example: `  remit mcp --repo . --max-usd 5
  remit mcp --repo web=src/web --repo api=src/api --max-requests 200 --max-runs 5`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.json {
				return usagef("--json is for a person: what mcp prints is its protocol")
			}
			server, err := a.newMCP(cmd.Context(), f)
			if err != nil {
				return err
			}
			return server.serve(mcpLines(cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.repos, "repo", nil, "repository that runs may be for, DIR or NAME=DIR (default name: that of the directory; repeatable)")
	f.usd.read = task.ParseUSD
	fl.Var(&f.usd, "max-usd", "what the models of all runs of this server may cost, in dollars")
	fl.Var(&f.tokens, "max-tokens", "how many tokens all runs of this server may use")
	fl.Var(&f.requests, "max-requests", "how many requests all runs of this server may make of a model")
	fl.IntVar(&f.runs, "max-runs", 20, "how many runs this server may start")
	return cmd
}

// mcpServer serves the tools to one client.
type mcpServer struct {
	ctx   context.Context // of its runs: they end with the server
	home  session.Home
	repos map[string]string // name to directory, absolute and without links

	mu        sync.Mutex
	left      spend
	runsLeft  int
	submitted map[string]*submission
	busy      bool
	done      sync.WaitGroup
}

var repoName = form.Lazy(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)

func (a *app) newMCP(ctx context.Context, f *mcpFlags) (*mcpServer, error) {
	s := &mcpServer{ctx: ctx, home: a.home, repos: map[string]string{}, left: spend{f.usd.value, f.tokens.value, f.requests.value},
		runsLeft: f.runs, submitted: map[string]*submission{}}
	switch {
	case len(f.repos) == 0:
		return nil, usagef("say which repositories runs may be for: --repo DIR")
	case s.left == (spend{}):
		return nil, usagef("say what the runs of this server may use in all: --max-usd, --max-tokens or --max-requests")
	case f.runs < 1:
		return nil, usagef("--max-runs %d: must be at least 1", f.runs)
	}
	for _, given := range f.repos {
		name, dir, named := strings.Cut(given, "=")
		if !named {
			dir = given
		}
		full, err := filepath.Abs(dir)
		if err == nil {
			full, err = filepath.EvalSymlinks(full)
		}
		if err != nil {
			return nil, usagef("--repo %q: %w", given, err)
		}
		if info, err := os.Stat(full); err != nil || !info.IsDir() {
			return nil, usagef("--repo %q is no directory", given)
		}
		if !named {
			name = filepath.Base(full)
		}
		if _, twice := s.repos[name]; twice || !repoName().MatchString(name) {
			return nil, usagef("--repo %q: the name %q is there already, or is none: give another as NAME=DIR", given, name)
		}
		s.repos[name] = full
	}
	return s, nil
}

// serve serves until the client goes away, and then ends the runs that go on.
func (m *mcpServer) serve(transport mcp.Transport) error {
	ctx, cancel := context.WithCancelCause(m.ctx)
	m.ctx = ctx
	defer m.done.Wait()
	defer cancel(fmt.Errorf("the client of remit mcp went away"))
	if err := m.server().Run(ctx, transport); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving MCP: %w", err)
	}
	return context.Cause(m.ctx)
}

// command runs a command of this program as its command line does, and returns its exit
// code and what it printed: with --json one document, of an error too.
func (m *mcpServer) command(ctx context.Context, words ...string) (int, []byte) {
	at := func() (session.Home, error) { return m.home, nil }
	root := newRootAt(at, words)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetIn(strings.NewReader("")) // stdin is the client's
	root.SetArgs(append([]string{words[0], "--json"}, words[1:]...))
	err := execute(ctx, root, at)
	if err == nil {
		return 0, out.Bytes()
	}
	if exit, ok := errors.AsType[exitCode](err); ok {
		return int(exit), out.Bytes()
	}
	code := printError(io.Discard, err)
	if out.Len() == 0 {
		_ = printJSON(&out, documentOf(err, code)) // into memory
	}
	return code, out.Bytes()
}
