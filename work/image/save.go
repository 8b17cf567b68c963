package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Saved is an image that was made from a directory.
type Saved struct {
	Digest  string `json:"digest"`
	File    string `json:"file"`
	Bytes   int64  `json:"bytes"`
	Entries int64  `json:"entries"`
	Dropped int64  `json:"dropped,omitempty"` // devices, FIFOs and sockets
}

// Config is what an image says of itself.
type Config struct {
	Env  []string
	User string
}

// Save writes an image of one layer, from a directory such as debootstrap makes,
// into an archive in OCI's layout. The same directory gives the same digest: names
// are sorted, everything belongs to root, and the times are those of the files.
func Save(ctx context.Context, dir, file string, c Config) (*Saved, error) {
	if err := checkEnv(c.Env); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, unreadable(err)
	}
	defer root.Close()
	out, err := create(dir, file)
	if err != nil {
		return nil, err
	}
	saved := &Saved{File: file}
	err = saved.write(ctx, root, out, c)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(file))
	}
	return saved, nil
}

// create makes the file, which is not there yet and not in the directory.
func create(dir, file string) (*os.File, error) {
	at, err := filepath.EvalSymlinks(dir)
	if err == nil {
		at, err = filepath.Abs(at)
	}
	to, toErr := filepath.EvalSymlinks(filepath.Dir(file))
	if toErr == nil {
		to, toErr = filepath.Abs(to)
	}
	if err := errors.Join(err, toErr); err != nil {
		return nil, unreadable(err)
	}
	if to == at || strings.HasPrefix(to, at+"/") {
		return nil, reason.Errorf(reason.FileUnusable, "%q is in the directory that it would hold", file)
	}
	out, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, reason.Errorf(reason.OutputExists, "%q is already there", file)
	}
	if err != nil {
		return nil, reason.Errorf(reason.FileUnusable, "%q cannot be written: %w", file, err)
	}
	return out, nil
}

// write makes the layer in a temporary file, since an archive names its parts by
// digest and size before it has them.
func (s *Saved) write(ctx context.Context, root *os.Root, out *os.File, c Config) error {
	layer, err := os.CreateTemp(filepath.Dir(out.Name()), ".layer-")
	if err != nil {
		return reason.Errorf(reason.FileUnusable, "beside the file nothing can be written: %w", err)
	}
	defer layer.Close()
	if err := os.Remove(layer.Name()); err != nil {
		return unreadable(err)
	}
	packed, plainText := sha256.New(), sha256.New()
	z, err := gzip.NewWriterLevel(io.MultiWriter(layer, packed), gzip.BestSpeed)
	if err != nil {
		return err
	}
	t := tar.NewWriter(io.MultiWriter(z, plainText))
	if err := errors.Join(s.tree(ctx, root, t), t.Close(), z.Close()); err != nil {
		return err
	}
	size, err := layer.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = layer.Seek(0, io.SeekStart)
	}
	if err != nil {
		return unreadable(err)
	}
	diffID, err := v1.NewHash(canon.DigestSum(plainText))
	if err != nil {
		return err
	}
	blob, err := v1.NewHash(canon.DigestSum(packed))
	if err != nil {
		return err
	}
	config, configAt, err := encode(types.OCIConfigJSON, v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux",
		Config: v1.Config{Env: c.Env, User: c.User}, RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diffID}}})
	if err != nil {
		return err
	}
	manifest, manifestAt, err := encode(types.OCIManifestSchema1, v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: configAt,
		Layers: []v1.Descriptor{{MediaType: types.OCILayer, Size: size, Digest: blob}}})
	if err != nil {
		return err
	}
	index, _, err := encode(types.OCIImageIndex, v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{manifestAt}})
	if err != nil {
		return err
	}
	a := tar.NewWriter(out)
	layout := []byte(`{"imageLayoutVersion":"1.0.0"}`)
	err = errors.Join(part(a, "oci-layout", int64(len(layout)), bytes.NewReader(layout)), part(a, "index.json", int64(len(index)), bytes.NewReader(index)),
		part(a, blobName(manifestAt.Digest), int64(len(manifest)), bytes.NewReader(manifest)),
		part(a, blobName(configAt.Digest), int64(len(config)), bytes.NewReader(config)), part(a, blobName(blob), size, layer), a.Close())
	s.Digest, s.Bytes = manifestAt.Digest.String(), size
	return err
}

func encode(kind types.MediaType, v any) ([]byte, v1.Descriptor, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, v1.Descriptor{}, err
	}
	h, err := v1.NewHash(canon.Digest(text))
	return text, v1.Descriptor{MediaType: kind, Size: int64(len(text)), Digest: h}, err
}

func part(a *tar.Writer, name string, size int64, r io.Reader) error {
	if err := a.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
		return err
	}
	_, err := io.Copy(a, r)
	return err
}

// tree writes every entry of a directory.
func (s *Saved) tree(ctx context.Context, root *os.Root, t *tar.Writer) error {
	var walk func(dir string) error
	walk = func(dir string) error {
		entries, err := fs.ReadDir(root.FS(), dir)
		if err != nil {
			return unreadable(err)
		}
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			at := path.Join(dir, e.Name())
			if strings.HasPrefix(e.Name(), whiteout) {
				return reason.Errorf(reason.ImageLayerName, "%q would be read as a mark that hides a file", plain(at))
			}
			isDir, err := s.entry(root, t, at)
			if err == nil && isDir {
				err = walk(at)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return walk(".")
}

func (s *Saved) entry(root *os.Root, t *tar.Writer, at string) (isDir bool, err error) {
	info, err := root.Lstat(at)
	if err != nil {
		return false, unreadable(err)
	}
	h := &tar.Header{Name: at, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(1e9), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, at+"/"
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = root.Readlink(at); err != nil {
			return false, unreadable(err)
		}
	case info.Mode().IsRegular():
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
	default:
		s.Dropped++
		return false, nil
	}
	s.Entries++
	if err := t.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return info.IsDir(), err
	}
	f, err := root.Open(at)
	if err != nil {
		return false, unreadable(err)
	}
	_, err = io.Copy(t, f)
	return false, errors.Join(err, f.Close())
}
