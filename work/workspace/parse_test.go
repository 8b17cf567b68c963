package workspace

import (
	"bytes"
	"os"
	"testing"

	"remit/work/git"
)

func FuzzParseIndex(f *testing.F) {
	r := &repo{t: &testing.T{}, dir: f.TempDir()}
	for _, args := range [][]string{
		{"init", "-q"}, {"update-index", "--add", "--cacheinfo", "100644,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,dir/file"},
		{"update-index", "--add", "--cacheinfo", "100755,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,dir/other"},
		{"update-index", "--index-version", "4"}, {"update-index", "--split-index"},
	} {
		if out, err := r.tryGit(args...); err != nil {
			f.Fatal(out)
		}
		if b, err := os.ReadFile(r.path(".git/index")); err == nil {
			f.Add(b, false)
			f.Add(b, true)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, long bool) {
		format := git.SHA1
		if long {
			format = git.SHA256
		}
		entries, err := parseIndex(format, b)
		for _, e := range entries {
			if err == nil && (e.path == "" || !format.IsID(e.id)) {
				t.Errorf("%+v", e)
			}
		}
	})
}

func FuzzParseTree(f *testing.F) {
	id := bytes.Repeat([]byte{1}, 20)
	f.Add(append([]byte("100644 a\x00"), id...))
	f.Add(append(append(append([]byte("40000 a\x00"), id...), "120000 b\x00"...), id...))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseTree(git.SHA1, b)
		if err != nil {
			return
		}
		// What was accepted says the same in git's own words, but for zeros before a mode.
		seen := map[string]bool{}
		for _, e := range entries {
			if seen[e.name] || e.mode == 0 {
				t.Errorf("%q twice, or no mode", e.name)
			}
			seen[e.name] = true
		}
	})
}

func FuzzParseStatIndex(f *testing.F) {
	f.Add([]byte("remit-checkout v1 x 1 2 3\n100644 1 2 3 4 a b\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		name := t.TempDir() + "/index"
		if err := saveStatIndex(name, statHead{Tree: "x", Files: 1}, b); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		head, records, _ := parseStatIndex(whole)
		if quick, top, err := readIndexHead(name); len(records) > 0 && len(records[0].path) < 256 && (err != nil || quick != head || top != records[0]) {
			t.Errorf("%+v %+v %+v %v", quick, head, top, err)
		}
		if _, _, err := parseStatIndex(b); err == nil {
			t.Error("accepted without its digest")
		}
	})
}

// A path that CheckPath accepts is one that git's strict check accepts too; the other way round is the import's test.
func FuzzCheckPath(f *testing.F) {
	for _, s := range []string{"a/b", ".git", "a/../b", ".g\u200cit", `a\git~1`, "x.git", ".git:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != nil {
			return
		}
		for _, part := range bytes.Split([]byte(p), []byte("/")) {
			lower := string(bytes.ToLower(part))
			if lower == "" || lower == "." || lower == ".." || lower == ".git" || lower == "git~1" || bytes.IndexByte(part, 0) >= 0 {
				t.Errorf("accepted %q", p)
			}
		}
	})
}

func FuzzLFSPointer(f *testing.F) {
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\noid sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\nsize 3\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parsePointer(b); ok && (len(p.sha256) != 64 || p.size < 0) {
			t.Errorf("%+v", p)
		}
	})
}
