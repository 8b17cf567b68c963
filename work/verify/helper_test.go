package verify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"

	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/tree"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	if err := (sandbox.BuildCache{}).Fill(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "remit-testing-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testingDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// testingDir is the Plan.TestingDir of all tests.
var testingDir string

var openDriver = sync.OnceValues(func() (sandbox.Driver, error) {
	return sandbox.Open(context.Background(), sandbox.Options{})
})

// realSandbox is the sandbox of the product. The corpus proves nothing in a
// weaker one.
func realSandbox(t *testing.T) Sandbox {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real test suites")
	}
	d, err := openDriver()
	if err != nil {
		t.Skipf("NO SANDBOX ON THIS HOST, the cheat corpus was not run: %v", err)
	}
	return d
}

// files is a tree: path to content.
type files map[string]string

// write lays a tree out on disk.
func (f files) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for p, text := range f {
		full := filepath.Join(dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	deleted  = "\x00deleted"
	linkText = "\x00link "
)

// changes makes a patch; the content deleted removes, linkText+target links.
func (f files) changes() []tree.Change {
	var out []tree.Change
	for p, text := range f {
		switch {
		case text == deleted:
			out = append(out, tree.Change{Path: p, Kind: tree.Delete})
		case strings.HasPrefix(text, linkText):
			out = append(out, tree.Change{Path: p, Kind: tree.Symlink, Target: strings.TrimPrefix(text, linkText)})
		default:
			out = append(out, fileChange(p, text))
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out
}

func fileChange(p, text string) tree.Change {
	return tree.Change{Path: p, Kind: tree.File, Executable: strings.HasPrefix(text, "#!"), Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

// scripted is a sandbox that answers from a function of the laid tree.
type scripted func(s sandbox.Spec) ([]reply, error)

type reply struct {
	exit           int
	stdout, stderr string
	result         func(*sandbox.CommandResult)
}

func (f scripted) Run(_ context.Context, s sandbox.Spec) (*sandbox.Result, error) {
	replies, err := f(s)
	r := &sandbox.Result{Layer: "copy"}
	for i, rep := range replies {
		io.WriteString(s.Commands[i].Stdout, rep.stdout)
		io.WriteString(s.Commands[i].Stderr, rep.stderr)
		c := sandbox.CommandResult{Started: true, ExitCode: rep.exit, StdoutBytes: int64(len(rep.stdout))}
		if rep.result != nil {
			rep.result(&c)
		}
		r.Commands = append(r.Commands, c)
	}
	return r, err
}

// laid says whether the tree of a run has a change of the path.
func laid(s sandbox.Spec, p string) bool {
	for _, c := range s.Apply {
		if c.Path == p {
			return true
		}
	}
	return false
}

func codes(findings []reason.Finding) string {
	var out []string
	for _, f := range findings {
		out = append(out, string(f.Code))
	}
	return strings.Join(out, " ")
}

func explain(v *Verdict) string {
	var b bytes.Buffer
	b.WriteString(v.Status + "\n")
	for _, f := range v.Findings {
		b.WriteString("  " + f.String() + "\n")
	}
	return b.String()
}
