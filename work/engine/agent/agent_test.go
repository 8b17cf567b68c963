//test:plain-package It starts programs as processes, and meets them in files and over sockets; what they are made of has tests with the detector.

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/engine"
)

// plant writes an installed package.
func plant(t *testing.T, dir, name, version, more string, files ...string) string {
	t.Helper()
	at := filepath.Join(dir, "node_modules", filepath.FromSlash(name))
	write(t, filepath.Join(at, "package.json"), `{"name":"`+name+`","version":"`+version+`"`+more+`}`)
	for _, f := range files {
		write(t, filepath.Join(at, f), "program of "+name)
	}
	return at
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

var some = Agent{Name: "some", Program: "some-agent", Package: "@x/some", Major: "1",
	Platform: func(string, string) []string { return []string{"@x/some-here", "@x/some-there"} }}

func TestFind(t *testing.T) { // not parallel: it changes the environment
	t.Chdir(t.TempDir())
	t.Setenv("PATH", t.TempDir())
	t.Setenv(PrefixVariable, "")
	one := t.TempDir()
	pkg := plant(t, one, "@x/some", "1.2.3", "", "bin/run.js", "lib/deep/package.json")
	write(t, filepath.Join(pkg, "lib/deep/package.json"), `{"type":"module"}`)
	write(t, filepath.Join(pkg, "lib/deep/file.js"), "")
	own := t.TempDir()
	plant(t, filepath.Join(own, "some"), "@x/some", "1.2.3", "")
	global := t.TempDir()
	plant(t, filepath.Join(global, "lib"), "@x/some", "1.2.3", "")
	native := plant(t, t.TempDir(), "@x/some-here", "1.2.3-here", "", "bin/some")
	link := filepath.Join(t.TempDir(), "some-agent")
	if err := os.Symlink(filepath.Join(pkg, "bin/run.js"), link); err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(t.TempDir(), "some-agent")
	write(t, bare, "no package")
	hole := t.TempDir()
	at := plant(t, hole, "@x/some", "1.2.3", "")
	if err := os.Remove(filepath.Join(at, "package.json")); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ bin, problem string }{
		"package":           {pkg, ""},
		"program":           {filepath.Join(pkg, "bin/run.js"), ""},
		"below a bare file": {filepath.Join(pkg, "lib/deep/file.js"), ""},
		"link":              {link, ""},
		"prefix of all":     {one, ""},
		"prefix of one":     {own, ""},
		"global prefix":     {global, ""},
		"native package":    {filepath.Join(native, "bin/some"), ""},
		"no package":        {bare, "no npm package"},
		"nothing there":     {filepath.Join(one, "absent"), "no such file"},
		"nowhere":           {"", "not installed"},
		"empty directory":   {hole, "no npm package"},
		"another package":   {plant(t, t.TempDir(), "@x/other", "1.2.3", ""), `"@x/other"`},
		"named alike":       {plant(t, t.TempDir(), "@x/some-more", "1.2.3", ""), `"@x/some-more"`},
		"next major":        {plant(t, t.TempDir(), "@x/some", "2.0.0", ""), "only major version 1"},
		"major that begins": {plant(t, t.TempDir(), "@x/some", "10.0.0", ""), "only major version 1"},
		"no version":        {plant(t, t.TempDir(), "@x/some", "", ""), "which is none"},
		"broken":            {plant(t, t.TempDir(), "@x/some", `1.2.3","x":[`, ""), "package.json"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := some.Find(test.bin)
			switch {
			case test.problem == "" && (err != nil || p.Release() != "1.2.3"):
				t.Errorf("%+v %v", p, err)
			case test.problem != "":
				e, typed := errors.AsType[*reason.Error](err)
				if !typed || e.Code != reason.ProviderUnavailable || !strings.Contains(err.Error(), test.problem) || !strings.Contains(e.Hint, "remit agent setup") {
					t.Errorf("%v", err)
				}
				if err != nil && strings.Contains(err.Error(), os.TempDir()) {
					t.Errorf("the message tells how the machine is laid out: %v", err)
				}
			}
		})
	}

	// In the known places the variable comes first, then the project's.
	t.Setenv("PATH", filepath.Dir(link))
	if p, err := some.Find(""); err != nil || p.Dir != mustReal(t, pkg) {
		t.Errorf("on PATH: %+v %v", p, err)
	}
	plant(t, ".tools/agents/some", "@x/some", "1.2.4", "")
	if p, err := some.Find(""); err != nil || p.Version != "1.2.4" {
		t.Errorf("of the project: %+v %v", p, err)
	}
	t.Setenv(PrefixVariable, own)
	if p, err := some.Find(""); err != nil || p.Version != "1.2.3" {
		t.Errorf("of the variable: %+v %v", p, err)
	}
}

func mustReal(t *testing.T, p string) string {
	t.Helper()
	p, err := filepath.EvalSymlinks(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNative(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, err := some.Find(plant(t, dir, "@x/some", "1.2.3", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := some.Native(p); reason.CodeOf(err) != reason.ProviderUnavailable {
		t.Errorf("without it: %v", err)
	}
	there := plant(t, dir, "@x/some-there", "1.2.3-there", "")
	if got, err := some.Native(p); err != nil || got != mustReal(t, there) {
		t.Errorf("%s %v", got, err)
	}
	inner := plant(t, p.Dir, "@x/some-here", "1.2.3", "")
	if got, err := some.Native(p); err != nil || got != mustReal(t, inner) {
		t.Errorf("the nearest: %s %v", got, err)
	}
	plant(t, p.Dir, "@x/some-here", "1.2.30", "")
	if _, err := some.Native(p); err == nil || !strings.Contains(err.Error(), "1.2.30") {
		t.Errorf("another version: %v", err)
	}
}

func TestClosure(t *testing.T) {
	t.Parallel()
	tree := func(text string) (string, error) {
		dir := t.TempDir()
		root := plant(t, dir, "@x/some", "1.2.3", `,"dependencies":{"a":"*","gone":"*"},"optionalDependencies":{"gone":"*"}`, "m.js", "readme.md")
		plant(t, root, "a", "1.0.0", `,"dependencies":{"b":"*"},"peerDependencies":{"absent":"*"}`, "a.mjs")
		plant(t, dir, "b", "1.0.0", `,"dependencies":{"a":"*"}`)
		plant(t, dir, "a", "2.0.0", "")
		plant(t, dir, "secret", "1.0.0", "", "s.js")
		write(t, filepath.Join(dir, "node_modules/b/b.cjs"), text)
		p, err := some.Find(root)
		if err != nil {
			return "", err
		}
		all, err := p.Closure()
		if err != nil {
			return "", err
		}
		var names []string
		for _, one := range all {
			names = append(names, one.Name+one.Version)
		}
		if got := strings.Join(names, " "); got != "@x/some1.2.3 a1.0.0 a2.0.0 b1.0.0" {
			t.Errorf("closure: %s", got)
		}
		return TreeDigest(t.Context(), filepath.Join(mustReal(t, dir), "node_modules"), all)
	}
	one, err := tree("x")
	if err != nil {
		t.Fatal(err)
	}
	same, err := tree("x")
	if err != nil || same != one {
		t.Errorf("the same files elsewhere: %v %s %s", err, one, same)
	}
	if other, err := tree("y"); err != nil || other == one {
		t.Errorf("a changed dependency: %v", err)
	}
	everyFileCounts(t)
	p, err := some.Find(plant(t, t.TempDir(), "@x/some", "1.2.3", `,"dependencies":{"a":"*"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Closure(); reason.CodeOf(err) != reason.ProviderUnavailable {
		t.Errorf("a missing dependency: %v", err)
	}
}

// everyFileCounts: what node could load is in the digest, also what no
// package.json names and what a link leads to.
func everyFileCounts(t *testing.T) {
	t.Helper()
	dir := mustReal(t, t.TempDir())
	root := plant(t, dir, "@x/some", "1.2.3", `,"dependencies":{"linked":"*"}`, "m.js")
	away := plant(t, filepath.Join(dir, "away"), "linked", "1.0.0", "")
	if err := os.Symlink(away, filepath.Join(dir, "node_modules/linked")); err != nil {
		t.Fatal(err)
	}
	p, err := some.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.Closure()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, name := range []string{"m.js", "dist/node_modules/helper/index.js", "node_modules/helper.js", "../../linked/index.js"} {
		write(t, filepath.Join(root, name), "x")
		digest, err := TreeDigest(t.Context(), filepath.Join(dir, "node_modules"), all)
		if err != nil {
			t.Fatal(err)
		}
		if before, twice := seen[digest]; twice {
			t.Errorf("%s: the same digest as %s", name, before)
		}
		seen[digest] = name
	}
}

// TestWords runs the shell.
func TestWords(t *testing.T) {
	t.Parallel()
	const nasty = "it's \"$HOME\" `id` $(id)\\n%s\n-- end"
	for name, drop := range map[string]string{"plain": "", "dropping": `^{"type":"noise",`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			words := Launch{Home: "some", Variables: []string{"SOME_HOME"}, Settings: []Setting{{"a.json", nasty}}, Links: []Link{{"l", "/a b"}}, Drop: drop,
				Argv: []string{"/bin/sh", "-c", `cat "$SOME_HOME/a.json"; readlink "$SOME_HOME/l"; echo '{"type":"noise","x":1}'; printf 'a\0b\n'; echo '{"x":1,"type":"noise"}'; printf %s "$1"; exit 7`, "sh", nasty}}.Words()
			cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
			cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")} // which becomes a repository
			out, err := cmd.Output()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
				t.Errorf("%v", err)
			}
			want := nasty + "\n/a b\n{\"type\":\"noise\",\"x\":1}\na\x00b\n{\"x\":1,\"type\":\"noise\"}\n" + nasty
			if drop != "" {
				want = strings.Replace(want, "{\"type\":\"noise\",\"x\":1}\n", "", 1) + "\n" // grep ends the last line
			}
			if string(out) != want {
				t.Errorf("got  %q\nwant %q", out, want)
			}
			if info, err := os.Stat(filepath.Join(home, "some/a.json")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v %v", info, err)
			}
		})
	}
}

func TestPromptAndModel(t *testing.T) {
	t.Parallel()
	for _, title := range []string{"--help", "@/etc/passwd", "resume", "/login", ""} {
		p, err := Prompt(engine.Task{Title: title, Instructions: " do it\n"})
		if err != nil || p != "Task: "+title+"\n\ndo it\n" {
			t.Errorf("%q %v", p, err)
		}
	}
	for _, bad := range []string{strings.Repeat("a", MaxPrompt), "a\x00b"} {
		if _, err := Prompt(engine.Task{Instructions: bad}); reason.CodeOf(err) != reason.ContractValue {
			t.Errorf("%v", err)
		}
	}
	good := engine.Model{URL: "http://127.0.0.1:18080", Token: "t-1", Name: "qwen2.5-coder:7b"}
	for name, test := range map[string]struct {
		change func(*engine.Model)
		ok     bool
	}{
		"good":          {func(*engine.Model) {}, true},
		"prefix":        {func(m *engine.Model) { m.URL += "/r/1/" }, true},
		"no token":      {func(m *engine.Model) { m.Token = "" }, true},
		"option":        {func(m *engine.Model) { m.Name = "--dangerous" }, false},
		"no name":       {func(m *engine.Model) { m.Name = "" }, false},
		"quote":         {func(m *engine.Model) { m.Name = `a"b` }, false},
		"header":        {func(m *engine.Model) { m.Token = "a\r\nX: y" }, false},
		"scheme":        {func(m *engine.Model) { m.URL = "file:///etc/passwd" }, false},
		"no address":    {func(m *engine.Model) { m.URL = "" }, false},
		"user":          {func(m *engine.Model) { m.URL = "http://u:p@127.0.0.1" }, false},
		"query":         {func(m *engine.Model) { m.URL += "?x=1" }, false},
		"command of pi": {func(m *engine.Model) { m.Token = "!id" }, false},
	} {
		m := good
		test.change(&m)
		got, err := Model("some", engine.Task{Model: &m})
		if (err == nil) != test.ok || err != nil && reason.CodeOf(err) != reason.LocalConfigMissing {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (got.Token == "" || strings.HasSuffix(got.URL, "/")) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := Model("some", engine.Task{}); reason.CodeOf(err) != reason.LocalConfigMissing {
		t.Errorf("no model: %v", err)
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	var events []engine.Event
	c := NewCalls(func(e engine.Event) { events = append(events, e) })
	long := json.RawMessage(`{"content":"` + strings.Repeat("ä", maxParams) + `"}`)
	for i, params := range []json.RawMessage{nil, json.RawMessage(`{"b":1,"a":2}`), json.RawMessage(`[1]`), json.RawMessage(`{"ä":1}`), json.RawMessage(`{"a":1e400}`), long} {
		id := string(rune('a' + i))
		c.Begin(id, "tool\xff"+strings.Repeat("t", 200), params)
		c.Begin(id, "again", nil)
		c.End(id, engine.Event{OK: true})
		c.End(id, engine.Event{OK: true})
	}
	c.Begin("a", "repeated id", nil)
	want := []string{`{}`, `{"a":2,"b":1}`, `{"json":"[1]"}`, `{"json":"{\"ä\":1}"}`, `{"json":"{\"a\":1e400}"}`, "", `{}`}
	var got []string
	for _, e := range events {
		if e.Kind == engine.ToolCall {
			got = append(got, string(e.Params))
			if len(e.Params) > 2*paramsStart || len(e.Tool) > maxTool || strings.Contains(e.Tool, "\xff") {
				t.Errorf("%d bytes of parameters, tool %q", len(e.Params), e.Tool)
			}
		}
	}
	if len(events) != 13 || len(got) != len(want) || !strings.Contains(got[5], `"sha256":"sha256:`) || events[12].ID != "call_7" {
		t.Fatalf("%d events, %q", len(events), got)
	}
	got[5] = ""
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s, not %s", got[i], want[i])
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	var l Lines
	var v struct {
		Type string
		N    int
	}
	for _, line := range []string{"", " ", "noise", "[]", `"x"`, "null", "\xff", `{"x":1}` /* read, below */} {
		if ok := l.Decode([]byte(line), &v); ok != (line == `{"x":1}`) {
			t.Errorf("%q: %v", line, ok)
		}
	}
	if !l.Decode([]byte(` {"n":"misfit","type":"t"} `), &v) || v.Type != "t" || l.Broken() != "" {
		t.Errorf("%+v %q", v, l.Broken())
	}
	if l.Decode([]byte(`{"n":[{}],"type":"t","m`), &v, "t") || l.Broken() != "" {
		t.Error("a harmless type may break off")
	}
	if l.Decode([]byte(`{"n":{"type":"t"},"m`), &v, "t") || l.Broken() != "line 11 of the output breaks off" {
		t.Errorf("%q", l.Broken())
	}
	if deep := bytes.Repeat([]byte(`{"a":`), 1<<20); l.Decode(deep, &v) {
		t.Error("endless depth")
	}
}

func TestSaid(t *testing.T) {
	t.Parallel()
	if got := Said(" a\n\tb\xff "); got != "a b" {
		t.Errorf("%q", got)
	}
	if got := Said(strings.Repeat("ä", 2000)); len(got) > maxProblem+len("…") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes", len(got))
	}
	for text, want := range map[string]reason.Code{
		"unexpected status 403 Forbidden":         reason.AuthUnavailable,
		"404 no such model":                       reason.ProviderUnavailable,
		"wrote 500 lines":                         "",
		"400 bad":                                 "",
		"x (remit: budget_exhausted)":             reason.BudgetExhausted,
		"401 (remit: response_shape_unavailable)": reason.ResponseShape,
		"x (remit: verification_failed)":          "",
		"No API key found":                        reason.AuthUnavailable,
		"Connection error.":                       reason.ProviderUnavailable,
	} {
		if got := Fault(0, text); got != want {
			t.Errorf("%s: %q, not %q", text, got, want)
		}
	}
}
