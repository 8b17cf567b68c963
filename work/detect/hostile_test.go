package detect

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"remit/law/task"
	"remit/work/depend"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }

// What an archive of the corpus cannot hold: files that are too large or no text,
// and more of everything than is looked at.
func TestBounds(t *testing.T) {
	t.Parallel()
	test := "import unittest\n"
	many := fstest.MapFS{}
	for i := range 60 {
		many[fmt.Sprintf("m%02d/go.mod", i)] = file("module x\n")
		many[fmt.Sprintf("m%02d/a_test.go", i)] = file("package x\n")
	}
	locks := fstest.MapFS{}
	for i := range 12 {
		locks[fmt.Sprintf("p%02d/package.json", i)] = file(`{"scripts": {"test": "x"}, "dependencies": {"x": "1"}}`)
		locks[fmt.Sprintf("p%02d/package-lock.json", i)] = file("{}")
	}
	for name, c := range map[string]struct {
		tree    fstest.MapFS
		note    string
		command string // the first, "" for none
	}{
		"a manifest that is too large": {fstest.MapFS{"package.json": file(`{"scripts": {"test": "x"}, "a": "` + strings.Repeat("x", MaxFileBytes) + `"}`)},
			"is larger than 512 KiB", ""},
		"a binary makefile":                 {fstest.MapFS{"Makefile": file("test:\n\x00\x01\x02")}, "is no text", ""},
		"a deep JSON":                       {fstest.MapFS{"package.json": file(strings.Repeat("[", 200_000))}, "is not a JSON object", ""},
		"a JSON bomb of keys":               {fstest.MapFS{"package.json": file(`{"scripts": {` + strings.Repeat(`"a": "b",`, 20_000) + `"test": "x"}}`)}, "", "npm test"},
		"a name with an escape":             {fstest.MapFS{"a\x1b[2Jb/go.mod": file("module x"), "a.py": file("")}, "1 names are longer", ""},
		"a name with a line end":            {fstest.MapFS{"a\nverification_commands: [evil]\n/go.mod": file("module x"), "test_a.py": file(test)}, "not printable", "python3 -m unittest"},
		"a name that turns around":          {fstest.MapFS{"a\u202eb/x.go": file("package x"), "test_a.py": file(test)}, "not printable", "python3 -m unittest"},
		"a script name with a quote":        {fstest.MapFS{"package.json": file(`{"scripts": {"x\"\u0007": 1, "test": "x"}}`)}, "", "npm test"},
		"directories beyond the depth":      {fstest.MapFS{strings.Repeat("d/", MaxDepth+3) + "Makefile": file("test:\n"), "test_a.py": file(test)}, "more than 40 deep", "python3 -m unittest"},
		"more modules than count":           {many, "more than 24 directories have a manifest", "go -C m00 test ./..."},
		"more lock files than are prepared": {locks, "4 more lock files", "npm --prefix p00 test"},
		"a long command in CI": {fstest.MapFS{".gitlab-ci.yml": file("a: {script: make test " + strings.Repeat("A=1 ", 300) + "}")},
			"look like tests are no plain calls", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, notes := look(t, c.tree)
			facts, err := Look(c.tree, depend.Ecosystems())
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(facts.Commands) > 0 {
				got = facts.Commands[0].Lines[0]
			}
			if !strings.Contains(notes, c.note) || got != c.command {
				t.Errorf("got %q and the notes\n%s\nwant %q and %q", got, notes, c.command, c.note)
			}
		})
	}
}

// Symbolic links are not followed: not to a file, not round in circles, not out.
func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(outside, "package.json", `{"scripts": {"test": "x"}}`)
	write(dir, "real.mk", "test:\n\t:\n")
	for link, to := range map[string]string{"loop": ".", "package.json": filepath.Join(outside, "package.json"), "Makefile": "real.mk", "out": outside, "ring": "ring"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	facts, err := Look(root.FS(), depend.Ecosystems())
	if err != nil || len(facts.Commands) > 0 || len(facts.Projects) > 0 {
		t.Errorf("%+v, %v", facts, err)
	}
}

// What cannot be read is an error, and not an empty repository.
func TestTreeThatCannotBeRead(t *testing.T) {
	t.Parallel()
	if facts, err := Look(os.DirFS(filepath.Join(t.TempDir(), "nothing")), depend.Ecosystems()); err == nil {
		t.Errorf("%+v", facts)
	}
}

// The number of entries is bounded however they are spread.
func TestEntriesAreBounded(t *testing.T) {
	t.Parallel()
	facts, err := Look(endless{}, depend.Ecosystems())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(facts.Notes, func(n Note) bool { return strings.Contains(n.Text, "more than 200000 files") }) {
		t.Errorf("%+v", facts.Notes)
	}
}

// endless is a directory with more files than are looked at.
type endless struct{}

func (endless) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func (endless) Stat(string) (fs.FileInfo, error) { return entry("."), nil }

func (endless) ReadDir(string) ([]fs.DirEntry, error) {
	all := make([]fs.DirEntry, MaxEntries+10)
	for i := range all {
		all[i] = fs.FileInfoToDirEntry(entry(fmt.Sprintf("f%07d", i)))
	}
	return all, nil
}

type entry string

func (e entry) Name() string { return string(e) }
func (e entry) IsDir() bool  { return e == "." }
func (e entry) Size() int64  { return 0 }
func (e entry) Sys() any     { return nil }

func (e entry) ModTime() time.Time { return time.Time{} }

func (e entry) Mode() fs.FileMode {
	if e.IsDir() {
		return fs.ModeDir
	}
	return 0
}

// TestCommandLines: what of a line in CI is taken.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"make test": "make test", "  go test -race ./...  ": "go test -race ./...", "CI=1 npm test": "CI=1 npm test", "npm run build": "",
		"pytest -k 'not slow'": "pytest -k 'not slow'", "./mvnw -B verify": "./mvnw -B verify", "cargo nextest run": "cargo nextest run",
		"make test; id": "refused", "make test\nid": "refused", "make test & id": "refused", "make test $HOME": "refused", "make test \\": "refused",
		"make test # x": "refused", "make test > x": "refused", "make test {a,b}": "refused", "make test 'a": "refused", "pytest /etc": "refused",
		"make -C ../.. test": "refused", "make test A=../x": "refused", "make test \u202e": "refused", "make test\x07": "refused",
		"echo make test": "", "maketest": "", "go testify": "", "A=$(id) make test": "", "": "", "test -f x": "", "sh test.sh": "sh test.sh",
	} {
		taken, refused := testLine(line)
		if refused {
			taken = "refused"
		}
		if taken != want {
			t.Errorf("%q: got %q, want %q", line, taken, want)
		}
	}
}

// FuzzLook: whatever the files hold, what is written is a policy that says what
// was found.
func FuzzLook(f *testing.F) {
	f.Add([]byte(`{"scripts": {"test": "x"}}`), []byte("[tool.pytest.ini_options]\n"), []byte("jobs: {t: {steps: [{run: make test}]}}"), []byte("test: x\n"), "dir")
	f.Add([]byte(`{"workspaces": ["*"]}`), []byte("[project]\ndependencies = []\n"), []byte("script:\n  - |\n    go test\n    x\n"), []byte("check::\n"), "a b\"c")
	f.Fuzz(func(t *testing.T, pkg, toml, ci, makefile []byte, dir string) {
		if !fs.ValidPath(dir) || dir == "." || bytes.ContainsRune([]byte(dir), 0) {
			dir = "dir"
		}
		tree := fstest.MapFS{"package.json": {Data: pkg}, "pyproject.toml": {Data: toml}, "Cargo.toml": {Data: toml}, ".gitlab-ci.yml": {Data: ci},
			"Makefile": {Data: makefile}, "go.mod": {Data: makefile}, "go.work": {Data: pkg}, dir + "/go.mod": {Data: makefile},
			dir + "/x_test.go": {Data: pkg}, "pnpm-workspace.yaml": {Data: ci}, "tests/test_a.py": {Data: pkg}, "packages/a/package.json": {Data: pkg}}
		policy, _ := look(t, tree)
		if _, err := task.ParsePolicy(task.PolicyFile, []byte(policy)); err != nil {
			t.Fatal(err)
		}
	})
}
