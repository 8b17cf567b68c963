package provider

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/reason"
)

// A job reads what its operator lends, and a repository in there opens nothing else, in whatever way it reaches the
// objects of another one.
func TestSourcesReadNothingElsewhere(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	lent := filepath.Join(top, "lent")
	git := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", script)
		cmd.Dir = top
		cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	git(`mkdir lent; for r in private lent/own; do git init -q $r; git -C $r commit -q --allow-empty -m $r; git -C $r gc -q; done
		git clone -q --shared private lent/alternates
		git clone -q --shared lent/own lent/neighbour
		git clone -q lent/own lent/objects; rm -rf lent/objects/.git/objects; ln -s "$PWD/private/.git/objects" lent/objects/.git/objects
		git clone -q lent/own lent/pack; ln -s "$PWD"/private/.git/objects/pack/* lent/pack/.git/objects/pack/
		git clone -q lent/own lent/common; echo "$PWD/private/.git" >lent/common/.git/commondir
		git -C private worktree add -q --detach ../lent/tree
		git clone -q private lent/own/inside; mv lent/own/inside/.git hidden; ln -s "$PWD/hidden" lent/own/inside/.git
		git clone -q --bare --shared private lent/bare.git`)
	d := &Daemon{sources: []string{lent}}
	for name, allowed := range map[string]bool{
		"own": true, "neighbour": true,
		"alternates": false, "objects": false, "pack": false, "common": false, "tree": false, "own/inside": false, "bare.git": false, "../private": false,
	} {
		source, err := d.lent(t.Context(), lent+"/"+name)
		if allowed {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if _, err := source.Resolve(t.Context(), ""); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if code := reason.CodeOf(err); code != reason.RepositoryInvalid && code != reason.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && name != "../private" && strings.Contains(err.Error(), "private") {
			t.Errorf("%s: the error tells what lies elsewhere: %v", name, err)
		}
	}
}
