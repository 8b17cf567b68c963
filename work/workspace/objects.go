package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"remit/work/git"
)

const (
	// maxHeld is the largest blob that is read into memory at once; larger ones are streamed by a process of their own.
	maxHeld = 4 << 20
	// maxLoaded bounds what load keeps in memory.
	maxLoaded = 64 << 20
)

// objects reads from a git directory through one long-lived process. It is safe for concurrent use.
type objects struct {
	dir   git.Dir
	mu    sync.Mutex
	batch *git.Batch
}

// with lends the process to f, which must not use the same objects again. After an error
// it is replaced: it may be in the middle of an answer.
func (o *objects) with(ctx context.Context, f func(*git.Batch) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if o.batch == nil {
		// The process outlives this call, so only its stop is bound to ctx.
		b, err := o.dir.Batch(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		o.batch = b
	}
	stop := context.AfterFunc(ctx, o.batch.Close)
	err := f(o.batch)
	if stopped := stop(); err != nil || !stopped {
		o.batch.Close()
		o.batch = nil
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (o *objects) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.batch != nil {
		o.batch.Close()
		o.batch = nil
	}
}

// opener returns a function that opens the content of a blob when it is called.
func (o *objects) opener(ctx context.Context, id string, size int64) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return o.open(ctx, id, size) }
}

func (o *objects) open(ctx context.Context, id string, size int64) (io.ReadCloser, error) {
	if size > maxHeld {
		return o.stream(ctx, id), nil
	}
	content, err := o.read(ctx, id, maxHeld)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (o *objects) read(ctx context.Context, id string, limit int64) (content []byte, err error) {
	err = o.with(ctx, func(b *git.Batch) error {
		_, content, err = b.Read(id, limit)
		return err
	})
	return content, err
}

// stream reads a blob of any size. The reader ends with an error if the content is not what the id promises, so
// what was read to the end is what was named.
func (o *objects) stream(ctx context.Context, id string) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		b, err := o.dir.Batch(ctx)
		if err == nil {
			defer b.Close()
			err = b.Each([]string{id}, func(_ git.Object, body io.Reader) error {
				_, err := io.Copy(w, body)
				return err
			})
		}
		w.CloseWithError(err)
	}()
	return r
}

// load reads blobs that are needed at once, in one go. It returns for each id its size and how to open it; small ones
// are in memory then.
func (o *objects) load(ctx context.Context, ids []string) (map[string]git.Edit, error) {
	loaded := make(map[string]git.Edit, len(ids))
	if len(ids) == 0 {
		return loaded, nil
	}
	unique := slices.Compact(slices.Sorted(slices.Values(ids)))
	total := int64(0)
	err := o.with(ctx, func(b *git.Batch) error {
		return b.Each(unique, func(obj git.Object, r io.Reader) error {
			e := git.Edit{Size: obj.Size, Content: o.opener(ctx, obj.ID, obj.Size)}
			if total += obj.Size; obj.Size <= maxHeld && total <= maxLoaded {
				content := make([]byte, obj.Size)
				if _, err := io.ReadFull(r, content); err != nil && !errors.Is(err, io.EOF) {
					return fmt.Errorf("reading object %s: %w", obj.ID, err)
				}
				e.Content = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
			}
			loaded[obj.ID] = e
			return nil
		})
	})
	return loaded, err
}

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
