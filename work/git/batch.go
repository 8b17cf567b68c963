package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"remit/proof/reason"
)

// Object is the head of one answer of a Batch.
type Object struct {
	Index int // into the ids that were asked for
	ID    string
	Kind  string // blob, tree, commit, tag
	Size  int64
}

// Batch is one `cat-file --batch` process. It answers many requests without starting another one. It serves one
// call at a time; after an error it is of no more use.
type Batch struct {
	format Format
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *head
	cancel context.CancelCauseFunc
	ctx    context.Context
	dir    Dir // for its limit
	once   sync.Once
}

// Batch starts a process that reads objects until Close or the end of ctx.
func (d Dir) Batch(ctx context.Context) (*Batch, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	cmd, err := d.command(ctx, []string{"cat-file", "--batch"})
	if err != nil {
		cancel(err)
		return nil, err
	}
	b := &Batch{format: d.Format, dir: d, cmd: cmd, stderr: &head{max: maxStderr}, cancel: cancel, ctx: ctx}
	cmd.Stderr = b.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel(err)
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel(err)
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	if err := cmd.Start(); err != nil {
		cancel(err)
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	b.in, b.out = in, bufio.NewReaderSize(out, 256<<10)
	return b, nil
}

// Bound sets the limit of the rounds to come, see [Dir].
func (b *Batch) Bound(limit time.Duration) { b.dir.Limit = limit }

// Close ends the process.
func (b *Batch) Close() {
	b.once.Do(func() {
		b.cancel(nil)
		b.in.Close()
		_ = b.cmd.Wait() // killed: its exit says nothing
	})
}

// Each asks for the objects in order and hands each to visit with a reader of its content. What visit leaves
// unread is skipped. The content is hashed on the way: after visit has returned without an error and the hash is
// not the id, Each ends with repository_invalid, so what visit made of it must not be used. An object that
// does not exist ends it with objects_missing.
func (b *Batch) Each(ids []string, visit func(Object, io.Reader) error) error {
	for _, id := range ids {
		if !b.format.IsID(id) {
			return fmt.Errorf("git cat-file: %q is not an object id", id)
		}
	}
	if b.dir.Limit > 0 {
		late := time.AfterFunc(b.dir.Limit, func() { b.cancel(b.dir.tooLong("cat-file")) })
		defer late.Stop()
	}
	asked := make(chan struct{})
	go func() { // answers must be read while questions are still being written
		defer close(asked)
		w := bufio.NewWriterSize(b.in, 32<<10)
		for _, id := range ids {
			if _, err := w.WriteString(id + "\n"); err != nil {
				return // the reader sees the end of the process
			}
		}
		_ = w.Flush()
	}()
	err := b.answers(ids, visit)
	if err != nil {
		b.Close() // also ends the writer
	}
	<-asked
	return err
}

func (b *Batch) answers(ids []string, visit func(Object, io.Reader) error) error {
	for i, id := range ids {
		o, err := b.header(id)
		if err != nil {
			return err
		}
		o.Index = i
		body := &hashed{r: io.LimitedReader{R: b.out, N: o.Size}, h: b.format.NewHash(o.Kind, o.Size)}
		if err := visit(o, body); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, body); err != nil || body.r.N > 0 {
			return b.broken(id, err)
		}
		if hexOf(body.h) != id {
			return reason.Errorf(reason.RepositoryInvalid, "%s %s does not have the content that its id promises", o.Kind, id).
				WithHint("run `git fsck` in the repository and restore the object")
		}
		if end, err := b.out.ReadByte(); err != nil || end != '\n' {
			return b.broken(id, err)
		}
	}
	return nil
}

// header reads "<id> <kind> <size>" or "<id> missing".
func (b *Batch) header(id string) (Object, error) {
	line, err := b.out.ReadSlice('\n')
	if err != nil {
		return Object{}, b.broken(id, err)
	}
	rest, ok := strings.CutPrefix(string(bytes.TrimSuffix(line, []byte("\n"))), id+" ")
	if !ok {
		return Object{}, b.broken(id, fmt.Errorf("unexpected answer %.80q", line))
	}
	if rest == "missing" {
		return Object{}, missing(id)
	}
	kind, text, _ := strings.Cut(rest, " ")
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 {
		return Object{}, b.broken(id, fmt.Errorf("unexpected answer %.80q", line))
	}
	return Object{ID: id, Kind: kind, Size: size}, nil
}

func missing(id string) error {
	return reason.Errorf(reason.ObjectsMissing, "object %s is not in the repository", id).
		WithHint("the clone is partial or damaged; fetch the missing objects yourself, e.g. `git fetch --refetch --no-filter`")
}

// broken is the error of a process that ended or lost its thread: git gives up on objects that it cannot parse.
func (b *Batch) broken(id string, err error) error {
	if b.ctx.Err() != nil {
		return fmt.Errorf("git cat-file: %w", context.Cause(b.ctx))
	}
	b.Close()
	return reason.Errorf(reason.RepositoryInvalid, "reading object %s: %w: %s", id, unexpected(err), printable(b.stderr.String())).
		WithHint("run `git fsck` in the repository")
}

func unexpected(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// hashed hashes what is read through it.
type hashed struct {
	r io.LimitedReader
	h hash.Hash
}

func (r *hashed) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.h.Write(p[:n])
	return n, err
}

// Read returns one object of at most limit bytes.
func (b *Batch) Read(id string, limit int64) (kind string, content []byte, err error) {
	err = b.Each([]string{id}, func(o Object, r io.Reader) error {
		if o.Size > limit {
			return reason.Errorf(reason.RepositoryInvalid, "%s %s has %d bytes, more than %d", o.Kind, id, o.Size, limit)
		}
		kind, content = o.Kind, make([]byte, o.Size)
		_, err := io.ReadFull(r, content)
		return unexpectedOrNil(err)
	})
	return kind, content, err
}

func unexpectedOrNil(err error) error {
	if errors.Is(err, io.EOF) { // an empty object
		return nil
	}
	return err
}

// Sizes returns the sizes of objects without reading them.
func (d Dir) Sizes(ctx context.Context, ids []string) ([]int64, error) {
	out, err := d.output(ctx, call{
		args:  []string{"cat-file", "--batch-check=%(objectsize)"},
		stdin: strings.NewReader(strings.Join(ids, "\n") + "\n"),
	})
	if err != nil {
		return nil, err
	}
	sizes := make([]int64, 0, len(ids))
	for line := range strings.Lines(string(out)) {
		if len(sizes) == len(ids) {
			break
		}
		size, err := strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 64)
		if err != nil {
			return nil, missing(ids[len(sizes)])
		}
		sizes = append(sizes, size)
	}
	if len(sizes) != len(ids) {
		return nil, fmt.Errorf("git cat-file: %d answers to %d questions", len(sizes), len(ids))
	}
	return sizes, nil
}

// Present fails with objects_missing if one of the objects, given as path → id, is not there.
func (d Dir) Present(ctx context.Context, objects map[string]string) error {
	ids := make([]string, 0, len(objects))
	for _, id := range objects {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := d.Sizes(ctx, ids)
	return err
}
