package agent

import (
	"path/filepath"
	"slices"
	"testing"

	"remit/work/sandbox"
)

// TestLend: what is not needed is not shown, and one mount does where nothing
// else is there.
func TestLend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := plant(t, dir, "@x/a", "1.0.0", `,"dependencies":{"b":"1"}`)
	b := plant(t, dir, "b", "1.0.0", "")
	plant(t, a, "c", "1.0.0", "") // lies in a, and comes with it
	root := filepath.Join(dir, "node_modules")
	packages := []*Package{{Dir: a, Name: "@x/a"}, {Dir: filepath.Join(a, "node_modules/c"), Name: "c"}, {Dir: b, Name: "b"}}
	if root != packages[0].Modules() || root != packages[2].Modules() {
		t.Errorf("%q %q", packages[0].Modules(), packages[2].Modules())
	}
	lend := func() []sandbox.Bind {
		out, err := Lend(root, packages, "/in")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := lend(); !slices.Equal(got, []sandbox.Bind{{Host: root, Inside: "/in"}}) {
		t.Errorf("alone: %+v", got)
	}
	plant(t, dir, "@x/other", "1.0.0", "")
	if got := lend(); !slices.Equal(got, []sandbox.Bind{{Host: a, Inside: "/in/@x/a"}, {Host: b, Inside: "/in/b"}}) {
		t.Errorf("beside another: %+v", got)
	}
	packages[2].Dir = t.TempDir()
	if out, err := Lend(root, packages, "/in"); err == nil {
		t.Errorf("a package elsewhere: %+v", out)
	}
}

// TestOwner: only what a package manager installed is a package.
func TestOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scoped := plant(t, dir, "@x/a", "1.0.0", "", "bin/run")
	write(t, filepath.Join(dir, "package.json"), `{"name":"project","version":"1.0.0"}`)
	write(t, filepath.Join(dir, "run"), "")
	for file, want := range map[string]string{
		filepath.Join(scoped, "bin/run"):                        "@x/a",
		filepath.Join(plant(t, dir, "b", "1.0.0", ""), "x/run"): "b",
		filepath.Join(dir, "run"):                               "",
		filepath.Join(dir, "node_modules/@x/none/run"):          "",
	} {
		p, err := Owner(file)
		if err != nil || (p == nil) != (want == "") || p != nil && p.Name != want {
			t.Errorf("%s: %+v %v", file, p, err)
		}
	}
	if p, err := Owner(filepath.Join(plant(t, dir, "broken", `1.0.0","x":[`, ""), "run")); err == nil {
		t.Errorf("broken: %+v", p)
	}
}
