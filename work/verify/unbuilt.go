package verify

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/work/sandbox"
	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// compiled says whether the tests of a file are built before they run, so that an edit
// may be one that the compiler refuses.
func (f *suiteFile) compiled() bool { return f.lang == langRust || f.lang == langC }

// unbuilt is what rustc says when it has not built the tests, and what GCC and Clang say.
var unbuilt = form.Lazy(`(?m)^error(?:\[E\d+\])?: |^[^\s:]+\.(?:c|cc|cpp|cxx):\d+:(?:\d+:)? (?:fatal )?error: `)

// notCompiled is what cargo and rustc say at the end of a build that has failed, and
// what the others say of a file.
var notCompiled = form.Lazy(`(?m)^error: (?:could not compile |aborting due to )|^[^\s:]+\.(?:c|cc|cpp|cxx):\d+:(?:\d+:)? (?:fatal )?error: `)

// unbuiltAt is where rustc found the fault, and unbuiltC where the others did, with what.
var (
	unbuiltAt = form.Lazy(`^ *--> ([^:\n]+\.rs):(\d+):\d+$`)
	unbuiltC  = form.Lazy(`^(?:\.\.?/|` + regexp.QuoteMeta(sandbox.WorkspacePath) + `/)*([^\s:]+\.(?:c|cc|cpp|cxx)):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$`)
)

// leaveUnbuilt takes files out whose edits the compiler refuses on the base. It reports
// whether there was one: the others have to be tried again.
func (s *suite) leaveUnbuilt(plain []CommandResult, runs []*RunResult) bool {
	refused := make(map[string]string)
	for _, r := range runs {
		for i := range r.Commands {
			if unbuilt().MatchString(plain[i].tail) {
				continue // the tests of the base itself are not built
			}
			faults(r.Commands[i].tail, refused)
		}
	}
	before := len(s.files)
	s.files = slices.DeleteFunc(s.files, func(f *suiteFile) bool {
		if !f.compiled() {
			return false
		}
		for at, what := range refused {
			if f.path == at || strings.HasSuffix(f.path, "/"+at) {
				s.leave(f.path, errors.New("an edit of it does not compile: "+what))
				return true
			}
		}
		return false
	})
	if len(s.files) == before {
		return false
	}
	s.index()
	return true
}

// faults notes the files in which a compiler found something wrong.
func faults(output string, files map[string]string) {
	what := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if c := unbuiltC().FindStringSubmatch(line); c != nil {
			files[c[1]] = c[3] + " (line " + c[2] + ")"
			continue
		}
		switch m := unbuiltAt().FindStringSubmatch(line); {
		case unbuilt().MatchString(line):
			what = line
		case strings.HasPrefix(line, "warning"):
			what = ""
		case m != nil && what != "":
			files[m[1]] = what + " (line " + m[2] + ")"
			what = ""
		}
	}
}

// notBuilt is the command of a run of the control whose edited tests the compiler has
// refused, with its first error, nil where there is none. On the base it has built them.
func (w *witness) notBuilt(r *RunResult) (command *CommandResult, why string) {
	if !slices.ContainsFunc(w.suite.files, (*suiteFile).compiled) {
		return nil, ""
	}
	for i := range r.Commands {
		if c := &r.Commands[i]; c.ExitCode != 0 && notCompiled().MatchString(c.tail) && !notCompiled().MatchString(w.plain.Commands[i].tail) {
			why, _, _ = strings.Cut(c.tail[unbuilt().FindStringIndex(c.tail)[0]:], "\n")
			return c, why
		}
	}
	return nil, ""
}

// leaveFailing leaves tests out that fail by the trace although the command, which names
// none, passes: what they find wrong is no failure there.
func (s *suite) leaveFailing(r *PhaseResult) {
	for _, g := range r.proof.groups {
		if g.by != byExit || anyFailed(r.Commands[g.first:g.end]) {
			continue
		}
		for _, f := range s.files {
			for _, t := range f.tests {
				t.Broken = t.Broken || t.Outcome == results.Fail
			}
		}
	}
}

// leaveUnreached takes files of C out of which no run came by an edit: they are data, or
// parts of programs that are not built, and an edit of them shows nothing. It reports
// whether there was one.
func (s *suite) leaveUnreached(twins []*twinRun) bool {
	before := len(s.files)
	s.files = slices.DeleteFunc(s.files, func(f *suiteFile) bool {
		if f.lang != langC {
			return false
		}
		reached := slices.ContainsFunc(twins, func(r *twinRun) bool {
			for _, tv := range r.views {
				if fileTrace(tv.trace, f) != nil {
					return true
				}
			}
			return false
		})
		if !reached {
			s.leave(f.path, errors.New("no test that the commands run is in it"))
		}
		return !reached
	})
	s.index()
	return len(s.files) < before
}

// spoilt says whether commands that pass fail in a run in which no test is to fail.
func (r *PhaseResult) spoilt(neutral *RunResult) bool {
	return slices.ContainsFunc(r.proof.groups, func(g groupProof) bool {
		return g.by != byTest && !anyFailed(r.Commands[g.first:g.end]) && anyFailed(neutral.Commands[g.first:g.end])
	})
}

// failedIn says whether an assertion of a test has failed: it may have ended the program.
func (t *suiteTest) failedIn(f *twin.FileTrace) bool {
	return slices.ContainsFunc(t.sites, func(s twin.Site) bool { return f.Sites[s.ID] != nil && len(f.Sites[s.ID].Failed) > 0 })
}
