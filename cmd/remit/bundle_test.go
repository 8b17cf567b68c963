package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/bundle"
)

// TestBundleOfThisRepository: this repository as it is makes a bundle that passes its
// audit, and no file of it looks like a secret.
func TestBundleOfThisRepository(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	top, dir := filepath.Join("..", ".."), t.TempDir()
	files := 0
	for name := range strings.SplitSeq(gitIn(t, top, "ls-files", "-z"), "\x00") {
		text, err := os.ReadFile(filepath.Join(top, name))
		if name == "" || errors.Is(err, os.ErrNotExist) { // one that is being removed
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, name, string(text))
		files++
	}
	zip := filepath.Join(t.TempDir(), "this.zip")
	var out bytes.Buffer
	made, err := new(packFlags).pack(dir).Write(t.Context(), &out)
	if err == nil {
		err = os.WriteFile(zip, out.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	rep, err := bundle.Audit(t.Context(), zip, bundle.Options{})
	if err != nil || rep.Status != bundle.Pass || rep.Profile != bundle.ProfilePortable || files < 1000 || made.Files < files || len(made.LeftOut) > 0 {
		t.Errorf("%d files, packed %+v: %+v, %v", files, made, rep, err)
	}
}

// TestBundleOfTwoUsers: the same tree gives the same zip, byte for byte, under another user,
// path, home, time zone, locale and umask.
func TestBundleOfTwoUsers(t *testing.T) {
	t.Parallel()
	const script = `umask "$1" && mkdir -p "$2/pkg/sub" "$2/docs" && : >"$2/pkg/__init__.py" && echo 'print(1)' >"$2/pkg/sub/a.py" &&
printf 'grün\n' >"$2/docs/größe.txt" && printf 'exit 0\n' >"$2/run.sh" && chmod +x "$2/run.sh" && id -u && ./remit bundle make "$2" --out out.zip >said`
	bundled := func(as *syscall.Credential, tree, umask string, env ...string) (zip []byte, uid string) {
		top, err := os.MkdirTemp("/tmp", "remit-two-users-") // that of this login may be closed to others
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(top) }) // a temporary directory
		if out, err := exec.Command("install", "-m", "755", program(), filepath.Join(top, "remit")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		cmd := exec.Command("sh", "-c", script, "sh", umask, tree)
		cmd.Dir, cmd.Env = top, append(env, "PATH="+os.Getenv("PATH"), "HOME="+top)
		if as != nil {
			if err := os.Chown(top, int(as.Uid), int(as.Gid)); err != nil {
				t.Fatal(err)
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		}
		out, err := cmd.CombinedOutput()
		if err == nil {
			zip, err = os.ReadFile(filepath.Join(top, "out.zip"))
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return zip, string(out)
	}
	var other *syscall.Credential
	if os.Geteuid() == 0 {
		other = &syscall.Credential{Uid: testUID, Gid: testUID}
	}
	mine, me := bundled(nil, "tree", "022", "TZ=Pacific/Kiritimati", "LC_ALL=C")
	theirs, them := bundled(other, "another place/of it", "077", "TZ=America/Adak", "LC_ALL=C.UTF-8", "REMIT_HOME=home")
	if !bytes.Equal(mine, theirs) {
		t.Errorf("user %s and user %s make two zips of the same tree, of %d and %d bytes", me, them, len(mine), len(theirs))
	}
	if me == them {
		t.Skip("SKIPPED in part: the other user cannot be tried, for that the tests have to run as root")
	}
}
