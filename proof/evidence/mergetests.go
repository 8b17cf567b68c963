package evidence

import (
	"fmt"
	"slices"
	"strings"
)

// namesTests says whether a command has named its tests in both phases.
func (v *VerificationCompleted) namesTests() bool {
	return len(v.FailToPass)+v.PassToPass+len(v.PassToFail)+len(v.Missing) > 0
}

// mendedCommands are those that failed on the baseline and pass now.
func (r *run) mendedCommands() []string {
	base, head := r.phase("base"), r.phase("head")
	if base == nil || head == nil {
		return nil
	}
	var out []string
	for i := range min(len(base.Runs), len(head.Runs)) {
		if base.Runs[i].ExitCode != 0 && head.Runs[i].Passed {
			out = append(out, head.Runs[i].Command)
		}
	}
	return out
}

// mergeTests says what the change does to tests by name. A test that the change
// adds may count as fixed, when it could not be built before: it is listed as new.
func (r *run) mergeTests(b *strings.Builder) {
	v := r.verification
	fixed, made := v.FailToPass, 0
	if n := v.NewTests; n != nil {
		fresh := setOf(slices.Concat(n.FailWithout, n.PassWithout))
		fixed = slices.DeleteFunc(slices.Clone(fixed), func(t string) bool { return fresh[t] })
		made = len(n.FailWithout)
	}
	kind := "verified"
	switch {
	case v.Status != StatusPass:
		kind = "verified in the delivered tree, whose verdict is " + v.Status
	case v.Control.Status == ControlNone:
		kind = "verified by plain runs alone: see Control"
	}
	switch {
	case !v.namesTests() && len(r.mendedCommands()) > 0:
		fmt.Fprintf(b, "- Fixed: %s failed before and passes now. Its output does not name tests, so what was fixed is known by its exit code alone; a flag such as `-v` names them (%s)\n",
			names(r.mendedCommands()), kind)
	case !v.namesTests():
		b.WriteString("- Fixed: no command failed before, and none names its tests\n")
	case len(fixed) > 0:
		fmt.Fprintf(b, "- Fixed (failed before, pass now): %s: %s (%s)\n", count(len(fixed), "test"), names(fixed), kind)
	case made > 0:
		fmt.Fprintf(b, "- What is new: no test that was there before was failing; %s without the change and passes with it (verified)\n", noun(made, "new test fails", "new tests fail"))
	default:
		b.WriteString("- Fixed: no test that failed before passes now (verified)\n")
	}
	fmt.Fprintf(b, "- New or edited tests: %s\n", r.newTests(v.NewTests))
	if !v.namesTests() {
		return
	}
	fmt.Fprintf(b, "- Kept: %s passed before and pass now (verified)\n", count(v.PassToPass, "test"))
	fmt.Fprintf(b, "- Newly failing: %s. Not run any more: %s (verified)\n", names(v.PassToFail), names(v.Missing))
}
