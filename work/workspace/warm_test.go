package workspace

import (
	"strings"
	"testing"

	"remit/work/git"
)

// TestNamesIsWhatResolveFinds asks without git, and gets the same or nothing.
func TestNamesIsWhatResolveFinds(t *testing.T) {
	r, _ := seeded(t) // not parallel: it counts the processes of this program
	first := strings.TrimSpace(r.git("rev-parse", "HEAD"))
	r.git("branch", "old")
	r.git("tag", "-a", "-m", "v1", "v1")
	r.write("README.md", "second\n")
	head := r.commit()
	r.git("pack-refs", "--all")
	r.git("checkout", "-q", "-b", "gone")
	r.write("README.md", "third\n")
	lost := r.commit()
	r.git("checkout", "-q", "main")
	r.git("branch", "-D", "gone")
	src := r.open()
	for rev, want := range map[string]string{
		"HEAD": head, "main": head, "refs/heads/main": head, "old": first, head: head, first: first,
		lost: "", "main~1": "", head[:12]: "", "nothing": "", "": "", "--all": "", strings.Repeat("0", len(head)): "",
		"v1": strings.TrimSpace(r.git("rev-parse", "refs/tags/v1")), // the tag, not its commit
	} {
		before := git.Started()
		id, err := src.Names(rev)
		if err != nil || id != want || git.Started() != before {
			t.Errorf("%q names %q, want %q: %v, %d processes", rev, id, want, err, git.Started()-before)
		}
		if base, err := src.Resolve(t.Context(), rev); want != "" && rev != "v1" && (err != nil || base.Commit != id) {
			t.Errorf("%q resolves to %q, %v", rev, base.Commit, err)
		}
	}
}

func TestFindTakesWhatIsThere(t *testing.T) {
	_, st := seeded(t) // not parallel: as above
	c := newCache(t)
	tree := st.Baseline().Tree
	before := git.Started()
	for _, id := range []string{tree, st.git.Format.EmptyTree()} {
		if co, err := c.Find(t.Context(), id); co != nil || err != nil {
			t.Fatalf("found %+v in an empty cache: %v", co, err)
		}
	}
	if _, err := c.Find(t.Context(), "../../etc"); err == nil {
		t.Error("a path was taken for a tree")
	}
	if n := git.Started() - before; n != 0 {
		t.Errorf("%d processes", n)
	}
	made := mustCheckout(t, c, st, tree)
	before = git.Started()
	found, err := c.Find(t.Context(), tree)
	if err != nil || found == nil || found.Dir != made.Dir || found.Files != made.Files || !found.Warm || git.Started() != before {
		t.Fatalf("%+v: %v", found, err)
	}
	if err := found.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	made.Release()
	if freed, err := c.Trim(t.Context(), 0); err != nil || freed != 0 {
		t.Errorf("%d bytes of a tree in use were freed: %v", freed, err)
	}
	found.Release()
	if _, err := c.Trim(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if co, err := c.Find(t.Context(), tree); co != nil || err != nil {
		t.Errorf("found %+v after it was removed: %v", co, err)
	}
}
