package verify

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/work/sandbox"
)

// compiled says whether the tests of a file are built before they run, so that an edit
// may be one that the compiler refuses.
func (f *suiteFile) compiled() bool { return f.lang == langRust || f.lang == langC }

// built says the same of tests that the control may lose as well: what a compiler of Java
// refuses on the changed tree alone is not known to be the change.
func (f *suiteFile) built() bool { return f.compiled() || f.lang == langJava }

// errorOfJava is what javac says of a file, by itself or below Maven.
const errorOfJava = `(?:\[ERROR\] )?([^\s:\[\]]+\.java):(?:(\d+): error: |\[(\d+),\d+\] (?:error: )?)`

// errorOfC is what GCC and Clang say of a file, from its name on.
const errorOfC = `([^\s:]+` + sourceOfC + `):(\d+):(?:\d+:)? (?:fatal )?error: `

// unbuilt is what a compiler says when it has not built the tests.
var unbuilt = form.Lazy(`(?m)^error(?:\[E\d+\])?: |^` + errorOfC + `|^` + errorOfJava)

// notCompiled is what cargo and rustc say at the end of a build that has failed, and
// what the others say of a file.
var notCompiled = form.Lazy(`(?m)^error: (?:could not compile |aborting due to )|^` + errorOfC)

// unbuiltAt is where rustc found the fault, and unbuiltC where the others did, with what.
var (
	unbuiltAt = form.Lazy(`^ *--> ([^:\n]+\.rs):(\d+):\d+$`)
	unbuiltC  = form.Lazy(`^(?:\.\.?/|` + regexp.QuoteMeta(sandbox.WorkspacePath) + `/)*` + errorOfC + `(.*)$`)
	// unbuiltJava is the same of javac.
	unbuiltJava = form.Lazy(`^` + errorOfJava + `(.*)$`)
)

// leaveUnbuilt takes files out whose edits the compiler refuses on the base. It reports
// whether there was one: the others have to be tried again.
func (s *suite) leaveUnbuilt(plain []CommandResult, runs []*RunResult) bool {
	refused := make(map[string]string)
	for _, r := range runs {
		for i, was := range plain {
			if i < len(r.Commands) && !unbuilt().MatchString(was.tail) { // else the tests of the base itself are not built
				faults(r.Commands[i].tail, refused)
			}
		}
	}
	before := len(s.files)
	s.files = slices.DeleteFunc(s.files, func(f *suiteFile) bool {
		if !f.built() {
			return false
		}
		for at, what := range refused {
			if f.path == at || strings.HasSuffix(f.path, "/"+at) || f.lang == langJava && strings.HasSuffix(at, "/"+f.path) {
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
		if j := unbuiltJava().FindStringSubmatch(line); j != nil {
			files[j[1]] = j[4] + " (line " + j[2] + j[3] + ")"
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
