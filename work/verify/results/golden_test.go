package results

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func opener(b []byte) Open {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

// TestGolden reads captured output, most of it from real runners, the way the
// verifier does when a command is not a plain call of the runner.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			rep, err := Read(Input{Stdout: opener(in), Stderr: opener(nil)})
			if err != nil {
				t.Fatal(err)
			}
			got := describe(rep)
			golden := strings.TrimSuffix(file, ".txt") + ".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func describe(r *Report) string {
	if r == nil {
		return "no runner\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s passed=%d failed=%d skipped=%d listed=%t complete=%t\n", r.Runner, r.Passed, r.Failed, r.Skipped, r.Listed, r.Complete)
	for _, t := range r.Tests {
		fmt.Fprintf(&b, "%s %s", t.Outcome, t.ID)
		if t.Transient {
			b.WriteString(" (transient)")
		}
		b.WriteString("\n")
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "! %s\n", p)
	}
	return b.String()
}
