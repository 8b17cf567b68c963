//go:build !race

package evidence_test

import (
	"bytes"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

var update = flag.Bool("update", false, "write testdata/golden, schemas/ and the valid vectors anew")

const (
	goldenDir = "testdata/golden"
	validDir  = vectorsDir + "/evidence/valid"
)

// TestGolden pins every byte of every projection.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareTrees(t, build(t, name).dir, golden(name))
		})
	}
}

// TestValidVectors keeps the published sessions equal to the golden ones, with
// their manifest.
func TestValidVectors(t *testing.T) {
	t.Parallel()
	for name := range cases {
		if name == "interrupted" {
			continue // it has no verdict yet: nothing to publish as valid
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := build(t, name)
			s.must(bundle.Seal(s.dir))
			compareTrees(t, s.dir, filepath.Join(validDir, name))
		})
	}
}

// golden is the directory of a golden case, which TestGolden holds to the code.
func golden(name string) string { return filepath.Join(goldenDir, name) }

// entriesOf are the entries of a golden case.
func entriesOf(t testing.TB, name string) []journal.Entry {
	t.Helper()
	log, err := journal.ReadFile(filepath.Join(golden(name), evidence.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	return log.Entries
}

// compareTrees compares two directories byte for byte; with -update it makes
// want equal to got.
func compareTrees(t *testing.T, got, want string) {
	t.Helper()
	if *update {
		if err := os.RemoveAll(want); err != nil {
			t.Fatal(err)
		}
		copyTree(t, got, want)
	}
	a, b := readTree(t, got), readTree(t, want)
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if text, ok := b[name]; !ok {
			t.Errorf("%s has no %s; run go test ./proof/evidence -update", want, name)
		} else if !bytes.Equal(a[name], text) {
			t.Errorf("%s/%s differs; run go test ./proof/evidence -update and read the difference", want, name)
		}
		delete(b, name)
	}
	for name := range b {
		t.Errorf("%s has %s, which is not produced any more", want, name)
	}
}

func readTree(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	for name, text := range readTree(t, from) {
		path := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGatesPass holds every complete session to all four gates.
func TestGatesPass(t *testing.T) {
	t.Parallel()
	for name := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := gates(t, golden(name))
			if name != "interrupted" {
				if len(found) > 0 {
					t.Fatalf("findings:%s", texts(found))
				}
				return
			}
			var codes []reason.Code
			for _, f := range found {
				codes = append(codes, f.Code)
			}
			if !slices.Contains(codes, reason.JournalUnfinished) {
				t.Errorf("an interrupted run passes for a complete one:%s", texts(found))
			}
		})
	}
}

// TestProjectIsAFunction checks that the journal alone decides every byte.
func TestProjectIsAFunction(t *testing.T) {
	t.Parallel()
	first, err := evidence.Project(entriesOf(t, "approved"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := evidence.Project(entriesOf(t, "approved"))
		if err != nil {
			t.Fatal(err)
		}
		if !maps.EqualFunc(first, again, bytes.Equal) {
			t.Fatal("the same entries gave other bytes")
		}
	}
}

// TestAgentCannotForgeHeadings: the agent's words stay inside their quotation,
// also when they bring their own line ends.
func TestAgentCannotForgeHeadings(t *testing.T) {
	t.Parallel()
	summary, err := os.ReadFile(filepath.Join(golden("fail"), evidence.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.FieldsFunc(string(summary), func(c rune) bool { return c == '\n' || c == '\r' })
	var headings []string
	for _, line := range lines {
		if strings.HasPrefix(line, "## ") {
			headings = append(headings, line[3:])
		}
	}
	want := []string{"Changes Made", "Files Modified", "Verification", "Confidence", "Session", "Performance", "Cost", "If Failed"}
	if !slices.Equal(headings, want) {
		t.Errorf("headings %q, want %q", headings, want)
	}
}
