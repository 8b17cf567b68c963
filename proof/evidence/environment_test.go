//go:build !race

package evidence_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// layersOf is an environment with the lock files of one layer.
func layersOf(lockFiles ...string) evidence.EnvironmentPrepared {
	return evidence.EnvironmentPrepared{Dependencies: "base", Env: map[string]string{"NODE_ENV": "test"}, Image: &evidence.EnvironmentImage{
		Name: "ci@" + canon.Digest([]byte("index")), Digest: canon.Digest([]byte("image")), Platform: "linux/amd64", Layers: []string{canon.Digest([]byte("layer"))}}, Layers: []evidence.EnvironmentLayer{{
		Ecosystem: "npm", Dir: ".", Key: canon.Digest([]byte("recipe")), ContentSHA256: canon.Digest([]byte("content")), Paths: []string{"node_modules"},
		LockFiles: lockFiles, Tools: []evidence.EnvironmentTool{{Name: "node", SHA256: canon.Digest([]byte("node"))}}, Packages: 2,
		PackagesSHA256: canon.Digest([]byte("packages"))}}}
}

// threeProved is a control in which all three tests were shown to be able to fail.
func threeProved() *evidence.Control {
	return &evidence.Control{Status: evidence.ControlMade, Scheme: "halves", Counting: 3, Proved: 3, Runs: 2,
		Commands: []evidence.CommandControl{{Command: "go test ./...", Status: evidence.ControlMade, By: "test", Counting: 3, Proved: 3}}}
}

// dependent is a run with dependencies, one of whose lock files the patch changes,
// and whose engine wrote into what was installed.
func dependent(s *session) {
	s.form = 2 // as the vectors have it
	s.touched = &evidence.DependencyChanges{Total: 2, Replaced: []string{"node_modules/left/index.js"}, Added: []string{"node_modules/.cache/x"}}
	s.control = threeProved()
	s.open(false)
	s.eligible()
	s.plan()
	s.workspace()
	s.step(evidence.StepEnvironment, "environment", journal.Completed, nil, layersOf("package-lock.json", "calc/add.go"))
	s.engine(0)
	s.patch()
	s.writes()
	s.verify(true)
	s.source()
	s.complete()
}

// serviced is a run whose commands had a database beside them.
func serviced(s *session) {
	s.form, s.control = 2, threeProved()
	s.open(false)
	s.eligible()
	s.plan()
	s.workspace()
	s.step(evidence.StepEnvironment, "environment", journal.Completed, nil, evidence.EnvironmentPrepared{Layers: []evidence.EnvironmentLayer{},
		Services: []evidence.EnvironmentService{{Name: "db", SHA256: canon.Digest([]byte("definition"))}}, Env: map[string]string{"PGHOST": "127.0.0.1"}})
	s.engine(0)
	s.patch()
	s.writes()
	s.verify(true)
	s.source()
	s.complete()
}

// ownDependencies is a run whose patched tree had dependencies of its own.
func ownDependencies(s *session) { s.withOwn("prepare", headTree) }

func (s *session) withOwn(rule, tree string) {
	s.form, s.control = 2, threeProved()
	s.open(false)
	s.eligible()
	s.plan()
	s.workspace()
	base := layersOf("calc/add.go")
	base.Dependencies = rule
	s.step(evidence.StepEnvironment, "environment", journal.Completed, nil, base)
	s.engine(0)
	s.patch()
	s.writes()
	own := layersOf("calc/add.go").Layers
	own[0].Key, own[0].ContentSHA256 = canon.Digest([]byte("recipe of the change")), canon.Digest([]byte("content of the change"))
	package1 := func(change, version string) evidence.PackageChange {
		return evidence.PackageChange{Ecosystem: "npm", Dir: ".", Change: change, Name: "left", Version: version, SHA256: strings.Repeat("a", 64)}
	}
	s.step(evidence.StepHeadDependencies, "dependencies", journal.Completed, nil, evidence.DependenciesOfHead{HeadTree: tree, Layers: own,
		Packages: []evidence.PackageChange{package1(evidence.PackageRemoved, "1.0.0"), package1(evidence.PackageAdded, "1.0.1")}})
	s.verify(true)
	s.source()
	s.complete()
}

// TestOwnDependenciesAreTold: what a change brings along stands where a reader looks.
func TestOwnDependenciesAreTold(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	ownDependencies(s)
	set, err := evidence.Project(s.w.Entries())
	s.must(err)
	for _, name := range []string{evidence.SummaryFile, evidence.ReportMDFile} {
		text := string(set[name])
		for _, want := range []string{"Dependencies of the change: npm of", "2 packages added or removed: removed `left 1.0.0` (SHA-256 `aaaa", "added `left 1.0.1`"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
		if strings.Contains(text, "with the dependencies of the base") {
			t.Errorf("%s says that the change had those of the base", name)
		}
	}
	if got := contradictionsOf(t, s); strings.Contains(got, "dependencies") {
		t.Errorf("found: %s", got)
	}
	for name, with := range map[string][2]string{"not wanted": {"base", headTree}, "of another tree": {"prepare", strings.Repeat("7", 40)}} {
		s := newSession(t)
		s.withOwn(with[0], with[1])
		if got := contradictionsOf(t, s); !strings.Contains(got, "dependencies of the change") {
			t.Errorf("%s: found %s", name, got)
		}
	}
}

func TestServicesAreTold(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	serviced(s)
	set, err := evidence.Project(s.w.Entries())
	s.must(err)
	var rc evidence.Receipt
	s.must(evidence.DecodeReceipt(set[evidence.ReceiptFile], &rc))
	if e := rc.Environment; e == nil || len(e.Services) != 1 || e.Services[0].Name != "db" {
		t.Errorf("the receipt says %+v", e)
	}
	for _, name := range []string{evidence.SummaryFile, evidence.ReportMDFile} {
		if !strings.Contains(string(set[name]), "Service: every command had `db` beside it, started anew, definition `sha256:") {
			t.Errorf("%s does not name the service", name)
		}
	}
}

// A layer that was made in the weaker way has a sentence that says so.
func TestTunnelsAreTold(t *testing.T) {
	t.Parallel()
	e := &evidence.Environment{Layers: []evidence.EnvironmentLayer{{Ecosystem: "npm", Dir: ".", Packages: 2}, {Ecosystem: "connect", Dir: ".", Packages: 1}}}
	if s := e.Sentences(); len(s) != 2 || strings.Contains(s[0], "weaker") || !strings.Contains(s[1], "the weaker way: commands of the repository fetched them through 1 tunnel,") {
		t.Errorf("got %q", s)
	}
}

func TestEnvironmentIsTold(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	dependent(s)
	set, err := evidence.Project(s.w.Entries())
	s.must(err)
	var rc evidence.Receipt
	s.must(evidence.DecodeReceipt(set[evidence.ReceiptFile], &rc))
	if e := rc.Environment; e == nil || !slices.Equal(e.LockFilesChanged, []string{"calc/add.go"}) || e.EngineChanged.Total != 2 || rc.Kinds["environment"] != evidence.Observed {
		t.Errorf("the receipt says %+v", rc.Environment)
	}
	for _, name := range []string{evidence.SummaryFile, evidence.ReportMDFile} {
		for _, want := range []string{"Dependencies: npm of", "Image: every command ran in `ci@sha256:", "2 packages", "The change edits `calc/add.go`: base and head were verified with the dependencies of the base",
			"The agent changed installed dependencies (2 files)"} {
			if !strings.Contains(string(set[name]), want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
}

// What no run can have written of its environment is found, whatever the chain.
func TestEnvironmentThatContradicts(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"prepared after the engine": false, "another one later": true, "another image later": true, "another service later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			s.open(false)
			s.eligible()
			s.plan()
			s.workspace()
			if before {
				s.step(evidence.StepEnvironment, "environment", journal.Completed, nil, layersOf())
			}
			s.engine(0)
			other := layersOf()
			switch name {
			case "another image later":
				other.Image.Digest = canon.Digest([]byte("another image"))
			case "another service later":
				other.Services = []evidence.EnvironmentService{{Name: "db", SHA256: canon.Digest([]byte("another definition"))}}
			default:
				other.Layers[0].Key = canon.Digest([]byte("another recipe"))
			}
			s.step(evidence.StepEnvironment, "environment", journal.Completed, nil, other)
			s.patch()
			s.writes()
			s.verify(true)
			s.source()
			s.complete()
			if got := contradictionsOf(t, s); !strings.Contains(got, "environment") {
				t.Errorf("found: %s", got)
			}
		})
	}
	t.Run("changed without one", func(t *testing.T) {
		t.Parallel()
		s := newSession(t)
		s.touched = &evidence.DependencyChanges{Total: 1}
		passing(s)
		if got := contradictionsOf(t, s); !strings.Contains(got, "none were prepared") {
			t.Errorf("found: %s", got)
		}
	})
}

func contradictionsOf(t *testing.T, s *session) string {
	t.Helper()
	text, err := json.Marshal(evidence.CheckProjections(t.Context(), os.DirFS(s.write())))
	s.must(err)
	return string(text)
}
