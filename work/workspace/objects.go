package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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

// with lends the process to f, which must not use the same objects again. After an error it is replaced: it may be in the middle of an answer.
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
