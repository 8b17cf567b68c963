//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestHostViewNoticesChanges: each change of what a command would see gives
// another digest, and nothing else does.
func TestHostViewNoticesChanges(t *testing.T) {
	t.Parallel()
	root, lower := t.TempDir(), t.TempDir()
	program, library := filepath.Join(root, "bin/tool"), filepath.Join(root, "lib")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(program, "one")
	write(filepath.Join(library, "a"), "a")
	if err := os.Symlink("../lib/a", filepath.Join(root, "bin/linked")); err != nil {
		t.Fatal(err)
	}
	driver := func() *bwrap {
		tools, err := findToolchain([]string{root}, BuildCache{})
		if err != nil {
			t.Fatal(err)
		}
		return &bwrap{tools: tools}
	}
	look := func() string {
		t.Helper()
		digest, err := driver().HostView(t.Context(), lower)
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	last := look()
	if again := look(); again != last {
		t.Fatal("two looks at the same host differ")
	}
	now := time.Unix(1_000_000_000, 0)
	for _, step := range []struct {
		name   string
		change func() error
	}{
		{"another program", func() error { write(filepath.Join(root, "bin/other"), "x"); return nil }},
		{"other content of the same size and time", func() error {
			write(program, "two")
			return os.Chtimes(program, now, now)
		}},
		{"replaced by a file of the same size and time", func() error {
			write(program+".new", "six")
			if err := os.Chtimes(program+".new", now, now); err != nil {
				return err
			}
			return os.Rename(program+".new", program)
		}},
		{"not executable any more", func() error { return os.Chmod(program, 0o644) }},
		{"the target of a link", func() error { return os.WriteFile(filepath.Join(library, "a"), []byte("b"), 0o755) }},
		{"a library that is added", func() error { write(filepath.Join(library, "b"), "b"); return nil }},
		{"a program that is removed", func() error { return os.Remove(filepath.Join(root, "bin/other")) }},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		next := look()
		if next == last {
			t.Errorf("%s: the digest is the same", step.name)
		}
		last = next
	}
	d := driver()
	d.tools.env = map[string]string{"GOFLAGS": "-race"}
	if other, err := d.HostView(t.Context(), lower); err != nil || other == last {
		t.Errorf("another variable: %v", err)
	}
}

func BenchmarkHostView(b *testing.B) {
	tools, err := findToolchain(nil, BuildCache{})
	if err != nil {
		b.Fatal(err)
	}
	d, lower := &bwrap{tools: tools}, b.TempDir()
	for b.Loop() {
		if _, err := d.HostView(b.Context(), lower); err != nil {
			b.Fatal(err)
		}
	}
}
