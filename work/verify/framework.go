package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"remit/proof/canon"
	"remit/work/sandbox"
	"remit/work/tree"
	"remit/work/verify/twin"
)

// A failure that says what was expected would tell code under test which run it
// is in, and what a test wants. So in every twin the tests of Go are compiled with
// a package testing whose failures say nothing but the name of their test. It is
// made from the sources of the toolchain in the sandbox, and its content is the
// same in every twin, so that it is compiled once.

// framework is package testing as the twins have it.
type framework struct {
	files map[string]string // what takes the place of a file, by its path in the sandbox
	why   string            // why there is none
}

// readTesting prints where the Go installation is, and the files of package
// testing that are edited.
var readTesting = func() string {
	s := `r=$(go env GOROOT) && cd "$r/src/testing" && printf '%s' "$r"`
	for _, name := range twin.GoTesting {
		s += ` && printf '\000' && cat ` + name
	}
	return s
}()

// quietTesting makes the framework of the toolchain in the sandbox.
func (p *Plan) quietTesting(ctx context.Context, sb Sandbox) framework {
	var out cappedBuffer
	s := p.spec("", nil, []command{{run: readTesting}}, []*stream{nil, nil})
	s.Services = nil
	s.Capture, s.Limits.OutputBytes = false, maxFinder
	s.Commands[0].Stdout, s.Commands[0].Stderr = &out, io.Discard
	r, err := sb.Run(ctx, s)
	parts := strings.Split(out.String(), "\x00")
	if err != nil || len(r.Commands) != 1 || r.Commands[0].ExitCode != 0 || len(parts) != 1+len(twin.GoTesting) || !path.IsAbs(parts[0]) {
		return framework{why: "the sources of package testing cannot be read in the sandbox"}
	}
	files := make(map[string]string)
	for i, name := range twin.GoTesting {
		text, err := twin.QuietTesting(name, []byte(parts[i+1]))
		if err != nil {
			return framework{why: err.Error()}
		}
		files[path.Join(parts[0], "src/testing", name)] = string(text)
	}
	return framework{files: files}
}

// compiled returns the kept build cache with the framework, and fills it where
// there is none. Without one each run compiles it for itself.
func (f framework) compiled(ctx context.Context, sb Sandbox, p *Plan) string {
	if p.TestingDir == "" || len(f.files) == 0 {
		return ""
	}
	dir := filepath.Join(p.TestingDir, strings.TrimPrefix(canon.Digest(f.text()), "sha256:")[:32])
	filling.Lock()
	defer filling.Unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := f.compile(ctx, sb, p, dir); err != nil {
		if _, err := os.Stat(dir); err != nil {
			return ""
		}
	}
	return dir // this process made it, or another one was faster
}

// filling keeps the phases of a program from compiling the same side by side.
var filling sync.Mutex

// text is everything that the compiled framework depends on but the toolchain.
func (f framework) text() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		fmt.Fprintf(&b, "%s %d\n%s", name, len(f.files[name]), f.files[name])
	}
	return b.Bytes()
}

// compile has the go command build the tests of a package of the standard
// library, and keeps what it made. Nothing of a repository takes part.
func (f framework) compile(ctx context.Context, sb Sandbox, p *Plan, dir string) error {
	if err := os.MkdirAll(p.TestingDir, 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(p.TestingDir, "fill-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(fresh) }() // it has another name by then, or is of no use
	lower, err := os.MkdirTemp(p.Scratch, "remit-empty-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(lower) }() // it is empty
	laid, replace := make(map[string]tree.Change), make(map[string]string)
	f.lay(laid, replace, ".", sandbox.WorkspacePath)
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	laid[overlayName] = fileOf(overlayName, text, false)
	env := maps.Clone(runEnv)
	env["GOFLAGS"] = defaultGoFlags + " -overlay=" + path.Join(sandbox.WorkspacePath, overlayName)
	r, err := sb.Run(ctx, sandbox.Spec{
		Lower: lower, Apply: tree.Sorted(slices.Collect(maps.Values(laid))), Env: env, Limits: p.Limits, KeepCache: filepath.Join(fresh, "c"),
		Commands: []sandbox.Command{{Argv: []string{"go", "test", "-count=1", "-run=^$", "errors"}, Stdout: io.Discard, Stderr: io.Discard}},
	})
	if err != nil {
		return err
	}
	if len(r.Commands) != 1 || r.Commands[0].ExitCode != 0 || r.GoCache.Files == 0 {
		return errors.New("package testing could not be compiled")
	}
	return os.Rename(filepath.Join(fresh, "c"), dir)
}

// loud notes with the commands of a run why failures in Go may say what a test
// wants.
func (t *twinRun) loud(commands []CommandResult) {
	f := t.suite.framework
	if len(f.files) > 0 || !t.suite.has(langGo) {
		return
	}
	why := f.why
	if why == "" {
		why = "the go command does not take the edits by its flags"
	}
	for i := range commands {
		commands[i].Problems = append(slices.Clone(commands[i].Problems), "only the test files were kept from saying what they want, libraries and examples were not: "+why)
	}
}

// lay adds the files of the framework below a directory of the workspace, which
// is at another place when the command begins.
func (f framework) lay(laid map[string]tree.Change, replace map[string]string, dir, begins string) {
	for i, name := range slices.Sorted(maps.Keys(f.files)) {
		own := fmt.Sprintf("%s%d.go", frameworkName, i)
		laid[path.Join(dir, own)] = fileOf(path.Join(dir, own), []byte(f.files[name]), false)
		replace[name] = path.Join(begins, own)
	}
}

// quieten has the tests of a suite compiled with the framework, where the
// compiler takes the edits.
func (p *Plan) quieten(ctx context.Context, sb Sandbox, s *suite) {
	if !s.inTree && s.has(langGo) {
		s.framework = p.quietTesting(ctx, sb)
		p.lend(ctx, sb, s)
	}
}

// lend has the runs with edited tests take the framework from a kept cache.
func (p *Plan) lend(ctx context.Context, sb Sandbox, s *suite) {
	if s.inTree {
		return
	}
	p.quiet = s.framework.compiled(ctx, sb, p)
}
