package swebench

import (
	"slices"

	"remit/proof/evidence"
)

// RunReport is the report of a file of predictions, as make_run_report writes it.
type RunReport struct {
	TotalInstances      int      `json:"total_instances"`
	SubmittedInstances  int      `json:"submitted_instances"`
	CompletedInstances  int      `json:"completed_instances"`
	ResolvedInstances   int      `json:"resolved_instances"`
	UnresolvedInstances int      `json:"unresolved_instances"`
	EmptyPatchInstances int      `json:"empty_patch_instances"`
	ErrorInstances      int      `json:"error_instances"`
	CompletedIDs        []string `json:"completed_ids"`
	IncompleteIDs       []string `json:"incomplete_ids"`
	EmptyPatchIDs       []string `json:"empty_patch_ids"`
	SubmittedIDs        []string `json:"submitted_ids"`
	ResolvedIDs         []string `json:"resolved_ids"`
	UnresolvedIDs       []string `json:"unresolved_ids"`
	ErrorIDs            []string `json:"error_ids"`
	SchemaVersion       int      `json:"schema_version"`
}

// Add puts a prediction into the list that it belongs to. rep is nil where its run left
// no report. An error is what was not judged: a patch that does not apply, or a run that
// was blocked.
func (r *RunReport) Add(p Prediction, rep *evidence.Report) {
	r.SubmittedIDs = append(r.SubmittedIDs, p.InstanceID)
	switch {
	case p.Empty():
		r.EmptyPatchIDs = append(r.EmptyPatchIDs, p.InstanceID)
	case rep == nil || rep.Status == evidence.StatusBlocked || len(rep.ChangedFiles) == 0:
		r.ErrorIDs = append(r.ErrorIDs, p.InstanceID)
	case rep.Status == evidence.StatusPass:
		r.CompletedIDs, r.ResolvedIDs = append(r.CompletedIDs, p.InstanceID), append(r.ResolvedIDs, p.InstanceID)
	default:
		r.CompletedIDs, r.UnresolvedIDs = append(r.CompletedIDs, p.InstanceID), append(r.UnresolvedIDs, p.InstanceID)
	}
}

// Finish sorts the lists and counts them. What of the instances has no prediction is incomplete.
func (r *RunReport) Finish(instances map[string]Instance) {
	all := map[string]bool{}
	for id := range instances {
		all[id] = true
		if !slices.Contains(r.SubmittedIDs, id) {
			r.IncompleteIDs = append(r.IncompleteIDs, id)
		}
	}
	for _, id := range r.SubmittedIDs {
		all[id] = true
	}
	for _, ids := range []*[]string{&r.CompletedIDs, &r.IncompleteIDs, &r.EmptyPatchIDs, &r.SubmittedIDs, &r.ResolvedIDs,
		&r.UnresolvedIDs, &r.ErrorIDs} {
		if *ids == nil {
			*ids = []string{}
		}
		slices.Sort(*ids)
	}
	r.TotalInstances, r.SubmittedInstances, r.CompletedInstances = len(all), len(r.SubmittedIDs), len(r.CompletedIDs)
	r.ResolvedInstances, r.UnresolvedInstances = len(r.ResolvedIDs), len(r.UnresolvedIDs)
	r.EmptyPatchInstances, r.ErrorInstances, r.SchemaVersion = len(r.EmptyPatchIDs), len(r.ErrorIDs), 2
}

// InstanceReport is the report of one instance, as get_eval_report makes it.
type InstanceReport struct {
	PatchIsNone bool         `json:"patch_is_None"`
	PatchExists bool         `json:"patch_exists"`
	Applied     bool         `json:"patch_successfully_applied"`
	Resolved    bool         `json:"resolved"`
	Tests       *TestsStatus `json:"tests_status,omitempty"`
}

// TestsStatus sorts tests by what they did before the change and with it.
type TestsStatus struct {
	FailToPass Tests `json:"FAIL_TO_PASS"`
	PassToPass Tests `json:"PASS_TO_PASS"`
	FailToFail Tests `json:"FAIL_TO_FAIL"`
	PassToFail Tests `json:"PASS_TO_FAIL"`
}

// Tests are names of tests.
type Tests struct {
	Success []string `json:"success"`
	Failure []string `json:"failure"`
}

// NewTestsStatus has no tests: lists that are empty, and not null.
func NewTestsStatus() *TestsStatus {
	none := Tests{[]string{}, []string{}}
	return &TestsStatus{none, none, none, none}
}
