package image

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Kind says where an image comes from.
type Kind string

// The kinds of references. Each but the first is the prefix of a path.
const (
	Registry      Kind = "registry"
	Layout        Kind = "oci"
	LayoutArchive Kind = "oci-archive"
	DockerArchive Kind = "docker-archive"
)

// Reference names an image.
type Reference struct {
	Text   string // as it was given
	Kind   Kind
	Path   string // of a directory or archive
	Digest string // sha256:… where the reference is pinned, else ""

	remote name.Reference // of a registry
}

// Parse reads a reference.
func Parse(text string) (Reference, error) {
	ref := Reference{Text: text, Kind: Registry}
	if len(text) > 4096 || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return ref, reason.Errorf(reason.ImageReference, "a reference has at most 4096 printable characters")
	}
	rest, pin, pinned := strings.Cut(text, "@")
	if pinned {
		if !canon.ValidDigest(pin) {
			return ref, notAReference(text, "behind @ stands sha256: and 64 lower-case hexadecimal digits")
		}
		ref.Digest = pin
	}
	for _, kind := range []Kind{Layout, LayoutArchive, DockerArchive} {
		if path, ok := strings.CutPrefix(rest, string(kind)+":"); ok {
			if path == "" {
				return ref, notAReference(text, "behind %s: stands a path", kind)
			}
			ref.Kind, ref.Path = kind, path
			return ref, nil
		}
	}
	if strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "/") {
		return ref, notAReference(text, "a path has its form in front: oci:DIR, oci-archive:FILE or docker-archive:FILE")
	}
	last := rest[strings.LastIndexByte(rest, '/')+1:]
	if !pinned && !strings.Contains(last, ":") {
		return ref, notAReference(text, "name a tag or a digest: %s:TAG", rest)
	}
	var err error
	if ref.remote, err = name.ParseReference(text); err != nil {
		return ref, notAReference(text, "a name is [HOST/]PATH in lower-case letters, digits, dots, dashes and underscores")
	}
	return ref, nil
}

func notAReference(text, format string, args ...any) error {
	return reason.Errorf(reason.ImageReference, "%.200q is no reference to an image", text).WithHint(format, args...)
}

// Pinned reads a reference that has to have a digest, and needs nothing else: the
// form in which a policy names an image.
func Pinned(text string) (digest string, err error) {
	ref, err := Parse(text)
	if err != nil {
		return "", err
	}
	if ref.Digest == "" {
		return "", reason.Errorf(reason.ImageReference, "%.200q has no digest, so it could mean another image tomorrow", text).
			WithHint("`remit env image pull %s` prints it with its digest", text)
	}
	return ref.Digest, nil
}

// From reports whether the image comes from a registry, by its host as a reference
// has it: docker.io, registry.internal:5000.
func (r Reference) From(host string) bool {
	if r.remote == nil {
		return false
	}
	named, err := name.NewRegistry(host)
	return err == nil && named.RegistryStr() == r.remote.Context().RegistryStr()
}

// CheckHost refuses what is no host of a registry.
func CheckHost(host string) error {
	if named, err := name.NewRegistry(host); err != nil || host == "" || named.Name() == "" {
		return notAReference(host, "a registry is HOST or HOST:PORT, as in docker.io or registry.internal:5000")
	}
	return nil
}

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
