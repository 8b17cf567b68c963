package matrix

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remit/law/task"
	"remit/work/engine"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/git"
	sessions "remit/work/session"
)

// What the fixture repository holds: a misspelt word, and a check that wants it
// right. The check also runs a hook of the changed tree, if there is one.
const (
	greeting = "lib/greeting.txt"
	hook     = "lib/hook.sh"
	outside  = "outside.txt"
	wanted   = "hello"
	check    = "sh check.sh"
)

var files = map[string]string{
	greeting: "helo\n",
	outside:  "not yours\n",
	"check.sh": `read -r word < lib/greeting.txt
if [ "$word" != hello ]; then
	echo "want hello, got $word"
	exit 1
fi
if [ -f lib/hook.sh ]; then
	. ./lib/hook.sh
fi
`,
}

// patch is what the fake engine applies, and the command engine does.
const patch = `diff --git a/lib/greeting.txt b/lib/greeting.txt
--- a/lib/greeting.txt
+++ b/lib/greeting.txt
@@ -1 +1 @@
-helo
+hello
`

// fixture is the world of one case: a repository, a place for sessions, a task.
type fixture struct {
	dir      string
	contract contractText
}

func (f *fixture) repo() string        { return filepath.Join(f.dir, "repo") }
func (f *fixture) home() sessions.Home { return sessions.Home{Dir: filepath.Join(f.dir, "home")} }
func (f *fixture) patch() string       { return filepath.Join(f.dir, "fix.patch") }

// contractText are the parts of the task that scenarios differ in.
type contractText struct {
	id        string
	noCommand bool
	approval  bool
	wall      int // seconds, 0 for the default
}

// parse makes the contract the way a user's is made.
func (c contractText) parse() (*task.Contract, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "task_id: matrix-%s\ntitle: Correct the greeting\ninstructions: Write %s in %s.\n", c.id, wanted, greeting)
	fmt.Fprintf(&b, "allowed_paths: [\"lib/**\"]\nforbidden_actions: [%s]\nmutation_mode: %s\n",
		strings.Join(task.DefaultForbiddenActions(), ", "), task.CopiedFixture)
	if !c.noCommand {
		fmt.Fprintf(&b, "verification_commands: [%q]\n", check)
	}
	if c.approval {
		b.WriteString("approval_required: true\n")
	}
	if c.wall > 0 {
		fmt.Fprintf(&b, "budget: {wall_seconds: %d}\n", c.wall)
	}
	return task.Parse("matrix.yaml", []byte(b.String()))
}

func newFixture(ctx context.Context, dir string) (*fixture, error) {
	f := &fixture{dir: dir}
	if err := f.writePatch(); err != nil {
		return nil, err
	}
	return f, f.makeRepo(ctx)
}

func (f *fixture) writePatch() error {
	if err := os.WriteFile(f.patch(), []byte(patch), 0o644); err != nil {
		return fmt.Errorf("writing the fixture: %w", err)
	}
	return nil
}

// engine is the engine that makes the right change.
func (f *fixture) engine(name, binary string) (engine.Engine, error) {
	switch name {
	case fake.Name:
		return &fake.Engine{Patch: f.patch(), Binary: binary}, nil
	case command.Name:
		return &command.Engine{Argv: []string{"sh", "-c", "echo " + wanted + " > " + greeting}, Dir: f.dir}, nil
	}
	return nil, fmt.Errorf("the failure matrix knows no engine %q; it can be run for %v", name, Engines())
}

// made is when the fixture's commit was made: the same commit every time.
var made = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// makeRepo writes a repository with one commit and a clean work tree, as a user
// has one.
func (f *fixture) makeRepo(ctx context.Context) error {
	dir := filepath.Join(f.repo(), ".git")
	d, err := git.Create(dir, git.SHA1)
	if err != nil {
		return err
	}
	var edits []git.Edit
	var index []git.IndexEntry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := []byte(files[name])
		path := filepath.Join(f.repo(), filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing the fixture: %w", err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("writing the fixture: %w", err)
		}
		edits = append(edits, git.Edit{Path: name, Mode: "100644", Size: int64(len(content)),
			Content: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }})
		index = append(index, git.IndexEntry{Path: name, Mode: "100644", ID: git.SHA1.Sum("blob", content)})
	}
	commit, err := d.Import(ctx, d.Format.EmptyTree(), edits, git.Commit{Message: "A greeting\n", When: made})
	if err != nil {
		return err
	}
	if err := d.UpdateIndex(ctx, index); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"HEAD":            "ref: refs/heads/main\n",
		"config":          "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
		"refs/heads/main": commit.Commit + "\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing the fixture: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the fixture: %w", err)
		}
	}
	return nil
}
