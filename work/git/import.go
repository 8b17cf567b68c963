package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	authorName = "remit"
	authorMail = "remit@localhost"
	importRef  = "refs/remit/import"
)

// Edit is the new state of one path. Exactly one of Delete, ID and Content is given.
type Edit struct {
	Path    string
	Delete  bool   // the path and everything below it
	Mode    string // 100644, 100755, 120000 or 160000
	ID      string // of an object that exists
	Size    int64  // of Content
	Content func() (io.ReadCloser, error)
}

// Commit describes the commit that an Import is wrapped in. The zero value is a commit that no ref names.
type Commit struct {
	Parent  string
	Message string
	When    time.Time
}

// Imported is what fast-import made.
type Imported struct {
	Tree   string
	Commit string
}

// Import lays edits, in their order, over the tree base and returns the new tree and a commit of it. The work grows
// with the edits and the directories they touch, not with the tree.
//
// fast-import believes every path it is given, `../x` and `.git/hooks/x` included: names must have been checked.
// The objects end up in a pack in d; move them on with [Dir.IndexPack], which is the second check.
func (d Dir) Import(ctx context.Context, base string, edits []Edit, c Commit) (Imported, error) {
	if !d.Format.IsID(base) || c.Parent != "" && !d.Format.IsID(c.Parent) {
		return Imported{}, fmt.Errorf("git fast-import: base %q or parent %q is not an object id", base, c.Parent)
	}
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := writeStream(ctx, w, base, edits, c)
		w.CloseWithError(err)
		written <- err
	}()
	out, err := d.output(ctx, call{
		args:  []string{"fast-import", "--quiet", "--done", "--force", "--depth=0", "--date-format=raw"},
		stdin: r,
		mute:  true,
	})
	r.CloseWithError(io.ErrClosedPipe)
	if werr := <-written; werr != nil && !errors.Is(werr, io.ErrClosedPipe) {
		return Imported{}, werr // why our side stopped is the cause, not git's complaint about it
	}
	if err != nil {
		return Imported{}, err
	}
	return d.parseImport(string(out))
}

func (d Dir) parseImport(out string) (Imported, error) {
	tree, commit, ok := strings.Cut(out, "\n")
	tree, _, _ = strings.Cut(strings.TrimPrefix(tree, "040000 tree "), "\t")
	commit = strings.TrimSuffix(commit, "\n")
	if !ok || !d.Format.IsID(tree) || !d.Format.IsID(commit) {
		return Imported{}, fmt.Errorf("git fast-import: unexpected answer %.200q", out)
	}
	return Imported{Tree: tree, Commit: commit}, nil
}

func writeStream(ctx context.Context, w io.Writer, base string, edits []Edit, c Commit) error {
	b := bufio.NewWriterSize(w, 128<<10)
	fmt.Fprintf(b, "commit %s\nmark :1\n", importRef)
	fmt.Fprintf(b, "committer %s <%s> %d +0000\n", authorName, authorMail, max(0, c.When.Unix()))
	fmt.Fprintf(b, "data %d\n%s\n", len(c.Message), c.Message)
	if c.Parent != "" {
		fmt.Fprintf(b, "from %s\n", c.Parent)
	}
	fmt.Fprintf(b, "M 040000 %s \"\"\n", base)
	for _, e := range edits {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := writeEdit(b, e); err != nil {
			return err
		}
	}
	fmt.Fprint(b, "ls \"\"\nget-mark :1\ndone\n")
	return b.Flush()
}

func writeEdit(b *bufio.Writer, e Edit) error {
	if strings.ContainsRune(e.Path, 0) || e.Path == "" {
		return fmt.Errorf("git fast-import: path %q cannot be written", e.Path)
	}
	switch {
	case e.Delete:
		fmt.Fprintf(b, "D %s\n", quoteC(e.Path))
	case e.Content == nil:
		fmt.Fprintf(b, "M %s %s %s\n", e.Mode, e.ID, quoteC(e.Path))
	default:
		fmt.Fprintf(b, "M %s inline %s\ndata %d\n", e.Mode, quoteC(e.Path), e.Size)
		if err := copyExactly(b, e); err != nil {
			return fmt.Errorf("reading the new content of %q: %w", e.Path, err)
		}
		fmt.Fprintln(b)
	}
	return nil
}

// copyExactly refuses a file that is not as long as it said: what follows would be read as commands.
func copyExactly(b *bufio.Writer, e Edit) error {
	r, err := e.Content()
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.CopyN(b, r, e.Size); err != nil {
		return unexpected(err)
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return fmt.Errorf("it has grown beyond %d bytes", e.Size)
	}
	return nil
}

// IndexPack checks a pack strictly (every object well-formed, every name allowed, every link resolved) and stores
// it in d. The work grows with the pack.
func (d Dir) IndexPack(ctx context.Context, pack io.Reader) error {
	_, err := d.output(ctx, call{args: []string{"index-pack", "--strict", "--stdin"}, stdin: pack})
	return err
}

// Packs lists the pack files that were written to d.
func (d Dir) Packs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.ObjectsDir(), "pack"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing packs: %w", err)
	}
	var packs []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pack") {
			packs = append(packs, filepath.Join(d.ObjectsDir(), "pack", e.Name()))
		}
	}
	return packs, nil
}
