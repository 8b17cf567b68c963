package workspace

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remit/proof/reason"
	"remit/work/tree"
)

func TestImportMakesTheTree(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	base := st.Baseline().Tree
	const start = "f README.md hello\n|l link README.md|x run.sh #!/bin/sh\n|f src/a.go package a\n|f src/deep/er/b.txt b\n|"
	if got := listing(t, st, base); got != start {
		t.Fatalf("base %q", got)
	}
	tests := map[string]struct {
		changes []tree.Change
		want    string
	}{
		"nothing":               {nil, start},
		"create":                {[]tree.Change{file("n/e/w", "x")}, strings.Replace(start, "x run.sh", "f n/e/w x|x run.sh", 1)},
		"modify":                {[]tree.Change{file("README.md", "bye\r\n")}, strings.Replace(start, "hello\n", "bye\r\n", 1)},
		"empty file":            {[]tree.Change{file("README.md", "")}, strings.Replace(start, "hello\n", "", 1)},
		"executable bit on":     {[]tree.Change{executable("README.md", "hello\n")}, strings.Replace(start, "f README", "x README", 1)},
		"executable bit off":    {[]tree.Change{file("run.sh", "#!/bin/sh\n")}, strings.Replace(start, "x run", "f run", 1)},
		"delete":                {[]tree.Change{remove("link")}, strings.Replace(start, "l link README.md|", "", 1)},
		"delete directory":      {[]tree.Change{remove("src")}, start[:strings.Index(start, "f src")]},
		"delete everything":     {[]tree.Change{remove("src"), remove("README.md"), remove("link"), remove("run.sh")}, ""},
		"delete what is not":    {[]tree.Change{remove("no/such")}, start},
		"delete below a file":   {[]tree.Change{remove("README.md/x")}, start},
		"file for directory":    {[]tree.Change{file("src", "x")}, start[:strings.Index(start, "f src")] + "f src x|"},
		"delete and file":       {[]tree.Change{file("src", "x"), remove("src")}, start[:strings.Index(start, "f src")] + "f src x|"},
		"directory for file":    {[]tree.Change{remove("README.md"), file("README.md/x", "y")}, strings.Replace(start, "README.md hello\n", "README.md/x y", 1)},
		"directory for link":    {[]tree.Change{file("link/x", "y")}, strings.Replace(start, "l link README.md", "f link/x y", 1)},
		"link for file":         {[]tree.Change{symlink("README.md", "/etc/passwd")}, strings.Replace(start, "f README.md hello\n", "l README.md /etc/passwd", 1)},
		"file for link":         {[]tree.Change{file("link", "z")}, strings.Replace(start, "l link README.md", "f link z", 1)},
		"names git would quote": {[]tree.Change{file("\"q\\\n\xff ", "1"), file(" :(top)x", "2"), file("-rf", "3")}, "f \"q\\\n\xff  1|f  :(top)x 2|f -rf 3|" + start},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			head := mustImport(t, st, base, test.changes...)
			got := listing(t, st, head)
			if name == "names git would quote" {
				for _, part := range []string{"f \"q\\\n\xff  1|", "f  :(top)x 2|", "f -rf 3|"} {
					if !strings.Contains(got, part) {
						t.Fatalf("got %q without %q", got, part)
					}
				}
			} else if got != test.want {
				t.Fatalf("got  %q\nwant %q", got, test.want)
			}
			roundTrip(t, st, base, head)
		})
	}
}

// roundTrip checks the two promises of a diff: Apply of Diff gives the same tree, and so does Import of Changes.
func roundTrip(t testing.TB, st *Store, base, head string) {
	t.Helper()
	var patch bytes.Buffer
	if _, err := st.Diff(t.Context(), base, head, &patch); err != nil {
		t.Fatal(err)
	}
	got, err := st.Apply(t.Context(), base, bytes.NewReader(patch.Bytes()))
	if err != nil {
		t.Fatalf("%v\n%s", err, patch.String())
	}
	if got != head {
		t.Fatalf("applying gives %s, not %s\n%s", got, head, patch.String())
	}
	changes, err := st.Changes(t.Context(), base, head)
	if err != nil {
		t.Fatal(err)
	}
	im, err := st.Import(t.Context(), base, changes)
	if err != nil {
		t.Fatal(err)
	}
	if im.Tree != head {
		t.Fatalf("importing the changes gives %s, not %s", im.Tree, head)
	}
}

func TestImportRefusesHostileNames(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	base := st.Baseline().Tree
	for _, name := range []string{
		"../e", "a/../../e", "/etc/x", "", ".", "..", "a//b", "a/", "a/./b", ".git", ".git/hooks/x", "a/.git/config",
		".GIT/config", ".Git", "git~1", "GIT~1/x", ".git ", ".git.", ".git . .", ".git::$INDEX_ALLOCATION", `a\.git\x`,
		".g\u200cit", "\ufeff.git", ".gi\u202eT/x", "a\x00b", strings.Repeat("n", 256), strings.Repeat("d/", 2100) + "x",
	} {
		im, err := st.Import(t.Context(), base, []tree.Change{file(name, "x"), symlink(name, "y"), remove(name), file("ok", "ok")})
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if len(im.Refused) != 2 {
			t.Errorf("%q: refused %v", name, im.Refused)
		}
		for _, f := range im.Refused {
			if f.Code != reason.PathUnrepresentable && f.Code != reason.ProtectedPath {
				t.Errorf("%q: %v", name, f)
			}
		}
		if got, _ := st.ReadFile(t.Context(), im.Tree, "ok"); string(got) != "ok" {
			t.Errorf("%q: the rest was not imported", name)
		}
	}
	for _, name := range []string{".gitx", ".git~1", "git~2", "a.git", "...", ".git\u00e9", "x:y", `a\b`, "\x01", "con", "\xff\xfe"} {
		if err := CheckPath(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestImportReportsSpecials(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write(".gitignore", "vendor/\n")
	r.commit()
	st := r.store()
	im, err := st.Import(t.Context(), st.Baseline().Tree, []tree.Change{
		special("pipe", "fifo"), special("s", "setuid"), special("sub/.git", "nested-git"), special("sub2", "nested-git"),
		special(".git", "nested-git"), special("u", "unreadable"), special("odd", "name"), special("vendor/x/.git", "nested-git"),
		special("vendor/s", "socket"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "dirty_ending_tree pipe, dirty_ending_tree s, nested_repository sub/.git, nested_repository sub2, " +
		"nested_repository .git, dirty_ending_tree u, path_unrepresentable odd"
	if got := refusedCodes(im.Refused); got != want {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(im.Ignored, " "); got != "vendor/s vendor/x/.git" {
		t.Errorf("ignored %q", got)
	}
	if im.Tree != st.Baseline().Tree {
		t.Error("the tree changed")
	}
}

func TestImportIgnoresByTheBaseOnly(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write(".gitignore", "*.log\nbuild/\n!keep.log\n/top\n")
	r.write("sub/.gitignore", "local\n!*.log\n")
	r.write("tracked.log", "x")
	r.git("add", "-f", "tracked.log")
	if err := r.commitLink("lnk", "sub"); err != nil {
		t.Fatal(err)
	}
	r.commit()
	st := r.store()
	changes := []tree.Change{
		file("a.log", ""), file("keep.log", ""), file("build/x/y", ""), file("top", ""), file("sub/top", ""), file("sub/local", ""),
		file("sub/b.log", ""), file("tracked.log", "new"), file("new/.gitignore", "*"), file("new/x", ""), file(".gitignore", ""),
		file("lnk/a.log", ""), remove("sub/gone.log"), file("q\n\".log", ""),
	}
	im, err := st.Import(t.Context(), st.Baseline().Tree, changes)
	if err != nil {
		t.Fatal(err)
	}
	kept, ignored, err := st.WithoutIgnored(t.Context(), st.Baseline().Tree, append(slices.Clone(changes), special("pipe", "fifo")))
	if slices.Sort(ignored); err != nil || !slices.Equal(ignored, im.Ignored) || len(kept) != len(changes)+1-len(ignored) ||
		slices.ContainsFunc(kept, func(c tree.Change) bool { return slices.Contains(ignored, c.Path) }) {
		t.Errorf("%d kept, %q ignored, %v", len(kept), ignored, err)
	}
	if got := strings.Join(im.Ignored, "|"); got != "a.log|build/x/y|lnk/a.log|q\n\".log|sub/local|top" {
		t.Errorf("ignored %q", got)
	}
	if got, _ := st.ReadFile(t.Context(), im.Tree, "tracked.log"); string(got) != "new" {
		t.Error("a tracked file was ignored")
	}
	if got, err := st.ReadFile(t.Context(), im.Tree, "new/x"); err != nil {
		t.Error("the sandbox's own .gitignore had a say", got, err)
	}
}

func TestImportRefusesGitmodulesThatGitRefuses(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	im, err := st.Import(t.Context(), st.Baseline().Tree, []tree.Change{
		file(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n"), file("ok", "ok"),
		file("sub/.gitattributes", strings.Repeat("x", 5000)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := refusedCodes(im.Refused); got != "protected_path .gitmodules, protected_path sub/.gitattributes" {
		t.Errorf("got %q", got)
	}
	if _, err := st.ReadFile(t.Context(), im.Tree, "ok"); err != nil {
		t.Error(err)
	}
	im, err = st.Import(t.Context(), st.Baseline().Tree, []tree.Change{symlink(".gitmodules", "x")})
	if err != nil || refusedCodes(im.Refused) != "protected_path .gitmodules" {
		t.Error(im, err)
	}
}

func TestImportFailsOnAFileThatChangesItsLength(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	for _, size := range []int64{3, 5} {
		c := file("x", "four")
		c.Size = size
		if im, err := st.Import(t.Context(), st.Baseline().Tree, []tree.Change{c}); err == nil {
			t.Errorf("size %d: imported %v", size, im)
		}
	}
}

func TestDiffDescribesChanges(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	base := st.Baseline().Tree
	head := mustImport(t, st, base, file("README.md", "hello\nworld\n"), file("new", "1\n2\n"), remove("src"), file("link", "f"),
		file("run.sh", "#!/bin/sh\n"), symlink("s", "t"), file("bin", "a\x00b"))
	var patch bytes.Buffer
	changes, err := st.Diff(t.Context(), base, head, &patch)
	if err != nil {
		t.Fatal(err)
	}
	want := []FileChange{
		{Path: "README.md", Op: OpModify, OldMode: "100644", NewMode: "100644", Added: 1},
		{Path: "bin", Op: OpCreate, OldMode: "000000", NewMode: "100644", Binary: true},
		{Path: "link", Op: OpTypeChange, OldMode: "120000", NewMode: "100644", Added: 1, Removed: 1},
		{Path: "new", Op: OpCreate, OldMode: "000000", NewMode: "100644", Added: 2},
		{Path: "run.sh", Op: OpModeChange, OldMode: "100755", NewMode: "100644"},
		{Path: "s", Op: OpSymlink, OldMode: "000000", NewMode: "120000", Added: 1},
		{Path: "src/a.go", Op: OpDelete, OldMode: "100644", NewMode: "000000", Removed: 1},
		{Path: "src/deep/er/b.txt", Op: OpDelete, OldMode: "100644", NewMode: "000000", Removed: 1},
	}
	if len(changes) != len(want) {
		t.Fatalf("got %+v", changes)
	}
	for i := range want {
		if changes[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", changes[i], want[i])
		}
	}
	if !strings.Contains(patch.String(), "GIT binary patch") || !strings.Contains(patch.String(), "diff --git a/README.md b/README.md\n") {
		t.Error(patch.String())
	}
}

func TestCommitTreeIsDeterministic(t *testing.T) {
	t.Parallel()
	r, st := seeded(t)
	head := mustImport(t, st, st.Baseline().Tree, file("x", "y"))
	a, err := st.CommitTree(t.Context(), head, st.Baseline().Commit, "subject\n\nbody", someTime)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.store().writeAgain(t, head, st)
	if err != nil || a != b {
		t.Errorf("%s %s %v", a, b, err)
	}
	content, err := st.read(t.Context(), a, 1000)
	want := "tree " + head + "\nparent " + st.Baseline().Commit +
		"\nauthor remit <remit@localhost> 1700000000 +0000\ncommitter remit <remit@localhost> 1700000000 +0000\n\nsubject\n\nbody\n"
	if err != nil || string(content) != want {
		t.Errorf("%v %q", err, content)
	}
	if root, err := st.CommitTree(t.Context(), head, "", "no parent", someTime); err != nil || root == a {
		t.Error(root, err)
	}
}

// writeAgain makes the same commit in another store.
func (s *Store) writeAgain(t *testing.T, head string, other *Store) (string, error) {
	im := mustImport(t, s, s.Baseline().Tree, file("x", "y"))
	if im != head {
		t.Fatalf("another store makes another tree")
	}
	return s.CommitTree(t.Context(), head, other.Baseline().Commit, "subject\n\nbody\n", someTime)
}

// TestLockIsGivenBack: a copy of the file in a process that is just being started does not
// keep the lock.
func TestLockIsGivenBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, err := tryLock(path, syscall.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := syscall.Dup(int(held.f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(inherited) }()
	held.release()
	free, err := tryLock(path, syscall.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	free.release()
}
