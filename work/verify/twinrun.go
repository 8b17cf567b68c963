package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"remit/work/sandbox"
	"remit/work/tree"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// twinRun is how the tests are edited in one run of the control. Every site of
// every file is edited; the sabotage says which of them make their test fail.
type twinRun struct {
	suite *suite
	views map[int]*twinView // by view.first; a view that is not there is not run
	// traced has the tests record what they do. It is for the base, in which no
	// code of a patch runs.
	traced bool
}

// twinView is the part of a twinRun in one view.
type twinView struct {
	sabotage map[*suiteTest]twin.Order
	held     holds         // assertions that hold whatever they ask
	limit    time.Duration // how long its commands may take
	trace    *twin.Trace   // with traced, after the run
	dir      string        // in the workspace
	host     string        // where the trace is when nothing is confined
}

// newTwinView has the commands of a view take a few times as long as without edits:
// a test that fails may leave behind what its process waits for.
func newTwinView(v view, plain []CommandResult, sabotage map[*suiteTest]twin.Order) *twinView {
	limit := leastTwin
	for _, c := range plain[v.first:v.end] {
		limit += timesTwin * time.Duration(c.DurationMS) * time.Millisecond
	}
	return &twinView{sabotage: sabotage, limit: limit}
}

// A run with edited tests compiles them, and shares the processors with others.
const (
	leastTwin = 30 * time.Second
	timesTwin = 6
)

func (t *twinRun) runs(v view) bool { return t.views[v.first] != nil }

// The files of a twin. They are laid into the workspace and moved to /tmp before
// the command begins, and the trace comes from there when it has ended, so that a
// test that walks over its repository finds nothing that is not the base's or the
// patch's.
const (
	overlayName   = "o.json"
	wrapperName   = "run"
	traceName     = "t"
	sourcesName   = "s"
	frameworkName = "f"
	stubsName     = "p"
)

// goWrapper starts a test binary. The edited sources of its package are compiled
// by then, so the original ones take their place, and the settings that named
// them are gone: code under test that reads its tests finds the base's. Of a
// held-out or hidden test it finds the package clause here and nothing in the
// workspace: what it would take from there, it would not have computed. %[1]s is the directory of the twin, %[2]s
// the value of GOFLAGS.
const goWrapper = `#!/bin/sh
GOFLAGS='%[2]s'
export GOFLAGS
at="${PWD#` + sandbox.WorkspacePath + `}"
for f in %[1]s/` + sourcesName + `"$at"/*_test.go; do
  [ -f "$f" ] || continue
  from=${f##*/}
  [ -f "$from" ] || from=%[1]s/` + stubsName + `$at/$from
  cat "$from" >"$f" 2>/dev/null
done
exec "$@"
`

// defaultGoFlags is what the sandbox sets.
const defaultGoFlags = "-buildvcs=false"

// moving is a shell script that moves its first argument to its second and then
// becomes the shell of the third, as if nothing had been there.
const moving = `mv -- "$1" "$2" && exec sh -c -- "$3"`

// tracing is a shell script that runs its arguments behind the second, and then
// moves the trace, its first argument, to the directory that is the second.
const tracing = `t=$1 d=$2; shift 2; "$@"; c=$?; [ ! -f "$t" ] || { mkdir -p "$d" && cat "$t" >>"$d/` + traceName + `"; }; exit $c`

// prepare edits the tests for a view. The cleanup is called after the run.
func (t *twinRun) prepare(p *Plan, v view, s *sandbox.Spec) (cleanup func(), err error) {
	tv := t.views[v.first]
	cleanup = func() {}
	d := draw{}
	tv.dir, tv.trace = "."+randomName(d), &twin.Trace{}
	tracePath := ""
	if t.traced {
		tracePath = path.Join("/tmp", tv.dir[1:]+traceName)
		if p.hostTrace {
			f, err := os.CreateTemp(p.Scratch, "remit-trace-")
			if err != nil {
				return cleanup, err
			}
			tv.host, tracePath = f.Name(), f.Name()
			_ = f.Close() // it is empty
			cleanup = func() { _ = os.Remove(tv.host) }
		}
	}
	laid := make(map[string]tree.Change, len(s.Apply))
	for _, c := range s.Apply {
		laid[c.Path] = c
	}
	sources, stubs := map[string]tree.Change{}, map[string]tree.Change{} // of Go, by path
	seed := d.seed()
	for _, f := range t.suite.files {
		edited, err := f.edit.Edit(twin.Orders{Seed: seed, Sabotage: tv.of(f), Held: tv.held.of(f), Trace: tracePath, Key: f.key, Quiet: len(t.suite.framework.files) == 0})
		if err != nil {
			return cleanup, fmt.Errorf("%s: %w", f.path, err)
		}
		if f.lang == langGo && !t.suite.inTree {
			sources[f.path] = fileOf(f.path, edited, f.executable)
			switch { // the compiler finds it in the overlay
			case f.heldOut:
				delete(laid, f.path)
			case t.suite.hiddenIn(v, f):
				laid[f.path] = tree.Change{Path: f.path, Kind: tree.Delete}
			default:
				continue
			}
			text, err := stub(f)
			if err != nil {
				return cleanup, fmt.Errorf("%s: %w", f.path, err)
			}
			stubs[f.path] = fileOf(f.path, text, false)
		} else {
			laid[f.path] = fileOf(f.path, edited, f.executable)
		}
	}
	if len(sources) > 0 {
		if err := tv.overlay(laid, sources, stubs, t.suite.framework, s); err != nil {
			return cleanup, err
		}
	}
	if t.traced && !p.hostTrace {
		s.Commands = slices.Clone(s.Commands)
		for i := range s.Commands {
			s.Commands[i].Argv = append([]string{"sh", "-c", tracing, "sh", tracePath, path.Join(sandbox.WorkspacePath, tv.dir)}, s.Commands[i].Argv...)
		}
	}
	s.Apply = tree.Sorted(slices.Collect(maps.Values(laid)))
	return cleanup, nil
}

// overlay has the go command compile the edited sources, and the framework that
// says nothing. Each command finds them at the same place.
func (tv *twinView) overlay(laid, sources, stubs map[string]tree.Change, f framework, s *sandbox.Spec) error {
	s.Env, s.Commands = maps.Clone(s.Env), slices.Clone(s.Commands)
	flags := s.Env["GOFLAGS"]
	if flags == "" {
		flags = defaultGoFlags
	}
	if strings.ContainsAny(flags, "'\n") {
		return errors.New("GOFLAGS holds a quote")
	}
	at := path.Join("/tmp", tv.dir[1:])
	for i := range s.Commands {
		dir, replace := fmt.Sprintf("%s-%d", tv.dir, i), map[string]string{}
		f.lay(laid, replace, dir, at)
		for p, c := range sources {
			c.Path = path.Join(dir, sourcesName, p)
			laid[c.Path] = c
			replace[path.Join(sandbox.WorkspacePath, p)] = path.Join(at, sourcesName, p)
		}
		for p, c := range stubs {
			c.Path = path.Join(dir, stubsName, p)
			laid[c.Path] = c
		}
		text, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			return err
		}
		laid[path.Join(dir, overlayName)] = fileOf(path.Join(dir, overlayName), text, false)
		laid[path.Join(dir, wrapperName)] = fileOf(path.Join(dir, wrapperName), fmt.Appendf(nil, goWrapper, at, flags), true)
		argv := s.Commands[i].Argv
		s.Commands[i].Argv = []string{"sh", "-c", moving, "sh", path.Join(sandbox.WorkspacePath, dir), at, argv[len(argv)-1]}
	}
	// The plain runs have vet look at the code; of what is edited it has nothing to say.
	// Test binaries are linked without what debuggers read, so it need not be compiled.
	if !strings.Contains(flags, "gcflags") {
		flags += " -gcflags=-dwarf=false"
	}
	s.Env["GOFLAGS"] = fmt.Sprintf("%s -vet=off -overlay=%s/%s -exec=%s/%s", flags, at, overlayName, at, wrapperName)
	return nil
}

// of are the orders for one file.
func (tv *twinView) of(f *suiteFile) map[string]twin.Order {
	out := make(map[string]twin.Order)
	for t, o := range tv.sabotage {
		if t.file == f {
			out[t.name] = o
		}
	}
	return out
}

// count notes how many tests had to fail in the run, and how many did. A view
// that names no test counts as one.
func (t *twinRun) count(p *Plan, r *RunResult) {
	for _, v := range p.views(len(r.Commands)) {
		tv := t.views[v.first]
		if tv == nil || len(tv.sabotage) == 0 {
			continue
		}
		seen := t.suite.outcomesOf(r.Commands[v.first:v.end])
		if len(seen) == 0 {
			r.Expected++
			if anyFailed(r.Commands[v.first:v.end]) && !anyUnfinished(r.Commands[v.first:v.end]) {
				r.FailedAsExpected++
			}
			continue
		}
		for test := range tv.sabotage {
			if o, ran := seen[test]; ran {
				r.Expected++
				if o == results.Fail {
					r.FailedAsExpected++
				}
			}
		}
	}
}

// collect reads the trace of a view.
func (t *twinRun) collect(v view, changes []tree.Change) error {
	tv := t.views[v.first]
	if !t.traced {
		return nil
	}
	var in io.ReadCloser
	var err error
	if tv.host != "" {
		in, err = os.Open(tv.host)
	} else {
		at := slices.IndexFunc(changes, func(c tree.Change) bool {
			return c.Path == path.Join(tv.dir, traceName) && c.Kind == tree.File && c.Open != nil
		})
		if at < 0 {
			return nil // nothing was written to it, or it was removed: no test is known to be reached
		}
		in, err = changes[at].Open()
	}
	if err != nil {
		return err
	}
	defer in.Close()
	tv.trace, err = twin.ReadTrace(in)
	return err
}

// unconfined says whether the sandbox is one that confines nothing. The path of
// its workspace is not known beforehand, so the tests are edited in the tree,
// and the trace is a file of the host.
func (p *Plan) unconfined(sb Sandbox) bool {
	d, ok := sb.(interface{ Describe() sandbox.Description })
	p.hostTrace = ok && d.Describe().Driver == sandbox.DriverNone
	return p.hostTrace
}
