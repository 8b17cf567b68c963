package tree

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/reason"
)

func content(s string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
}

func fileChange(path, text string) Change {
	return Change{Path: path, Kind: File, Size: int64(len(text)), Open: content(text)}
}

func TestApply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		base    entries
		changes []Change
		want    entries
	}{
		{"create with parents", entries{}, []Change{fileChange("a/b/c", "1")}, entries{"a/b/c": "1"}},
		{"executable", entries{"a": "1"}, []Change{{Path: "a", Kind: File, Executable: true, Size: 1, Open: content("2")}}, entries{"a": "x:2"}},
		{"loses the executable bit", entries{"a": "x:1"}, []Change{fileChange("a", "1")}, entries{"a": "1"}},
		{"file replaces directory", entries{"a/b": "1"}, []Change{fileChange("a", "2")}, entries{"a": "2"}},
		{"directory replaces file", entries{"a": "1"}, []Change{fileChange("a/b", "2"), {Path: "a", Kind: Delete}}, entries{"a/b": "2"}},
		{"directory replaces link", entries{"a": "-> t", "t/x": "1"}, []Change{{Path: "a", Kind: Delete}, fileChange("a/b", "2")}, entries{"a/b": "2", "t/x": "1"}},
		{"link", entries{}, []Change{{Path: "d/l", Kind: Symlink, Target: "/etc/shadow"}}, entries{"d/l": "-> /etc/shadow"}},
		{"file replaces link, not its target", entries{"l": "-> t", "t": "1"}, []Change{fileChange("l", "2")}, entries{"l": "2", "t": "1"}},
		{"delete a tree", entries{"d/a": "1", "d/e/b": "1", "x": "1"}, []Change{{Path: "d", Kind: Delete}}, entries{"x": "1"}},
		{"delete what is not there", entries{"x": "1"}, []Change{{Path: "q/r", Kind: Delete}}, entries{"x": "1"}},
		{"delete does not go through a link", entries{"l": "-> t", "t/x": "1"}, []Change{{Path: "l/x", Kind: Delete}}, entries{"l": "-> t", "t/x": "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, want := build(t, tt.base), build(t, tt.want)
			must(t, Apply(context.Background(), openRoot(t, dir), tt.changes))
			if got := snapshot(t, dir); got != snapshot(t, want) {
				t.Errorf("got\n%s\nwant\n%s", got, snapshot(t, want))
			}
		})
	}
}

// TestOldFiles: a file that is marked is older than all others, also behind a stream.
func TestOldFiles(t *testing.T) {
	t.Parallel()
	dir := build(t, entries{"a": "1"})
	c := fileChange("b/c", "2")
	c.Old, c.Executable = true, true
	root := openRoot(t, dir)
	_, err := ApplyStream(t.Context(), root, NewDecoder(bufio.NewReader(bytes.NewReader(encode(t, c, fileChange("d", "3"))))))
	must(t, err)
	for name, old := range map[string]bool{"b/c": true, "d": false} {
		info, err := root.Stat(name)
		must(t, err)
		if info.ModTime().Equal(Past) != old || (info.Mode()&0o100 != 0) != old {
			t.Errorf("%s: %s, %s", name, info.ModTime(), info.Mode())
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	outside := build(t, entries{"victim": "1"})
	for name, c := range map[string]Change{
		"parent":          fileChange("../x", "1"),
		"absolute":        fileChange("/etc/x", "1"),
		"inner dots":      fileChange("a/../../x", "1"),
		"empty":           fileChange("", "1"),
		"NUL":             fileChange("a\x00b", "1"),
		"link outside":    fileChange("out/victim", "2"),
		"link inside":     fileChange("in/x", "2"),
		"below a file":    fileChange("file/x", "2"),
		"special":         {Path: "s", Kind: Special, Note: NoteFIFO},
		"short content":   {Path: "a", Kind: File, Size: 2, Open: content("1")},
		"long content":    {Path: "a", Kind: File, Size: 2, Open: content("123")},
		"without content": {Path: "a", Kind: File},
		"link via link":   {Path: "out/l", Kind: Symlink, Target: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := build(t, entries{"file": "1", "real/x": "1", "in": "-> real"})
			must(t, os.Symlink(outside, filepath.Join(dir, "out")))
			err := Apply(context.Background(), openRoot(t, dir), []Change{c})
			if err == nil {
				t.Error("no error")
			}
			if strings.HasPrefix(name, "link") && reason.CodeOf(err) != reason.SymlinkRefused {
				t.Errorf("%v", err)
			}
			if got := snapshot(t, outside); got != `"victim" false "1"` {
				t.Errorf("outside is %s", got)
			}
		})
	}
}

// For random trees: compare, encode, decode, spool and apply make the base the
// head, whichever way they are combined.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 1))
		base, head := t.TempDir(), t.TempDir()
		grow(t, rng, base, 0)
		must(t, os.CopyFS(head, os.DirFS(base)))
		for range 1 + rng.IntN(8) {
			mutate(t, rng, head)
		}
		var stream bytes.Buffer
		enc := NewEncoder(&stream)
		var direct []Change
		spool, err := NewSpool(t.TempDir())
		must(t, err)
		must(t, Comparison{Base: openRoot(t, base), Head: openRoot(t, head)}.Walk(context.Background(), func(c Change) error {
			kept, err := spool.Add(c)
			direct = append(direct, kept)
			if err != nil {
				return err
			}
			return enc.Encode(kept)
		}))
		must(t, enc.Close())
		stream.WriteString("what follows")
		in := bufio.NewReader(&stream)
		second, err := NewSpool(t.TempDir())
		must(t, err)
		decoded, err := second.ReadInto(in)
		must(t, err)
		if rest, _ := io.ReadAll(in); string(rest) != "what follows" {
			t.Fatalf("seed %d: the decoder left %q", seed, rest)
		}
		must(t, second.Close())
		if fmt.Sprint(shown(t, direct)) != fmt.Sprint(shown(t, decoded)) {
			t.Fatalf("seed %d: the stream changed the changes\n%q\n%q", seed, shown(t, direct), shown(t, decoded))
		}
		must(t, Apply(context.Background(), openRoot(t, base), decoded))
		if got, want := snapshot(t, base), snapshot(t, head); got != want {
			t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, got, want)
		}
	}
}

func shown(t *testing.T, changes []Change) (s []string) {
	for _, c := range changes {
		s = append(s, show(t, c))
	}
	return s
}

func grow(t *testing.T, rng *rand.Rand, dir string, depth int) {
	for i := range 1 + rng.IntN(4) {
		p := filepath.Join(dir, fmt.Sprintf("n%d", i))
		switch k := rng.IntN(5); {
		case k < 2 && depth < 3:
			must(t, os.Mkdir(p, 0o755))
			grow(t, rng, p, depth+1)
		case k == 2:
			must(t, os.Symlink(fmt.Sprintf("n%d", rng.IntN(5)), p))
		default:
			must(t, os.WriteFile(p, []byte(fmt.Sprint(rng.IntN(1000))), []os.FileMode{0o644, 0o755}[rng.IntN(2)]))
		}
	}
}

func mutate(t *testing.T, rng *rand.Rand, dir string) {
	var all []string
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if p != dir {
			all = append(all, p)
		}
		return nil
	})
	p := filepath.Join(dir, fmt.Sprintf("new%d", rng.IntN(9)))
	if len(all) > 0 && rng.IntN(3) > 0 {
		p = all[rng.IntN(len(all))]
	}
	must(t, os.RemoveAll(p))
	switch rng.IntN(4) {
	case 0:
		must(t, os.WriteFile(p, []byte(fmt.Sprint("m", rng.IntN(1000))), 0o644))
	case 1:
		must(t, os.Mkdir(p, 0o755))
		grow(t, rng, p, 2)
	case 2:
		must(t, os.Symlink("elsewhere", p))
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	src := build(t, entries{"a": "1", "d/x": "x:2", "d/l": "-> /nowhere", "e/": ""})
	must(t, os.Chmod(filepath.Join(src, "a"), 0o755|os.ModeSetuid))
	dst := t.TempDir()
	n, err := Copy(context.Background(), openRoot(t, dst), openRoot(t, src), nil)
	must(t, err)
	if n != 2 || snapshot(t, dst) != snapshot(t, src) {
		t.Errorf("%d bytes:\n%s", n, snapshot(t, dst))
	}
	if info, _ := os.Stat(filepath.Join(dst, "a")); info.Mode()&os.ModeSetuid != 0 {
		t.Error("the setuid bit was copied")
	}
	if info, err := os.Stat(filepath.Join(dst, "e")); err != nil || !info.IsDir() {
		t.Error("the empty directory is missing")
	}
}
