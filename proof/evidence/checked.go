package evidence

import (
	"encoding/json"
	"fmt"
	"strings"

	"remit/proof/journal"
	"remit/proof/record"
)

// NoEngine is the name of the engine of a run that checks a change which was there
// before it: no engine made the change, and none is started.
const NoEngine = "none"

// PurposeCheck is the purpose of such a run.
const PurposeCheck = "check"

// Checked says which change a run without an engine was asked to check, and what git
// says of it. Names, addresses and messages of a commit are what its author wrote.
type Checked struct {
	// HeadCommit is the commit whose change is checked, "" for a patch, which
	// PatchSHA256 names then.
	HeadCommit  string `json:"head_commit,omitempty"`
	PatchSHA256 string `json:"patch_sha256,omitempty"`
	// PullRequest is where a person finds the pull request that the commit is from.
	PullRequest string `json:"pull_request,omitempty"`
	// MergeBase is the commit from which the change was made. Where it is not the
	// baseline, the change was laid over the baseline as a patch.
	MergeBase string `json:"merge_base,omitempty"`
	// Authors are those of the commits between the two, the newest first and each
	// once; Commits is how many commits there are.
	Authors []Author `json:"authors,omitempty"`
	Commits int      `json:"commits,omitempty"`
}

// Author is the author of a commit as git has it, or of a patch as it says itself.
type Author struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// ChangeTaken are the outputs of change.taken, which stands where other runs have
// engine.run.
type ChangeTaken struct {
	Checked
	Blockers []Blocker `json:"blockers"`
}

// checks reports whether the run checks a change that was there before it.
func (r *run) checks() bool { return r.opened.Checked != nil }

// checked is what the report says of it: what the run took, or else what it was asked
// to take.
func (r *run) checked() *Checked {
	if r.taken != nil {
		return &r.taken.Checked
	}
	return r.opened.Checked
}

// contradictChecked holds a run without an engine to what such a run can have done,
// and every other one to having an engine.
func (r *run) contradictChecked(agree agreeFunc) {
	c := r.opened.Checked
	agree((c != nil) == (r.opened.Engine.Name == NoEngine) && (c != nil) == (r.opened.Purpose == PurposeCheck), "the run has no engine exactly if it checks a change that was there before")
	if c == nil {
		agree(r.taken == nil, "%s is there, and the run has an engine", StepTaken)
		return
	}
	agree((c.HeadCommit == "") != (c.PatchSHA256 == ""), "the change that is checked is a commit or a patch, and one of them")
	if t := r.taken; t != nil {
		agree(t.HeadCommit == c.HeadCommit && t.PatchSHA256 == c.PatchSHA256 && t.PullRequest == c.PullRequest, "another change was taken than the one that the run is about")
	}
	for i := range r.entries {
		switch e := &r.entries[i]; e.Name {
		case StepEngine, StepTool, StepModel, StepUsage, StepMessage, StepBudget, StepBranchPolicy, StepDelivered:
			agree(e.Status == journal.Skipped, "entry %d is %s of a run that has no engine", i, e.Name)
		}
	}
}

const shownAuthors = 5

// mergeChecked says in the summary whose change it is.
func (r *run) mergeChecked(b *strings.Builder) {
	c := r.checked()
	what := "patch `" + c.PatchSHA256 + "`"
	if c.HeadCommit != "" {
		what = "commit `" + c.HeadCommit + "`"
	}
	fmt.Fprintf(b, "Checked: %s. Engine: none, the change was there before (observed).\n", what)
	if c.PullRequest != "" {
		fmt.Fprintf(b, "Pull request: %s (observed).\n", code(c.PullRequest))
	}
	if c.MergeBase != "" && c.MergeBase != string(r.opened.BaselineCommit) {
		fmt.Fprintf(b, "Made from `%s`, and laid over the baseline as a patch (observed).\n", c.MergeBase)
	}
	for _, a := range c.Authors[:min(len(c.Authors), shownAuthors)] {
		who := a.Name
		if a.Email != "" {
			who += " <" + a.Email + ">"
		}
		fmt.Fprintf(b, "Author: %s (self-reported).\n", code(cutRunes(who, quotedRunes)))
	}
	if more := len(c.Authors) - shownAuthors; more > 0 {
		fmt.Fprintf(b, "And %s.\n", count(more, "further author"))
	}
}

// A run that asks a model has one usage.metered, written when its gateway was
// closed, and one model.request for each request, written as it ended. The
// second kind outlives a process that is killed; the first has to be made of it
// then, and never says less than it.

// Asked adds up the requests to a model that a journal has. CostKnown is nil
// where there is none, also none that was refused.
func Asked(entries []journal.Entry) (MeteredUsage, error) {
	var sum MeteredUsage
	known := true
	for i := range entries {
		e := &entries[i]
		if e.Name != StepModel || e.Status == journal.Started || string(e.Outputs) == "{}" {
			continue
		}
		var q record.ModelRequest
		if err := json.Unmarshal(e.Outputs, &q); err != nil {
			return MeteredUsage{}, fmt.Errorf("reading journal entry %d: %w", e.Seq, err)
		}
		sum.CostKnown = &known
		if q.Refused != "" {
			continue
		}
		sum.Requests++
		known = known && q.CostKnown
		for _, n := range []int64{q.Usage.InUncached, q.Usage.CacheRead, q.Usage.CacheWrite, q.Usage.Out} {
			sum.Tokens = counted(sum.Tokens, n)
		}
		sum.CostMicroUSD = counted(sum.CostMicroUSD, q.CostMicroUSD)
	}
	return sum, nil
}

// counted adds a number of a journal, which may be forged: it takes
// nothing away and does not wrap around.
func counted(sum, n int64) int64 {
	const most = 1 << 60
	return min(most, sum+min(most, max(0, n)))
}

// contradictUsage holds what the run is said to have used against the requests
// one by one.
func (r *run) contradictUsage(agree agreeFunc) {
	asked, err := Asked(r.entries)
	agree(err == nil, "a request to a model does not have its form: %v", err)
	if err != nil || asked.CostKnown == nil || r.completed == nil {
		return
	}
	u := r.usage
	agree(u.Requests >= asked.Requests && u.Tokens >= asked.Tokens && u.CostMicroUSD >= asked.CostMicroUSD,
		"%d request(s), %d tokens and %d micro-USD are counted, the requests add up to %d, %d and %d",
		u.Requests, u.Tokens, u.CostMicroUSD, asked.Requests, asked.Tokens, asked.CostMicroUSD)
	agree(u.CostKnown != nil && (!*u.CostKnown || *asked.CostKnown), "the cost of the model is stated as known, and that of a request is not")
}
