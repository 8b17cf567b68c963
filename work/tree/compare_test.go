package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		base, head entries
		want       []string
	}{
		{"nothing", entries{"a": "1", "d/b": "2", "l": "-> a"}, entries{"a": "1", "d/b": "2", "l": "-> a"}, nil},
		{"content", entries{"a": "1", "b": "1"}, entries{"a": "2", "b": "1"}, []string{`file "a" "2"`}},
		{"size", entries{"a": "1"}, entries{"a": ""}, []string{`file "a" ""`}},
		{"executable bit", entries{"a": "1"}, entries{"a": "x:1"}, []string{`file "a" x "1"`}},
		{"create below new directories", entries{}, entries{"d/e/f": "1"}, []string{`file "d/e/f" "1"`}},
		{"delete", entries{"a": "1", "d/b": "1"}, entries{}, []string{`delete "a"`, `delete "d"`}},
		{"link text", entries{"l": "-> a"}, entries{"l": "-> b"}, []string{`symlink "l" -> "b"`}},
		{"link out of the tree", entries{}, entries{"l": "-> /etc/shadow"}, []string{`symlink "l" -> "/etc/shadow"`}},
		{"file to link", entries{"a": "1"}, entries{"a": "-> b"}, []string{`symlink "a" -> "b"`}},
		{"link to file", entries{"a": "-> b"}, entries{"a": "b"}, []string{`file "a" "b"`}},
		{"file to directory", entries{"a": "1"}, entries{"a/b": "1"}, []string{`delete "a"`, `file "a/b" "1"`}},
		{"file to empty directory", entries{"a": "1"}, entries{"a/": ""}, []string{`delete "a"`}},
		{"directory to file", entries{"a/b": "1"}, entries{"a": "1"}, []string{`file "a" "1"`}},
		{"directory to link", entries{"a/b": "1"}, entries{"a": "-> c", "c/b": "1"}, []string{`symlink "a" -> "c"`, `file "c/b" "1"`}},
		{"empty directories are nothing", entries{"a": "1"}, entries{"a": "1", "d/": ""}, nil},
		{
			"odd names", entries{},
			entries{"a\nb": "1", "-rf": "2", "\xff\xfe": "3", "a b": "4", `"`: "5", "$(x)": "6", "é": "7", `back\slash`: "8"},
			[]string{`file "\"" "5"`, `file "$(x)" "6"`, `file "-rf" "2"`, `file "a\nb" "1"`, `file "a b" "4"`, `file "back\\slash" "8"`, `file "é" "7"`, `file "\xff\xfe" "3"`},
		},
		{"nested repository", entries{}, entries{"d/.git/config": "[core]", "d/x": "1"}, []string{`special "d/.git" nested-git`, `file "d/x" "1"`}},
		{"empty nested repository", entries{}, entries{".git/": ""}, []string{`special ".git" nested-git`}},
		{"git file", entries{}, entries{"d/.GIT": "gitdir: /x"}, []string{`special "d/.GIT" nested-git`}},
		{"git short name", entries{}, entries{"GIT~1/x": ""}, []string{`special "GIT~1" nested-git`}},
		{"git with ignorable code point", entries{}, entries{".g\u200cit/x": ""}, []string{`special ".g\u200cit" nested-git`}},
		{"unchanged repository of the base", entries{".git/config": "1"}, entries{".git/config": "1"}, nil},
		{"changed repository of the base", entries{".git/config": "1"}, entries{".git/config": "2"}, []string{`special ".git" nested-git`}},
		{"deleted repository of the base", entries{".git/config": "1"}, entries{}, []string{`special ".git" nested-git`}},
		{"ordinary git names", entries{}, entries{".gitignore": "1", ".github/x": "2", "git": "3"}, []string{`file ".github/x" "2"`, `file ".gitignore" "1"`, `file "git" "3"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base, head := build(t, tt.base), build(t, tt.head)
			got := changesOf(t, Comparison{Base: openRoot(t, base), Head: openRoot(t, head)})
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestSpecialEntries(t *testing.T) {
	t.Parallel()
	base := build(t, entries{"fifo": "was a file", "same": "1"})
	head := build(t, entries{"same": "1", "suid": "1", "sgid": "1", "sparse": ""})
	must(t, unix.Mkfifo(filepath.Join(head, "fifo"), 0o644))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, os.Symlink(head, "/tmp/remit-tree-"+fmt.Sprint(os.Getpid()))) // socket paths are short
	defer os.Remove("/tmp/remit-tree-" + fmt.Sprint(os.Getpid()))
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/tmp/remit-tree-%d/sock", os.Getpid())}))
	must(t, os.Chmod(filepath.Join(head, "suid"), 0o755|os.ModeSetuid))
	must(t, os.Chmod(filepath.Join(head, "sgid"), 0o755|os.ModeSetgid))
	must(t, os.Truncate(filepath.Join(head, "sparse"), MaxFileBytes+1))
	got := changesOf(t, Comparison{Base: openRoot(t, base), Head: openRoot(t, head)})
	want := []string{`special "fifo" fifo`, `special "sgid" setuid`, `special "sock" socket`, `special "sparse" too-large`, `special "suid" setuid`}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	socks, err := Sockets(context.Background(), openRoot(t, head))
	if err != nil || !slices.Equal(socks, []string{"sock"}) {
		t.Errorf("Sockets: %q, %v", socks, err)
	}
}

// A tree deeper than any path can name must end in one special entry.
func TestDeepTree(t *testing.T) {
	t.Parallel()
	head := t.TempDir()
	at := openRoot(t, head)
	for range MaxDepth + 500 {
		must(t, at.Mkdir("d", 0o755))
		next, err := at.OpenRoot("d")
		must(t, err)
		at.Close()
		at = next
	}
	must(t, at.WriteFile("leaf", []byte("1"), 0o644))
	at.Close()
	t.Cleanup(func() { openRoot(t, filepath.Dir(head)).RemoveAll(filepath.Base(head)) })
	got := changesOf(t, Comparison{Base: openRoot(t, t.TempDir()), Head: openRoot(t, head)})
	if len(got) != 1 || !strings.HasSuffix(got[0], NoteTooDeep) {
		t.Errorf("got %q", got)
	}
}

// Long names reach the bound on paths before the one on depth.
func TestLongPath(t *testing.T) {
	t.Parallel()
	head := t.TempDir()
	at := openRoot(t, head)
	name := strings.Repeat("n", maxName)
	for range 40 {
		must(t, at.Mkdir(name, 0o755))
		next, err := at.OpenRoot(name)
		must(t, err)
		at.Close()
		at = next
	}
	at.Close()
	var notes []string
	c := Comparison{Head: openRoot(t, head)}
	must(t, c.Walk(context.Background(), func(c Change) error {
		notes = append(notes, c.Note)
		if !ValidPath(c.Path) {
			t.Errorf("path of %d bytes", len(c.Path))
		}
		return nil
	}))
	if !slices.Equal(notes, []string{NoteName}) {
		t.Errorf("notes %q", notes)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	head := build(t, entries{"a": "12345", "b": "12345", "c": "12345"})
	for name, b := range map[string]*budget{"entries": {entries: 2, bytes: 100}, "bytes": {entries: 100, bytes: 9}} {
		w := &walker{ctx: context.Background(), budget: b, visit: func(Change) error { return nil }}
		err := w.dir(level{head: openRoot(t, head)}, "", 0)
		if reason.CodeOf(err) != reason.ResourceLimit {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCompareStopsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(io.ErrClosedPipe)
	c := Comparison{Head: openRoot(t, build(t, entries{"a": "1"}))}
	if err := c.Walk(ctx, func(Change) error { return nil }); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// An attacker that still lives exchanges a directory with a link to a secret
// and a file with a link to it while the tree is being read. Whatever the walk
// reports, it must never be the secret. The control reads the same way
// without os.Root and does leak, so the attack is real.
func TestSwapRace(t *testing.T) {
	t.Parallel()
	outside := build(t, entries{"f": "SECRET", "g": "SECRET"})
	head := build(t, entries{"d/f": "public", "g": "public"})
	must(t, os.Symlink(outside, filepath.Join(head, "d2")))
	must(t, os.Symlink(filepath.Join(outside, "g"), filepath.Join(head, "g2")))
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			for _, n := range []string{"d", "g"} {
				unix.Renameat2(unix.AT_FDCWD, filepath.Join(head, n), unix.AT_FDCWD, filepath.Join(head, n+"2"), unix.RENAME_EXCHANGE)
			}
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	root, empty := openRoot(t, head), openRoot(t, t.TempDir())
	for range 1500 {
		err := Comparison{Base: empty, Head: root}.Walk(context.Background(), func(c Change) error {
			if c.Kind != File {
				return nil
			}
			r, err := c.Open()
			if err != nil {
				return nil
			}
			defer r.Close()
			if text, _ := io.ReadAll(r); strings.Contains(string(text), "SECRET") {
				return fmt.Errorf("%q leaked", c.Path)
			}
			return nil
		})
		if err != nil && strings.Contains(err.Error(), "leaked") {
			t.Fatal(err)
		}
	}
	for range 200_000 {
		p := filepath.Join(head, "g")
		if info, err := os.Lstat(p); err == nil && info.Mode().IsRegular() {
			if text, _ := os.ReadFile(p); string(text) == "SECRET" {
				return
			}
		}
	}
	t.Log("the naive control did not lose the race this time")
}
