package evidence

import (
	"crypto/sha1" //nolint:gosec // the ids of git
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"remit/proof/journal"
	"remit/proof/reason"
)

// The repositories that a verified change is delivered to.
const (
	// DisposableRepository is made by the run and thrown away after it.
	DisposableRepository = "disposable"
	// TargetRepository is the one that the run was started for.
	TargetRepository = "target"
)

// Delivers reports whether a run in a mutation mode puts its verified change on a
// new branch of a repository. In the modes below nothing is written anywhere.
func Delivers(mode string) bool { return deliveredTo(mode) != "" }

// deliveredTo is the kind of repository that a mode writes to, "" for none.
func deliveredTo(mode string) string {
	switch mode {
	case "sandbox-repo":
		return DisposableRepository
	case "owned-noncritical-repo", "scoped-real-repo":
		return TargetRepository
	}
	return ""
}

// BranchPolicy are the outputs of branch.policy: where the change may go if it is
// verified. It is decided before the engine is started.
type BranchPolicy struct {
	Branch         string   `json:"branch"` // the one new branch, without refs/heads/
	BaselineCommit string   `json:"baseline_commit"`
	Repository     string   `json:"repository"`        // disposable or target
	TargetSHA256   string   `json:"target_repository"` // digest of the path of the repository that the run was started for
	Dir            string   `json:"disposable_repository_dir,omitempty"`
	Protected      []string `json:"protected"` // patterns of refs that no delivery touches
	Pushed         bool     `json:"pushed"`    // whether anything is sent elsewhere: never
	// Blockers say why the branch cannot be made.
	Blockers []Blocker `json:"blockers"`
}

// Delivered are the outputs of change.delivered.
type Delivered struct {
	Branch         string `json:"branch"`
	Commit         string `json:"commit"`
	Tree           string `json:"tree"`
	BaselineCommit string `json:"baseline_commit"`
	// Message and CommittedAt (seconds since 1970) are what the id of the commit
	// follows from, beside its tree and its parent.
	Message     string `json:"message"`
	CommittedAt int64  `json:"committed_at"`
	// Differs is what is not as it was in the repository, beside the branch and
	// its reflog.
	Differs  []string  `json:"differs"`
	Blockers []Blocker `json:"blockers"`
}

// Disposed are the outputs of repository.disposed: what became of the repository.
type Disposed struct {
	Repository string `json:"repository"`
	Disposed   bool   `json:"disposed"`
	KeptUntil  string `json:"kept_until,omitempty"` // "" for as long as its owner wants
	Why        string `json:"why"`
}

// DeliveredBranch is the delivered change in report.json.
type DeliveredBranch struct {
	Branch         string `json:"branch"`
	Commit         string `json:"commit"`
	Tree           string `json:"tree"`
	BaselineCommit string `json:"baseline_commit"`
	Repository     string `json:"repository"`
	// Removed says that the operator rejected the change, and the branch is gone.
	Removed bool `json:"removed,omitempty"`
}

// ReportedPolicy is the branch policy in report.json.
type ReportedPolicy struct {
	Branch     string   `json:"branch"`
	Repository string   `json:"repository"`
	Protected  []string `json:"protected"`
	Pushed     bool     `json:"pushed"`
}

// What became of the branch when the operator rejected the change.
const (
	BranchRemoved = "removed"
	BranchGone    = "gone" // it was not there any more
)

// deliver reads the steps of a delivery.
func (r *run) deliver(e *journal.Entry, final bool) error {
	switch e.Name {
	case StepBranchPolicy:
		return decodeFinal(final, e.Outputs, &r.policy)
	case StepDelivered:
		return decodeFinal(final && e.Status == journal.Completed, e.Outputs, &r.delivered)
	}
	return decodeFinal(final, e.Outputs, &r.disposed)
}

// reportDelivery fills the fields of report.json that runs have which deliver
// their change.
func (r *run) reportDelivery(rep *Report) {
	p := r.policy
	if p == nil {
		return
	}
	rep.BranchPolicy = &ReportedPolicy{Branch: p.Branch, Repository: p.Repository, Protected: p.Protected, Pushed: p.Pushed}
	rep.TargetRepository, rep.DisposableRepositoryDir = p.TargetSHA256, p.Dir
	d := r.delivered
	if d == nil {
		rep.NotApplicable["delivered"] = "the run did not come to a delivery"
		return
	}
	rep.Delivered = &DeliveredBranch{Branch: d.Branch, Commit: d.Commit, Tree: d.Tree, BaselineCommit: d.BaselineCommit, Repository: p.Repository,
		Removed: r.outcome != nil && r.outcome.Branch != ""}
}

// DeliverySentence says in a text for people where the change of a run is that
// has a branch policy.
func (rep *Report) DeliverySentence() string {
	d, p := rep.Delivered, rep.BranchPolicy
	switch {
	case d == nil:
		return "nothing was delivered; branch " + code(p.Branch) + " of the " + p.Repository + " repository was meant for it"
	case d.Removed:
		return "branch " + code(d.Branch) + " of the " + d.Repository + " repository was removed again"
	}
	return "branch " + code(d.Branch) + " of the " + d.Repository + " repository, commit " + code(d.Commit)
}

// unprovedDelivery names what a pass needs of a run that delivers its change.
func (r *run) unprovedDelivery(need func(ok bool, code reason.Code, message string)) {
	if !Delivers(r.opened.MutationMode) {
		return
	}
	need(r.policy != nil && len(r.policy.Blockers) == 0, reason.Interrupted, "no branch policy was recorded")
	if !r.undelivered {
		need(r.delivered != nil || r.patch == nil || len(r.patch.Files) == 0, reason.Interrupted, "the verified change was not delivered")
		need(r.disposed != nil, reason.Interrupted, "it is not recorded what became of the repository")
	}
}

// Deliverable reports whether a run would pass if its change were delivered now:
// the only change that is ever delivered.
func Deliverable(entries []journal.Entry) (bool, error) {
	r, err := fold(entries)
	if err != nil {
		return false, err
	}
	r.undelivered = true
	return Delivers(r.opened.MutationMode) && r.patch != nil && len(r.patch.Files) > 0 && r.verdict().Status == StatusPass, nil
}

// contradictDelivery follows the change from the policy to the branch.
func (r *run) contradictDelivery(agree agreeFunc) {
	at := func(name string, statuses ...journal.Status) int {
		return slices.IndexFunc(r.entries, func(e journal.Entry) bool { return e.Name == name && slices.Contains(statuses, e.Status) })
	}
	policy, delivered, disposed := at(StepBranchPolicy, journal.Completed, journal.Failed), at(StepDelivered, journal.Completed), at(StepDisposed, journal.Completed)
	agree(policy < 0 && delivered < 0 && disposed < 0 || Delivers(r.opened.MutationMode), "a change is delivered in a mode that writes to no repository")
	if p := r.policy; p != nil {
		engine, granted := at(StepEngine, journal.Started), at(StepApprovalGranted, journal.Completed)
		agree(engine < 0 || policy < engine && granted >= 0 && granted < policy, "the engine was started before the approval or the branch policy was recorded")
		agree(p.Repository == deliveredTo(r.opened.MutationMode), "the branch policy is about another kind of repository than the mutation mode")
		agree(p.BaselineCommit == string(r.opened.BaselineCommit), "the branch policy is about another baseline")
		agree(!p.Pushed, "the branch policy says that something is sent elsewhere")
	}
	r.contradictDelivered(agree, delivered, at(StepSourceChecked, journal.Completed))
	if d := r.disposed; d != nil && r.policy != nil {
		agree(d.Repository == r.policy.Repository && (!d.Disposed || d.Repository == DisposableRepository && r.delivered == nil), "a repository is disposed of that the run did not make, or that has its change")
	}
}

// contradictDelivered holds the commit against the policy, the patch and the
// verification.
func (r *run) contradictDelivered(agree agreeFunc, delivered, checked int) {
	o := r.outcome
	agree(o == nil || o.Branch == "" || o.Outcome == "rejected" && r.delivered != nil, "a branch was removed that no rejected run has delivered")
	agree(o == nil || r.delivered == nil || o.Outcome != "rejected" || o.Branch != "", "the run was rejected, and it is not said what became of its branch")
	d := r.delivered
	if d == nil {
		return
	}
	verified := r.verification != nil && r.verification.Status == StatusPass
	agree(r.policy != nil && d.Branch == r.policy.Branch, "the change was delivered to another branch than the policy says")
	agree(d.BaselineCommit == string(r.opened.BaselineCommit) && r.patch != nil && d.Tree == r.patch.HeadTree, "the delivered commit is not that of the patch")
	agree(d.Commit == d.commitID(), "the id of the delivered commit does not follow from its tree, parent, time and message")
	agree(verified && checked >= 0 && checked < delivered, "the change was delivered before it was verified and the source looked at")
}

// CommitAuthor is the author of what Remit commits: the machine, not a person.
const CommitAuthor = "remit <remit@localhost>"

// commitID is the id that git gives the delivered commit. Its author is always the
// same, so that the same change has the same id everywhere.
func (d *Delivered) commitID() string {
	const author = CommitAuthor
	body := fmt.Sprintf("tree %s\nparent %s\nauthor %s %d +0000\ncommitter %s %d +0000\n\n%s", d.Tree, d.BaselineCommit, author, d.CommittedAt, author, d.CommittedAt, d.Message)
	return objectID(len(d.Commit), body)
}

// objectID is the id, of so many digits, that git gives a commit.
func objectID(digits int, commit string) string {
	h := sha1.New() //nolint:gosec // git's own name of an object, and no claim about it
	if digits == 2*sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "commit %d\x00%s", len(commit), commit)
	return hex.EncodeToString(h.Sum(nil))
}

// ApprovalProof is proofs/approval.json: the request and the decision that came
// before anything was changed.
func ApprovalProof(entries []journal.Entry) map[string]any {
	out := map[string]any{"status": "not-required"}
	for _, e := range entries {
		var a Approval
		if e.Status == journal.Started || json.Unmarshal(e.Outputs, &a) != nil {
			continue
		}
		states := map[string]string{StepApprovalRequested: "requested", StepApprovalGranted: "granted", StepApprovalDenied: "denied"}
		if state, ok := states[e.Name]; ok {
			out["status"], out[state] = state, map[string]any{"entry": e.Seq, "at": entryTime(&e), "actor": a.Actor, "scope": a.Scope, "mutation_mode": a.MutationMode,
				"contract_sha256": a.ContractSHA256, "approval_id": a.ApprovalID, "expires_at": a.ExpiresAt}
		}
	}
	return out
}
