package modeltest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/work/engine"
	"remit/work/sandbox"
)

// Secret is in the environment of the user, and must not be seen inside.
const Secret = "s3cr3t-of-the-user"

// Where an agent presents the token.
const (
	Bearer = "authorization"
	APIKey = "x-api-key"
)

// Live is a real agent, and what it does with a model that plays turns to it.
type Live struct {
	// Engine returns the engine. bin is the npm prefix of make agents, or "".
	Engine func(t *testing.T, bin string) engine.Engine
	Model  string // one that the agent knows
	Path   string // that it asks at
	Header string // Bearer or APIKey; "" is either
	// Look uses a tool that fails with code 3 and leaves a process behind; Edits
	// make the change.
	Look  Turn
	Edits []Turn
	// Exits are the codes with which commands of Edits end.
	Exits []int
	// Requests says that the usage tells the number of requests, Partial that it
	// does not tell of all of them.
	Requests, Partial bool
}

// wall is how long a real agent may take.
const wall = 3 * time.Minute

// fix are the turns of a model that knows what to do.
func (l Live) fix() []Turn {
	return append(append([]Turn{l.Look}, l.Edits...), Turn{Text: "Fixed."})
}

// open returns the engine and a sandbox, or skips the test, loudly.
func (l Live) open(t *testing.T) (engine.Engine, sandbox.Driver) {
	t.Helper()
	named := os.Getenv("REMIT_AGENTS") != ""
	bin, err := Installed()
	if err != nil {
		t.Fatal(err)
	}
	e := l.Engine(t, bin)
	if _, err := e.Identity(t.Context()); err != nil {
		if named {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, the real agent is not driven: %v", err)
	}
	d, err := sandbox.Open(t.Context(), sandbox.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Skipf("SKIPPED, there is no sandbox here: %v", err)
	}
	return e, d
}

// Fixes has the agent fix a hostile repository in the real sandbox.
func (l Live) Fixes(t *testing.T) {
	t.Helper()
	t.Setenv("REMIT_CANARY", Secret)
	e, d := l.open(t)
	lower := t.TempDir()
	if err := Repository(lower); err != nil {
		t.Fatal(err)
	}
	s := &Server{Turns: l.fix()}
	o, err := Trial{Engine: e, Model: l.Model, Title: "--help @calc.py", Lower: lower, Server: s, Wall: wall}.Run(t.Context(), d, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ended after %s", o.Command.Duration)
	if o.Command.ExitCode != 0 || !o.End.Complete || o.End.Summary != "Fixed." {
		t.Errorf("exit %d, %+v\n%s\n%s", o.Command.ExitCode, o.End, o.Stderr.String(), o.Stdout.String())
	}
	if len(o.Changed) != 1 || o.Changed["calc.py"] != "def add(a, b):\n    return a + b\n" {
		t.Errorf("changed: %q", o.Changed)
	}
	l.checkAsked(t, s.Asked())
	l.checkEvents(t, o.Events, int64(len(s.Asked())))
}

// checkAsked holds what the model was asked against what it may learn.
func (l Live) checkAsked(t *testing.T, asked []Asked) {
	t.Helper()
	for _, a := range asked {
		key, bearer := a.Key == Token, a.Authorization == "Bearer "+Token
		presented := l.Header == APIKey && key || l.Header == Bearer && bearer || l.Header == "" && (key || bearer)
		if a.Path != l.Path || !presented || a.Model != l.Model {
			t.Errorf("asked %s with %q %q for %q", a.Path, a.Authorization, a.Key, a.Model)
		}
		for _, word := range []string{Canary, Secret} {
			if strings.Contains(a.Prompt, word) {
				t.Errorf("the model got %q: …%s", word, around(a.Prompt, word))
			}
		}
	}
	if n := len(asked); n == 0 || !strings.Contains(asked[n-1].Prompt, "commit-baseline") {
		t.Error("the agent's commands have no git repository to look at")
	}
	if len(asked) == 0 || !strings.Contains(asked[0].Prompt, "Task: --help @calc.py") {
		t.Error("the task did not arrive")
	}
}

// checkEvents holds the agent's account against what happened.
func (l Live) checkEvents(t *testing.T, events []engine.Event, asked int64) {
	t.Helper()
	var tokens, requests int64
	var exits []int
	var paths []string
	for _, event := range events {
		tokens, requests = tokens+event.Usage.Tokens, requests+event.Usage.Requests
		paths = append(paths, event.Paths...)
		if event.Exit != nil {
			exits = append(exits, *event.Exit)
		}
	}
	reported := int64(0)
	if l.Requests {
		reported = asked
	}
	if !l.Partial && (tokens != asked*(InUncached+CacheRead+Out) || requests != reported) {
		t.Errorf("%d tokens, %d requests, %d were made", tokens, requests, asked)
	}
	if !slices.Equal(exits, append([]int{3}, l.Exits...)) || len(paths) != 1 || paths[0] != "calc.py" {
		t.Errorf("exit codes %v, paths %q", exits, paths)
	}
}

// Record makes new recorded streams, of every fault too. prefix is what their
// names begin with, trim leaves out what need not be kept, or is nil.
func (l Live) Record(t *testing.T, prefix string, trim func([]byte) []byte) {
	t.Helper()
	if os.Getenv("REMIT_RECORD") == "" {
		t.Skip("set REMIT_RECORD to record new streams into testdata")
	}
	e, d := l.open(t)
	all := Faults(l.Look)
	all["fix"] = l.fix()
	for name, turns := range all {
		lower := t.TempDir()
		if err := os.WriteFile(filepath.Join(lower, "calc.py"), []byte("def add(a, b):\n    return a - b\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s := &Server{Turns: turns}
		o, err := Trial{Engine: e, Model: l.Model, Title: "add subtracts", Lower: lower, Server: s, Wall: wall}.Run(t.Context(), d, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		name = prefix + name
		t.Logf("%s: exit %d after %s, %d requests, %+v, stderr %q", name, o.Command.ExitCode, o.Command.Duration, len(s.Asked()), o.End,
			o.Stderr.String())
		stream := o.Stdout.Bytes()
		if trim != nil {
			stream = trim(stream)
		}
		if err := os.WriteFile(filepath.Join("testdata", name+".jsonl"), stream, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// around is where a word stands in a text.
func around(text, word string) string {
	at := strings.Index(text, word)
	return text[max(0, at-300):min(len(text), at+300)]
}
