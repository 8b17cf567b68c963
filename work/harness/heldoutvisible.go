package harness

import (
	"bytes"
	"context"
	"fmt"

	"remit/proof/evidence"
	"remit/proof/reason"
)

// mayStart says what stands against a start before anything is decided: a
// source that is not clean, and held-out tests that the agent could read.
func (r *run) mayStart(ctx context.Context) (dirty, visible []evidence.Blocker, err error) {
	if dirty, err = r.cleanStart(); err == nil {
		visible, err = r.visibleHeldOut(ctx)
	}
	return dirty, visible, err
}

// visibleHeldOut looks for the content of held-out tests in the base commit, at
// any path: the agent gets a copy of that tree. A file without text holds
// nothing out.
func (r *run) visibleHeldOut(ctx context.Context) ([]evidence.Blocker, error) {
	sources := map[string]string{} // blob id to source
	var ids []string
	for _, h := range r.Contract.HeldOutTests {
		content, err := readHeldOut(r.Contract.Dir, h.Source)
		if err != nil {
			return nil, fmt.Errorf("reading the held-out test %q: %w", h.Source, err)
		}
		if len(bytes.TrimSpace(content)) > 0 {
			id := r.source.Format().Sum("blob", content)
			ids, sources[id] = append(ids, id), h.Source
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := r.source.Holding(ctx, r.base, ids)
	if err != nil {
		return nil, fmt.Errorf("looking for held-out tests in the base commit: %w", err)
	}
	var blockers []evidence.Blocker
	for _, id := range ids {
		if at, visible := found[id]; visible && len(blockers) < maxNamed {
			delete(found, id) // a content that is named twice is reported once
			blockers = append(blockers, evidence.Blocker{Code: reason.HeldOutVisible, Evidence: evidence.ContractFile,
				Message: fmt.Sprintf("the held-out test %s is in the base commit as %s, where the agent can read it",
					evidence.DisplayPath(sources[id]), evidence.DisplayPath(at))})
		}
	}
	return blockers, nil
}
