//go:build linux

package sandbox

import (
	"maps"
	"slices"
)

// withRoot implements rootable. The host's own language installations are left
// out: they are programs for another root. What the user lends by name stays, and
// so do the modules that the tree names, which are data.
func (d *bwrap) withRoot(r Root) (Driver, error) {
	layers := make([]string, len(r.Layers))
	for i, dir := range r.Layers {
		var err error
		if layers[i], err = directory(dir); err != nil {
			return nil, err
		}
	}
	r.Layers = layers
	desc := d.Describe()
	desc.Config[ConfigImage] = r.Digest
	if r.User != "" {
		desc.Config["image_user"] = r.User
	}
	if desc.Config["go_build_cache"] != "" {
		desc.Config["go_build_cache"] = "empty"
	}
	tools := toolchain{env: maps.Clone(d.tools.env), modCache: d.tools.modCache}
	for _, b := range d.tools.binds {
		if b.Inside != insideGoRoot {
			tools.binds = append(tools.binds, b)
			tools.pathDirs = append(tools.pathDirs, b.Inside+"/bin")
			tools.hostDirs = append(tools.hostDirs, b.Host+"/bin")
		}
	}
	return &bwrap{path: d.path, tools: tools, hidden: d.hidden, desc: desc, control: d.control, memory: d.memory, image: &r}, nil
}

// imageSource is a Root as the keeper shows it.
type imageSource struct {
	Layers []source `json:"layers"`
	User   string   `json:"user,omitempty"`
}

// showImage describes the root for the keeper.
func (d *bwrap) showImage(show func(host, inside string) (source, error)) (*imageSource, error) {
	if d.image == nil {
		return nil, nil
	}
	out := &imageSource{User: d.image.User}
	for _, dir := range d.image.Layers {
		src, err := show(dir, "")
		if err != nil {
			return nil, err
		}
		out.Layers = append(out.Layers, src)
	}
	return out, nil
}

// environment is what commands of this driver have in theirs.
func (d *bwrap) environment(s Spec, lent bool) map[string]string {
	first := append(s.pathDirs(WorkspacePath), d.tools.pathDirs...)
	env := environment(s, insideHome, "/tmp", slices.Clone(first))
	for name, value := range d.tools.env {
		if _, set := env[name]; !set {
			env[name] = value
		}
	}
	if _, set := env["GOMODCACHE"]; lent && !set {
		env["GOMODCACHE"] = insideModCache
	}
	if d.image != nil {
		d.image.environment(env, s, first)
	}
	return env
}
