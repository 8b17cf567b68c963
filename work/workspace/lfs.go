package workspace

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"remit/work/git"
)

// An LFS pointer is a small text; the specification keeps it below 1024 bytes.
const (
	maxPointer    = 1024
	maxAttributes = 1 << 20
)

// usesLFS says whether any .gitattributes file speaks of LFS. Without one, a pointer is just a text file.
func usesLFS(b *git.Batch, attributes []string) (bool, error) {
	uses := false
	err := b.Each(attributes, func(o git.Object, r io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(r, maxAttributes))
		uses = uses || bytes.Contains(text, []byte("filter=lfs"))
		return err
	})
	return uses, err
}

// findLFSPointers returns the paths of blobs that are pointers. Only small blobs are read.
func findLFSPointers(ctx context.Context, d git.Dir, b *git.Batch, blobs map[string]string) ([]string, error) {
	paths := slices.Sorted(maps.Keys(blobs))
	ids := make([]string, len(paths))
	for i, path := range paths {
		ids[i] = blobs[path]
	}
	sizes, err := d.Sizes(ctx, ids)
	if err != nil {
		return nil, err
	}
	var small, smallPaths []string
	for i, size := range sizes {
		if size > 0 && size < maxPointer {
			small, smallPaths = append(small, ids[i]), append(smallPaths, paths[i])
		}
	}
	pointers := []string{}
	err = b.Each(small, func(o git.Object, r io.Reader) error {
		text, err := io.ReadAll(r)
		if _, ok := parsePointer(text); ok {
			pointers = append(pointers, smallPaths[o.Index])
		}
		return err
	})
	return pointers, err
}

// pointer is what an LFS pointer says of the real content.
type pointer struct {
	sha256 string
	size   int64
}

func parsePointer(text []byte) (pointer, bool) {
	if len(text) >= maxPointer || !bytes.HasPrefix(text, []byte("version https://git-lfs.github.com/spec/")) {
		return pointer{}, false
	}
	p := pointer{size: -1}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "oid":
			p.sha256, _ = strings.CutPrefix(value, "sha256:")
		case "size":
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				p.size = n
			}
		}
	}
	return p, git.SHA256.IsID(p.sha256) && p.size >= 0
}
