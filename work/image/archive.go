package image

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

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
