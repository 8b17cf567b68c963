package verify

import (
	"cmp"
	"errors"
	"slices"

	"remit/proof/canon"
	"remit/work/verify/twin"
)

// at is the suite of another tree: of each file that has the same content
// there. Its tests keep what the base has shown.
func (s *suite) at(t *laidTree) *suite {
	same := &suite{inTree: s.inTree, hides: s.hides, framework: s.framework, left: slices.Clone(s.left)}
	for _, f := range s.files {
		src, err := t.read(f.path)
		if err != nil {
			err = errors.New("it is not in the tree that is judged")
		} else if f.digest(src) != f.sha256 {
			err = errors.New("the tree that is judged has another version of it")
		}
		there := &suiteFile{path: f.path, lang: f.lang, key: f.key, sha256: f.sha256, src: src, pkg: f.pkg, version: f.version, finder: f.finder, found: f.found, heldOut: f.heldOut, hidden: f.hidden, executable: t.executable(f.path)}
		if err == nil {
			err = there.parse()
		}
		if err != nil {
			same.leave(f.path, err)
			continue
		}
		for _, now := range there.tests {
			if was := f.test(now.name); was != nil {
				now.baseFacts = was.baseFacts.within(now.sites)
			}
		}
		same.files = append(same.files, there)
	}
	same.index()
	return same
}

// parse finds the tests of a file whose content is known, by what the finder
// said about it where Python's parser is needed.
func (f *suiteFile) parse() (err error) {
	switch f.lang {
	case langGo:
		f.edit, err = twin.ParseGo(f.path, f.src, f.version)
	case langJavaScript:
		f.edit, err = twin.ParseJavaScript(f.path, f.src)
	case langRust:
		f.edit, err = twin.ParseRust(f.src)
	case langRuby:
		f.edit, err = twin.ParseRuby(f.path, f.src)
	case langPHP:
		f.edit, err = twin.ParsePHP(f.src)
	case langJava:
		f.edit, err = twin.ParseJava(f.src)
	case langC:
		f.edit, err = twin.ParseC(f.path, f.src)
	case langBats, langShell:
		f.edit, err = twin.ParseShell(f.path, f.src)
	default:
		if f.found == nil { // it was recorded
			f.found = linesByPath([]byte(f.finder))[f.path].source
		}
		if f.found == nil {
			return errors.New("the parser of Python said nothing about it")
		}
		f.edit, err = f.found.Bind(f.src)
	}
	if err != nil {
		return err
	}
	for _, t := range f.edit.Tests() {
		f.tests = append(f.tests, &suiteTest{file: f, name: t.Name, title: t.Title, trace: cmp.Or(t.Trace, t.Name), sites: t.Sites, why: t.Why})
	}
	return nil
}

// digest is what two versions of a file have in common whose tests are the same: of a
// file that holds code as well only its tests count.
func (f *suiteFile) digest(src []byte) string {
	if f.lang == langRust {
		if tests, err := twin.RustTests(src); err == nil {
			src = tests
		}
	}
	return canon.Digest(src)
}

// within leaves out sites that a file does not have: what was recorded is not
// believed to fit.
func (b baseFacts) within(sites []twin.Site) baseFacts {
	has := func(id int) bool { return slices.ContainsFunc(sites, func(s twin.Site) bool { return s.ID == id }) }
	lacks := func(id int) bool { return !has(id) }
	b.Proved, b.Reached = slices.DeleteFunc(slices.Clone(b.Proved), lacks), slices.DeleteFunc(slices.Clone(b.Reached), lacks)
	if b.Failing != nil && lacks(b.Failing.Site) {
		b.Failing = nil
	}
	return b
}
