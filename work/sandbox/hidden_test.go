package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/reason"
)

// TestHidden: what no command may see is shown by no toolchain and no bind,
// whatever links lead to it. In the control, where nothing is hidden, the same
// bind shows it.
func TestHidden(t *testing.T) {
	t.Parallel()
	d := open1(t)
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	keys := filepath.Join(top, "state", "keys")
	write(t, filepath.Join(keys, "id"), "secret\n")
	write(t, filepath.Join(top, "state", "tools", "bin", "x"), "")
	must(t, os.Symlink(filepath.Join(top, "state"), filepath.Join(top, "link")))
	must(t, os.Symlink(keys, filepath.Join(top, "keylink")))
	hide, err := hiddenFrom([]string{filepath.Join(top, "keylink"), filepath.Join(top, "link", "not", "yet")})
	must(t, err)
	walled := &bwrap{path: d.path, tools: d.tools, desc: d.desc, hidden: hide}

	for _, dir := range []string{"", "/state", "/state/keys", "/state/keys/id", "/link", "/keylink", "/link/keys"} {
		binds := Spec{Binds: []Bind{{Host: top + dir, Inside: "/seen"}}, Lower: t.TempDir()}
		if o := shell(t, d, binds, "cat /seen /seen/id /seen/keys/id /seen/state/keys/id 2>/dev/null; true"); !strings.Contains(o.out, "secret") {
			t.Errorf("control: %q does not show the secret, so that the test would prove nothing: %q", dir, o.out)
		}
		binds.Commands = []Command{{Argv: []string{"/bin/true"}}}
		if _, err := walled.Run(t.Context(), binds); reason.CodeOf(err) != reason.SandboxUnavailable {
			t.Errorf("%q is shown: %v", dir, err)
		}
	}
	for _, dir := range []string{"/state/tools", "/state/tools/bin/x"} {
		if o := shell(t, walled, Spec{Binds: []Bind{{Host: top + dir, Inside: "/seen"}}, Lower: t.TempDir()}, "test -e /seen && echo seen"); !strings.Contains(o.out, "seen") {
			t.Errorf("%q beside what is hidden is not shown", dir)
		}
	}
	if _, err := Open(t.Context(), Options{StateDir: t.TempDir(), Toolchains: []string{top}, Hidden: []string{keys}}); reason.CodeOf(err) != reason.SandboxUnavailable {
		t.Errorf("a toolchain shows what is hidden: %v", err)
	}
	if _, err := Open(t.Context(), Options{StateDir: t.TempDir(), Hidden: []string{"/usr/local/state/keys"}}); reason.CodeOf(err) != reason.SandboxUnavailable {
		t.Errorf("what lies below /usr counts as hidden: %v", err)
	}
}
