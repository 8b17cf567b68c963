package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
)

// IndexEntry is one path of an index.
type IndexEntry struct {
	Path string
	Mode string
	ID   string
}

// UpdateIndex adds entries to d's index. git refuses names that no work tree may have.
func (d Dir) UpdateIndex(ctx context.Context, entries []IndexEntry) error {
	var in bytes.Buffer
	for _, e := range entries {
		if strings.ContainsRune(e.Path, 0) {
			return fmt.Errorf("git update-index: path %q cannot be written", e.Path)
		}
		fmt.Fprintf(&in, "%s %s\t%s\x00", e.Mode, e.ID, e.Path)
	}
	_, err := d.output(ctx, call{args: []string{"update-index", "-z", "--index-info"}, stdin: &in})
	return err
}

// NormalizeIndex rewrites d's index, which must be a private copy, as one plain file: no split index, no
// collapsed directories.
func (d Dir) NormalizeIndex(ctx context.Context) error {
	_, err := d.output(ctx, call{args: []string{"update-index", "--no-split-index", "--force-write-index"}})
	return err
}

// PatchPaths lists the paths that a patch touches, as git itself reads it. Nothing is applied.
func (d Dir) PatchPaths(ctx context.Context, patch io.Reader) ([]string, error) {
	out, err := d.output(ctx, call{args: []string{"apply", "--numstat", "-z"}, stdin: patch, mute: true, fault: func(said string) *PatchFault { return patchFault(said, nil) }})
	if err != nil {
		return nil, err
	}
	var paths []string
	for len(out) > 0 {
		line, rest, ok := bytes.Cut(out, []byte{0})
		fields := bytes.SplitN(line, []byte{'\t'}, 3)
		if !ok || len(fields) != 3 || len(fields[2]) == 0 {
			return nil, errors.New("git apply: unexpected answer")
		}
		paths, out = append(paths, string(fields[2])), rest
	}
	return paths, nil
}

// ApplyCached applies a patch to d's index. It applies whole or not at all, without fuzz. paths are those of [Dir.PatchPaths],
// which an error may name.
func (d Dir) ApplyCached(ctx context.Context, patch io.Reader, paths []string) error {
	_, err := d.output(ctx, call{
		args:  []string{"apply", "--cached", "--binary", "--whitespace=nowarn", "-p1"},
		stdin: patch, mute: true, fault: func(said string) *PatchFault { return patchFault(said, paths) },
	})
	return err
}

// CheckIgnore returns those of paths that the .gitignore files of d.WorkTree ignore. The index is not asked: what is
// tracked is for the caller to know. d.WorkTree must be a directory of ours without symbolic links.
func (d Dir) CheckIgnore(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	// check-ignore takes pathspecs, and none that are declared literal. "./" keeps a leading colon from being magic.
	out, err := d.output(ctx, call{
		args:  []string{"check-ignore", "-z", "--stdin", "--no-index"},
		stdin: strings.NewReader("./" + strings.Join(paths, "\x00./") + "\x00"),
		magic: true,
	})
	if exited(err, 1) { // none
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ignored []string
	for path := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		ignored = append(ignored, strings.TrimPrefix(string(path), "./"))
	}
	return ignored, nil
}

// PatchFault is what `git apply` says of a patch that it does not take, in words that are git's own: its messages quote the
// patch, and a patch can hold a secret.
type PatchFault struct {
	Line int    // of the patch, 0 where git does not say
	Path string // of the patch, "" where git does not say
	Why  string
}

var (
	// patchLine finds the line of a patch that git cannot read.
	patchLine = form.Lazy(`(?m)^error: (?:[a-z' -]*\b)?(corrupt patch|corrupt binary patch|unrecognized binary patch|patch fragment without header|recount: unexpected line|` +
		`inconsistent (?:old|new) filename|invalid mode|expected /dev/null|lacks filename information[a-z0-9 ,()]*)\b[^\n]*?(?:line |<stdin>:)(\d+)`)
	// patchFailed finds the file, and its line, that has not what a hunk wants.
	patchFailed = form.Lazy(`(?m)^error: patch failed: (.+):(\d+)$`)
	// patchRefused finds a file that is not as the patch wants it.
	patchRefused = form.Lazy(`(?m)^error: (.+): (does not exist in index|already exists in index|does not match index|patch does not apply|` +
		`wrong type|removal patch leaves file contents|new file depends on old contents|deleted file still has contents|beyond a symbolic link)$`)
)

// patchFault reads what git said. paths are those that a message may name.
func patchFault(said string, paths []string) *PatchFault {
	if m := patchFailed().FindStringSubmatch(said); m != nil && slices.Contains(paths, m[1]) {
		return &PatchFault{Path: m[1], Why: "line " + m[2] + " and those around it are not what the patch says they are"}
	}
	if m := patchRefused().FindStringSubmatch(said); m != nil && slices.Contains(paths, m[1]) {
		return &PatchFault{Path: m[1], Why: strings.Replace(m[2], "in index", "in the base", 1)}
	}
	if m := patchLine().FindStringSubmatch(said); m != nil {
		if n, err := strconv.Atoi(m[2]); err == nil {
			return &PatchFault{Line: n, Why: m[1]}
		}
	}
	if strings.HasPrefix(said, "error: No valid patches in input") {
		return &PatchFault{Why: "it holds no change"}
	}
	return nil
}
