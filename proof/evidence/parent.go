package evidence

import (
	"fmt"
	"slices"
	"strings"

	"remit/proof/canon"
)

// Parent names the session whose change a run continues. Its engine starts from the
// baseline with that change, and its own patch is against the baseline: so a bundle
// is checked by itself, and of the parent's only the patch is needed, which is kept
// in it as [ParentPatchFile].
type Parent struct {
	SessionID     string `json:"session_id"`
	ReceiptSHA256 string `json:"receipt_sha256"` // digest of [VerdictReceipt], which no later entry changes
	Status        string `json:"status"`         // of that receipt
	PatchSHA256   string `json:"patch_sha256"`
	HeadTree      string `json:"head_tree"` // the baseline with that patch: where the engine starts
	// Chain are the sessions that led here, the oldest first and the parent last.
	Chain []string `json:"chain"`
	// Used is what all of them together have used of a model. The contract's
	// budget is what that has left of theirs.
	Used MeteredUsage `json:"used"`
}

// ParentOf is what a run says of its parent: the session of a receipt, the digest of
// that, and what the session has used itself.
func ParentOf(rc *Receipt, receiptSHA256 string, used MeteredUsage) *Parent {
	p := &Parent{SessionID: rc.SessionID, ReceiptSHA256: receiptSHA256, Status: rc.Status, PatchSHA256: *rc.PatchSHA256, HeadTree: *rc.HeadTree, Used: used}
	if before := rc.Parent; before != nil {
		p.Chain, p.Used = slices.Clone(before.Chain), before.Used.plus(used)
	}
	p.Chain = append(p.Chain, rc.SessionID)
	return p
}

// unchanged says of a follow-up that its engine left what it began with.
func (r *run) unchanged() bool {
	return r.opened.Parent != nil && r.patch != nil && r.patch.HeadTree == r.opened.Parent.HeadTree
}

// contradictParent holds what a run says of its parent against the patch that it
// keeps of it.
func (r *run) contradictParent(agree agreeFunc) {
	var kept *ArtifactRecorded
	for i := range r.artifacts {
		if r.artifacts[i].Path == ParentPatchFile {
			kept = &r.artifacts[i]
		}
	}
	p := r.opened.Parent
	if p == nil {
		agree(kept == nil, "%s is there, and the run continues no session", ParentPatchFile)
		return
	}
	agree(canon.ValidDigest(p.ReceiptSHA256) && canon.ValidDigest(p.PatchSHA256), "the session that the run continues is not named by digests")
	agree(len(p.Chain) > 0 && p.Chain[len(p.Chain)-1] == p.SessionID && !slices.Contains(p.Chain, r.session), "the chain of sessions does not end in the one that the run continues")
	agree(p.Status == StatusPass || p.Status == StatusFail, "a run that ended as %q cannot be continued", p.Status)
	agree(p.Used.Requests >= 0 && p.Used.Tokens >= 0 && p.Used.CostMicroUSD >= 0, "less than nothing was used by the sessions before")
	if r.workspace == nil {
		return // nothing was started from it: a secret in it may have been taken out
	}
	agree(kept != nil, "the patch that the engine started from is not kept as %s", ParentPatchFile)
	agree(kept == nil || kept.SHA256 == p.PatchSHA256, "%s is not the patch of the session that the run continues", ParentPatchFile)
}

// summaryParent says in the summary where the work began, of a run that continues
// another.
func (r *run) summaryParent(b *strings.Builder) {
	p := r.opened.Parent
	if p == nil {
		return
	}
	fmt.Fprintf(b, "- Continues: %s (%s), receipt `%s`, patch `%s` (kept as `%s`); the patch above is the whole change against the baseline\n",
		code(p.SessionID), p.Status, p.ReceiptSHA256, p.PatchSHA256, ParentPatchFile)
	if len(p.Chain) > 1 {
		fmt.Fprintf(b, "- Chain: %s\n", chained(p.Chain))
	}
	if u := p.Used; u.CostKnown != nil {
		note := ""
		if !*u.CostKnown {
			note = " and more: what some of it cost is not known"
		}
		fmt.Fprintf(b, "- Used before this session: %s, %s, %d micro-USD%s\n", count(int(u.Requests), "request"), count(int(u.Tokens), "token"), u.CostMicroUSD, note)
	}
}

// chained lists sessions, the oldest first.
func chained(ids []string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = code(id)
	}
	return strings.Join(out, " → ")
}
