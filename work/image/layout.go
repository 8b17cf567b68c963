package image

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

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
