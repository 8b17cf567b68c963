package workspace

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/git"
)

const packLimit = 64 << 20

// packed is the pack of a commit of a store.
func packed(t *testing.T, st *Store, commit string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := st.Pack(t.Context(), commit, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func openPack(t *testing.T, pack []byte, commit string) (*Source, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pack")
	src, err := OpenPack(t.Context(), dir, bytes.NewReader(pack), commit, packLimit)
	if _, gone := os.Lstat(dir); err != nil && !os.IsNotExist(gone) {
		t.Errorf("a refused pack left its directory: %v", gone)
	}
	return src, err
}

// received opens a store on what came out of a pack.
func received(t *testing.T, src *Source, rev string) *Store {
	t.Helper()
	base, err := src.Resolve(t.Context(), rev)
	if err != nil {
		t.Fatal(err)
	}
	st, err := NewStore(t.Context(), filepath.Join(t.TempDir(), "store"), src, base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// TestPackTravels takes commits from one machine to another: what arrives is the commit, its tree as files, and
// nothing of its history.
func TestPackTravels(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"sha1": nil, "sha256": {"--object-format=sha256"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, args...)
			r.write("old", "only the first commit has this\n")
			first := r.commit()
			r.git("rm", "-q", "old")
			r.write("README.md", "hello\n")
			r.write("src/deep/b.txt", strings.Repeat("b\n", 1000))
			r.write("src/run.sh", "#!/bin/sh\n")
			r.write("empty", "")
			if err := os.Chmod(r.path("src/run.sh"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := r.commitLink("link", "src/run.sh"); err != nil {
				t.Fatal(err)
			}
			r.git("add", "-A")
			r.git("update-index", "--add", "--cacheinfo", "160000,"+first+",mod")
			r.git("commit", "-q", "-m", "two")
			second := r.git("rev-parse", "HEAD")
			st := r.store()
			patched := mustImport(t, st, st.Baseline().Tree, file("new/file", "patched\n"), remove("empty"))
			third, err := st.CommitTree(t.Context(), patched, second, "patched", someTime)
			if err != nil {
				t.Fatal(err)
			}
			before, err := r.open().Fingerprint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, commit := range []string{second, third} {
				pack := packed(t, st, commit)
				if !bytes.Equal(pack, packed(t, st, commit)) {
					t.Error("the same commit has two packs")
				}
				src, err := openPack(t, pack, commit)
				if err != nil {
					t.Fatal(err)
				}
				got := received(t, src, commit)
				if base := got.Baseline(); base.Commit != commit || !base.Shallow || strings.Join(base.Submodules, " ") != "mod" {
					t.Errorf("baseline %+v", base)
				}
				if a, b := listing(t, st, got.Baseline().Tree), listing(t, got, got.Baseline().Tree); a != b || a == "" {
					t.Errorf("sent\n%s\nreceived\n%s", a, b)
				}
				checkout(t, got, got.Baseline().Tree)
				if head := received(t, src, ""); head.Baseline().Commit != commit {
					t.Errorf("HEAD is %+v", head.Baseline())
				}
				for _, absent := range []string{first, r.git("rev-parse", first+":old")} {
					if _, err := got.read(t.Context(), absent, 1000); reason.CodeOf(err) != reason.ObjectsMissing {
						t.Errorf("%s of the history travelled as well: %v", absent, err)
					}
				}
				// The other side can build on it.
				again := mustImport(t, got, got.Baseline().Tree, file("more", "x"))
				if _, err := got.CommitTree(t.Context(), again, commit, "on top", someTime); err != nil {
					t.Error(err)
				}
			}
			after, err := r.open().Fingerprint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := before.Compare(after); len(diff) > 0 {
				t.Errorf("packing changed the source: %v", diff)
			}
		})
	}
}

// checkout makes the tree as files and looks at them.
func checkout(t *testing.T, st *Store, tree string) {
	t.Helper()
	c, err := OpenCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	co, err := c.Checkout(t.Context(), st, tree)
	if err != nil {
		t.Fatal(err)
	}
	defer co.Release()
	if err := co.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(co.Dir, "src/deep/b.txt")); err != nil || len(text) != 2000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if info, err := os.Stat(filepath.Join(co.Dir, "link")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestPackOfUnusualRepositories(t *testing.T) {
	t.Parallel()
	t.Run("empty tree", func(t *testing.T) {
		t.Parallel()
		r := newRepo(t)
		commit := r.commit()
		src, err := openPack(t, packed(t, r.store(), commit), commit)
		if err != nil {
			t.Fatal(err)
		}
		if base := received(t, src, commit).Baseline(); base.Tree != git.SHA1.EmptyTree() {
			t.Errorf("%+v", base)
		}
	})
	t.Run("shallow clone", func(t *testing.T) {
		t.Parallel()
		r := newRepo(t)
		r.write("a", "1")
		r.commit()
		r.write("a", "2")
		commit := r.commit()
		clone := &repo{t: t, dir: filepath.Join(t.TempDir(), "clone")}
		r.git("clone", "-q", "--depth=1", "file://"+r.dir, clone.dir)
		if src, err := openPack(t, packed(t, clone.store(), commit), commit); err != nil {
			t.Error(err)
		} else if got := listing(t, received(t, src, ""), received(t, src, "").Baseline().Tree); got != "f a 2|" {
			t.Error(got)
		}
	})
	t.Run("linked work tree with packed objects", func(t *testing.T) {
		t.Parallel()
		r, _ := seeded(t)
		r.git("gc", "-q")
		linked := &repo{t: t, dir: filepath.Join(t.TempDir(), "linked")}
		r.git("worktree", "add", "-q", linked.dir)
		commit := linked.git("rev-parse", "HEAD")
		if _, err := openPack(t, packed(t, linked.store(), commit), commit); err != nil {
			t.Error(err)
		}
	})
	t.Run("blob beyond what git holds in memory", func(t *testing.T) {
		t.Parallel()
		r := newRepo(t)
		r.write("big", strings.Repeat("0123456789abcde\n", 17<<16))
		commit := r.commit()
		src, err := openPack(t, packed(t, r.store(), commit), commit)
		if err != nil {
			t.Fatal(err)
		}
		received(t, src, commit)
	})
	t.Run("missing blob", func(t *testing.T) {
		t.Parallel()
		r := newRepo(t)
		r.write("a", "gone")
		commit := r.commit()
		st := r.store()
		id := r.git("rev-parse", "HEAD:a")
		if err := os.Remove(r.path(".git/objects/" + id[:2] + "/" + id[2:])); err != nil {
			t.Fatal(err)
		}
		wantCode(t, st.Pack(t.Context(), commit, io.Discard), reason.RepositoryInvalid)
	})
}

func TestPackWantsACommit(t *testing.T) {
	t.Parallel()
	r, st := seeded(t)
	r.git("-c", "user.name=a", "-c", "user.email=a@example.org", "tag", "-a", "-m", "t", "v1")
	for name, id := range map[string]string{
		"tree": st.Baseline().Tree, "blob": r.git("rev-parse", "HEAD:README.md"), "tag": r.git("rev-parse", "v1"),
		"name": "main", "short": st.Baseline().Commit[:10], "option": "--all", "lines": st.Baseline().Commit + "\n--all", "": "",
	} {
		var b bytes.Buffer
		if err := st.Pack(t.Context(), id, &b); reason.CodeOf(err) != reason.BaseNotFound || b.Len() > 0 {
			t.Errorf("%s: %v, %d bytes", name, err, b.Len())
		}
	}
	wantCode(t, st.Pack(t.Context(), strings.Repeat("1", 40), io.Discard), reason.ObjectsMissing)
	full := reason.Errorf(reason.ArtifactWriteFailure, "full")
	wantCode(t, st.Pack(t.Context(), st.Baseline().Commit, failingWriter{full}), reason.ArtifactWriteFailure)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestOpenPackTakesWhatGitMakes: other programs send packs with deltas of both kinds, and those are as good.
func TestOpenPackTakesWhatGitMakes(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	text := strings.Repeat("a line that is in every file\n", 400)
	for _, name := range []string{"a", "b", "c", "d/e"} {
		r.write(name, text+name+"\n"+text)
	}
	commit := r.commit()
	for name, flags := range map[string][]string{"by id": nil, "by offset": {"--delta-base-offset"}} {
		cmd := exec.Command(gitBinary, append([]string{"pack-objects", "--revs", "--stdout", "-q"}, flags...)...)
		cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(commit+"\n")
		pack, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if len(pack) > 2000 {
			t.Fatalf("%d bytes: the pack has no deltas", len(pack))
		}
		src, err := openPack(t, pack, commit)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		st := received(t, src, commit)
		if got, err := st.ReadFile(t.Context(), st.Baseline().Tree, "d/e"); err != nil || string(got) != text+"d/e\n"+text {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}
