package image

import (
	"context"
	"encoding/json"
	"io"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"remit/proof/canon"
	"remit/proof/reason"
)

// source is where the parts of an image are.
type source interface {
	// root returns the manifest or index that the reference means.
	root(ctx context.Context) ([]byte, error)
	// manifest returns one that an index names.
	manifest(ctx context.Context, d v1.Descriptor) ([]byte, error)
	// blob opens a configuration or layer. Its bytes are not checked yet.
	blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
}

// picture is an image whose manifest and configuration were checked.
type picture struct {
	digest string // of the manifest, or of the configuration where there is none
	index  string // of the index that it was chosen from, "" for none
	config *v1.ConfigFile
	layers []layerSource
}

// layerSource is a layer that was not read yet.
type layerSource struct {
	diffID v1.Hash
	blob   v1.Descriptor // without a digest in a docker archive
	open   func(context.Context) (io.ReadCloser, error)
}

// maxIndexed bounds how many indexes may lie in each other.
const maxIndexed = 3

// look reads an image's manifest and configuration, and holds them against their
// digests and this machine.
func look(ctx context.Context, ref Reference, s source, l Limits) (*picture, error) {
	raw, err := s.root(ctx)
	if err != nil {
		return nil, err
	}
	p := &picture{digest: canon.Digest(raw)}
	if ref.Digest != "" && p.digest != ref.Digest {
		return nil, reason.Errorf(reason.ImageDigest, "the manifest has the digest %s and not %s", p.digest, ref.Digest)
	}
	for depth := 0; ; depth++ {
		more, err := isIndex(raw)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if depth == maxIndexed {
			return nil, invalid("more than %d indexes lie in each other", maxIndexed)
		}
		if p.index == "" {
			p.index = p.digest
		}
		d, err := choose(raw)
		if err != nil {
			return nil, err
		}
		if raw, err = s.manifest(ctx, d); err != nil {
			return nil, err
		}
		if p.digest = canon.Digest(raw); p.digest != d.Digest.String() {
			return nil, reason.Errorf(reason.ImageDigest, "a manifest of the index has the digest %s and not %s", p.digest, d.Digest)
		}
	}
	var m v1.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, invalid("the manifest is no JSON: %w", err)
	}
	if m.SchemaVersion != 2 || m.Config.MediaType != types.DockerConfigJSON && m.Config.MediaType != types.OCIConfigJSON {
		return nil, invalid("the manifest is not one of an image of version 2")
	}
	config, err := readConfig(ctx, s, m.Config, l)
	if err != nil {
		return nil, err
	}
	for _, d := range m.Layers {
		if err := layerKind(d); err != nil {
			return nil, err
		}
		p.layers = append(p.layers, layerSource{blob: d, open: func(ctx context.Context) (io.ReadCloser, error) { return s.blob(ctx, d) }})
	}
	return p, p.configure(config, l)
}

// isIndex tells an index from a manifest by its content alone: what a registry
// says of its kind is covered by no digest.
func isIndex(raw []byte) (bool, error) {
	var shape struct {
		Manifests json.RawMessage `json:"manifests"`
		Layers    json.RawMessage `json:"layers"`
		Config    json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(raw, &shape); err != nil {
		return false, invalid("the manifest is no JSON: %w", err)
	}
	if shape.Manifests != nil && (shape.Layers != nil || shape.Config != nil) {
		return false, invalid("one document is a manifest and an index at once")
	}
	return shape.Manifests != nil, nil
}

// choose finds the image of this machine in an index.
func choose(raw []byte) (v1.Descriptor, error) {
	var index v1.IndexManifest
	if err := json.Unmarshal(raw, &index); err != nil {
		return v1.Descriptor{}, invalid("the index is no JSON: %w", err)
	}
	var there []string
	for _, d := range index.Manifests {
		if !d.MediaType.IsImage() && !d.MediaType.IsIndex() {
			continue // an attestation or signature beside the images
		}
		if d.Platform == nil && len(index.Manifests) == 1 {
			return d, nil
		}
		if d.Platform == nil {
			continue
		}
		if ours(d.Platform.OS, d.Platform.Architecture) {
			return d, nil
		}
		there = append(there, plain(d.Platform.String()))
	}
	return v1.Descriptor{}, reason.Errorf(reason.ImagePlatform, "the index has no image for linux/%s, but %s", runtime.GOARCH, few(there))
}

func ours(system, processor string) bool { return system == "linux" && processor == runtime.GOARCH }

func few(names []string) string {
	if len(names) == 0 {
		return "none that says its platform"
	}
	return strings.Join(names[:min(len(names), 10)], ", ")
}

func readConfig(ctx context.Context, s source, d v1.Descriptor, l Limits) ([]byte, error) {
	r, err := s.blob(ctx, d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := readAll(r, l.Manifest, "the configuration")
	if err != nil {
		return nil, said(err)
	}
	if got := canon.Digest(raw); got != d.Digest.String() {
		return nil, reason.Errorf(reason.ImageDigest, "the configuration has the digest %s and not %s", got, d.Digest)
	}
	return raw, nil
}

// configure takes over a configuration whose digest was checked.
func (p *picture) configure(raw []byte, l Limits) error {
	p.config = &v1.ConfigFile{}
	if err := json.Unmarshal(raw, p.config); err != nil {
		return invalid("the configuration is no JSON: %w", err)
	}
	if c := p.config; !ours(c.OS, c.Architecture) {
		return reason.Errorf(reason.ImagePlatform, "the image is made for %s, and this machine is linux/%s", plain(c.OS+"/"+c.Architecture), runtime.GOARCH)
	}
	ids := p.config.RootFS.DiffIDs
	if len(ids) != len(p.layers) || len(ids) == 0 {
		return invalid("the configuration names %d layers and the manifest %d", len(ids), len(p.layers))
	}
	if len(ids) > l.Layers {
		return tooLarge("the image has %d layers, at most %d are possible", len(ids), l.Layers)
	}
	for i, id := range ids {
		if id.Algorithm != "sha256" || len(id.Hex) != 64 {
			return invalid("the diff id of layer %d is no SHA-256 digest", i+1)
		}
		p.layers[i].diffID = id
		if p.layers[i].blob.Size > l.Blob {
			return tooLarge("layer %d has %d bytes, at most %d are possible", i+1, p.layers[i].blob.Size, l.Blob)
		}
	}
	return nil
}

// layerKind refuses layers that lie elsewhere, and what is no layer at all.
func layerKind(d v1.Descriptor) error {
	if len(d.URLs) > 0 || d.MediaType == types.DockerForeignLayer || !d.MediaType.IsDistributable() {
		return reason.Errorf(reason.ImageForeignLayer, "the layer %s lies outside of its registry", d.Digest)
	}
	if !d.MediaType.IsLayer() {
		return invalid("the layer %s is of the kind %q", d.Digest, plain(string(d.MediaType)))
	}
	if d.Digest.Algorithm != "sha256" || len(d.Digest.Hex) != 64 || d.Size < 0 {
		return invalid("a layer has no SHA-256 digest or no size")
	}
	return nil
}

// readAll reads what is small, and says what it is only of its size.
func readAll(r io.Reader, most int64, what string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, tooLarge("%s has more than %d bytes", what, most)
	}
	return b, nil
}

func invalid(format string, args ...any) error {
	return reason.Errorf(reason.ImageManifest, format, args...)
}

func tooLarge(format string, args ...any) error {
	return reason.Errorf(reason.ImageTooLarge, format, args...)
}

// plain is foreign text in an error: short, and printable.
func plain(s string) string {
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
}
