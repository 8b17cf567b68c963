//test:plain-package It only computes: there is one goroutine.

package detect

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"remit/law/task"
	"remit/work/depend"
)

var update = flag.Bool("update", false, "write what is wanted into testdata")

// The files of an archive that are not of the repository.
const (
	wantPolicy = "WANT/remit.yaml"
	wantNotes  = "WANT/notes"
)

// minimumShapes is how many shapes of repositories are held against what must be
// written for them.
const minimumShapes = 50

// TestCorpus: for each shape of a repository, byte by byte, the remit.yaml that is
// written and the notes beside it; and the policy is one that a run takes.
func TestCorpus(t *testing.T) {
	t.Parallel()
	shapes, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(shapes) < minimumShapes {
		t.Fatalf("%d shapes, want %d: %v", len(shapes), minimumShapes, err)
	}
	for _, name := range shapes {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tree, want := fstest.MapFS{}, map[string]string{}
			archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool {
				if f.Name == wantPolicy || f.Name == wantNotes {
					want[f.Name] = string(f.Data)
					return true
				}
				tree[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
				return false
			})
			policy, notes := look(t, tree)
			if *update {
				archive.Files = append(archive.Files, txtar.File{Name: wantPolicy, Data: []byte(policy)}, txtar.File{Name: wantNotes, Data: []byte(notes)})
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if policy != want[wantPolicy] || notes != want[wantNotes] {
				t.Errorf("got\n%s\nnotes\n%s\n(go test ./work/detect -update writes it)", policy, notes)
			}
		})
	}
}

// look is what is written for a tree, and the notes. It holds both against what
// is true of every tree.
func look(t *testing.T, tree fstest.MapFS) (policy, notes string) {
	t.Helper()
	facts, err := Look(tree, depend.Ecosystems())
	if err != nil {
		t.Fatal(err)
	}
	text, err := facts.Policy()
	if err != nil {
		t.Fatalf("what was written is no policy: %v", err)
	}
	again, err := Look(tree, depend.Ecosystems())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := again.Policy(); err != nil || !bytes.Equal(text, second) {
		t.Errorf("the same tree gives another text: %v\n%s", err, second)
	}
	for line := range strings.Lines(notesOf(facts)) {
		if !oneLine(strings.TrimSuffix(line, "\n")) && len(line) < maxLine {
			t.Errorf("a note cannot be shown as it is: %q", line)
		}
	}
	holds(t, facts, text)
	return string(text), notesOf(facts)
}

func notesOf(f *Facts) string {
	var out strings.Builder
	for _, n := range f.Notes {
		fmt.Fprintf(&out, "%s: %s\n", n.Path, n.Text)
	}
	return out.String()
}

// holds checks that the policy says what the facts say, and nothing else: no text
// of a repository can become a rule.
func holds(t *testing.T, f *Facts, text []byte) {
	t.Helper()
	p, err := task.ParsePolicy(task.PolicyFile, text)
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, c := range f.Commands {
		commands = append(commands, c.Lines...)
	}
	same := slices.Equal(p.VerificationCommands, commands) && slices.Equal(p.AllowedPaths, f.Allowed) &&
		slices.Equal(p.ForbiddenPaths, f.Forbidden) && slices.Equal(p.ProtectedPaths, f.Protected) && len(p.Environment.Prepare) == len(f.Prepare)
	if !same {
		t.Errorf("the policy is not what was found:\n%+v\n%+v", p, f)
	}
	wall, usd := int64(DefaultWallSeconds), int64(DefaultUSD*1_000_000)
	want := &task.Policy{AllowedPaths: p.AllowedPaths, ForbiddenPaths: p.ForbiddenPaths, ProtectedPaths: p.ProtectedPaths,
		VerificationCommands: p.VerificationCommands, VerificationGroups: p.VerificationGroups, Tests: task.TestsExtend,
		Budget: task.Budget{MaxBudgetMicroUSD: &usd, WallSeconds: &wall}, Environment: p.Environment}
	got, err := p.Digest()
	if wanted, err2 := want.Digest(); err != nil || err2 != nil || got != wanted {
		t.Errorf("the policy states something else:\n%s", text)
	}
}
