package image

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"remit/proof/reason"
)

// resolve returns where the directory of an entry really is, by the rules of the
// image's own root: an absolute link begins there, and no link may leave it. What
// is not there is made; the layer below may have more of it.
func (u *unpacker) resolve(parts []string) (string, error) {
	asked := strings.Join(parts, "/")
	if at, known := u.places[asked]; known {
		return at, nil
	}
	at, links := ".", 0
	for todo := slices.Clone(parts); len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return "", reason.Errorf(reason.ImageLayerLink, "the way to %q leaves the image by a link", plain(asked))
			}
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		info, err := u.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := u.implied(next); err != nil {
				return "", err
			}
			at = next
		case err != nil:
			return "", unusable(err)
		case info.IsDir():
			at = next
		case info.Mode()&fs.ModeSymlink == 0:
			return "", reason.Errorf(reason.ImageLayerEntry, "%q is below something that is no directory", plain(asked))
		default:
			if links++; links > u.budget.limits.Links {
				return "", reason.Errorf(reason.ImageLayerLink, "more than %d links are on the way to %q", u.budget.limits.Links, plain(asked))
			}
			target, err := u.root.Readlink(next)
			if err != nil {
				return "", unusable(err)
			}
			if path.IsAbs(target) {
				at = "."
			}
			todo = append(strings.Split(target, "/"), todo...)
		}
	}
	u.places[asked] = at
	return at, nil
}

// implied makes a directory that no entry named so far.
func (u *unpacker) implied(at string) error {
	if err := u.count(); err != nil {
		return err
	}
	if strings.Count(at, "/") > u.budget.limits.Depth {
		return reason.Errorf(reason.ImageLayerName, "%q is too deep", plain(at))
	}
	if err := u.root.Mkdir(at, 0o700); err != nil {
		return unusable(err)
	}
	u.dirs[at] = attributes{mode: 0o755}
	u.unnamed[at] = true
	return nil
}
