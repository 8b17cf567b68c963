package tree

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// entry describes one path of a test tree: content of a file, "-> target" for
// a link, a trailing slash in the name for a directory, a leading "x:" for an
// executable.
type entries map[string]string

func build(t *testing.T, e entries) string {
	t.Helper()
	dir := t.TempDir()
	plant(t, dir, e)
	return dir
}

func plant(t *testing.T, dir string, e entries) {
	t.Helper()
	for name, content := range e {
		p := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(p, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			must(t, os.Symlink(target, p))
			continue
		}
		mode := os.FileMode(0o644)
		if rest, ok := strings.CutPrefix(content, "x:"); ok {
			content, mode = rest, 0o755
		}
		must(t, os.WriteFile(p, []byte(content), mode))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func show(t *testing.T, c Change) string {
	t.Helper()
	switch c.Kind {
	case Symlink:
		return fmt.Sprintf("symlink %q -> %q", c.Path, c.Target)
	case Delete:
		return fmt.Sprintf("delete %q", c.Path)
	case Special:
		return fmt.Sprintf("special %q %s", c.Path, c.Note)
	}
	r, err := c.Open()
	must(t, err)
	defer r.Close()
	text, err := io.ReadAll(r)
	must(t, err)
	x := ""
	if c.Executable {
		x = " x"
	}
	if int64(len(text)) != c.Size {
		t.Errorf("%q: size %d, content of %d bytes", c.Path, c.Size, len(text))
	}
	return fmt.Sprintf("file %q%s %q", c.Path, x, text)
}

func changesOf(t *testing.T, c Comparison) []string {
	t.Helper()
	var got []string
	must(t, c.Walk(context.Background(), func(c Change) error {
		got = append(got, show(t, c))
		return nil
	}))
	return got
}

// snapshot lists a tree without empty directories.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			lines = append(lines, fmt.Sprintf("%q -> %q", rel, target))
			return err
		}
		text, err := os.ReadFile(p)
		lines = append(lines, fmt.Sprintf("%q %v %q", rel, executable(info), text))
		return err
	}))
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}
