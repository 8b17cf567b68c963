//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The places of an image in the stage. Their names are short: each layer is one
// in the options of a mount, which have a page.
const (
	stageImage    = stage + "/i"    // numbered clones of its layers
	stageSkeleton = stage + "/skel" // our own layer on top of them
	stageRoot     = stage + "/root" // the stack
)

// caBundle is where programs look for the certificates of authorities.
const caBundle = "etc/ssl/certs/ca-certificates.crt"

func (k *keeper) cloneImage() ([]*clone, error) {
	if k.setup.Image == nil {
		return nil, nil
	}
	clones := make([]*clone, 0, len(k.setup.Image.Layers))
	for _, s := range k.setup.Image.Layers {
		c, err := k.cloneMount(s)
		if err != nil {
			return nil, err
		}
		clones = append(clones, c)
	}
	return clones, nil
}

// mountImage stacks the layers of the image below a layer of ours. Ours has a place
// for each mount that bwrap makes later, and the files of /etc that a sandbox
// needs: on a read-only root nothing could make them.
//
// The stack is mounted twice, since some of those files continue the image's: the
// first time to read them by the rules of an overlay.
func (k *keeper) mountImage(clones []*clone) error {
	if len(clones) == 0 {
		return nil
	}
	var layers []string
	for i, c := range clones {
		at := filepath.Join(stageImage, strconv.Itoa(i))
		if err := c.place(at); err != nil {
			return err
		}
		layers = append(layers, at)
	}
	if err := errors.Join(os.Mkdir(stageSkeleton, 0o755), os.Mkdir(stageRoot, 0o755)); err != nil {
		return err
	}
	if err := stackLayers(append([]string{stageEmpty}, layers...)); err != nil {
		return err
	}
	image, err := os.OpenRoot(stageRoot)
	if err != nil {
		return err
	}
	files, err := k.imageFiles(image)
	if err := errors.Join(err, image.Close(), unix.Unmount(stageRoot, 0)); err != nil {
		return err
	}
	if err := k.writeSkeleton(files); err != nil {
		return err
	}
	if err := stackLayers(append([]string{stageSkeleton}, layers...)); err != nil {
		return err
	}
	k.image = stageRoot
	return nil
}

// stackLayers mounts layers, the highest first, as the root. Marks of the image's
// layers are in the user's name space, as root too: without userxattr what a layer
// deleted would be there again.
func stackLayers(layers []string) error {
	options := "userxattr,lowerdir=" + strings.Join(layers, ":")
	if err := unix.Mount("overlay", stageRoot, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return &os.PathError{Op: "mount the image at", Path: stageRoot, Err: err}
	}
	return nil
}

// imageFiles are the files of /etc in front of the image's.
func (k *keeper) imageFiles(image *os.Root) (map[string]string, error) {
	files := etcFiles()
	passwd, err := readImage(image, "etc/passwd")
	if err != nil {
		return nil, err
	}
	group, err := readImage(image, "etc/group")
	if err != nil {
		return nil, err
	}
	as, err := accountOf(k.setup.Image.User, passwd, group)
	if err != nil {
		return nil, err
	}
	k.as = as
	files["passwd"], files["group"] = as.passwd(passwd), as.group(group)
	files["resolv.conf"] = ""
	if _, err := image.Stat(caBundle); errors.Is(err, fs.ErrNotExist) {
		if text, err := readSmall("/"+caBundle, maxEtcFile); err == nil {
			files[strings.TrimPrefix(caBundle, "etc/")] = string(text)
		}
	}
	return files, nil
}

// readImage reads a small file of the image, "" where it has none. A link that
// leaves the image's root is none: os.Root follows no absolute one.
func readImage(image *os.Root, name string) (string, error) {
	info, err := image.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxAccounts {
		return "", nil //nolint:nilerr // such a file is not continued, ours is there alone
	}
	text, err := image.ReadFile(name)
	if errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %q of the image: %w", name, err)
	}
	return string(text), nil
}

// writeSkeleton fills our layer.
func (k *keeper) writeSkeleton(files map[string]string) error {
	for _, dir := range []string{"/proc", "/dev", "/tmp", insideGoCache, WorkspacePath} {
		if err := os.MkdirAll(stageSkeleton+dir, 0o755); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := skeletonFile(filepath.Join("/etc", name), text); err != nil {
			return err
		}
	}
	for _, b := range k.binds {
		info, err := os.Stat(b.Host)
		switch {
		case err != nil:
		case info.IsDir():
			err = os.MkdirAll(stageSkeleton+b.Inside, 0o755)
		default:
			err = skeletonFile(b.Inside, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func skeletonFile(inside, text string) error {
	at := stageSkeleton + inside
	return errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644))
}

// overlayMarks are the attributes by which an overlay says that a directory of
// the upper layer hides the one below (opaque) or stands for another one
// (redirect, the trace of a rename). Mounts inside a user namespace use the
// user prefix.
var overlayMarks = []string{
	"trusted.overlay.opaque", "trusted.overlay.redirect",
	"user.overlay.opaque", "user.overlay.redirect",
}

// replaces reports whether an upper directory does more than merge with the
// directory below it. Deletions need no look: what is gone is missing in the
// merged view.
func replaces(dir *os.File) (bool, error) {
	for _, name := range overlayMarks {
		var value [1]byte
		_, err := unix.Fgetxattr(int(dir.Fd()), name, value[:])
		switch {
		case err == nil, errors.Is(err, unix.ERANGE): // ERANGE: longer than the buffer
			return true, nil
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPERM):
		default:
			return false, &os.PathError{Op: "getxattr", Path: name, Err: err}
		}
	}
	return false, nil
}

// mountOverlay lays an upper layer over lower, which is one directory or
// several with colons between them, the highest first. All of them are ours; rootOwner becomes the owner of the merged root.
func mountOverlay(lower, upper, work, target string, root, metaCopy bool) error {
	options := "lowerdir=" + lower + ",upperdir=" + upper + ",workdir=" + work
	switch {
	case !root:
		options += ",userxattr"
	case metaCopy:
		// go build refreshes the time stamps of the cache entries it uses:
		// without this each of them would be copied whole.
		options += ",redirect_dir=on,metacopy=on,index=off"
	default:
		options += ",redirect_dir=on,metacopy=off,index=off" // rename(2) of a directory works
	}
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return &os.PathError{Op: "mount overlay", Path: target, Err: err}
	}
	return nil
}

// userXattrs reports whether the file system of dir keeps user attributes,
// which an overlay inside a user namespace needs to replace a directory.
func userXattrs(dir string) bool {
	const probe = "user.remit.probe"
	if unix.Setxattr(dir, probe, []byte("y"), 0) != nil {
		return false
	}
	return unix.Removexattr(dir, probe) == nil
}

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
			tools.onPath(b)
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
