package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/tree"
)

// Options of a pull.
type Options struct {
	// Private lets the registry, and what it leads to, have a private address and
	// speak plain HTTP.
	Private bool
	// Anonymous leaves out the user's credentials: who asks may not be the user.
	Anonymous bool
	// Again unpacks what is there already, and resolves a tag anew.
	Again bool
	// Report is called for each step, if it is set.
	Report func(string)
}

// Pull gets an image: into the store, checked and unpacked. What is there already
// is not asked for again, and a tag means what it meant the first time.
func (s *Store) Pull(ctx context.Context, ref Reference, opt Options) (*Image, error) {
	if opt.Report == nil {
		opt.Report = func(string) {}
	}
	release, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if !opt.Again && (ref.Kind == Registry || ref.Digest != "") {
		if digest, err := s.Resolve(ref); err == nil {
			if img, err := s.Find(digest); err == nil {
				return &img.Image, nil
			}
		}
	}
	p, done, err := s.look(ctx, ref, opt)
	if err != nil {
		return nil, err
	}
	defer done()
	img, err := s.unpack(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	if _, err := s.stack(img); err != nil {
		return nil, err
	}
	return img, s.note(ref, img)
}

// look opens the source of a reference, and reads what the image is.
func (s *Store) look(ctx context.Context, ref Reference, opt Options) (*picture, func(), error) {
	if ref.Kind == Registry {
		p, err := look(ctx, ref, openRemote(ref, opt, s.limits), s.limits)
		return p, func() {}, err
	}
	dir := ref.Path
	if ref.Kind != Layout {
		opt.Report("reading the archive")
		var err error
		if dir, err = s.openArchive(ctx, ref.Path); err != nil {
			return nil, nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, unreadable(err)
	}
	var p *picture
	if ref.Kind == DockerArchive {
		p, err = docker(root, ref, s.limits)
	} else {
		p, err = look(ctx, Reference{Digest: ""}, &layoutSource{root, ref.Digest, s.limits}, s.limits)
	}
	if err != nil {
		return nil, nil, errors.Join(err, root.Close())
	}
	return p, func() { _ = root.Close() }, nil
}

func (s *Store) openArchive(ctx context.Context, file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", unreadable(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > s.limits.Blob {
		return "", errors.Join(reason.Errorf(reason.FileUnusable, "%q is no file of at most %d bytes", file, s.limits.Blob), err)
	}
	dir, err := os.MkdirTemp(filepath.Join(s.dir, stagingDir), "archive-")
	if err != nil {
		return "", unusable(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", unusable(err)
	}
	defer root.Close()
	return dir, unpackArchive(ctx, f, root, s.limits)
}

// unpack gets the layers that the store does not have.
func (s *Store) unpack(ctx context.Context, p *picture, opt Options) (*Image, error) {
	c := p.config.Config
	img := &Image{V: metaVersion, Digest: p.digest, Index: p.index, Platform: p.config.OS + "/" + p.config.Architecture,
		Env: c.Env, WorkingDir: c.WorkingDir, User: c.User, Entrypoint: c.Entrypoint, Cmd: c.Cmd, PulledAt: time.Now().UTC().Truncate(time.Second)}
	if err := checkEnv(c.Env); err != nil {
		return nil, err
	}
	b := &budget{s.limits, s.limits.Bytes, s.limits.Entries}
	for i, l := range p.layers {
		id := l.diffID.String()
		meta, err := s.meta(id)
		if err == nil && !opt.Again {
			err = s.intact(meta)
		}
		if err != nil || opt.Again {
			opt.Report(fmt.Sprintf("layer %d of %d", i+1, len(p.layers)))
			if meta, err = s.makeLayer(ctx, l, b); err != nil {
				return nil, inLayer(i, id, err)
			}
		}
		img.Layers = append(img.Layers, Layer{id, meta.Bytes, meta.Entries, meta.Dropped})
	}
	return img, nil
}

// inLayer says which layer an error is about.
func inLayer(i int, id string, err error) error {
	if e, ok := errors.AsType[*reason.Error](err); ok {
		return &reason.Error{Code: e.Code, Message: fmt.Sprintf("layer %d (%s): %s", i+1, id, e.Message), Err: e.Err, Hint: e.Hint}
	}
	return fmt.Errorf("layer %d (%s): %w", i+1, id, err)
}

// makeLayer downloads and unpacks a layer, and puts it into its place.
func (s *Store) makeLayer(ctx context.Context, l layerSource, b *budget) (*layerMeta, error) {
	staging := filepath.Join(s.dir, stagingDir)
	blob, err := download(ctx, l, staging, s.limits)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	dir, err := os.MkdirTemp(staging, "layer-")
	if err != nil {
		return nil, unusable(err)
	}
	files := filepath.Join(dir, treeDir)
	if err := os.Mkdir(files, 0o700); err != nil {
		return nil, unusable(err)
	}
	root, err := os.OpenRoot(files)
	if err != nil {
		return nil, unusable(err)
	}
	defer root.Close()
	meta, err := unpackLayer(ctx, blob, l.diffID.String(), root, b)
	if err != nil {
		return nil, err
	}
	if meta.Index, err = indexOf(files); err != nil {
		return nil, err
	}
	if err := s.write(filepath.Join(dir, metaName), meta); err != nil {
		return nil, err
	}
	to := s.layer(meta.DiffID)
	if err := errors.Join(tree.Sync(dir), clearPlace(to, staging), os.Rename(dir, to)); err != nil {
		return nil, unusable(err)
	}
	return meta, nil
}

// clearPlace moves away what is in the place of a layer that is made again.
func clearPlace(to, staging string) error {
	old := filepath.Join(staging, "old-"+filepath.Base(to))
	if err := os.Rename(to, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// note records the image, and what the reference meant.
func (s *Store) note(ref Reference, img *Image) error {
	names := []string{img.Digest}
	if img.Index != "" {
		names = append(names, img.Index)
	}
	for _, digest := range names {
		if err := s.write(s.record(imagesDir, digest), img); err != nil {
			return err
		}
	}
	t := tag{ref.Text, img.Digest, img.PulledAt}
	if ref.Digest == "" && img.Index != "" {
		t.Digest = img.Index
	}
	if err := s.write(s.record(tagsDir, canon.Digest([]byte(ref.Text))), t); err != nil {
		return err
	}
	list, err := s.List()
	if i := slices.IndexFunc(list, func(other *Image) bool { return other.Digest == img.Digest }); i >= 0 {
		img.References = list[i].References
	}
	return err
}
