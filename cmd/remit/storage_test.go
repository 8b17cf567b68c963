package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/reason"
)

// storage are the ways in which a disk takes no more writes. A run says so with
// a reason, claims nothing, and can be taken up when there is room again.
var storage = &tally.Table{Name: "full and read-only disks", Rows: []string{
	"the home fills up",
	"a part of the home is read-only",
}}

// budgets are sizes of a disk in KiB, from one too small for the first directory
// to one that is large enough, where a run that had room left used KiB. While it
// runs it uses up to 1 MiB more, for the log of its authority: what lies between may do.
func budgets(t testing.TB, used int) []int {
	t.Helper()
	if _, soak := soaking(t); !soak {
		return []int{4, 64, used / 4, used / 2, 2 * used, 2*used + 150, 4 * used}
	}
	var all []int
	for k := 4; k < used*3; k += 24 {
		all = append(all, k)
	}
	return all
}

// onSmallDisk runs the program, as root, where the home is a disk of so many
// KiB; then the disk grows, and what is left is looked at.
const onSmallDisk = `
remit=$1 out=$2 size=$3
shift 3
cd "$out"
mount --make-rprivate / || exit 77
mkdir -p "$REMIT_HOME" && mount -t tmpfs -o size=${size}k,mode=0700 remit-test "$REMIT_HOME" || exit 77
"$remit" run "$@" >run.out 2>run.err; echo $? >run.code
df -k --output=used "$REMIT_HOME" >used
mount -o remount,size=64m "$REMIT_HOME" || exit 1
"$remit" list --json >list.json || exit 1
if ls -d "$REMIT_HOME"/.autopilot/sessions/2* >/dev/null 2>&1; then
	"$remit" audit latest >audit.before 2>&1; echo $? >audit.before.code
	"$remit" resume latest --json >resume.json 2>resume.err; echo $? >resume.code
	"$remit" audit latest >audit.after 2>&1; echo $? >audit.after.code
fi
"$remit" run "$@" >again.out 2>&1; echo $? >again.code
ls "$REMIT_HOME/work" >work.left 2>/dev/null
exit 0
`

func TestHomeFillsUp(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	c := storage.Row(t, "the home fills up")
	tally.AtItsTurn(c, 5, 8)
	if os.Geteuid() != 0 {
		c.Skip("mounting a small disk needs root")
	}
	repo := gitRepo(t, map[string]string{"a.txt": "a\n"})
	untouched(t, repo)
	onDisk := func(kib int) (out string, ran bool) {
		s, out := newScene(t, repo), t.TempDir()
		cmd := s.command(t, "/bin/sh", append([]string{"-c", onSmallDisk, "sh", program(), out, strconv.Itoa(kib)}, s.run()[1:]...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		text, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77 {
			c.Skipf("this root cannot mount: %v %s", err, text)
		}
		if err != nil {
			t.Fatalf("%d KiB: %v\n%s", kib, err, text)
		}
		if got := judgeSmallDisk(t, out); got == "" {
			c.Check(true, "")
		} else {
			c.Check(false, "%d KiB: %s\n%s%s%s", kib, got, written(out, "run.out"), written(out, "run.err"), written(out, "resume.err"))
		}
		return out, written(out, "run.code") == "0\n"
	}
	out, ran := onDisk(64 << 10)
	fields := strings.Fields(written(out, "used"))
	if !ran || len(fields) != 2 {
		t.Fatalf("with 64 MiB of room: %s%s%q", written(out, "run.out"), written(out, "run.err"), fields)
	}
	used, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	full := 0
	for _, kib := range budgets(t, used) {
		if _, ran := onDisk(kib); !ran {
			full++
		}
	}
	if c.Add("full", full); full < 4 {
		t.Errorf("the disk was full only %d times, so the loop shows little", full)
	}
}

func written(dir, name string) string {
	text, _ := os.ReadFile(filepath.Join(dir, name)) // what is not there says nothing
	return string(text)
}

// judgeSmallDisk returns what is wrong with the answers in a directory.
func judgeSmallDisk(t testing.TB, out string) string {
	t.Helper()
	code := strings.TrimSpace(written(out, "run.code"))
	said := written(out, "run.out") + written(out, "run.err")
	switch {
	case code != "0" && code != "2" && code != "3":
		return "the run ended with exit code " + code
	case code != "0" && !strings.Contains(said, "no space left") && !strings.Contains(said, "reason    "):
		return "the run does not say why"
	case written(out, "again.code") != "0\n":
		return "with room again a run ends with exit code " + written(out, "again.code") + written(out, "again.out")
	case written(out, "work.left") != "":
		return "left in the work directory: " + written(out, "work.left")
	}
	var rows []sessionRow
	if err := json.Unmarshal([]byte(written(out, "list.json")), &rows); err != nil {
		return "list: " + err.Error()
	}
	if len(rows) == 0 {
		if code == "0" {
			return "a run that passed is not listed"
		}
		return ""
	}
	row := rows[len(rows)-1]
	audited := written(out, "audit.before.code")
	if code == "0" && audited != "0\n" || code != "0" && row.Status == "pass" && audited == "0\n" {
		return fmt.Sprintf("exit code %s, listed as %s, audit %s", code, row.Status, audited)
	}
	if written(out, "audit.after.code") != "0\n" {
		return "resumed, it does not audit: " + written(out, "resume.err") + written(out, "audit.after")
	}
	return ""
}

// withoutWrites makes a directory read-only for what runs then: for root, whom
// no mode stops, by a mount.
const withoutWrites = `
mount --make-rprivate / && mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77
shift
exec "$@"
`

// TestReadOnlyHome takes the permission to write from the home and from each
// directory in it.
func TestReadOnlyHome(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	c := storage.Row(t, "a part of the home is read-only")
	tally.AtItsTurn(c, 1, 2)
	repo := gitRepo(t, map[string]string{"a.txt": "a\n"})
	untouched(t, repo)
	s := newScene(t, repo)
	if out, err := s.command(t, program(), s.run()...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, part := range []string{".", "sandbox", ".autopilot", ".autopilot/sessions", "work", "local", "cache"} {
		before := len(s.list(t))
		dir := filepath.Join(s.home, part)
		cmd := s.command(t, program(), s.run()...)
		if os.Geteuid() == 0 {
			cmd = s.command(t, "/bin/sh", append([]string{"-c", withoutWrites, "sh", dir, program()}, s.run()...)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		} else {
			modes(t, dir, "u-w")
		}
		text, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		modes(t, dir, "u+w") // so that it can be removed
		code := cmd.ProcessState.ExitCode()
		if code == 77 {
			c.Skipf("this root cannot mount: %s", text)
		}
		denied := strings.Contains(string(text), "read-only file system") || strings.Contains(string(text), "permission denied")
		c.Check(code == 3 && denied && strings.Contains(string(text), "hint"), "%s read-only: exit code %d\n%s", part, code, text)
		if n := len(s.list(t)); n > before+1 {
			t.Errorf("%s read-only: %d sessions, %d before", part, n, before)
		}
	}
}

// modes changes the modes of a directory and those below it.
func modes(t testing.TB, dir, change string) {
	t.Helper()
	if out, err := exec.Command("find", dir, "-type", "d", "-exec", "chmod", change, "{}", "+").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestRefusedByDisk: what the place of sessions refuses has a code of its own,
// and so has every other file.
func TestRefusedByDisk(t *testing.T) {
	t.Parallel()
	at := func(path string, err error) error {
		return fmt.Errorf("doing it: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	for name, tt := range map[string]struct {
		err  error
		code reason.Code
	}{
		"full":                {at("/home/me/state/local/x", syscall.ENOSPC), reason.HomeUnusable},
		"over quota":          {at("/home/me/state/x", syscall.EDQUOT), reason.HomeUnusable},
		"read-only":           {at("/home/me/state", syscall.EROFS), reason.HomeUnusable},
		"denied":              {at("/home/me/state/x", syscall.EACCES), reason.HomeUnusable},
		"rename":              {&os.LinkError{Op: "rename", Old: "/a", New: "/home/me/state/x", Err: syscall.ENOSPC}, reason.HomeUnusable},
		"absent":              {at("/home/me/state/x", syscall.ENOENT), reason.FileUnusable},
		"denied elsewhere":    {at("/home/me/repo/x", syscall.EACCES), reason.FileUnusable},
		"a neighbour's place": {at("/home/me/state2/x", syscall.EACCES), reason.FileUnusable},
		"no path":             {syscall.ENOSPC, ""},
		"a wrong flag":        {asUsage(at("/x", syscall.ENOENT)), ""},
	} {
		got := refusedByDisk(tt.err, "/home/me/state")
		if reason.CodeOf(got) != tt.code || !errors.Is(got, tt.err) {
			t.Errorf("%s: %v, want %q", name, got, tt.code)
		}
	}
	coded := reason.Errorf(reason.SessionBusy, "busy: %w", at("/home/me/state/x", syscall.EACCES))
	if got := refusedByDisk(coded, "/home/me/state"); reason.CodeOf(got) != reason.SessionBusy {
		t.Errorf("a reason was replaced: %v", got)
	}
}
