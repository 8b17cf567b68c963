package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"remit/proof/canon"
	"remit/proof/reason"
)

// layoutSource is a directory in OCI's layout.
type layoutSource struct {
	dir    *os.Root
	pinned string
	limits Limits
}

// read opens a regular file of the directory.
func openFile(dir *os.Root, name string) (*os.File, error) {
	info, err := dir.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, reason.Errorf(reason.ImageMissing, "the archive or directory has no %s", plain(name))
	}
	if err != nil {
		return nil, unreadable(err)
	}
	if !info.Mode().IsRegular() {
		return nil, invalid("%s is no file", plain(name))
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, unreadable(err)
	}
	return f, nil
}

func unreadable(err error) error {
	return reason.Errorf(reason.FileUnusable, "the image cannot be read: %w", err)
}

func readFile(dir *os.Root, name string, most int64) ([]byte, error) {
	f, err := openFile(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, most, plain(name))
}

// root returns the image that index.json names: the only one, the one that is
// pinned, or else the index itself, from which the platform chooses.
func (s *layoutSource) root(ctx context.Context) ([]byte, error) {
	raw, err := readFile(s.dir, "index.json", s.limits.Manifest)
	if err != nil {
		return nil, err
	}
	if s.pinned != "" && canon.Digest(raw) == s.pinned {
		return raw, nil
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, invalid("index.json is no JSON: %w", err)
	}
	for _, d := range index.Manifests {
		if d.Digest.String() == s.pinned || s.pinned == "" && len(index.Manifests) == 1 {
			return s.checked(ctx, d)
		}
	}
	if s.pinned != "" {
		return nil, reason.Errorf(reason.ImageMissing, "index.json names no image with the digest %s", s.pinned)
	}
	return raw, nil
}

// checked is a manifest that is what its digest says.
func (s *layoutSource) checked(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	raw, err := s.manifest(ctx, d)
	if err != nil {
		return nil, err
	}
	if got := canon.Digest(raw); got != d.Digest.String() {
		return nil, reason.Errorf(reason.ImageDigest, "the manifest has the digest %s and not %s", got, d.Digest)
	}
	return raw, nil
}

func (s *layoutSource) manifest(_ context.Context, d v1.Descriptor) ([]byte, error) {
	return readFile(s.dir, blobName(d.Digest), s.limits.Manifest)
}

func (s *layoutSource) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	return openFile(s.dir, blobName(d.Digest))
}

func blobName(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// docker reads what `docker save` writes. Its image has no manifest with a digest:
// the digest of the configuration, docker's own id of an image, is in its place.
func docker(dir *os.Root, ref Reference, l Limits) (*picture, error) {
	raw, err := readFile(dir, "manifest.json", l.Manifest)
	if err != nil {
		return nil, err
	}
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, invalid("manifest.json is no JSON: %w", err)
	}
	for _, m := range list {
		config, err := readFile(dir, m.Config, l.Manifest)
		if err != nil {
			return nil, err
		}
		p := &picture{digest: canon.Digest(config)}
		if ref.Digest == "" && len(list) > 1 || ref.Digest != "" && p.digest != ref.Digest {
			continue
		}
		for _, name := range m.Layers {
			p.layers = append(p.layers, layerSource{open: func(context.Context) (io.ReadCloser, error) { return openFile(dir, name) }})
		}
		return p, p.configure(config, l)
	}
	if ref.Digest != "" {
		return nil, reason.Errorf(reason.ImageMissing, "the archive has no image with the id %s", ref.Digest)
	}
	return nil, reason.Errorf(reason.ImageReference, "the archive has %d images", len(list)).
		WithHint("name one: docker-archive:FILE@sha256:ID")
}

// Bounds on an archive of an image, which has one entry for each part of it.
const (
	maxArchiveEntries = 4096
	maxArchiveName    = 300
	maxArchiveDepth   = 8
)

// unpackArchive writes the files of an archive below dir, which is empty. It
// takes plain files, directories, and links to files of the same archive, which
// older versions of docker write for a layer that is there twice.
func unpackArchive(ctx context.Context, f io.Reader, dir *os.Root, l Limits) error {
	t := tar.NewReader(f)
	var total int64
	links := map[string]string{}
	for n := 0; ; n++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return invalid("the file is no archive of an image: %w", err)
		}
		if n == maxArchiveEntries {
			return tooLarge("the archive has more than %d entries", maxArchiveEntries)
		}
		name, err := archiveName(h.Name)
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			continue
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), h.Linkname) //nolint:gosec // G305: a key of a map, no path of a file
			continue
		case tar.TypeLink:
			links[name] = path.Clean(h.Linkname)
			continue
		case tar.TypeReg:
		default:
			return invalid("the entry %q of the archive is no file", plain(name))
		}
		if name == "." {
			return invalid("the archive has a file without a name")
		}
		if total += h.Size; h.Size < 0 || total > l.Blob {
			return tooLarge("the archive has more than %d bytes", l.Blob)
		}
		if err := writeNew(dir, name, t); err != nil {
			return err
		}
	}
	for name, target := range links {
		if _, err := archiveName(target); err != nil || dir.Link(target, name) != nil {
			return invalid("the entry %q of the archive is a link to no file of it", plain(name))
		}
	}
	return nil
}

func archiveName(name string) (string, error) {
	clean := path.Clean(name)
	if len(name) > maxArchiveName || !fs.ValidPath(clean) || strings.ContainsAny(name, "\x00\\") || strings.Count(clean, "/") > maxArchiveDepth {
		return "", invalid("the archive has an entry with the name %q", plain(name))
	}
	return clean, nil
}

func writeNew(dir *os.Root, name string, r io.Reader) error {
	if err := dir.MkdirAll(path.Dir(name), 0o700); err != nil {
		return invalid("the entry %q of the archive is below a file", plain(name))
	}
	w, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return invalid("the archive has the entry %q twice", plain(name))
	}
	if err != nil {
		return unusable(err)
	}
	if _, err = io.Copy(w, r); err != nil { // the size of every entry was counted
		err = writing(err, func(cause error) error { return invalid("the archive is broken: %w", cause) })
	}
	return errors.Join(err, w.Close())
}

// writing tells an error of the disk from one of what is read.
func writing(err error, otherwise func(error) error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok && at.Op == "write" {
		return unusable(err)
	}
	return otherwise(err)
}
