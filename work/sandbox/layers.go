package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/tree"
)

// Layer is a host directory whose content is mounted above the base tree: each
// of Paths, a directory relative to the workspace, stands below Host under the
// same name, and nothing else does. Everything in it belongs to the owner of Host.
type Layer struct {
	Host  string
	Paths []string
}

// The bounds on layers. Each is a directory in the options of one mount.
const (
	MaxLayers     = 16
	MaxLayerPaths = 512
)

// LayerChanges is what commands changed at or below the paths of the layers. It
// is gone with the Run, and no part of a patch.
type LayerChanges struct {
	Total int64 `json:"total"`
	// Replaced are paths of a layer that were changed or removed, Added those that
	// no layer had: the first MaxLayerChanges of each, by name.
	Replaced []string `json:"replaced,omitempty"`
	Added    []string `json:"added,omitempty"`
	// Bounded says that there was more than could be looked at.
	Bounded bool `json:"bounded,omitempty"`
}

// MaxLayerChanges bounds the names in LayerChanges.
const MaxLayerChanges = 100

// checkLayers resolves the layers, and refuses one that would hide a part of the
// tree, another layer or what the Run lays over the tree, or that has more than
// its paths: an overlay would show all of that without a word.
func checkLayers(lower string, layers []Layer, apply []tree.Change) ([]Layer, error) {
	if len(layers) == 0 {
		return nil, nil
	}
	if len(layers) > MaxLayers {
		return nil, fmt.Errorf("sandbox: %d layers, at most %d are possible", len(layers), MaxLayers)
	}
	root, err := os.OpenRoot(lower)
	if err != nil {
		return nil, fmt.Errorf("sandbox: base tree: %w", err)
	}
	defer root.Close()
	out := make([]Layer, len(layers))
	var all []string
	for i, l := range layers {
		host, err := directory(l.Host)
		if err != nil {
			return nil, fmt.Errorf("sandbox: layer: %w", err)
		}
		out[i] = Layer{host, slices.Clone(l.Paths)}
		all = append(all, l.Paths...)
		if err := out[i].check(root); err != nil {
			return nil, err
		}
	}
	if len(all) > MaxLayerPaths {
		return nil, fmt.Errorf("sandbox: the layers have %d paths, at most %d are possible", len(all), MaxLayerPaths)
	}
	for i, p := range all {
		for j, q := range all {
			if i != j && atOrBelow(p, q) {
				return nil, reason.Errorf(reason.LayerOverlap, "sandbox: the layer path %q is at or below another one, %q", p, q)
			}
		}
	}
	for _, c := range apply {
		for _, p := range all {
			if atOrBelow(c.Path, p) {
				return nil, reason.Errorf(reason.LayerOverlap, "sandbox: the change of %q is below %q, where a layer of dependencies is", c.Path, p).
					WithHint("a patch cannot change installed dependencies: leave that path out of it")
			}
		}
	}
	return out, nil
}

// atOrBelow reports whether p is at or below dir.
func atOrBelow(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// check holds one layer against the tree.
func (l Layer) check(base *os.Root) error {
	if len(l.Paths) == 0 {
		return fmt.Errorf("sandbox: the layer %q has no paths", l.Host)
	}
	host, err := os.OpenRoot(l.Host)
	if err != nil {
		return fmt.Errorf("sandbox: layer: %w", err)
	}
	defer host.Close()
	way := map[string]map[string]bool{}
	for _, p := range l.Paths {
		if !tree.ValidPath(p) {
			return reason.Errorf(reason.PathTraversal, "sandbox: the layer path %q is not below the workspace", p)
		}
		if err := freePath(base, p); err != nil {
			return err
		}
		for at := p; at != "."; at = path.Dir(at) {
			info, err := host.Lstat(at)
			if err != nil || !info.IsDir() {
				return reason.Errorf(reason.LayerChanged, "sandbox: the layer has no directory %q", at)
			}
			parent := path.Dir(at)
			if way[parent] == nil {
				way[parent] = map[string]bool{}
			}
			way[parent][path.Base(at)] = true
		}
	}
	for dir, names := range way {
		entries, err := fs.ReadDir(host.FS(), dir)
		if err != nil {
			return fmt.Errorf("sandbox: layer: %w", err)
		}
		for _, e := range entries {
			if !names[e.Name()] {
				return reason.Errorf(reason.LayerChanged, "sandbox: the layer has %q, which is below none of its paths", path.Join(dir, e.Name()))
			}
		}
	}
	return nil
}

// freePath refuses a path that the tree has, or that is behind something in the
// tree which is no directory.
func freePath(base *os.Root, p string) error {
	parts := strings.Split(p, "/")
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		info, err := base.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("sandbox: look for %q in the base tree: %w", at, err)
		case at == p || !info.IsDir():
			return reason.Errorf(reason.LayerOverlap, "sandbox: %q is in the base tree, and would be hidden by the layer at %q", at, p).
				WithHint("do not track %s, or name other paths in environment.prepare", at)
		}
	}
	return nil
}
