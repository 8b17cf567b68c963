package workspace

import (
	"bytes"
	"crypto/sha1" // the checksum of a file of git
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remit/proof/reason"
)

// shell runs a script in the repository.
func (r *repo) shell(script string, args ...string) {
	r.t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-ec", script, "sh"}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// borrowing is how a repository reaches the objects of the one at $1, whose packed objects are in $2.pack.
var borrowing = map[string]string{
	"alternates":                       `echo "$1/.git/objects" >.git/objects/info/alternates`,
	"relative alternates":              `mkdir -p .git/objects/info; echo "../../../$(basename "$1")/.git/objects" >.git/objects/info/alternates`,
	"quoted alternates":                `printf '"%s/.git/objects"\n' "$1" >.git/objects/info/alternates`,
	"alternates after a comment":       `printf '# mine\n\n%s/.git/objects/.\n' "$1" >.git/objects/info/alternates`,
	"alternates that are a link":       `echo "$1/.git/objects" >list; ln -s "$PWD/list" .git/objects/info/alternates`,
	"alternates of alternates":         `mkdir -p .git/near/info; echo ../near >.git/objects/info/alternates; echo "$1/.git/objects" >.git/near/info/alternates`,
	"alternates through a link inside": `ln -s "$1" near; echo "$PWD/near/.git/objects" >.git/objects/info/alternates`,
	"objects":                          `mv .git/objects .git/own; ln -s "$1/.git/objects" .git/objects`,
	"pack directory":                   `rm -rf .git/objects/pack; ln -s "$1/.git/objects/pack" .git/objects/pack`,
	"pack":                             `for s in pack idx; do ln -s "$2.$s" .git/objects/pack/; done`,
	"pack through a link inside":       `ln -s "$1/.git/objects" near; for s in pack idx; do ln -s "../../../near/pack/$(basename "$2").$s" .git/objects/pack/; done`,
	"loose objects":                    `for d in "$1"/.git/objects/[0-9a-f][0-9a-f]; do n=$(basename $d); rm -rf .git/objects/$n; ln -s $d .git/objects/$n; done`,
	"a loose object":                   `for f in "$1"/.git/objects/[0-9a-f][0-9a-f]/*; do n=$(basename $(dirname $f)); mkdir -p .git/objects/$n; ln -sf $f .git/objects/$n/; done`,
}

// A repository chooses nothing of what is read elsewhere: git would read another one's objects for it, the reader does
// not.
func TestBorrowedObjectsAreRefused(t *testing.T) {
	t.Parallel()
	for name, script := range borrowing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, other, commit, pack := twoRepositories(t, strings.Contains(name, "loose"))
			r.shell(script, other.dir, pack)
			if out, err := r.tryGit("cat-file", "-p", commit); err != nil || !strings.Contains(out, "tree ") {
				t.Fatalf("the control cannot read the other repository's commit: %v\n%s", err, out)
			}
			_, err := OpenSource(t.Context(), r.dir)
			wantRefused(t, err)
			if strings.Contains(name, "quoted") {
				return
			}
			top := filepath.Dir(r.dir)
			if _, err = OpenSourceIn(t.Context(), r.dir, []string{r.dir}); err == nil || strings.Contains(err.Error(), other.dir) {
				t.Errorf("with only itself lent: %v", err)
			}
			if name == "alternates that are a link" {
				return
			}
			src, err := OpenSourceIn(t.Context(), r.dir, []string{top})
			if err != nil {
				t.Fatalf("with both lent: %v", err)
			}
			if _, err := src.Resolve(t.Context(), commit); err != nil {
				t.Errorf("with both lent: %v", err)
			}
		})
	}
}

// What git alone would follow, and the reader leaves alone.
func TestBorrowedObjectsAreNotRead(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"http-alternates":  `mkdir -p .git/objects/info; echo "file://$1/.git/objects" >.git/objects/info/http-alternates`,
		"multi-pack-index": `cp "$2".* .git/objects/pack/; git multi-pack-index write; rm -f .git/objects/pack/pack-*`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, other, commit, pack := twoRepositories(t, false)
			r.git("repack", "-a", "-d", "-q")
			r.shell("mkdir keep; cp .git/objects/pack/* keep/; "+script+"; cp keep/* .git/objects/pack/", other.dir, pack)
			if name == "multi-pack-index" {
				redirectPacks(t, r.path(".git/objects/pack/multi-pack-index"), pack)
				if out, err := r.tryGit("cat-file", "-p", commit); err != nil || !strings.Contains(out, "tree ") {
					t.Fatalf("the control cannot read the other repository's commit: %v\n%s", err, out)
				}
			}
			src, err := OpenSource(t.Context(), r.dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := src.Resolve(t.Context(), commit); err == nil {
				t.Error("the other repository's commit was read")
			}
			if _, err := src.Resolve(t.Context(), ""); err != nil {
				t.Errorf("its own commit: %v", err)
			}
		})
	}
}

// redirectPacks has a multi-pack-index name a pack elsewhere, which must lie at a path of the same length.
func redirectPacks(t *testing.T, file, pack string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`pack-[0-9a-f]{40}\.idx`).Find(text)
	const up = "../../../../"
	to := up + strings.Repeat("y", len(name)-len(up)-len(".idx"))
	for _, suffix := range []string{".idx", ".pack"} {
		if err := os.Symlink(pack+suffix, filepath.Join(filepath.Dir(file), to)+suffix); err != nil {
			t.Fatal(err)
		}
	}
	text = bytes.ReplaceAll(text, name, []byte(to+".idx"))
	sum := sha1.Sum(text[:len(text)-sha1.Size]) // the checksum of a file of git
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text[:len(text)-sha1.Size], sum[:]...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A git directory elsewhere is read only where that is lent too, also if both sides agree on it.
func TestGitDirectoryElsewhere(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	main := simpleAt(t, filepath.Join(top, "main"))
	lent := filepath.Join(top, "lent")
	main.git("worktree", "add", "-q", filepath.Join(lent, "tree"))
	module := withSubmodule(t)
	for name, tt := range map[string]struct{ path, root string }{
		"linked work tree": {filepath.Join(lent, "tree"), lent},
		"submodule":        {module.path("mod"), module.path("mod")},
	} {
		if _, err := OpenSource(t.Context(), tt.path); err != nil {
			t.Errorf("%s of one's own: %v", name, err)
		}
		if _, err := OpenSourceIn(t.Context(), tt.path, []string{tt.root}); reason.CodeOf(err) != reason.Forbidden {
			t.Errorf("%s: %v, not forbidden", name, err)
		}
		if _, err := OpenSourceIn(t.Context(), tt.path, []string{tt.root, filepath.Dir(tt.root)}); err != nil {
			t.Errorf("%s with both lent: %v", name, err)
		}
	}
	// git believes commondir in any git directory, and would write a ref there.
	r := simple(t)
	r.shell(`echo "$1/.git" >.git/commondir`, main.dir)
	for _, path := range []string{r.dir, r.path(".git")} {
		_, err := OpenSource(t.Context(), path)
		wantRefused(t, err)
	}
}

func wantRefused(t *testing.T, err error) {
	t.Helper()
	if reason.CodeOf(err) != reason.RepositoryInvalid {
		t.Errorf("got %v, not repository_invalid", err)
	}
}

// twoRepositories makes two side by side, the second with a commit of its own.
func twoRepositories(t *testing.T, loose bool) (r, other *repo, commit, pack string) {
	t.Helper()
	top := t.TempDir()
	r, other = simpleAt(t, filepath.Join(top, "mine")), simpleAt(t, filepath.Join(top, "other"))
	other.write("private", "secret\n")
	commit = other.commit()
	if loose {
		return r, other, commit, ""
	}
	other.git("repack", "-a", "-d", "-q")
	packs, _ := filepath.Glob(other.path(".git/objects/pack/*.pack"))
	if len(packs) != 1 {
		t.Fatalf("packs %q", packs)
	}
	return r, other, commit, strings.TrimSuffix(packs[0], ".pack")
}
