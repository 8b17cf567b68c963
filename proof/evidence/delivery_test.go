package evidence

import (
	"strings"
	"testing"

	"remit/proof/journal"
)

// TestDeliveryContradictions: no order and no fact of a delivery that a run cannot
// have written passes.
func TestDeliveryContradictions(t *testing.T) {
	t.Parallel()
	const base, tree = "1111111111111111111111111111111111111111", "9daeafb9864cf43055ae93beb0afd6c7d144bfa4"
	good := func() *run {
		r := &run{opened: RunOpened{MutationMode: "sandbox-repo", BaselineCommit: base}, patch: &PatchCaptured{HeadTree: tree},
			verification: &VerificationCompleted{Status: StatusPass}, policy: &BranchPolicy{Branch: "remit/x", BaselineCommit: base, Repository: DisposableRepository},
			delivered: &Delivered{Branch: "remit/x", Tree: tree, BaselineCommit: base, Message: "m\n"}, disposed: &Disposed{Repository: DisposableRepository}}
		r.delivered.Commit = strings.Repeat("0", 40)
		r.delivered.Commit = r.delivered.commitID()
		for _, name := range []string{StepApprovalGranted, StepBranchPolicy, StepEngine, StepSourceChecked, StepDelivered, StepDisposed} {
			status := journal.Completed
			if name == StepEngine {
				status = journal.Started
			}
			r.entries = append(r.entries, journal.Entry{Name: name, Status: status})
		}
		return r
	}
	swap := func(i, j int) func(*run) {
		return func(r *run) { r.entries[i], r.entries[j] = r.entries[j], r.entries[i] }
	}
	for name, test := range map[string]struct {
		change func(*run)
		want   string
	}{
		"as it is":                     {func(*run) {}, ""},
		"a mode without a repository":  {func(r *run) { r.opened.MutationMode = "copied-repo" }, "writes to no repository"},
		"policy after the engine":      {swap(1, 2), "before the approval or the branch policy"},
		"policy before the approval":   {swap(0, 1), "before the approval or the branch policy"},
		"no approval":                  {func(r *run) { r.entries = r.entries[1:] }, "before the approval or the branch policy"},
		"delivered before the look":    {swap(3, 4), "before it was verified"},
		"delivered without a pass":     {func(r *run) { r.verification.Status = StatusFail }, "before it was verified"},
		"another branch":               {func(r *run) { r.delivered.Branch = "main" }, "another branch"},
		"another tree":                 {func(r *run) { r.patch.HeadTree = base }, "not that of the patch"},
		"another message":              {func(r *run) { r.delivered.Message = "n\n" }, "does not follow"},
		"another time":                 {func(r *run) { r.delivered.CommittedAt++ }, "does not follow"},
		"the target, where it is not":  {func(r *run) { r.policy.Repository = TargetRepository }, "another kind of repository"},
		"pushed":                       {func(r *run) { r.policy.Pushed = true }, "sent elsewhere"},
		"disposed of with its change":  {func(r *run) { r.disposed.Disposed = true }, "disposed of"},
		"rejected and not said":        {func(r *run) { r.outcome = &Outcome{Outcome: "rejected"} }, "what became of its branch"},
		"accepted and removed":         {func(r *run) { r.outcome = &Outcome{Outcome: "accepted", Branch: BranchRemoved} }, "no rejected run"},
		"removed, and never delivered": {func(r *run) { r.delivered, r.outcome = nil, &Outcome{Outcome: "rejected", Branch: BranchRemoved} }, "no rejected run"},
	} {
		r, said := good(), ""
		test.change(r)
		r.contradictDelivery(func(ok bool, format string, _ ...any) {
			if !ok {
				said += format + "; "
			}
		})
		if test.want == "" && said != "" || !strings.Contains(said, test.want) {
			t.Errorf("%s: %q, want %q", name, said, test.want)
		}
	}
}
