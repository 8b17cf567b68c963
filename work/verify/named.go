package verify

import (
	"path"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/work/verify/twin"
)

// Tests of PHP have the name of a class and a method, those of Ruby the file and the
// words of all titles in one line.

var phpTestName = form.Lazy(`^(?:.*[Tt]ests?|.*TestCase|test.*)\.php$`)

// phpTestFile says whether a file of PHP may hold tests.
func phpTestFile(p string) bool {
	segments := strings.Split(path.Dir(p), "/")
	return strings.HasSuffix(p, ".php") && !slices.Contains(segments, "vendor") && phpTestName().MatchString(path.Base(p))
}

// rubyTestFile says whether a file of Ruby may hold tests.
func rubyTestFile(p string) bool {
	segments := strings.Split(path.Dir(p), "/")
	return strings.HasSuffix(p, "_spec.rb") && !slices.Contains(segments, "vendor")
}

// phpDataSet is between the name of a test of PHPUnit and that of a row.
const phpDataSet = " with data set "

// namedIndex finds tests by what their runner calls them.
type namedIndex struct {
	exact   map[string]*suiteTest // nil where several have the name
	partial map[string][]*suiteTest
}

func (x *namedIndex) add(f *suiteFile) {
	if x.exact == nil {
		x.exact, x.partial = make(map[string]*suiteTest), make(map[string][]*suiteTest)
	}
	for _, t := range f.tests {
		id := t.name
		switch {
		case f.lang == langRuby && len(t.title) == 1:
			id = f.path + twin.TitleSeparator + t.title[0]
		case f.lang == langRuby:
			x.partial[f.path] = append(x.partial[f.path], t)
			continue
		}
		if _, twice := x.exact[id]; twice {
			x.exact[id] = nil
		} else {
			x.exact[id] = t
		}
	}
}

// test is the test of an identity, nil if there is none or more than one.
func (x *namedIndex) test(id string) *suiteTest {
	if x.exact == nil {
		return nil
	}
	name, _, _ := strings.Cut(id, phpDataSet)
	for _, name := range []string{id, name} {
		if t, known := x.exact[name]; known && (name == id || t != nil && t.file.lang == langPHP) {
			return t
		}
	}
	file, title, _ := strings.Cut(id, twin.TitleSeparator)
	var found *suiteTest
	for _, t := range x.partial[file] {
		if matchesTitle(title, t.title) {
			if found != nil {
				return nil
			}
			found = t
		}
	}
	return found
}
