//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
