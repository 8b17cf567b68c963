package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/workspace"
)

// StillApplies says why the change of a session no longer applies to HEAD of the
// repository that the run started from: another change has touched the same lines
// since. A change that is there already applies. A repository that this machine
// does not know, or that cannot be read now, is nothing to hold the change
// against. The repository is only read, and uncommitted work does not count.
func (h Home) StillApplies(ctx context.Context, s Session) error {
	local, err := h.LoadLocal(s.ID)
	if err != nil || local.Repo == "" {
		return nil
	}
	st, err := s.Inspect()
	if err != nil || st.Report == nil {
		return err
	}
	opened := st.Log.Entries[0]
	source, err := workspace.OpenSource(ctx, local.Repo)
	if err != nil {
		return nil
	}
	head, err := source.Resolve(ctx, "HEAD")
	if err != nil || strings.Contains(string(opened.Inputs), `"baseline_tree":"`+head.Tree+`"`) {
		return nil // the tree that it was made for
	}
	patch, err := s.Open(evidence.PatchFile)
	if err != nil {
		return fmt.Errorf("reading the patch: %w", err)
	}
	defer patch.Close()
	if present(ctx, source, st.Report.ChangedFiles, resultsOf(patch)) {
		return nil
	}
	store, done, err := workspace.TempStore(ctx, source, head)
	if err != nil {
		return fmt.Errorf("reading HEAD: %w", err)
	}
	defer done()
	again, err := s.Open(evidence.PatchFile)
	if err != nil {
		return fmt.Errorf("reading the patch: %w", err)
	}
	defer again.Close()
	_, err = store.Apply(ctx, head.Tree, again)
	var coded *reason.Error
	if errors.As(err, &coded) && coded.Code == reason.PatchInvalid {
		return reason.Errorf(reason.PatchOutdated, "the change of session %s does not apply to HEAD of its repository any more (%.12s)",
			s.ID, head.Commit).
			WithHint("`remit export %s --to branch` has it on its own base commit, to be merged by hand; or run the task again; accept --force records it all the same", s.ID)
	}
	return err
}

// indexLine is what a patch of ours says of the content of a file.
var indexLine = form.Lazy(`^index [0-9a-f]{40,64}\.\.([0-9a-f]{40,64})(?:[ \n]|$)`)

// resultsOf are the ids of the files that a patch makes, without leading zeros:
// "" stands for one that it removes. What cannot be read is for who applies it.
func resultsOf(patch io.Reader) []string {
	var ids []string
	for in := bufio.NewReader(patch); ; {
		line, err := in.ReadSlice('\n')
		if m := indexLine().FindSubmatch(line); m != nil {
			ids = append(ids, strings.TrimLeft(string(m[1]), "0"))
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line is no line
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			return ids
		}
	}
}

// present reports whether HEAD has at every path of a change what the change
// makes of it.
func present(ctx context.Context, source *workspace.Source, paths, made []string) bool {
	looked, err := source.Look(ctx, "HEAD", paths)
	if err != nil || len(made) != len(paths) {
		return false
	}
	there := make([]string, len(looked))
	for i, l := range looked {
		there[i] = strings.TrimLeft(l.ID, "0")
	}
	slices.Sort(there)
	slices.Sort(made)
	return slices.Equal(there, made)
}
