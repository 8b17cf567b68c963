package verify

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strings"

	"remit/proof/form"
)

var (
	// The name of a script says that it tests something.
	shellTestName = form.Lazy(`(?i)(?:^|[._-])(?:(?:unit|self|smoke|run|regress)?tests?|spec|check)(?:[._-]|$)`)
	shellFirst    = form.Lazy(`^#![^\n]*\b(?:ba|da|a)?sh\b`)
)

// shellTestFile says whether a file may be a script of sh or bash that tests something, by
// its path.
func shellTestFile(p string) bool {
	switch path.Ext(p) {
	case ".sh", ".bash":
		return DefaultTestPath(p) || slices.Contains(strings.Split(path.Dir(p), "/"), "t") || shellTestName().MatchString(strings.TrimSuffix(path.Base(p), path.Ext(p)))
	case "":
		return DefaultTestPath(p) || shellTestName().MatchString(path.Base(p))
	}
	return false
}

// shellScript says whether the text of such a file is a script.
func shellScript(p string, src []byte) bool {
	return path.Ext(p) != "" && !bytes.HasPrefix(src, []byte("#!")) || shellFirst().Match(src)
}

// leaveHelpers takes scripts out where each command names its tests, and beside test files
// of bats, which read them: what a script finds wrong has no name there.
func (s *suite) leaveHelpers(views []view, plain []CommandResult) {
	named := !slices.ContainsFunc(views, func(v view) bool { return !s.named(plain[v.first:v.end]) })
	if named || s.has(langBats) {
		s.files = slices.DeleteFunc(s.files, func(f *suiteFile) bool { return f.lang == langShell })
		s.index()
	}
}

// leaveScripts takes the scripts out, as the base fails with edits that change nothing: one
// of them is read by what is tested. It reports whether there was one.
func (s *suite) leaveScripts() bool {
	before := len(s.files)
	s.files = slices.DeleteFunc(s.files, func(f *suiteFile) bool {
		if f.lang == langShell {
			s.leave(f.path, errors.New("with an edit that changes nothing the command fails"))
		}
		return f.lang == langShell
	})
	s.index()
	return len(s.files) < before
}
