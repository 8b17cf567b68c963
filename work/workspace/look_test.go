package workspace

import (
	"errors"
	"testing"

	"remit/proof/reason"
)

func TestLookAtACommit(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write("dir/sub/a.txt", "a\n")
	r.write("remit.yaml", "tests: extend\n")
	r.git("add", "-A")
	r.git("commit", "-qm", "one")
	r.write("remit.yaml", "tests: free\n")
	r.git("add", "-A")
	r.git("commit", "-qm", "two")
	r.write("remit.yaml", "uncommitted\n")
	src, err := OpenSource(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	looked, err := src.Look(t.Context(), "", []string{"dir", "dir/sub", "dir/sub/a.txt", "dir/sub/a.txt/b", "no", "dir/no", "remit.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint32{modeDir, modeDir, modeFile, 0, 0, 0, modeFile} {
		if looked[i].Mode != want || looked[i].Dir() != (want == modeDir) {
			t.Errorf("path %d: %+v, want mode %o", i, looked[i], want)
		}
	}
	for rev, want := range map[string]string{"": "tests: free\n", "HEAD": "tests: free\n", "main~1": "tests: extend\n"} {
		if text, err := src.ReadFile(t.Context(), rev, "remit.yaml"); err != nil || string(text) != want {
			t.Errorf("%q: %q, %v", rev, text, err)
		}
	}
	for _, path := range []string{"dir", "no", "dir/sub/a.txt/b"} {
		if _, err := src.ReadFile(t.Context(), "", path); !errors.Is(err, ErrNoFile) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, rev := range []string{"nope", "--all", "main:dir"} {
		if _, err := src.Look(t.Context(), rev, []string{"dir"}); reason.CodeOf(err) != reason.BaseNotFound {
			t.Errorf("%s: %v", rev, err)
		}
	}
	empty, err := OpenSource(t.Context(), newRepo(t).dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := empty.ReadFile(t.Context(), "", "a"); reason.CodeOf(err) != reason.UnbornHead {
		t.Errorf("no commit: %v", err)
	}
}
