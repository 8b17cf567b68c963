package verify

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/verify/results"
)

// control holds the planted tests of the head to what they must do: fail, and
// fail the command.
func (j *judgement) control(base, head *PhaseResult) {
	if head.control == nil {
		return
	}
	if head.control.fault != nil {
		j.add(*head.control.fault)
		return
	}
	for i := range head.control.commands {
		c := &head.control.commands[i]
		if !c.finished {
			j.find(reason.InfrastructureFault, "the control run of %q did not end within its limits", head.Commands[c.index].Command)
			continue
		}
		if silent := c.silent(base.controlOf(c.index), resultOf(base, c.index), resultOf(head, c.index)); silent != "" {
			j.find(reason.VerifierTampering, "a planted test that must fail %s: the runner of %q cannot be believed", silent, head.Commands[c.index].Command)
		}
	}
}

// controlOf is the control of one command of a phase, nil when there is none.
func (r *PhaseResult) controlOf(index int) *controlCommand {
	if r.control == nil || r.control.fault != nil {
		return nil
	}
	for i := range r.control.commands {
		if c := &r.control.commands[i]; c.index == index && c.finished {
			return c
		}
	}
	return nil
}

func resultOf(r *PhaseResult, index int) map[string]results.Outcome {
	if index >= len(r.Commands) {
		return nil
	}
	return r.Commands[index].PerTest
}

// silent says how a required planted test did not fail, "" when all did.
func (c *controlCommand) silent(base *controlCommand, before, after map[string]results.Outcome) string {
	required := c.requiredGo(base, before, after)
	if c.runner != results.GoTest {
		required = c.requiredPython(base)
	}
	for _, id := range slices.Sorted(maps.Keys(required)) {
		switch outcome, ran := c.outcomes[id]; {
		case !ran:
			return "did not run"
		case outcome != results.Fail:
			return "passed"
		}
	}
	if len(required) > 0 && c.exit == 0 {
		return "left the exit status at 0"
	}
	return ""
}

var goTestName = regexp.MustCompile(`\.(?:Test|Example|Fuzz|Benchmark)`)

// goPackages are the packages of which a test ran, or of which one passed.
func goPackages(perTest map[string]results.Outcome, passed bool) map[string]bool {
	packages := make(map[string]bool)
	for id, o := range perTest {
		if at := goTestName.FindStringIndex(id); at != nil && (o == results.Pass || !passed) {
			packages[id[:at[0]]] = true
		}
	}
	return packages
}

// requiredGo: every package whose tests passed has a planted test, which go
// test runs like the others. Left out is a package in which the planted test
// does not build, and one in which it did not fail on the base either.
func (c *controlCommand) requiredGo(base *controlCommand, before, after map[string]results.Outcome) map[string]bool {
	required := make(map[string]bool)
	if len(c.planted) >= maxControlDirs {
		return required
	}
	known := goPackages(before, false)
	for name := range goPackages(after, true) {
		id := name + ".Test_" + secretMark
		unshown := base != nil && known[name] && base.outcomes[id] != results.Fail
		// Files named on the command line are all that such a command builds.
		if c.outcomes[name] != results.Fail && !unshown && name != "command-line-arguments" {
			required[id] = true
		}
	}
	return required
}

// requiredPython: what failed on the base. A selection in the project's own
// configuration may leave a planted test out, and the base shows whether it
// does. A file that the patch deleted has nothing planted any more.
func (c *controlCommand) requiredPython(base *controlCommand) map[string]bool {
	required := make(map[string]bool)
	if base == nil {
		return required
	}
	for id, o := range base.outcomes {
		file, _, _ := strings.Cut(id, "::")
		if c.runner == results.Unittest {
			module, _, _ := strings.Cut(id, ".Test_"+secretMark)
			file = strings.ReplaceAll(module, ".", "/") + ".py"
		}
		planted := slices.ContainsFunc(c.planted, func(p string) bool { return p == file || strings.HasSuffix(p, "/"+file) })
		if o == results.Fail && strings.Contains(id, secretMark) && planted {
			required[id] = true
		}
	}
	return required
}
