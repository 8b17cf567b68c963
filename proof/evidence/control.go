package evidence

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"remit/proof/canon"
	"remit/proof/reason"
)

// A verification that states a control says how far its own tests can be
// trusted: whether they were shown to be able to fail, whether the new ones
// notice the change, and which parts of the change no test notices. Journals
// without a control are older. Their projections keep their bytes, so what this
// file adds to a document depends on [run.stated].

const (
	fullConfidence = canon.Hundredths(100)
	// halfConfidence is the most that a verification without a control is
	// worth: its tests may be unable to fail.
	halfConfidence = canon.Hundredths(50)
)

// stated reports whether the verification says if it made a control.
func (r *run) stated() bool { return r.verification != nil && r.verification.Control != nil }

// full is the confidence of a verification whose repetitions all passed.
func (v *VerificationCompleted) full() canon.Hundredths {
	if v.Control != nil && v.Control.Status == ControlNone {
		return halfConfidence
	}
	return fullConfidence
}

// The words of a contract that make a pass depend on its tests.
const (
	controlRequired = "required"
	requireObserved = "observed"
)

// testDemands are what the contract asks of the tests themselves. A key that is
// not there, or has another form, asks for nothing.
func (r *run) testDemands() (control, observed bool) {
	var c struct {
		Verify map[string]json.RawMessage `json:"verify"`
	}
	if json.Unmarshal(r.contract.Contract, &c) != nil {
		return false, false
	}
	var word string
	var list []string
	control = json.Unmarshal(c.Verify["control"], &word) == nil && word == controlRequired
	observed = json.Unmarshal(c.Verify["require"], &list) == nil && slices.Contains(list, requireObserved)
	return control, observed
}

// unprovedTests names what a pass needs of the tests themselves and the journal
// lacks.
func (r *run) unprovedTests(need func(ok bool, code reason.Code, message string)) {
	v := r.verification
	control, observed := r.testDemands()
	c := v.Control
	if c != nil {
		shown := c.Status == ControlMade && c.Counting >= 1 && c.Proved >= 1 && c.Proved <= c.Counting
		need(shown || c.Status == ControlNone && c.Reason != "", reason.ControlMissing, "the control of the tests neither shows that a test can fail nor says why it was not made")
	}
	need(!control || c != nil && c.Status == ControlMade, reason.ControlMissing, "the contract requires a control of the tests, and none was made")
	need(!observed || v.Observation != nil && len(v.Observation.Unobserved) == 0, reason.ChangeUnobserved,
		"the contract requires that a test notices every part of the change, and the verification does not say so")
}

// contradictControl holds what a verification says of its tests against itself.
func (r *run) contradictControl(agree agreeFunc) {
	v := r.verification
	if v == nil {
		return
	}
	if c := v.Control; c != nil {
		agree(c.Status == ControlMade || c.Status == ControlNone, "the control is %q, which is neither made nor none", c.Status)
		agree(v.Confidence <= v.full(), "the confidence is %s without a control of the tests", v.Confidence)
		agree(c.Proved >= 0 && c.Proved <= c.Counting, "%d of %d tests were shown to be able to fail", c.Proved, c.Counting)
		made, known := false, setOf(r.opened.VerificationCommands)
		for _, one := range c.Commands {
			made = made || one.Status == ControlMade
			agree(known[one.Command], "the control is about %q, which the run does not name", one.Command)
			agree(one.Proved >= 0 && one.Proved <= one.Counting, "%d of %d tests of %q were shown to be able to fail", one.Proved, one.Counting, one.Command)
		}
		agree(len(c.Commands) == 0 || made || c.Status == ControlNone, "the control is %s, and its commands say otherwise", c.Status)
	}
	if n := v.NewTests; n != nil {
		agree(len(n.FailWithout)+len(n.PassWithout) <= n.Tried, "%d new tests were tried, %d are listed", n.Tried, len(n.FailWithout)+len(n.PassWithout))
		pass := setOf(n.PassWithout)
		agree(!slices.ContainsFunc(n.FailWithout, func(t string) bool { return pass[t] }), "a new test both fails and passes without the change")
	}
	if o := v.Observation; o != nil {
		agree(len(o.Unobserved) <= o.Tried && o.Tried <= o.Hunks, "%d of %d parts of the change were tried, %d are unobserved", o.Tried, o.Hunks, len(o.Unobserved))
		for _, h := range o.Unobserved {
			agree(r.patch == nil || r.patched[h.Path], "%s is named as unobserved, and the patch does not change it", h.Path)
		}
	}
}

// setOf is for lookups: the lists of a journal are hostile, and as long as they like.
func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

// ControlFound begins the reason of a control that has found results which tests cannot
// have.
const ControlFound = "it found what does not fit"

// Sentence says in plain text whether the tests were shown to be able to fail.
func (c *Control) Sentence() string {
	if strings.HasPrefix(c.Reason, ControlFound) {
		return c.Reason
	}
	if c.Status != ControlMade {
		return "none was made: " + c.Reason
	}
	if c.NotRuledOut == nil { // an older journal keeps its words
		return fmt.Sprintf("%d of %s shown to be able to fail", c.Proved, count(c.Counting, "test"))
	}
	exits, counting, proved := 0, 0, 0
	for _, cc := range c.Commands {
		if cc.By == "exit" {
			exits += cc.Proved
			continue
		}
		counting, proved = counting+cc.Counting, proved+cc.Proved
	}
	whole := noun(exits, "command that names no tests", "commands that name no tests") + " shown to be able to fail, by the exit status as a whole"
	named := fmt.Sprintf("%d of %s shown to be able to fail (a function counts once, with all its cases)", proved, count(counting, "test"))
	switch {
	case exits > 0 && counting > 0:
		return named + "; " + whole
	case exits > 0:
		return whole
	}
	return named
}

// Sentence says in plain text how many of the new tests notice the change.
func (n *NewTests) Sentence() string {
	switch {
	case n == nil:
		return "not looked for"
	case n.Tried == 0:
		return cmp.Or(n.Skipped, "the change has none")
	}
	least, verb := "", "fail"
	if max(len(n.FailWithout), len(n.PassWithout)) >= maxNamedTests {
		least = "at least " // the lists are cut
	}
	if n.Tried == 1 {
		verb = "fails"
	}
	return fmt.Sprintf("%s%d of %d %s without the change", least, len(n.FailWithout), n.Tried, verb)
}

// Sentence says in plain text how many parts of the change no test notices.
func (o *Observation) Sentence() string {
	switch {
	case o == nil:
		return "not looked for"
	case o.Tried == 0:
		return cmp.Or(o.Skipped, "not looked for")
	case o.Tried < o.Hunks:
		return fmt.Sprintf("%d of %d tried (the change has %d)", len(o.Unobserved), o.Tried, o.Hunks)
	}
	return fmt.Sprintf("%d of %d tried", len(o.Unobserved), o.Tried)
}

// Place is where a part of the change is: file:line, file:first-last, or the file
// alone, where it has no lines: a mode, a link, a binary file.
func (h HunkOfPatch) Place() string {
	switch {
	case h.First == 0:
		return h.Path
	case h.Last > h.First:
		return fmt.Sprintf("%s:%d-%d", h.Path, h.First, h.Last)
	}
	return fmt.Sprintf("%s:%d", h.Path, h.First)
}

// Kind is how a fact of a receipt is known.
type Kind string

// The kinds of facts, the strongest first.
const (
	Verified     Kind = "verified"      // the verifier saw it
	Observed     Kind = "observed"      // the harness saw it
	SelfReported Kind = "self_reported" // the agent says so
	Absent       Kind = "absent"        // nothing is known
)

// kinds says of the facts of a receipt how they are known. agent_summary is not
// in the receipt: it is the agent's account of its work, quoted in PR_SUMMARY.md.
func (r *run) kinds(rc *Receipt) map[string]Kind {
	known := func(is bool, as Kind) Kind {
		if is {
			return as
		}
		return Absent
	}
	v := r.verification
	kinds := map[string]Kind{
		"baseline_commit":  Observed,
		"engine":           Observed,
		"patch_sha256":     known(rc.PatchSHA256 != nil, Observed),
		"head_tree":        known(rc.HeadTree != nil, Observed),
		"model":            known(rc.Model != nil, Observed),
		"usage":            known(rc.Usage != nil, Observed),
		"lifecycle":        known(rc.Lifecycle != nil, Observed),
		"policy_sha256":    known(rc.PolicySHA256 != "", Observed),
		"receipts":         known(len(rc.Receipts) > 0, Observed),
		"payments":         known(len(rc.Payments) > 0, Observed),
		"untracked_tests":  known(len(v.Untracked) > 0, Observed),
		"tool_calls":       known(len(rc.ToolCalls) > 0, SelfReported),
		"agent_summary":    known(r.engine != nil && r.engine.Summary != "", SelfReported),
		"verification":     known(len(rc.Verification.CommandsRun) > 0, Verified),
		"final_confidence": known(v.Repeats > 0, Verified),
		"control":          known(v.Control.Status == ControlMade, Verified),
		"new_tests":        known(v.NewTests != nil && v.NewTests.Tried > 0, Verified),
		"observation":      known(v.Observation != nil && v.Observation.Tried > 0, Verified),
	}
	if rc.Parent != nil { // a receipt without one keeps its bytes
		kinds["parent"] = Observed
	}
	if rc.Checked != nil {
		kinds["checked"] = Observed
	}
	if rc.Environment != nil { // not in the receipts of older runs
		kinds["environment"] = Observed
	}
	return kinds
}
