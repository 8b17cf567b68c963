package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/git"
	"remit/work/tree"
)

// maxTarget bounds the text of a symbolic link, as the kernel does.
const maxTarget = 4095

// Imported is a set of changes as a tree.
type Imported struct {
	Tree    string           // the new tree
	Ignored []string         // untracked paths that the base's .gitignore files exclude; not in the tree
	Refused []reason.Finding // changes that no tree can hold or none of ours may; not in the tree
}

// Import lays the changes that a sandbox left behind over baseTree. Everything about them is hostile: what cannot be
// in a tree becomes a finding, and the rest is imported all the same, so that no work is lost.
//
// Ignored are untracked paths that match the .gitignore files of the base, never those that the sandbox wrote; a path
// that the base has is never ignored. Special files are findings: nested_repository for a git directory,
// dirty_ending_tree for sockets, devices, setuid files and what could not be read; a write below a submodule is
// submodule_refused.
func (s *Store) Import(ctx context.Context, baseTree string, changes []tree.Change) (*Imported, error) {
	im := &importer{store: s, base: baseTree, result: &Imported{}}
	candidates, err := im.admissible(ctx, changes)
	if err != nil {
		return nil, fmt.Errorf("importing changes: %w", err)
	}
	if candidates, err = im.withoutIgnored(ctx, candidates); err != nil {
		return nil, fmt.Errorf("importing changes: %w", err)
	}
	edits := im.edits(candidates)
	made, err := s.write(ctx, baseTree, edits, git.Commit{})
	if isRefusal(err) {
		if rest := im.withoutJudged(edits); len(rest) < len(edits) {
			made, err = s.write(ctx, baseTree, rest, git.Commit{})
		}
	}
	if isRefusal(err) {
		return nil, reason.Errorf(reason.PathUnrepresentable, "importing changes: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("importing changes: %w", err)
	}
	im.result.Tree = made.Tree
	slices.Sort(im.result.Ignored)
	return im.result, nil
}

// WithoutIgnored takes out of changes those that [Store.Import] would leave out by the .gitignore files of the base,
// and returns their paths.
func (s *Store) WithoutIgnored(ctx context.Context, baseTree string, changes []tree.Change) (kept []tree.Change, ignored []string, err error) {
	im := &importer{store: s, base: baseTree, result: &Imported{}}
	candidates, err := im.admissible(ctx, changes)
	if err == nil {
		_, err = im.withoutIgnored(ctx, candidates)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("looking for ignored changes: %w", err)
	}
	out := make(map[string]bool, len(im.result.Ignored))
	for _, p := range im.result.Ignored {
		out[p] = true
	}
	for _, c := range changes {
		if !out[c.Path] {
			kept = append(kept, c)
		}
	}
	return kept, im.result.Ignored, nil
}

// isRefusal says that git looked at the objects and did not want them.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*git.Error](err)
	return ok && e.Command == "index-pack" && e.ExitCode > 0
}

type importer struct {
	store  *Store
	base   string
	result *Imported
}

// candidate is an admissible change and whether the base has the path.
type candidate struct {
	tree.Change
	tracked bool
}

func (im *importer) refuse(code reason.Code, path, format string, args ...any) {
	im.result.Refused = append(im.result.Refused, reason.Finding{Code: code, Path: path, Detail: fmt.Sprintf(format, args...)})
}

// admissible drops and reports changes whose names or places are not allowed.
func (im *importer) admissible(ctx context.Context, changes []tree.Change) ([]candidate, error) {
	var kept []candidate
	for _, c := range changes {
		if err := checkChange(c); err != nil {
			if c.Kind != tree.Delete { // what cannot be there cannot be missing
				im.refuse(err.Code, c.Path, "%s", err.Message)
			}
			continue
		}
		at, err := im.store.find(ctx, im.base, c.Path)
		if err != nil {
			return nil, err
		}
		if at.blocker.mode == modeGitlink {
			if c.Kind != tree.Delete {
				im.refuse(reason.SubmoduleRefused, c.Path, "it is in the submodule %q, whose content is not part of the tree", at.blockerPath)
			}
			continue
		}
		kept = append(kept, candidate{Change: c, tracked: at.entry.mode != 0 && at.entry.mode != modeDir})
	}
	return kept, nil
}

// checkChange is CheckPath, but for a special file whose name is what makes it special.
func checkChange(c tree.Change) *reason.Error {
	name := c.Path
	if c.Kind == tree.Special && c.Note == "nested-git" && path.Base(name) == ".git" {
		if name = path.Dir(name); name == "." {
			return nil
		}
	}
	if err, ok := errors.AsType[*reason.Error](CheckPath(name)); ok {
		return err
	}
	if c.Kind == tree.Symlink {
		switch {
		case c.Target == "" || len(c.Target) > maxTarget || strings.ContainsRune(c.Target, 0):
			return reason.Errorf(reason.PathUnrepresentable, "the target of the symbolic link cannot exist")
		case isJudged(c.Path):
			return reason.Errorf(reason.ProtectedPath, "%s may not be a symbolic link", path.Base(c.Path))
		}
	}
	return nil
}

// isJudged names the files whose content git's own check judges: URLs and paths in .gitmodules that are options or
// escapes, lines in .gitattributes beyond all measure.
func isJudged(p string) bool {
	name := path.Base(p)
	return strings.EqualFold(name, ".gitmodules") || strings.EqualFold(name, ".gitattributes")
}

// edits turns what is left into commands: deletions first, so that a file can take the place of a directory and the
// other way round.
func (im *importer) edits(candidates []candidate) []git.Edit {
	var edits []git.Edit
	for _, c := range candidates {
		switch c.Kind {
		case tree.Delete:
			edits = append(edits, git.Edit{Path: c.Path, Delete: true})
		case tree.File:
			mode := "100644"
			if c.Executable {
				mode = "100755"
			}
			edits = append(edits, git.Edit{Path: c.Path, Mode: mode, Size: c.Size, Content: c.Open})
		case tree.Symlink:
			edits = append(edits, git.Edit{Path: c.Path, Mode: "120000", Size: int64(len(c.Target)), Content: textOpener(c.Target)})
		default:
			code := reason.DirtyEndingTree
			switch c.Note {
			case "nested-git":
				code = reason.NestedRepository
			case "name":
				code = reason.PathUnrepresentable
			}
			im.refuse(code, c.Path, "special file: %s", c.Note)
		}
	}
	slices.SortStableFunc(edits, func(a, b git.Edit) int {
		if a.Delete != b.Delete {
			return map[bool]int{true: -1, false: 1}[a.Delete]
		}
		return cmp.Compare(a.Path, b.Path)
	})
	return edits
}

func textOpener(text string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// withoutJudged drops the new files that can be why git refused.
func (im *importer) withoutJudged(edits []git.Edit) []git.Edit {
	return slices.DeleteFunc(slices.Clone(edits), func(e git.Edit) bool {
		drop := !e.Delete && isJudged(e.Path)
		if drop {
			im.refuse(reason.ProtectedPath, e.Path, "git refuses the content of this file, or of another %s", path.Base(e.Path))
		}
		return drop
	})
}
