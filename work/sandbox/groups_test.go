//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// testGroup is a group that no user of a host is in.
const testGroup = 65111

// grouped opens the sandbox as the current user, prints what it cannot enforce and
// tries to read each path, which is lent or shown to every command.
func grouped(dir string, paths []string) int {
	d, err := Open(context.Background(), Options{Toolchains: []string{dir + "/tool"}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(strings.Join(d.Describe().NotEnforced, "\n"))
	r, err := d.Run(context.Background(), Spec{Lower: dir + "/empty", Env: map[string]string{"GORACE": endAtOnce},
		Binds:    []Bind{{dir + "/lent", "/opt/lent"}, {os.Args[0], attackPath}},
		Commands: []Command{{Argv: append([]string{attackPath, "attack", "read"}, paths...), Stdout: os.Stdout, Stderr: os.Stdout}}})
	if err != nil || r.Commands[0].ExitCode != 0 {
		fmt.Println(err, r)
		return 1
	}
	return 0
}

// A group of the user opens files that are for few. Root drops all of them; an
// ordinary user cannot, so as little as possible is shown, and the run says
// which groups are left.
func TestGroupsOfTheUser(t *testing.T) {
	t.Parallel()
	e := escape(t, "files of the user's groups")
	needRoot(e)
	dir := shortDir(t, "/tmp")
	must(t, os.Chmod(dir, 0o755))
	for _, sub := range []string{"empty", "home", "tmp", "lent", "tool"} {
		must(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
		must(t, os.Chmod(filepath.Join(dir, sub), 0o777))
	}
	copyProgram(t, self(t), dir+"/attack") // an ordinary user cannot run ours
	var hidden, shown []string
	for _, host := range []string{shortDir(t, "/etc/ssl"), shortDir(t, "/etc"), shortDir(t, "/var/lib"), shortDir(t, "/usr/local"), dir + "/lent", dir + "/tool"} {
		file := filepath.Join(host, "key")
		must(t, os.WriteFile(file, []byte(secret), 0o640))
		must(t, os.Chown(file, 0, testGroup))
		must(t, os.Chmod(host, 0o755))
		at := strings.Replace(file, dir+"/lent", "/opt/lent", 1)
		if strings.HasPrefix(file, "/etc") || strings.HasPrefix(file, "/var") {
			hidden = append(hidden, at)
		} else {
			shown = append(shown, at)
		}
	}
	run := func(uid uint32, groups []uint32) (notEnforced string, through []string) {
		cmd := exec.Command(dir+"/attack", append(append([]string{"grouped", dir}, hidden...), shown...)...)
		cmd.Env = []string{"HOME=" + dir + "/home", "TMPDIR=" + dir + "/tmp", "PATH=" + os.Getenv("PATH"), "GORACE=" + endAtOnce}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("as %d with %d: %v\n%s", uid, groups, err, out)
		}
		stopped, through := verdicts(t, string(out))
		e.All(len(stopped))
		return string(out), through
	}
	named := fmt.Sprint(testGroup)
	for _, tt := range []struct {
		name   string
		uid    uint32
		groups []uint32
	}{{"root", 0, []uint32{testGroup}}, {"user without groups", testUID, nil}} {
		said, through := run(tt.uid, tt.groups)
		e.Check(len(through) == 0 && !strings.Contains(said, "groups:"), "%s: read %q and said\n%s", tt.name, through, said)
	}
	said, through := run(testUID, []uint32{testGroup})
	for _, what := range through {
		e.Check(!strings.Contains(what, "/etc/") && !strings.Contains(what, "/var/"), "user with a group: %s", what)
	}
	// The control and the promise at once: what could be read is said.
	e.Check(len(through) == len(shown) && strings.Contains(said, "\ngroups: ") && strings.Contains(said, named), "user with a group: read %q and said\n%s", through, said)
}
