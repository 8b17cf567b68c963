package evidence

import (
	"encoding/json"
	"fmt"
	"strings"

	"remit/proof/journal"
)

// mergeSummary makes PR_SUMMARY.md for the person who decides whether to merge:
// what was asked, what was changed and by what, what the verifier saw, and what
// nothing shows. Each statement says of which kind it is.
func (r *run) mergeSummary(rc *Receipt) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.title())
	r.mergeChanges(&b)
	r.summaryFiles(&b)
	r.mergeVerification(&b)
	fmt.Fprintf(&b, "\n## Confidence\n\n%s\n", r.measured())
	r.mergeSession(&b, rc)
	r.mergePerformance(&b, rc)
	r.mergeCost(&b, rc)
	r.summaryFailure(&b)
	return []byte(b.String())
}

const (
	taskLines   = 20  // of the instructions that are quoted
	quotedRunes = 300 // of one line of them
	shownHunks  = 20
)

func (r *run) mergeChanges(b *strings.Builder) {
	b.WriteString("## Changes Made\n\n")
	engine := fmt.Sprintf("Engine: %s, version %s", code(r.opened.Engine.Name), code(r.opened.Engine.Version))
	if r.opened.Model != nil && r.opened.ModelProvider != nil {
		engine += fmt.Sprintf(". Model: %s of %s", code(*r.opened.Model), code(*r.opened.ModelProvider))
	} else {
		engine += ". Model: none was given to it"
	}
	if r.patch == nil || len(r.patch.Files) == 0 {
		b.WriteString("No change was made (observed).\n")
	} else {
		added, removed := 0, 0
		for _, f := range r.patch.Files {
			added, removed = added+f.Added, removed+f.Removed
		}
		fmt.Fprintf(b, "%s changed, %s added, %d removed, on baseline `%s` (observed).\n",
			count(len(r.patch.Files), "file"), count(added, "line"), removed, r.opened.BaselineCommit)
		fmt.Fprintf(b, "Patch `%s`, resulting tree `%s` (observed).\n", r.patch.PatchSHA256, r.patch.HeadTree)
	}
	if r.checks() {
		r.mergeChecked(b)
		return
	}
	fmt.Fprintf(b, "%s (observed).\n", engine)
	if r.engineInput != nil && r.opened.Engine.Name == "command" && len(r.engineInput.Argv) > 0 {
		fmt.Fprintf(b, "Program: %s (observed).\n", code(cutRunes(strings.Join(r.engineInput.Argv, " "), quotedRunes)))
	}
	b.WriteString("\n### The task\n\n")
	lines := markdownLines(r.instructions())
	for _, line := range lines[:min(len(lines), taskLines)] {
		b.WriteString(quoted(cutRunes(line, quotedRunes)))
	}
	if more := len(lines) - taskLines; more > 0 {
		fmt.Fprintf(b, "\n%s more: see `%s`.\n", count(more, "line"), ContractFile)
	}
	b.WriteString("\n### What the agent says (self-reported, not verified)\n\n")
	if r.engine == nil || r.engine.Summary == "" {
		b.WriteString("Nothing (absent).\n")
		return
	}
	for _, line := range markdownLines(r.engine.Summary) {
		b.WriteString(quoted(line))
	}
}

// instructions are the task's own words.
func (r *run) instructions() string {
	var c struct {
		Instructions string `json:"instructions"`
	}
	_ = json.Unmarshal(r.contract.Contract, &c) // a contract of another form has no words to quote
	return c.Instructions
}

// heldOut are the paths of the tests that the agent did not see.
func (r *run) heldOut() []string {
	var c struct {
		HeldOut []struct {
			Path string `json:"path"`
		} `json:"held_out_tests"`
	}
	_ = json.Unmarshal(r.contract.Contract, &c) // a contract of another form names none
	var out []string
	for _, h := range c.HeldOut {
		out = append(out, DisplayPath(h.Path))
	}
	return out
}

// cutRunes shortens a line of text to n characters.
func cutRunes(line string, n int) string {
	for i := range line {
		if n == 0 {
			return line[:i] + "…"
		}
		n--
	}
	return line
}

func (r *run) mergeVerification(b *strings.Builder) {
	b.WriteString("\n## Verification\n\n")
	v := r.verification
	ran := r.mergeCommands(b)
	if !ran {
		b.WriteString("Not run (absent).\n")
	}
	if l := r.reported(); l != nil {
		fmt.Fprintf(b, "\n%s\n", l.sentence())
	}
	b.WriteString("\n")
	if ran {
		r.mergeTests(b)
		fmt.Fprintf(b, "- Parts of the change that no test notices: %s\n", r.unobserved(v.Observation))
	}
	if held := r.heldOut(); len(held) > 0 && v.Control.NotRuledOut != nil {
		fmt.Fprintf(b, "- Tests that the agent did not see, and that count above: those of %s (verified)\n", names(held))
	}
	fmt.Fprintf(b, "- Control: %s\n", r.controlled(v.Control))
	if len(v.Control.Commands) > 1 {
		for _, c := range v.Control.Commands {
			fmt.Fprintf(b, "  - %s: %s\n", code(c.Command), r.commandControlled(c))
		}
	}
	if len(v.Untracked) > 0 {
		fmt.Fprintf(b, "- Not part of this run, since no commit has them: %s (observed)\n", names(v.Untracked))
	}
	if e := r.environment(); e != nil {
		for _, s := range e.Sentences() {
			fmt.Fprintf(b, "- %s (observed)\n", s)
		}
	}
	if base := r.phase("base"); base != nil && base.Runs[0].Cached {
		fmt.Fprintf(b, "- The baseline was not run again: its result is that of %s, from the verdict cache.\n", base.Runs[0].CachedAt)
	}
	fmt.Fprintf(b, "\nLimits of this verification: %s.\n", strings.Join(r.limits(), "; "))
}

// mergeCommands lists what ran on the patched tree.
func (r *run) mergeCommands(b *strings.Builder) (ran bool) {
	for _, p := range r.judged() {
		for _, c := range p.Runs {
			if c.Phase != "head" {
				continue
			}
			ran = true
			verdict := "FAIL"
			if c.Passed {
				verdict = "PASS"
			}
			fmt.Fprintf(b, "- %s: %s (verified", code(c.Command), verdict)
			if c.Tests != nil {
				fmt.Fprintf(b, ": %d passed, %d failed, %d skipped", c.Tests.Passed, c.Tests.Failed, c.Tests.Skipped)
			}
			fmt.Fprintf(b, "); before the change: %s\n", r.baseOf(c.Command))
		}
	}
	return ran
}

// baseOf is what a command did on the baseline.
func (r *run) baseOf(command string) string {
	base := r.phase("base")
	if base == nil {
		return "not run"
	}
	for _, c := range base.Runs {
		if c.Command != command {
			continue
		}
		text := fmt.Sprintf("exit %d", c.ExitCode)
		if c.Tests != nil {
			text += fmt.Sprintf(", %d passed, %d failed, %d skipped", c.Tests.Passed, c.Tests.Failed, c.Tests.Skipped)
		}
		return text
	}
	return "not run"
}

func noun(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (r *run) newTests(n *NewTests) string {
	if n == nil || n.Tried == 0 {
		return r.prose(n.Sentence()) + " (absent)"
	}
	text := n.Sentence() + ": " + names(n.FailWithout)
	if len(n.PassWithout) > 0 {
		text += fmt.Sprintf(". %s without it, so it is not shown that they notice it: %s", noun(len(n.PassWithout), "passes", "pass"), names(n.PassWithout))
	}
	if n.Skipped != "" {
		text += ". Not all were tried: " + r.prose(n.Skipped)
	}
	return text + " (verified)"
}

func (r *run) unobserved(o *Observation) string {
	if o == nil || o.Tried == 0 {
		return r.prose(o.Sentence()) + " (absent)"
	}
	text := o.Sentence()
	shown := o.Unobserved[:min(len(o.Unobserved), shownHunks)]
	for i, h := range shown {
		text += map[bool]string{true: ": ", false: ", "}[i == 0] + code(r.place(h))
		if h.Removed {
			text += " (lines of the baseline)"
		}
	}
	if more := len(o.Unobserved) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if o.Skipped != "" {
		text += ". Not all were tried: " + r.prose(o.Skipped)
	}
	return text + " (verified)"
}

func (r *run) controlled(c *Control) string {
	if c.Status != ControlMade {
		return r.prose(c.Sentence()) + ". Nothing shows that these tests can fail (absent)"
	}
	return fmt.Sprintf("%s, in %s for that alone (verified)", c.Sentence(), count(c.Runs, "run"))
}

func (r *run) commandControlled(c CommandControl) string {
	switch {
	case c.Status != ControlMade:
		return "none: " + r.prose(c.Reason)
	case c.By == "exit":
		return "shown by its exit code, as a whole"
	}
	return fmt.Sprintf("%d of %d", c.Proved, c.Counting)
}

// limits says what the verification does not show.
func (r *run) limits() []string {
	v := r.verification
	out := []string{fmt.Sprintf("it ran on %s/%s with sandbox %s", r.opened.Host.OS, r.opened.Host.Arch, r.opened.Host.Sandbox.Driver)}
	if n := r.opened.Host.Sandbox.NotEnforced; len(n) > 0 {
		out = append(out, "not enforced there: "+plainLine(strings.Join(n, ", ")))
	}
	switch c := v.Control; {
	case c.Status != ControlMade:
		out = append(out, "no test was shown to be able to fail")
	case c.Proved < c.Counting:
		out = append(out, noun(c.Counting-c.Proved, "test was", "tests were")+" not shown to be able to fail")
	}
	if open := v.Control.NotRuledOut; len(open) > 0 {
		out = append(out, "cheats that it does not rule out: "+r.prose(strings.Join(open[:min(len(open), shownHunks)], ", ")))
	}
	if o := v.Observation; o != nil && o.Tried < o.Hunks {
		out = append(out, noun(o.Hunks-o.Tried, "part", "parts")+" of the change not tried alone")
	}
	if v.Repeats == 1 {
		out = append(out, "one repetition shows no test that fails now and then")
	}
	return append(out, "tests that check too little pass as well")
}

// measured says the confidence as finely as it was measured, and no finer.
func (r *run) measured() string {
	v := r.verification
	figure := fmt.Sprintf(" (`final_confidence` %s)", hundredths(int(v.Confidence)))
	switch {
	case v.Repeats == 0:
		return "Not measured: no repetition of the verification came to an end" + figure + "."
	case v.Control.Status == ControlNone && v.Confidence >= halfConfidence:
		passed := "At least half of the repetitions passed"
		if v.Status == StatusPass {
			passed = fmt.Sprintf("%d of %d repetitions passed", v.Repeats, v.Repeats)
		}
		return passed + ". No test was shown to be able to fail, so the confidence is at most one half" + figure + "."
	}
	passed := (int(v.Confidence)*v.Repeats + 99) / 100 // the share is rounded down
	return fmt.Sprintf("%d of %d repetitions passed%s.", passed, v.Repeats, figure)
}

func (r *run) mergeSession(b *strings.Builder, rc *Receipt) {
	issue := "none"
	if rc.IssueNumber != nil {
		issue = fmt.Sprintf("#%d", *rc.IssueNumber)
	}
	fmt.Fprintf(b, "\n## Session\n\n- ID: `%s`\n- Issue: %s\n- Duration: %s\n- Status: %s\n- Policy bundle: `%s`\n",
		rc.SessionID, issue, duration(between(rc.StartedAt, rc.CompletedAt)), rc.Status, rc.PolicyBundleID)
	if rc.PolicySHA256 != "" {
		fmt.Fprintf(b, "- Policy as applied: `%s`\n", rc.PolicySHA256)
	}
	r.summaryParent(b)
	if r.resumed > 0 && r.renewed() {
		fmt.Fprintf(b, "- Resumed: the run was cut off and taken up again, %s (observed); its duration includes the time between\n", count(r.resumed, "time"))
	}
	fmt.Fprintf(b, "- Trajectory: `%s`\n- Verification passed: %t\n", rc.TrajectoryHash, rc.Status == StatusPass)
}

func (r *run) mergePerformance(b *strings.Builder, rc *Receipt) {
	b.WriteString("\n## Performance\n\n")
	wall := int64(0)
	if r.engine != nil && r.engine.ProcessStarted {
		wall = r.engine.DurationMS
		fmt.Fprintf(b, "- Engine: %s (%s of processor time, %d MiB of memory at most)\n", duration(wall), duration(r.engine.Usage.CPUMillis), r.engine.Usage.PeakMemoryBytes>>20)
	} else {
		b.WriteString(map[bool]string{true: "- Engine: none\n", false: "- Engine: it did not run\n"}[r.checks()])
	}
	fmt.Fprintf(b, "- Verifier: %s\n", duration(r.verifierTime()))
	r.mergeCalls(b, rc, wall)
}

// verifierTime is how long the verifier worked, in milliseconds: the time in
// which verify.base or verify.head was under way, in every attempt.
func (r *run) verifierTime() int64 {
	total, until := int64(0), ""
	for i := range r.entries {
		e := &r.entries[i]
		if e.Name != StepVerifyBase && e.Name != StepVerifyHead || e.Status == journal.Started {
			continue
		}
		end := entryTime(e)
		total += between(max(e.StartedAt, until), end) // times of one form sort as text
		until = max(until, end)
	}
	return total
}

func (r *run) mergeCost(b *strings.Builder, rc *Receipt) {
	b.WriteString("\n## Cost\n\n")
	if u := r.usage; r.opened.Model == nil && u.Requests == 0 {
		b.WriteString("- Model: none was given to the engine (absent)\n")
	} else {
		fmt.Fprintf(b, "- Model: %s for %s and %s (observed)\n", u.price(), count64(u.Requests, "request"), count64(u.Tokens, "token"))
	}
	r.mergePayments(b, rc)
}

func count64(n int64, noun string) string { return count(int(n), noun) }

// price is the cost of a model in dollars, as far as it is known.
func (u MeteredUsage) price() string {
	switch {
	case u.CostKnown != nil && *u.CostKnown:
		return dollars(u.CostMicroUSD)
	case u.CostMicroUSD > 0:
		return "at least " + dollars(u.CostMicroUSD) + ", the rest is not known,"
	}
	return "cost not known"
}

// dollars writes micro-USD in dollars: cents from one dollar on, and below that
// as many digits as show the amount.
func dollars(micro int64) string {
	if micro == 0 {
		return "$0"
	}
	if micro >= 1_000_000 {
		cents := micro/10_000 + (micro%10_000+5_000)/10_000
		return fmt.Sprintf("$%d.%02d", cents/100, cents%100)
	}
	text := fmt.Sprintf("%06d", micro)
	if micro >= 100 {
		text = fmt.Sprintf("%04d", (micro+50)/100)
	}
	if text == "10000" { // rounded up
		return "$1.00"
	}
	return "$0." + text
}
