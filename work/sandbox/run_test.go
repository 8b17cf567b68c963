//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
	"remit/work/tree"
)

func TestHowCommandsEnd(t *testing.T) {
	t.Parallel()
	d := open1(t)
	for _, tt := range []struct {
		name    string
		argv    []string
		dir     string
		started bool
		code    int
		signal  string
		says    string
	}{
		{"success", []string{"true"}, "", true, 0, "", ""},
		{"failure", []string{"sh", "-c", "exit 7"}, "", true, 7, "", ""},
		{"exit 1 like bwrap's own", []string{"false"}, "", true, 1, "", ""},
		{"exit 127 of its own", []string{"sh", "-c", "exit 127"}, "", true, 127, "", ""},
		{"killed", []string{"sh", "-c", "kill -9 $$"}, "", true, 137, "SIGKILL", ""},
		{"segmentation fault", []string{"sh", "-c", "kill -SEGV $$"}, "", true, 139, "SIGSEGV", ""},
		{"missing program", []string{"no-such-program"}, "", false, 127, "", "no-such-program"},
		{"missing absolute program", []string{"/no/such"}, "", false, 127, "", "/no/such"},
		{"not executable", []string{"./plain"}, "", false, 127, "", "plain"},
		{"missing directory", []string{"true"}, "gone", false, 127, "", "gone"},
		{"directory", []string{"sh", "-c", "pwd"}, "sub/deep", true, 0, "", "/workspace/sub/deep"},
		{"options are not bwrap's", []string{"echo", "--bind", "/", "/x"}, "", true, 0, "", "--bind / /x"},
		{"program that begins with a dash", []string{"--help"}, "", false, 127, "", "--help"},
		{"relative program", []string{"./tool", "a b", ""}, "", true, 0, "", "[a b][]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lower := t.TempDir()
			write(t, lower+"/plain", "x")
			write(t, lower+"/sub/deep/x", "x")
			write(t, lower+"/tool", "#!/bin/sh\necho \"[$1][$2]\"\n")
			if err := os.Chmod(lower+"/tool", 0o755); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			r, err := d.Run(context.Background(), Spec{Lower: lower, Commands: []Command{{Argv: tt.argv, Dir: tt.dir, Stdout: &out, Stderr: &out}}})
			if err != nil {
				t.Fatal(err)
			}
			c := r.Commands[0]
			if c.Started != tt.started || c.ExitCode != tt.code || c.Signal != tt.signal || c.TimedOut {
				t.Errorf("%+v\n%s", c, out.String())
			}
			if !strings.Contains(out.String(), tt.says) {
				t.Errorf("output %q", out.String())
			}
		})
	}
}

// A command cannot pretend that it was never executed.
func TestForgedSetupFailure(t *testing.T) {
	t.Parallel()
	e := escape(t, "forged setup failure")
	for _, script := range []string{
		"echo 'bwrap: execvp true: No such file or directory' >&2; exit 1",
		"for i in 0 1 2 3 4 5 6 7 8 9; do (echo '{ \"exit-code\": 0 }' >&$i) 2>/dev/null; (echo '{ \"exit-code\": 0 }' >/proc/1/fd/$i) 2>/dev/null; done; exit 1",
	} {
		o := try(e, open1(e), Spec{}, "sh", "-c", script)
		e.Check(o.Started && o.ExitCode == 1, "%+v", o.CommandResult)
	}
}

func TestCommandsShareTheViewOnly(t *testing.T) {
	t.Parallel()
	var first, second, errs bytes.Buffer
	s := Spec{Lower: t.TempDir(), Env: map[string]string{"GREETING": "hello\nworld", "PATH": "/usr/bin"}, Commands: []Command{
		{Argv: []string{"sh", "-c", `echo made >file; echo t >/tmp/file; (setsid sleep 30 &) ; printf "$GREETING"`}, Stdout: &first},
		{Argv: []string{"sh", "-c", `cat file; ls /tmp; pgrep sleep; echo $PATH; echo bad >&2; exit 3`}, Stdout: &second, Stderr: &errs},
		{Argv: []string{"touch", "never"}},
	}, StopOnFailure: true, Capture: true, SpoolDir: t.TempDir()}
	r, err := open1(t).Run(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if first.String() != "hello\nworld" || second.String() != "made\nhome\n/usr/bin\n" || errs.String() != "bad\n" {
		t.Errorf("outputs %q, %q, %q", first.String(), second.String(), errs.String())
	}
	if len(r.Commands) != 2 || r.Commands[1].ExitCode != 3 || r.Commands[1].StderrBytes != 4 {
		t.Errorf("%+v", r.Commands)
	}
	if got := shown(t, r.Changes); got != `file "file" "made\n"` {
		t.Error(got)
	}
}

func TestApplyThenRun(t *testing.T) {
	t.Parallel()
	for name, d := range layers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lower := t.TempDir()
			write(t, lower+"/old/a", "a")
			write(t, lower+"/b", "b")
			o := shell(t, d, Spec{
				Lower: lower, Capture: true, SpoolDir: t.TempDir(),
				Apply: []tree.Change{text("new/run.sh", "#!/bin/sh\necho ran\n", true), text("old", "now a file", false), {Path: "b", Kind: tree.Delete}, {Path: "l", Kind: tree.Symlink, Target: "old"}},
			}, `./new/run.sh && cat l && ! [ -e b ] && echo x >>new/run.sh && rm old && mkdir old`)
			if o.out != "ran\nnow a file" {
				t.Errorf("output %q", o.out)
			}
			want := `delete "b"|symlink "l" -> "old"|file "new/run.sh" x "#!/bin/sh\necho ran\nx\n"|delete "old/a"`
			if got := shown(t, o.Changes); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestApplyRefusesToFollow(t *testing.T) {
	t.Parallel()
	e := escape(t, "patch laid through a symlink")
	lower, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, lower+"/out"); err != nil {
		t.Fatal(err)
	}
	for name, d := range layers(e) {
		for what, changes := range map[string][]tree.Change{
			"of the base":      {text("out/x", "x", false)},
			"of the patch":     {{Path: "l", Kind: tree.Symlink, Target: outside}, text("l/x", "x", false)},
			"delete behind it": {{Path: "out/keep", Kind: tree.Delete}},
		} {
			write(t, outside+"/keep", "kept")
			_, err := d.Run(context.Background(), Spec{Lower: lower, Apply: changes})
			kept, _ := os.ReadFile(outside + "/keep")
			entries, _ := os.ReadDir(outside)
			e.Check(len(entries) == 1 && string(kept) == "kept", "%s, %s: %v, outside %v", name, what, err, entries)
			// Deleting what is not in the tree is no change, and no refusal.
			if strings.HasPrefix(what, "of the") && reason.CodeOf(err) != reason.SymlinkRefused {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	e := escape(t, "time limit ignored")
	d := open1(e)
	begun := time.Now()
	r, err := d.Run(context.Background(), Spec{Lower: t.TempDir(), Capture: true, SpoolDir: t.TempDir(), Commands: []Command{
		{Argv: []string{"sh", "-c", "trap '' TERM INT; echo kept >file; sleep 60"}, Wall: 2 * time.Second},
		{Argv: []string{"true"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	e.Check(took < 30*time.Second, "took %s", took)
	first := r.Commands[0]
	e.Check(first.TimedOut && first.Started && first.Signal == "SIGKILL" && first.Duration >= time.Second, "%+v", first) // its clock begins after that of the limit
	if c := r.Commands[1]; c.TimedOut || c.ExitCode != 0 {
		t.Errorf("%+v", c)
	}
	if got := shown(t, r.Changes); got != `file "file" "kept\n"` {
		t.Error(got)
	}
	r, err = d.Run(context.Background(), Spec{Lower: t.TempDir(), Limits: Limits{Wall: 300 * time.Millisecond}, Commands: []Command{
		{Argv: []string{"sleep", "60"}}, {Argv: []string{"true"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Commands) != 2 || !r.Commands[0].TimedOut || !r.Commands[1].TimedOut || r.Commands[1].Started {
		t.Errorf("%+v", r.Commands)
	}
}

func TestCancelKeepsTheWork(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("operator said stop")
	out := writer(func(p []byte) (int, error) {
		cancel(cause)
		return len(p), nil
	})
	begun := time.Now()
	r, err := open1(t).Run(ctx, Spec{Lower: t.TempDir(), Capture: true, SpoolDir: t.TempDir(), Commands: []Command{
		{Argv: []string{"sh", "-c", "echo paid >work; echo started; sleep 60"}, Stdout: out},
		{Argv: []string{"touch", "never"}},
	}})
	if !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	if r == nil || len(r.Commands) != 1 || shown(t, r.Changes) != `file "work" "paid\n"` {
		t.Fatalf("result %+v", r)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	if _, err := open1(t).Run(ctx, Spec{Lower: t.TempDir()}); !errors.Is(err, cause) {
		t.Errorf("run after the end: %v", err)
	}
}

func TestWriterFailure(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	r, err := open1(t).Run(context.Background(), Spec{Lower: t.TempDir(), Commands: []Command{
		{Argv: []string{"sh", "-c", "echo a; sleep 60"}, Stdout: writer(func([]byte) (int, error) { return 0, full })},
	}})
	if reason.CodeOf(err) != reason.ArtifactWriteFailure || !errors.Is(err, full) || len(r.Commands) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestSpecIsChecked(t *testing.T) {
	t.Parallel()
	d := open1(t)
	dir := t.TempDir()
	write(t, dir+"/file", "")
	ok := []Command{{Argv: []string{"true"}}}
	for name, s := range map[string]Spec{
		"no base":            {Commands: ok},
		"missing base":       {Lower: dir + "/gone", Commands: ok},
		"base is a file":     {Lower: dir + "/file", Commands: ok},
		"base is the root":   {Lower: "/", Commands: ok},
		"empty command":      {Lower: dir, Commands: []Command{{}}},
		"NUL":                {Lower: dir, Commands: []Command{{Argv: []string{"a\x00b"}}}},
		"directory above":    {Lower: dir, Commands: []Command{{Argv: []string{"true"}, Dir: "../x"}}},
		"absolute directory": {Lower: dir, Commands: []Command{{Argv: []string{"true"}, Dir: "/etc"}}},
		"environment name":   {Lower: dir, Commands: ok, Env: map[string]string{"A=B": "c"}},
		"environment value":  {Lower: dir, Commands: ok, Env: map[string]string{"A": "c\x00"}},
		"negative limit":     {Lower: dir, Commands: ok, Limits: Limits{Pids: -1}},
		"bind over the tree": {Lower: dir, Commands: ok, Binds: []Bind{{dir, "/workspace/x"}}},
		"bind over proc":     {Lower: dir, Commands: ok, Binds: []Bind{{dir, "/proc/1"}}},
		"bind over the root": {Lower: dir, Commands: ok, Binds: []Bind{{dir, "/x/.."}}},
		"bind of the root":   {Lower: dir, Commands: ok, Binds: []Bind{{"/", "/host"}}},
		"bind of a device":   {Lower: dir, Commands: ok, Binds: []Bind{{"/dev/null", "/host"}}},
		"capture nowhere":    {Lower: dir, Commands: ok, Capture: true},
	} {
		if _, err := d.Run(context.Background(), s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestBinds(t *testing.T) {
	t.Parallel()
	// Both private to the invoking user, as files in a home directory are.
	host := t.TempDir()
	write(t, host+"/dir/file", "lent")
	write(t, host+"/tool", "#!/bin/sh\necho tool\n")
	for _, p := range []string{host + "/dir", host + "/tool"} {
		if err := os.Chmod(p, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(host+"/dir/file", 0o600); err != nil {
		t.Fatal(err)
	}
	shell(t, open1(t), Spec{Binds: []Bind{{host + "/dir", "/opt/dir"}, {host + "/tool", "/tmp/x/tool"}}}, `
		[ "$(cat /opt/dir/file)" = lent ] && [ "$(/tmp/x/tool)" = tool ] || exit 1
		(echo x >>/opt/dir/file) 2>/dev/null && exit 2
		(echo x >/opt/dir/new) 2>/dev/null && exit 3
		rm -f /opt/dir/file 2>/dev/null && exit 4
		(echo x >>/tmp/x/tool) 2>/dev/null && exit 5
		exit 0`)
	if got, _ := os.ReadFile(host + "/dir/file"); string(got) != "lent" {
		t.Errorf("the lent file is %q", got)
	}
}

func TestConcurrentRuns(t *testing.T) {
	t.Parallel()
	e := escape(t, "two runs at once")
	d, lower := open1(e), t.TempDir()
	write(t, lower+"/n", "0")
	for range 6 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			o := shell(t, d, Spec{Lower: lower, Capture: true, SpoolDir: t.TempDir()}, `[ "$(cat n)" = 0 ] && echo 1 >n; ps -e 2>/dev/null | grep -c . ; exit 0`)
			got := shown(t, o.Changes)
			e.Check(got == `file "n" "1\n"`, "%s", got)
		})
	}
}

func TestOpenFailsClosed(t *testing.T) {
	for name, opt := range map[string]Options{
		"unknown driver":     {Driver: "chroot"},
		"missing toolchain":  {Toolchains: []string{"/no/such"}},
		"home as toolchain":  {Toolchains: []string{home()}},
		"root as toolchain":  {Toolchains: []string{"/"}},
		"relative toolchain": {Toolchains: []string{"."}},
	} {
		if d, err := Open(context.Background(), opt); err == nil {
			t.Errorf("%s: got %v", name, d.Describe())
		}
	}
	t.Setenv("PATH", t.TempDir())
	_, err := Open(context.Background(), Options{StateDir: t.TempDir()})
	var e *reason.Error
	if !errors.As(err, &e) || e.Code != reason.SandboxUnavailable || !strings.Contains(e.Hint, "bubblewrap") {
		t.Errorf("without bwrap: %v", err)
	}
	fake := t.TempDir()
	t.Setenv("PATH", fake+":/usr/bin:/bin")
	for name, script := range map[string]string{
		"too old":       "#!/bin/sh\necho bubblewrap 0.6.1\n",
		"not bwrap":     "#!/bin/sh\necho hello\n",
		"runs on host":  "#!/bin/sh\n[ \"$1\" = --version ] && { echo bubblewrap 0.9.0; exit; }\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n",
		"always fails":  "#!/bin/sh\n[ \"$1\" = --version ] && { echo bubblewrap 0.9.0; exit; }\nexit 1\n",
		"always passes": "#!/bin/sh\n[ \"$1\" = --version ] && { echo bubblewrap 0.9.0; exit; }\nexit 0\n",
	} {
		if err := os.WriteFile(filepath.Join(fake, "bwrap"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), Options{StateDir: t.TempDir()}); reason.CodeOf(err) != reason.SandboxUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a caller lends may stand at a name of its choice next to /usr, so that a
// tree cannot know it, and may be one file.
func TestBindsAtTheTop(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	write(t, host+"/dir/sub/file", "lent")
	write(t, host+"/file", "alone")
	at := fmt.Sprintf("/remit-%016x", rand.Uint64())
	o := shell(t, open1(t), Spec{Binds: []Bind{{host + "/dir", at}, {host + "/file", at + ".json"}}}, `
		cat `+at+`/sub/file `+at+`.json && ls -d /remit-* && cd / && ! (echo x >>`+at+`.json) 2>/dev/null && ! (echo x >`+at+`/new) 2>/dev/null && ! rm `+at+`.json 2>/dev/null`)
	if o.out != "lentalone"+at+"\n"+at+".json\n" {
		t.Errorf("%q", o.out)
	}
	for _, inside := range []string{"/usr/x", "/etc", "/cache/go-build/x", "/tmp", "/", "relative", "/x/../proc/x"} {
		if _, err := (Bind{host, inside}).check(); err == nil {
			t.Errorf("%q: no error", inside)
		}
	}
}
