//test:plain-package It starts programs as processes, and meets them in files and over sockets; what they are made of has tests with the detector.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"remit/fixtures/tally"
	"remit/work/sandbox"
)

// built are the programs that tests start. A test pays only for what it uses.
var built struct {
	dir sync.Mutex // held while one is built
	at  string     // the directory, "" before the first one
}

// program is the binary that the tests drive: built as it is shipped, static
// and without the race detector, which would be on in every process of a run.
// (The pipeline itself runs under the detector in the tests of work/matrix.)
var program = sync.OnceValue(func() string {
	if given := os.Getenv(givenProgram); given != "" { // see TestAsOrdinaryUser
		return given
	}
	return buildProgram("remit")
})

// buildProgram builds the program under a name, with more flags if there are any.
func buildProgram(name string, flags ...string) string {
	built.dir.Lock()
	defer built.dir.Unlock()
	if built.at == "" {
		dir, err := os.MkdirTemp("", "remit-cli-")
		if err != nil {
			panic(err)
		}
		built.at = dir
	}
	path := filepath.Join(built.at, name)
	// As it is shipped: what is compiled serves both.
	build := exec.Command("go", append(append([]string{"build", "-ldflags=-s -w", "-o", path}, flags...), ".")...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("building the program %s: %v\n%s", name, err, out))
	}
	return path
}

// warmGoCache fills the build cache that verification lends, before the first test
// that has Go code verified.
func warmGoCache(t testing.TB) {
	t.Helper()
	if err := (sandbox.BuildCache{}).Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	sandbox.Init() // requireSandbox opens a driver in this process
	if os.Getenv(givenProgram) == "" {
		// One build cache of this login, for the homes of all tests.
		if err := os.Setenv(sandbox.EnvBuildCache, (sandbox.BuildCache{}).State().Dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	for _, name := range []string{envNexus, envToken, envTFile, "GITHUB_ACTIONS"} { // those of the login, or of CI, have no part in a test
		_ = os.Unsetenv(name) // it has no = in it
	}
	code := m.Run()
	if err := errors.Join(endVignette(), os.RemoveAll(built.at)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// slowScripts have a turn of 20 each; the others one of 15, by their place.
var slowScripts = map[string]int{"agent": 1, "climb": 5, "dependencies": 17}

// TestScripts drives the command line as a user does: one file a promise. Each run has
// a part of the files, by turn.
func TestScripts(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	var chosen []string
	for i, file := range files {
		parts := 15
		if turn, slow := slowScripts[strings.TrimSuffix(filepath.Base(file), ".txtar")]; slow {
			i, parts = turn, 20
		}
		if tally.ByTurn(t, i, parts) {
			chosen = append(chosen, file)
		}
	}
	testscript.Run(t, testscript.Params{
		Files: chosen,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("PATH", filepath.Dir(program())+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("REMIT", program())
			env.Setenv("VERIFY", filepath.Join(top, "vectors", "verify.py"))
			env.Setenv("SCHEMAS", filepath.Join(top, "schemas"))
			env.Setenv("README", filepath.Join(top, "README.md"))
			env.Setenv("FORMATS", filepath.Join(top, "docs", "formats.md"))
			env.Setenv("REMIT_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv(sandbox.EnvBuildCache, os.Getenv(sandbox.EnvBuildCache))
			env.Setenv("GOGC", os.Getenv("GOGC")) // empty is the default
			env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			for _, role := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+role+"_NAME", "Test")
				env.Setenv("GIT_"+role+"_EMAIL", "test@example.com")
			}
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"repo":     makeRepo,
			"snapshot": snapshot,
			"flip":     flip,
			"expire":   expireApprovals,
			"forge":    forgeSession,
			"obeys":    obeys,
			"proven":   proven,
			"npm":      npmPackages,
			"rootfs":   rootDirectory,
		},
		Condition: func(name string) (bool, error) {
			if name != "memory" {
				return false, fmt.Errorf("there is no condition %q", name)
			}
			return memoryLimited(), nil
		},
		RequireExplicitExec: true,
	})
}

// probed is what a probe of this machine says: which promises of a sandbox do not hold
// here. One is enough: each of the runs probes for itself.
var probed = sync.OnceValues(func() (open []string, err error) {
	dir, err := os.MkdirTemp("", "remit-cli-probe-")
	if err != nil {
		return nil, err
	}
	driver, err := sandbox.Open(context.Background(), sandbox.Options{StateDir: dir})
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		return nil, err
	}
	return driver.Describe().NotEnforced, nil
})

// memoryLimited reports whether a sandbox of this machine limits memory.
func memoryLimited() bool {
	open, err := probed()
	return err == nil && !slices.ContainsFunc(open, func(one string) bool { return strings.HasPrefix(one, "memory:") })
}

// requireSandbox skips, loudly, where no sandbox driver works.
func requireSandbox(t *testing.T) {
	t.Helper()
	if _, err := probed(); err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}
}

// makeRepo makes a directory of files a repository with one commit.
func makeRepo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: repo DIR")
	}
	dir := ts.MkAbs(args[0])
	for _, words := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "base"}} {
		ts.Check(ts.Exec("git", append([]string{"-C", dir}, words...)...))
	}
}

// snapshot writes a photograph of a directory, so that two of them can be
// compared.
func snapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: snapshot DIR FILE")
	}
	text, err := photograph(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// flip changes one bit in the middle of a file.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: flip FILE")
	}
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	b[len(b)/2] ^= 1
	ts.Check(os.WriteFile(name, b, 0o600))
}
