package verify

import (
	"maps"
	"slices"
	"strings"

	"remit/work/verify/results"
)

// transitions are the tests of the contract's commands by what became of them
// between two runs. A test that two commands run counts with its worse fate.
type transitions struct {
	failToPass, passToPass, passToFail, missing, added map[string]bool
}

func newTransitions() *transitions {
	return &transitions{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
}

// compare files the tests of one command.
func (t *transitions) compare(before, after *CommandResult) {
	details := failedWithDetails(before, after)
	for id, was := range before.PerTest {
		if now := details[id]; now != "" {
			t.failToPass[now] = true
			continue
		}
		is, ran := after.PerTest[id]
		ran = ran && is != results.Skip
		switch {
		case was == results.Skip:
		case was == results.Pass && is == results.Pass:
			t.passToPass[id] = true
		case was == results.Pass && (is == results.Fail || !ran && containerFailed(after, id)):
			t.passToFail[id] = true
		case was == results.Fail && is == results.Pass:
			t.failToPass[id] = true
		case !ran && !before.transient[id] && !containerFailed(after, id) && after.wouldName():
			t.missing[id] = true
		}
	}
	for id, is := range after.PerTest {
		if _, known := before.PerTest[id]; known || is != results.Pass || t.failToPass[id] {
			continue
		}
		if containerFailed(before, id) {
			t.failToPass[id] = true // it could not be built or collected before
		} else {
			t.added[id] = true
		}
	}
}

// failedWithDetails are the tests of TAP that failed before with details behind their names
// ("not ok 1 - add: got 3"), and pass now without ("ok 1 - add"), with their names.
func failedWithDetails(before, after *CommandResult) map[string]string {
	out, taken := map[string]string{}, map[string]bool{}
	if before.Runner != results.TAP || after.Runner != results.TAP {
		return out
	}
	for _, id := range slices.Sorted(maps.Keys(before.PerTest)) {
		if _, there := after.PerTest[id]; there || before.PerTest[id] != results.Fail {
			continue
		}
		for i := len(id) - 1; i > 0; i-- {
			name := strings.TrimRight(id[:i], " ")
			if _, known := before.PerTest[name]; strings.IndexByte(" :,;([#-", id[i]) >= 0 && !known && !taken[name] && after.PerTest[name] == results.Pass {
				out[id], taken[name] = name, true
				break
			}
		}
	}
	return out
}

// wouldName says whether a test that the command has run would have a name in
// its report. A script around a runner may name failures alone: of its passes
// only the number is known, and compared elsewhere.
func (c *CommandResult) wouldName() bool {
	return c.PerTest != nil || c.ExitCode == 0 && (c.direct || c.Tests == nil)
}

// settle leaves every test in its worst place only.
func (t *transitions) settle() {
	drop := func(from map[string]bool, worse ...map[string]bool) {
		maps.DeleteFunc(from, func(id string, _ bool) bool {
			return slices.ContainsFunc(worse, func(w map[string]bool) bool { return w[id] })
		})
	}
	drop(t.missing, t.passToFail)
	drop(t.failToPass, t.passToFail, t.missing)
	drop(t.passToPass, t.passToFail, t.missing, t.failToPass)
	drop(t.added, t.passToFail, t.missing, t.failToPass, t.passToPass)
}

// containerFailed says whether the package, file or module of a test failed
// as a whole.
func containerFailed(c *CommandResult, id string) bool {
	for i := range id {
		if (id[i] == '.' || strings.HasPrefix(id[i:], "::") || strings.HasPrefix(id[i:], " > ")) && c.PerTest[id[:i]] == results.Fail {
			return true
		}
	}
	return false
}

// list sorts a set and cuts it at MaxListed.
func list(set map[string]bool) []string {
	out := slices.Sorted(maps.Keys(set))
	if out == nil {
		out = []string{}
	}
	return out[:min(len(out), MaxListed)]
}

// delta is failing tests before − after. When one of the phases does not know
// its tests it is failing commands before − after.
func delta(base, head []CommandResult) int {
	tests, known := 0, false
	commands := 0
	for i := range min(len(base), len(head)) {
		if b, h := base[i].Tests, head[i].Tests; b != nil && h != nil {
			known = true
			tests += b.Failed - h.Failed
		}
		commands += failing(&base[i]) - failing(&head[i])
	}
	if known {
		return tests
	}
	return commands
}

func failing(c *CommandResult) int {
	if c.ExitCode != 0 || c.TimedOut || c.OutputExceeded || !c.Started {
		return 1
	}
	return 0
}
