//go:build linux

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"remit/proof/reason"
	"remit/work/tree"
)

// treeAndLayer are a tree with one package in it, and the dependencies of both.
func treeAndLayer(t testing.TB) (lower string, layer Layer) {
	t.Helper()
	lower = t.TempDir()
	write(t, lower+"/index.js", "tracked")
	write(t, lower+"/packages/a/index.js", "tracked too")
	host := t.TempDir()
	write(t, host+"/node_modules/left/index.js", "left")
	write(t, host+"/node_modules/left/lib/deep.js", "deep")
	write(t, host+"/packages/a/node_modules/right/index.js", "right")
	must(t, os.Symlink("../packages/a", host+"/node_modules/a"))
	return lower, Layer{Host: host, Paths: []string{"node_modules", "packages/a/node_modules"}}
}

func TestLayerIsAboveTheTree(t *testing.T) {
	t.Parallel()
	drivers := layers(t)
	drivers["none"] = openNone(t, t.TempDir())
	for name, d := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lower, layer := treeAndLayer(t)
			before := state(t, lower) + state(t, layer.Host)
			o := shell(t, d, Spec{Lower: lower, Layers: []Layer{layer}, Capture: true, SpoolDir: t.TempDir()}, `
				cat index.js node_modules/left/index.js node_modules/a/index.js packages/a/node_modules/right/index.js
				echo mine >index.js; echo new >packages/a/new.js
				echo worse >node_modules/left/index.js; rm -r node_modules/left/lib
				mkdir node_modules/.vite; echo cache >node_modules/.vite/results.json
				rm -r packages/a/node_modules`)
			if o.out != "trackedlefttracked tooright" {
				t.Errorf("seen: %q", o.out)
			}
			if got := shown(t, o.Changes); got != `file "index.js" "mine\n"|file "packages/a/new.js" "new\n"` {
				t.Errorf("changes of the tree: %s", got)
			}
			want := LayerChanges{Total: 4, Added: []string{"node_modules/.vite/results.json"},
				Replaced: []string{"node_modules/left/index.js", "node_modules/left/lib", "packages/a/node_modules"}}
			if got := o.Layers; !reflect.DeepEqual(got, want) {
				t.Errorf("changes of the layer: %+v", got)
			}
			if state(t, lower)+state(t, layer.Host) != before {
				t.Error("the tree or the layer was written to")
			}
			o = shell(t, d, Spec{Lower: lower, Layers: []Layer{layer}, Capture: true, SpoolDir: t.TempDir()},
				`cat node_modules/left/lib/deep.js; test ! -e node_modules/.vite`)
			if o.out != "deep" || o.Layers.Total != 0 || len(o.Changes) != 0 {
				t.Errorf("the next run sees what the one before left: %q %+v %s", o.out, o.Layers, shown(t, o.Changes))
			}
		})
	}
}

func TestSeveralLayers(t *testing.T) {
	t.Parallel()
	for name, d := range layers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lower, layer := treeAndLayer(t)
			other := t.TempDir()
			write(t, other+"/packages/a/.venv/bin/tool", "tool")
			o := shell(t, d, Spec{Lower: lower, Layers: []Layer{layer, {other, []string{"packages/a/.venv"}}}, Capture: true, SpoolDir: t.TempDir()},
				`cat packages/a/.venv/bin/tool packages/a/node_modules/right/index.js packages/a/index.js; rm -r packages/a; ln -s ../.. packages/a`)
			if o.out != "toolrighttracked too" {
				t.Errorf("seen: %q", o.out)
			}
			if got := shown(t, o.Changes); got != `symlink "packages/a" -> "../.."` && got != `delete "packages/a"|symlink "packages/a" -> "../.."` {
				t.Errorf("changes of the tree: %s", got)
			}
			if o.Layers.Total != 2 {
				t.Errorf("a link in the place of the directories counts for each layer: %+v", o.Layers)
			}
		})
	}
}

// An overlay hides what is below without a word, so everything that could be
// hidden, or come in unseen, is refused before.
func TestLayersThatAreRefused(t *testing.T) {
	t.Parallel()
	d := openNone(t, t.TempDir()) // the check is before any driver's work
	for name, c := range map[string]struct {
		code   reason.Code
		change func(t *testing.T, lower string, s *Spec)
	}{
		"path in the tree": {reason.LayerOverlap, func(t *testing.T, lower string, _ *Spec) { write(t, lower+"/node_modules/own/index.js", "") }},
		"file on the way": {reason.LayerOverlap, func(t *testing.T, lower string, _ *Spec) {
			must(t, os.RemoveAll(lower+"/packages/a"))
			write(t, lower+"/packages/a", "")
		}},
		"link on the way": {reason.LayerOverlap, func(t *testing.T, lower string, _ *Spec) {
			must(t, os.RemoveAll(lower+"/packages/a"))
			must(t, os.Symlink("../elsewhere", lower+"/packages/a"))
		}},
		"link at the path": {reason.LayerOverlap, func(t *testing.T, lower string, _ *Spec) {
			must(t, os.Symlink("/etc", lower+"/node_modules"))
		}},
		"more than its paths": {reason.LayerChanged, func(t *testing.T, _ string, s *Spec) { write(t, s.Layers[0].Host+"/index.js", "hidden") }},
		"more beside a path": {reason.LayerChanged, func(t *testing.T, _ string, s *Spec) {
			write(t, s.Layers[0].Host+"/packages/a/index.js", "hidden")
		}},
		"missing path": {reason.LayerChanged, func(t *testing.T, _ string, s *Spec) {
			must(t, os.RemoveAll(s.Layers[0].Host+"/node_modules"))
		}},
		"link in the layer": {reason.LayerChanged, func(t *testing.T, _ string, s *Spec) {
			must(t, os.RemoveAll(s.Layers[0].Host+"/node_modules"))
			must(t, os.Symlink("packages", s.Layers[0].Host+"/node_modules"))
		}},
		"path outside": {reason.PathTraversal, func(_ *testing.T, _ string, s *Spec) { s.Layers[0].Paths = []string{"../x"} }},
		"same path twice": {reason.LayerOverlap, func(t *testing.T, _ string, s *Spec) {
			_, again := treeAndLayer(t)
			s.Layers = append(s.Layers, again)
		}},
		"patch below a path": {reason.LayerOverlap, func(_ *testing.T, _ string, s *Spec) {
			s.Apply = []tree.Change{text("node_modules/left/index.js", "forged", false)}
		}},
		"patch in the place of a path": {reason.LayerOverlap, func(_ *testing.T, _ string, s *Spec) {
			s.Apply = []tree.Change{{Path: "node_modules", Kind: tree.Symlink, Target: "vendor"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lower, layer := treeAndLayer(t)
			s := Spec{Lower: lower, Layers: []Layer{layer}, Commands: []Command{{Argv: []string{"true"}}}}
			c.change(t, lower, &s)
			_, err := d.Run(context.Background(), s)
			if reason.CodeOf(err) != c.code {
				t.Errorf("got %v, want %s", err, c.code)
			}
		})
	}
}

// A socket in a layer, which the store refuses, would be no way out either.
func TestSocketInLayer(t *testing.T) {
	t.Parallel()
	d := open1(t)
	lower, layer := treeAndLayer(t)
	sock := filepath.Join(layer.Host, "node_modules/s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	short := shortDir(t, "")
	must(t, os.Symlink(filepath.Dir(sock), short+"/d"))
	must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: short + "/d/s"}))
	must(t, syscall.Listen(fd, 1))
	must(t, os.Chmod(sock, 0o777))
	o := shell(t, d, Spec{Lower: lower, Layers: []Layer{layer}},
		`test -S node_modules/s && python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("node_modules/s")' 2>&1 || true`)
	if !strings.Contains(o.out, "Error") {
		t.Errorf("a socket of the host answered: %q", o.out)
	}
}
