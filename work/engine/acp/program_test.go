package acp

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent"
)

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// task has a model, and a baseline with one file.
var task = engine.Task{Title: "t", Instructions: "i", InBaseline: func(p string) bool { return p == "agent.js" || p == "." },
	Model: &engine.Model{URL: "http://127.0.0.1:18080", Token: "token-of-the-gateway", Name: "some-model"}}

// TestFile: a program that belongs to no package is what its file is.
func TestFile(t *testing.T) {
	t.Parallel()
	file := write(t, filepath.Join(t.TempDir(), "my-agent"), "#!/bin/sh\nexit 0\n")
	e, err := New(Options{Command: []string{file, "--verbose", "serve"}, Wire: "chat", Client: "/client"})
	if err != nil {
		t.Fatal(err)
	}
	id, err := e.Identity(t.Context())
	if err != nil || id.Name != Name || !strings.HasPrefix(id.Version, "my-agent-sha256-") {
		t.Errorf("%+v %v", id, err)
	}
	inv, err := e.Invocation(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	tail := inv.Argv[len(inv.Argv)-3:]
	if !slices.Equal(tail, []string{insideProgram + "/my-agent", "--verbose", "serve"}) {
		t.Errorf("%q", inv.Argv)
	}
	if len(inv.Binds) != 2 || inv.Binds[0].Host != file || inv.Binds[1].Host != "/client" {
		t.Errorf("%+v", inv.Binds)
	}
	if inv.Env["OPENAI_BASE_URL"] != "http://127.0.0.1:18080/v1" || inv.Env["ANTHROPIC_BASE_URL"] != "http://127.0.0.1:18080" || inv.Env["REMIT_MODEL"] != "some-model" {
		t.Errorf("%v", inv.Env)
	}
	if slices.ContainsFunc(inv.Argv, func(w string) bool { return strings.Contains(w, task.Model.Token) }) {
		t.Errorf("the token is on the command line: %q", inv.Argv)
	}
	write(t, file, "#!/bin/sh\nexit 1\n")
	if err := os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if other, err := e.Identity(t.Context()); err != nil || other.SHA256 == id.SHA256 {
		t.Errorf("another file has the same digest: %+v %v", other, err)
	}
}

// TestPackage: a program that npm installed is what it and its dependencies
// are, programs without a known extension too, and nothing beside them is lent.
func TestPackage(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "node_modules")
	write(t, filepath.Join(root, "@x/agent/package.json"), `{"name":"@x/agent","version":"1.2.3","dependencies":{"dep":"1"}}`)
	file := write(t, filepath.Join(root, "@x/agent/bin/my-agent"), "#!/usr/bin/env node\n")
	native := write(t, filepath.Join(root, "dep/native"), "a program")
	write(t, filepath.Join(root, "dep/package.json"), `{"name":"dep","version":"1.0.0"}`)
	write(t, filepath.Join(root, "other/package.json"), `{"name":"other","version":"1.0.0"}`)
	e, err := New(Options{Command: []string{file}, Wire: "chat"})
	if err != nil {
		t.Fatal(err)
	}
	id, err := e.Identity(t.Context())
	if err != nil || id.Version != "my-agent-1.2.3" {
		t.Fatalf("%+v %v", id, err)
	}
	p, err := e.find()
	if err != nil {
		t.Fatal(err)
	}
	_, lent, err := p.start()
	if _, noNode := errors.AsType[*reason.Error](err); err != nil && !noNode {
		t.Fatal(err)
	}
	for _, b := range lent {
		if strings.HasPrefix(filepath.Join(root, "other"), b.Host) {
			t.Errorf("%+v shows another package", b)
		}
	}
	write(t, filepath.Join(root, "other/index.js"), "x")
	if same, err := e.Identity(t.Context()); err != nil || same != id {
		t.Errorf("another package counts: %+v %v", same, err)
	}
	write(t, native, "another program")
	if other, err := e.Identity(t.Context()); err != nil || other.SHA256 == id.SHA256 {
		t.Errorf("another native program has the same digest: %+v %v", other, err)
	}
}

// TestEveryFileCounts: whatever is lent of a package is in the digest, also what
// no package.json names and what a link leads to.
func TestEveryFileCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := filepath.Join(dir, "node_modules")
	write(t, filepath.Join(root, "agent/package.json"), `{"name":"agent","version":"1.2.3","dependencies":{"dep":"1","linked":"1"}}`)
	file := write(t, filepath.Join(root, "agent/bin/my-agent"), "x")
	write(t, filepath.Join(root, "agent/node_modules/dep/package.json"), `{"name":"dep","version":"1.0.0"}`)
	write(t, filepath.Join(dir, "linked/package.json"), `{"name":"linked","version":"1.0.0"}`)
	if err := os.Symlink(filepath.Join(dir, "linked"), filepath.Join(root, "linked")); err != nil {
		t.Fatal(err)
	}
	e, err := New(Options{Command: []string{file}, Wire: "chat"})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	look := func(after string) {
		t.Helper()
		id, err := e.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if before, twice := seen[id.SHA256]; twice {
			t.Errorf("%s: the same digest as %s", after, before)
		}
		seen[id.SHA256] = after
	}
	look("nothing")
	for _, name := range []string{"node_modules/agent/dist/node_modules/helper/index.js", "node_modules/agent/node_modules/helper.js",
		"node_modules/agent/node_modules/dep/index.js", "linked/index.js"} {
		write(t, filepath.Join(dir, name), "x")
		look(name)
	}
	if err := os.Symlink("index.js", filepath.Join(dir, "linked/main.js")); err != nil {
		t.Fatal(err)
	}
	look("a link in a package")
}

// TestRefusals: what cannot be driven, or must not be, is refused before
// anything is started.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "my-agent"), "x")
	for name, test := range map[string]struct {
		options Options
		problem string
	}{
		"no command":                        {Options{}, "got no agent"},
		"no program":                        {Options{Command: []string{filepath.Join(dir, "absent")}, Wire: "chat"}, "no such file"},
		"nothing of that name":              {Options{Command: []string{"absent-agent"}, Wire: "chat"}, "not found"},
		"a directory":                       {Options{Command: []string{dir}, Wire: "chat"}, "not a regular file"},
		"an unknown wire":                   {Options{Command: []string{file}, Wire: "telepathy"}, "telepathy"},
		"the wrong wire":                    {Options{Command: []string{"codex-acp"}, Wire: "chat"}, "speaks responses"},
		"said twice":                        {Options{Command: []string{file}, Bin: dir, Wire: "chat"}, "said twice"},
		"a known name that it has not":      {Options{Command: []string{write(t, filepath.Join(dir, "codex-acp"), "x")}}, "in no npm package"},
		"a file of this machine":            {Options{Command: []string{file, file}, Wire: "chat"}, "file of this machine"},
		"a program that the repository is":  {Options{Command: []string{file, "./agent.js"}, Wire: "chat"}, "file of the repository"},
		"the same, by its whole path":       {Options{Command: []string{file, "/workspace//agent.js"}, Wire: "chat"}, "file of the repository"},
		"the same, out of the way":          {Options{Command: []string{file, "../workspace/x/../agent.js"}, Wire: "chat"}, "file of the repository"},
		"the repository itself":             {Options{Command: []string{file, "."}, Wire: "chat"}, "file of the repository"},
		"the same, in an option":            {Options{Command: []string{file, "--require=./agent.js"}, Wire: "chat"}, "file of the repository"},
		"the same, in a short option":       {Options{Command: []string{file, "-r./agent.js"}, Wire: "chat"}, "file of the repository"},
		"the same, as an address":           {Options{Command: []string{file, "--import=file:///workspace/agent.js"}, Wire: "chat"}, "file of the repository"},
		"the same, as text of a shell":      {Options{Command: []string{file, "-c", "exec ./agent.js"}, Wire: "chat"}, "file of the repository"},
		"a file of this machine, an option": {Options{Command: []string{file, "--config=" + file}, Wire: "chat"}, "file of this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := New(test.options)
			if err == nil {
				_, err = e.Invocation(t.Context(), task)
			}
			if err == nil || !strings.Contains(err.Error(), test.problem) || reason.CodeOf(err) == "" {
				t.Fatalf("%v", err)
			}
			if strings.Contains(err.Error(), os.TempDir()) {
				t.Errorf("the message tells how the machine is laid out: %v", err)
			}
		})
	}
}

// TestKnown: the switches of the table are there, and the token nowhere but in
// the environment.
func TestKnown(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"codex-acp":        {`trust_level = "untrusted"`, `model = "some-model"`, "features.hooks = false", "project_doc_max_bytes=0", `"cwd":"/workspace/."`},
		"claude-agent-acp": {`"settingSources":["user"]`, `"strictMcpConfig":true`},
	} {
		m, err := agent.Model(Name, task)
		if err != nil {
			t.Fatal(err)
		}
		with := table[name].with(m)
		text := string(encode(with.session))
		for _, s := range with.settings {
			text += s.Text
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: there is no %s in %s", name, part, text)
			}
		}
		if strings.Contains(text, m.Token) || !slices.Contains(slices.Collect(maps.Values(with.env)), m.Token) {
			t.Errorf("%s: the token is not in the environment alone", name)
		}
	}
}
