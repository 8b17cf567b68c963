package workspace

import (
	"context"
	"fmt"
	"io"

	"remit/work/git"
)

// Op is what happened to a path between two trees.
type Op = string

// The operations. The one that needs the widest permission wins: anything that ends as a symbolic link is symlink,
// anything that is or was a submodule is submodule.
const (
	OpCreate     Op = "create"
	OpModify     Op = "modify" // the mode may have changed too
	OpDelete     Op = "delete"
	OpModeChange Op = "mode_change" // and nothing else
	OpTypeChange Op = "type_change"
	OpSymlink    Op = "symlink"
	OpSubmodule  Op = "submodule"
)

// FileChange is one path of a diff.
type FileChange struct {
	Path    string `json:"path"`
	Op      Op     `json:"op"`
	OldMode string `json:"old_mode"` // as git writes it; 000000 when there was nothing
	NewMode string `json:"new_mode"`
	Added   int    `json:"added"` // lines; 0 for binary files
	Removed int    `json:"removed"`
	Binary  bool   `json:"binary"`
}

// Diff writes the patch from baseTree to headTree and returns what it does, both in bytewise path order. The patch is
// complete (binary files, modes, links) and applies with plain `git apply`. patch may be nil. It depends on nothing
// but the two trees and the version of git. More paths than [Store.Bound] allows are change_too_large.
func (s *Store) Diff(ctx context.Context, baseTree, headTree string, patch io.Writer) ([]FileChange, error) {
	if baseTree == headTree && s.git.Format.IsID(headTree) {
		return []FileChange{}, nil
	}
	entries, err := s.git.Diff(ctx, baseTree, headTree, s.most, patch)
	if err != nil {
		return nil, fmt.Errorf("comparing trees %s and %s: %w", baseTree, headTree, err)
	}
	changes := make([]FileChange, len(entries))
	for i, e := range entries {
		changes[i] = FileChange{
			Path: e.Path, Op: opOf(e), OldMode: e.OldMode, NewMode: e.NewMode,
			Added: e.Added, Removed: e.Removed, Binary: e.Binary,
		}
	}
	return changes, nil
}

func opOf(e git.DiffEntry) Op {
	const link, submodule = "120000", "160000"
	switch {
	case e.OldMode == submodule || e.NewMode == submodule:
		return OpSubmodule
	case e.NewMode == link:
		return OpSymlink
	case e.Status == 'A':
		return OpCreate
	case e.Status == 'D':
		return OpDelete
	case e.OldMode == link:
		return OpTypeChange
	case e.OldID == e.NewID:
		return OpModeChange
	}
	return OpModify
}
