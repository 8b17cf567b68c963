package depend

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
)

// The ordinary user of TestUserSaysNothing makes the layer in a process of its own.
const (
	otherUser   = 65533
	otherHome   = "home-of-the-other-user"
	besideHomes = "base"
)

// TestUserSaysNothing makes one layer as root and as an ordinary user.
func TestUserSaysNothing(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.NPM, Dir: "."}}}
	r := openRegistry(t)
	files := app(t, r)
	if at, err := filepath.Abs("."); err == nil && filepath.Base(at) == otherHome {
		p, err := openBuilder(t, r.URL, "npm").Prepare(context.Background(), env, Base{Dir: filepath.Join(filepath.Dir(at), besideHomes)})
		must(t, err)
		defer p.Release()
		fmt.Fprintln(t.Output(), p.Layers[0].Key, p.Layers[0].ContentSHA256)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, only root can be another user too")
	}
	dir, err := os.MkdirTemp("/tmp", "remit-user-")
	must(t, err)
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	base := Base{Dir: writeTree(t, filepath.Join(dir, besideHomes), files)}
	b := openBuilder(t, r.URL, "npm")
	p, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer p.Release()
	self, err := os.Executable()
	must(t, err)
	program := filepath.Join(dir, "depend.test") // the original lies in a directory of root's
	must(t, exec.Command("cp", self, program).Run())
	must(t, os.Chmod(dir, 0o755))
	home := filepath.Join(dir, otherHome)
	must(t, os.Mkdir(home, 0o700))
	must(t, os.Chown(home, otherUser, otherUser))
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "^TestUserSaysNothing$")
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}, Pdeathsig: syscall.SIGKILL}
	// The signal comes with the end of the thread that started it, so the thread stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "SKIPPED"):
		t.Skipf("SKIPPED, an ordinary user has no sandbox here:\n%s", out)
	case err != nil || !strings.Contains(string(out), p.Layers[0].Key+" "+p.Layers[0].ContentSHA256):
		t.Errorf("root made %s with %s, and another user: %v\n%s", p.Layers[0].Key, p.Layers[0].ContentSHA256, err, out)
	}
}
