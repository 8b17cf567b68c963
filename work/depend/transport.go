package depend

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"remit/proof/reason"
	"remit/work/tree"
)

// A layer travels as one tar, compressed with zstd: first its manifest, then
// everything in it, in the order of the listing, with normalised headers.

// exportedTree is the directory of the tar that has the content.
const exportedTree = "tree/"

// Export writes the layer, which is compared with its manifest first.
func (l *Layer) Export(ctx context.Context, to io.Writer) error {
	if err := l.Check(ctx); err != nil {
		return err
	}
	z, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	err = l.export(ctx, w)
	for _, close := range []func() error{w.Close, z.Close} {
		if closeErr := close(); err == nil {
			err = closeErr
		}
	}
	if err != nil && reason.CodeOf(err) == "" && ctx.Err() == nil {
		err = reason.Errorf(reason.FileUnusable, "writing the layer: %w", err)
	}
	return err
}

func (l *Layer) export(ctx context.Context, w *tar.Writer) error {
	m := l.Manifest
	m.Imported = false // who takes it says so
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: manifestFile, Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	return eachEntry(l.Tree, func(name string, d fs.DirEntry) error {
		if err := context.Cause(ctx); err != nil || name == "." || d.IsDir() {
			return err
		}
		return l.exportEntry(w, name, d)
	}, nil)
}

func (l *Layer) exportEntry(w *tar.Writer, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	h := &tar.Header{Name: exportedTree + name, Mode: int64(info.Mode().Perm()), ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg, Size: info.Size()}
	if d.Type() == fs.ModeSymlink {
		h.Typeflag, h.Size, h.Mode = tar.TypeSymlink, 0, 0o777
		if h.Linkname, err = os.Readlink(l.Tree + "/" + name); err != nil {
			return err
		}
		return w.WriteHeader(h)
	}
	f, err := os.Open(l.Tree + "/" + name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// maxZstdWindow bounds the memory of a decoder.
const maxZstdWindow = 64 << 20

// Import takes a layer from a stream that Export wrote. The file is hostile: what
// no layer may have is refused, sizes are bounded, and the content must be what the
// manifest says. Directories follow from the files in them.
func (s *Store) Import(ctx context.Context, from io.Reader) (*Layer, error) {
	z, err := zstd.NewReader(from, zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, notALayer(err)
	}
	defer z.Close()
	r := tar.NewReader(z)
	h, err := r.Next()
	if err != nil || h.Name != manifestFile || h.Typeflag != tar.TypeReg || h.Size > maxManifest {
		return nil, notALayer(errors.Join(err, errors.New("it does not begin with a manifest")))
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, notALayer(err)
	}
	m, err := decodeManifest(text)
	if err == nil && m.ContentSHA256 == "" {
		err = errors.New("the manifest has no digest of the content")
	}
	for _, p := range m.Recipe.Paths {
		if err == nil && !tree.ValidPath(p) {
			err = fmt.Errorf("%.200q is no path of a layer", p)
		}
	}
	if err != nil {
		return nil, notALayer(err)
	}
	m.Imported = true
	return s.seal(ctx, m, func(visit func(tree.Change) error) error { return eachMember(r, m.Recipe.Paths, visit) })
}

func notALayer(err error) error {
	return reason.Errorf(reason.LayerInvalid, "the file is no layer: %w", err).WithHint("export it again, with `remit env export KEY FILE`")
}

// eachMember reads the content of the tar.
func eachMember(r *tar.Reader, paths []string, visit func(tree.Change) error) error {
	seen, left := map[string]bool{}, int64(tree.MaxTotalBytes)
	for n := 0; ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return notALayer(err)
		}
		name, inTree := cutPrefix(h.Name)
		if left -= h.Size; left < 0 || n > tree.MaxEntries {
			return reason.Errorf(reason.ResourceLimit, "the layer has more than %d bytes or %d entries", int64(tree.MaxTotalBytes), tree.MaxEntries)
		}
		if !inTree || !tree.ValidPath(name) || seen[name] || !below(name, paths) {
			return notALayer(fmt.Errorf("it has %.200q, which is at none of its paths, or twice", h.Name))
		}
		seen[name] = true
		c := tree.Change{Path: name, Size: h.Size}
		switch h.Typeflag {
		case tar.TypeReg:
			c.Kind, c.Executable = tree.File, h.Mode&0o100 != 0
			if h.Mode&^0o777 != 0 {
				c.Kind, c.Note = tree.Special, tree.NoteSetuid
			}
			c.Open = func() (io.ReadCloser, error) { return io.NopCloser(r), nil }
		case tar.TypeSymlink:
			c.Kind, c.Target, c.Size = tree.Symlink, h.Linkname, int64(len(h.Linkname))
		default:
			c.Kind, c.Note = tree.Special, tree.NoteDevice
		}
		if err := visit(c); err != nil {
			return err
		}
	}
}

func cutPrefix(name string) (string, bool) {
	if len(name) > len(exportedTree) && name[:len(exportedTree)] == exportedTree {
		return name[len(exportedTree):], true
	}
	return name, false
}
