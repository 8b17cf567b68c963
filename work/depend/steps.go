package depend

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/sandbox"
	"remit/work/tree"
)

// nodeHeaders is where the headers of node lie that compiled add-ons need, "" where
// there are none: they are not fetched.
func (b *Builder) nodeHeaders(e task.Ecosystem) string {
	at, ok := b.Sandbox.(programs)
	if registries[e] != registry.NPM || !ok {
		return ""
	}
	node := at.Program("node")
	if node == "" {
		return ""
	}
	dir := filepath.Dir(filepath.Dir(node))
	if _, err := os.Stat(filepath.Join(dir, "include/node/node.h")); err != nil {
		return ""
	}
	return dir
}

// run runs commands, and returns what they left.
func (b *Builder) run(ctx context.Context, s sandbox.Spec, said []string) ([]tree.Change, error) {
	spool, err := os.MkdirTemp(s.SpoolDir, "spool-")
	if err != nil {
		return nil, unusable(err)
	}
	s.SpoolDir = spool
	out := &tail{}
	for i := range s.Commands {
		s.Commands[i].Stdout, s.Commands[i].Stderr = out, out
	}
	res, err := b.Sandbox.Run(ctx, s)
	if err != nil {
		return nil, err
	}
	for i, c := range res.Commands {
		if c.ExitCode == 0 && c.Started && !c.TimedOut && !c.OutputExceeded {
			continue
		}
		how := fmt.Sprintf("exited with %d", c.ExitCode)
		switch {
		case !c.Started:
			how = "could not be started"
		case c.TimedOut:
			how = "took longer than " + s.Limits.Wall.String()
		case c.OutputExceeded:
			how = "printed too much"
		}
		return nil, reason.Errorf(reason.EnvironmentUnavailable, "`%s` %s: %s", said[i], how, out).
			WithHint("`remit env build` tries it alone")
	}
	return res.Changes, nil
}

// tail keeps the end of what a client printed, in a form that is safe to show.
type tail struct{ text []byte }

const tailBytes = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if len(t.text) > 2*tailBytes {
		t.text = bytes.Clone(t.text[len(t.text)-tailBytes:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	text := t.text[max(0, len(t.text)-tailBytes):]
	shown := strings.Map(func(c rune) rune {
		if c == '\n' || c >= ' ' && c != 0x7f && c < 0x80 {
			return c
		}
		return '?'
	}, strings.ToValidUTF8(string(text), "?"))
	return strings.TrimSpace(shown)
}

// toldEvery is how many packages are asked for between two lines of progress.
const toldEvery = 50

// counting is what a client may ask for, and tells how far it has come. It is
// called by several goroutines.
func (b *Builder) counting(p task.Prepare, plan *plan) func(registry.Package) error {
	var mu sync.Mutex
	asked, all := map[string]bool{}, plan.count()
	return func(pkg registry.Package) error {
		if err := plan.allow(pkg); err != nil || pkg.Version == "" {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		name := pkg.Name + "@" + pkg.Version
		if asked[name] {
			return nil
		}
		asked[name] = true
		if len(asked)%toldEvery == 0 {
			b.tell("%s in %s: %d of at most %d package(s)", p.Ecosystem, p.Dir, len(asked), all)
		}
		return nil
	}
}

// inputsIn is the tree of a fetch.
func inputsIn(work string) string { return filepath.Join(work, "inputs") }

// writeInputs makes the tree of the fetch.
func writeInputs(work string, files []file) (string, error) {
	lower := inputsIn(work)
	for _, f := range files {
		at := filepath.Join(lower, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return "", unusable(err)
		}
		if err := os.WriteFile(at, f.text, 0o644); err != nil { // another user reads it in the sandbox
			return "", unusable(err)
		}
	}
	return lower, nil
}

// writeConfiguration lays the client's configuration into its home directory.
func writeConfiguration(work string, files map[string]string) ([]sandbox.Bind, error) {
	var binds []sandbox.Bind
	for i, name := range slices.Sorted(maps.Keys(files)) {
		at := filepath.Join(work, "configuration-"+strconv.Itoa(i))
		if err := os.WriteFile(at, []byte(files[name]), 0o644); err != nil { // another user reads it in the sandbox
			return nil, unusable(err)
		}
		binds = append(binds, sandbox.Bind{Host: at, Inside: path.Join("/tmp/home", name)})
	}
	return binds, nil
}
