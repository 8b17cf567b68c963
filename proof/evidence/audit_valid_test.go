package evidence_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/bundle"
	"remit/proof/evidence"
)

// vectorsDir holds the vectors of the format.
const vectorsDir = "../../vectors"

// TestAuditOfValidVectors: a valid session passes as a directory and as a zip.
func TestAuditOfValidVectors(t *testing.T) {
	t.Parallel()
	for _, dir := range vectorFiles(t, "evidence/valid/*") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			if rep := audit(t, dir); rep.Status != bundle.Pass {
				t.Errorf("directory: %s", findingsOf(rep))
			}
			if rep := audit(t, zipped(t, dir)); rep.Status != bundle.Pass {
				t.Errorf("zip: %s", findingsOf(rep))
			}
		})
	}
}

func vectorFiles(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(vectorsDir, filepath.FromSlash(pattern)))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors match %s (%v): the test would prove nothing", pattern, err)
	}
	return paths
}

// audit runs the whole audit over a session directory.
func audit(t testing.TB, path string) *bundle.Report {
	t.Helper()
	opt := bundle.Options{}
	for _, g := range evidence.Gates() {
		opt.Gates = append(opt.Gates, bundle.Gate(g))
	}
	rep, err := bundle.Audit(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func zipped(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.zip")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := bundle.WriteZip(f, dir); err != nil {
		t.Fatal(err)
	}
	return path
}

func findingsOf(rep *bundle.Report) string {
	var out strings.Builder
	for _, g := range rep.Gates {
		fmt.Fprintf(&out, "\n  %s %s %s", g.Name, g.Status, g.Reason)
		for _, f := range g.Findings {
			fmt.Fprintf(&out, "\n    %s", f)
		}
	}
	return out.String()
}
