package hunk

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"remit/work/tree"
)

// A tree in memory: "x" before the content of a file that can be executed, "f"
// before that of another, "l" before the target of a link.
type files map[string]string

func (f files) write(t interface {
	Helper()
	Fatalf(string, ...any)
}, dir string) *os.Root {
	t.Helper()
	for p, text := range f {
		full := filepath.Join(dir, p)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		switch {
		case err != nil:
		case text[0] == 'l':
			err = os.Symlink(text[1:], full)
		case text[0] == 'x':
			err = os.WriteFile(full, []byte(text[1:]), 0o755)
		default:
			err = os.WriteFile(full, []byte(text[1:]), 0o644)
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return root
}

// to is the patch that makes another tree of this one.
func (f files) to(after files) []tree.Change {
	var out []tree.Change
	for p := range f {
		if _, stays := after[p]; !stays {
			out = append(out, tree.Change{Path: p, Kind: tree.Delete})
		}
	}
	for p, text := range after {
		switch {
		case f[p] == text:
		case text[0] == 'l':
			out = append(out, tree.Change{Path: p, Kind: tree.Symlink, Target: text[1:]})
		default:
			out = append(out, tree.Change{Path: p, Kind: tree.File, Executable: text[0] == 'x', Size: int64(len(text) - 1),
				Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text[1:])), nil }})
		}
	}
	return tree.Sorted(out)
}

// with lays changes over the tree, in their order.
func (f files) with(t interface {
	Helper()
	Fatalf(string, ...any)
}, changes []tree.Change) files {
	t.Helper()
	out := maps.Clone(f)
	for _, c := range changes {
		maps.DeleteFunc(out, func(p, _ string) bool { return p == c.Path || strings.HasPrefix(p, c.Path+"/") })
		switch c.Kind {
		case tree.Delete:
		case tree.Symlink:
			out[c.Path] = "l" + c.Target
		default:
			r, err := c.Open()
			if err != nil {
				t.Fatalf("%v", err)
			}
			content, err := io.ReadAll(r)
			if err != nil || int64(len(content)) != c.Size {
				t.Fatalf("%s: %d bytes of %d, %v", c.Path, len(content), c.Size, err)
			}
			out[c.Path] = map[bool]string{true: "x", false: "f"}[c.Executable] + string(content)
		}
	}
	return out
}

func noTest(string) bool { return false }

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestHunks(t *testing.T) {
	t.Parallel()
	text := "f" + lines(1, 30)
	swap := func(old, with string) string { return strings.Replace(text, old, with, 1) }
	for name, tc := range map[string]struct {
		before, after files
		want          string // PATH FIRST-LAST, "r" in front of lines of the base
		without       map[int]files
	}{
		"one line":       {files{"a": text}, files{"a": swap("line 5\n", "five\n")}, "a 5-5", map[int]files{0: {"a": text}}},
		"two places":     {files{"a": text}, files{"a": strings.Replace(swap("line 5\n", "five\n"), "line 20\n", "", 1)}, "a 5-5, r a 20-20", map[int]files{0: {"a": swap("line 20\n", "")}, 1: {"a": swap("line 5\n", "five\n")}}},
		"close together": {files{"a": text}, files{"a": strings.Replace(swap("line 5\n", "five\n"), "line 7\n", "seven\n", 1)}, "a 5-7", nil},
		"two lines between": {files{"a": text}, files{"a": strings.Replace(swap("line 5\n", "five\n"), "line 8\n", "eight\n", 1)},
			"a 5-5, a 8-8", nil},
		"added lines":       {files{"a": text}, files{"a": swap("line 9\n", "line 9\nx\ny\n")}, "a 10-11", map[int]files{0: {"a": text}}},
		"no newline":        {files{"a": "fa\nb"}, files{"a": "fa\nb\n"}, "a 2-2", map[int]files{0: {"a": "fa\nb"}}},
		"CRLF":              {files{"a": "fa\r\nb\r\n"}, files{"a": "fa\nb\r\n"}, "a 1-1", nil},
		"an added file":     {files{}, files{"a": "fx\ny\n"}, "a 1-2", map[int]files{0: {}}},
		"a deleted file":    {files{"a": "fx\ny\n"}, files{}, "r a 1-2", map[int]files{0: {"a": "fx\ny\n"}}},
		"binary":            {files{"a": "fx\x00"}, files{"a": "fy\x00"}, "a 0-0", map[int]files{0: {"a": "fx\x00"}}},
		"becomes binary":    {files{"a": "fx\n"}, files{"a": "fy\x00"}, "a 0-0", nil},
		"empty":             {files{}, files{"a": "f"}, "a 0-0", map[int]files{0: {}}},
		"mode":              {files{"a": "fx\n"}, files{"a": "xx\n"}, "a 0-0", map[int]files{0: {"a": "fx\n"}}},
		"mode and lines":    {files{"a": text}, files{"a": "x" + strings.Replace(swap("line 5\n", "five\n"), "line 20\n", "", 1)[1:]}, "a 5-5, r a 20-20", map[int]files{0: {"a": swap("line 20\n", "")}}},
		"a link":            {files{"a": "fx\n"}, files{"a": "lb"}, "a 0-0", map[int]files{0: {"a": "fx\n"}}},
		"a link instead":    {files{"a": "lx"}, files{"a": "fb\n"}, "a 0-0", map[int]files{0: {"a": "lx"}}},
		"a directory":       {files{"a": "fx\n", "b": "f1\n"}, files{"a/x": "f1\n", "a/y": "f1\n", "b": "f2\n"}, "a 0-0, b 1-1", map[int]files{0: {"a": "fx\n", "b": "f2\n"}}},
		"a file instead":    {files{"a/x": "f1\n", "a-b": "f1\n"}, files{"a": "f1\n", "a-b": "f2\n"}, "a 0-0, a-b 1-1", map[int]files{0: {"a/x": "f1\n", "a-b": "f2\n"}}},
		"a strange name":    {files{"a\n": "f1\n"}, files{"a\n": "f2\n"}, `"a\n" 1-1`, nil},
		"too many lines":    {files{"a": "f" + strings.Repeat("x\n", MaxLines+1)}, files{"a": "fx\n"}, "a 0-0", nil},
		"a test":            {files{"a_test": "f1\n", "b": "f1\n"}, files{"a_test": "f2\n", "b": "f2\n"}, "b 1-1", map[int]files{0: {"a_test": "f2\n", "b": "f1\n"}}},
		"a test in a file":  {files{"a": "f1\n"}, files{"a/x_test": "f2\n"}, "", nil},
		"comments":          {files{"a": text}, files{"a": swap("line 9\n", "line 9\n# x\n")}, "", nil},
		"comments and mode": {files{"a": text}, files{"a": "x" + swap("line 9\n", "line 9\n# x\n")[1:]}, "a 0-0", map[int]files{0: {"a": text}}},
		"comments and lines": {files{"a": text}, files{"a": strings.Replace(strings.Replace(swap("line 9\n", "line 9\n# x\n"), "line 5\n", "five\n", 1), "line 20\n", "", 1)}, "a 5-5, r a 20-20",
			map[int]files{0: {"a": strings.Replace(swap("line 9\n", "line 9\n# x\n"), "line 20\n", "", 1)}, 1: {"a": strings.Replace(swap("line 9\n", "line 9\n# x\n"), "line 5\n", "five\n", 1)}}},
		"everything moved": {files{"a": "f" + lines(1, 4) + "x\n" + lines(5, 9)}, files{"a": "f" + lines(1, 4) + lines(5, 9) + "x\n"}, "r a 5-5, a 10-10", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tc.before.write(t, t.TempDir())
			defer root.Close()
			p, err := Split(root, tc.before.to(tc.after), func(p string) bool { return strings.HasSuffix(p, "_test") }, sameCode)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, h := range p.Hunks() {
				got = append(got, fmt.Sprintf("%s%s %d-%d", map[bool]string{true: "r "}[h.Removed], h.Path, h.First, h.Last))
			}
			if text := strings.Join(got, ", "); text != tc.want {
				t.Errorf("got %q, want %q", text, tc.want)
			}
			for i, want := range tc.without {
				changes, err := p.Without(i)
				if err != nil {
					t.Fatal(err)
				}
				if got := tc.before.with(t, changes); !reflect.DeepEqual(got, want) {
					t.Errorf("without %d: %q, want %q", i, got, want)
				}
			}
		})
	}
}

// sameCode takes lines that begin with # as comments.
func sameCode(_ string, a, b []byte) bool {
	code := func(text []byte) [][]byte {
		return slices.DeleteFunc(splitLines(text), func(line []byte) bool { return line[0] == '#' })
	}
	return slices.EqualFunc(code(a), code(b), bytes.Equal)
}

func TestWithoutIsBounded(t *testing.T) {
	t.Parallel()
	before, after := files{"a": "f1\n"}, files{"a": "f2\n"}
	dir := t.TempDir()
	root := before.write(t, dir)
	defer root.Close()
	p, err := Split(root, before.to(after), noTest, sameCode)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, 1} {
		if c, err := p.Without(i); err == nil {
			t.Errorf("hunk %d: %v", i, c)
		}
	}
	failing := []tree.Change{{Path: "a", Kind: tree.File, Open: func() (io.ReadCloser, error) { return nil, os.ErrPermission }}}
	if _, err := Split(root, failing, noTest, sameCode); err == nil {
		t.Error("a change that cannot be read has hunks")
	}
}

// anyTree draws few names and lines, so that they meet often.
func anyTree() *rapid.Generator[files] {
	line := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "}\n", "\n", "d"})
	return rapid.Custom(func(t *rapid.T) files {
		f := files{}
		for _, p := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "a-b", "a/x", "b", "b/y/z", "c_test"}), rapid.ID[string]).Draw(t, "paths") {
			kind := rapid.SampledFrom([]string{"f", "f", "f", "x", "l"}).Draw(t, "kind")
			text := "to"
			if kind != "l" {
				text = strings.Join(rapid.SliceOfN(line, 0, 24).Draw(t, "lines"), "") + rapid.SampledFrom([]string{"", "", "", "\x00"}).Draw(t, "end")
			}
			f[p] = kind + text
		}
		maps.DeleteFunc(f, func(p, _ string) bool { // a file has nothing below it
			return slices.ContainsFunc(slices.Collect(maps.Keys(f)), func(q string) bool { return strings.HasPrefix(q, p+"/") })
		})
		return f
	})
}

// Taking back everything gives the base, but for tests; taking back nothing gives
// the patch; and each part can be taken back alone, twice the same.
func TestProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before, after := anyTree().Draw(t, "before"), anyTree().Draw(t, "after")
		dir, err := os.MkdirTemp("", "hunk-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		root := before.write(t, dir)
		defer root.Close()
		patch := before.to(after)
		isTest := func(p string) bool { return strings.HasSuffix(p, "_test") }
		p, err := Split(root, patch, isTest, sameCode)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Split(root, patch, isTest, sameCode)
		if err != nil || !slices.Equal(p.Hunks(), again.Hunks()) {
			t.Fatalf("%v, then %v, %v", p.Hunks(), again.Hunks(), err)
		}
		tree := func(hunks ...int) files {
			changes, err := p.Without(hunks...)
			if err != nil {
				t.Fatal(err)
			}
			return before.with(t, changes)
		}
		if got := tree(); !reflect.DeepEqual(got, after) {
			t.Fatalf("without nothing: %q, want %q", got, after)
		}
		all := make([]int, len(p.Hunks()))
		for i := range all {
			all[i] = i
			one := tree(i)
			if reflect.DeepEqual(one, after) {
				t.Fatalf("hunk %v changes nothing", p.Hunks()[i])
			}
			if len(all) > 1 && reflect.DeepEqual(one, before) {
				t.Fatalf("hunk %v is everything", p.Hunks()[i])
			}
		}
		want := maps.Clone(before)
		delete(want, "c_test")
		if text, there := after["c_test"]; there {
			want["c_test"] = text
		}
		if got := tree(all...); !reflect.DeepEqual(got, want) {
			t.Fatalf("without everything: %q, want %q", got, want)
		}
	})
}

// The edits of a comparison turn one into the other, in order, apart.
func TestCompare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) [][]byte {
			return splitLines([]byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "d\n", "e\n", "f\n", "g\n"}), 0, 60).Draw(t, name), "")))
		}
		a, b := draw("a"), draw("b")
		var got [][]byte
		at, atB := 0, 0
		for i, e := range compare(a, b) {
			if e.a0-at != e.b0-atB || i > 0 && e.a0-at < apart || e.a0 == e.a1 && e.b0 == e.b1 {
				t.Fatalf("edit %v after %d, %d", e, at, atB)
			}
			got = append(append(got, a[at:e.a0]...), b[e.b0:e.b1]...)
			at, atB = e.a1, e.b1
		}
		if got = append(got, a[at:]...); !reflect.DeepEqual(slices.Concat(got...), slices.Concat(b...)) {
			t.Fatalf("%q to %q gives %q", a, b, got)
		}
	})
}

// Texts that are made to be hard end in bounded time.
func TestCompareIsBounded(t *testing.T) {
	t.Parallel()
	var same, turned, doubled strings.Builder
	for i := range MaxLines {
		fmt.Fprintf(&same, "%d\n", i)
		fmt.Fprintf(&turned, "%d\n", MaxLines-i)
		fmt.Fprintf(&doubled, "%d\n", i*7919%(MaxLines/2))
	}
	for name, pair := range map[string][2]string{
		"turned round": {same.String(), turned.String()}, "few words": {strings.Repeat("a\nb\n", MaxLines/2), strings.Repeat("b\na\na\n", MaxLines/3)},
		"doubled": {same.String(), doubled.String()}, "doubled twice": {doubled.String(), turned.String()},
	} {
		if edits := compare(splitLines([]byte(pair[0])), splitLines([]byte(pair[1]))); len(edits) == 0 {
			t.Errorf("%s: no difference", name)
		}
	}
}
