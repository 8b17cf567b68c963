package verify

import (
	"path"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/work/verify/twin"
)

// Tests of JavaScript have titles, of their own and of the groups that they are in.
// A runner names a test by these, with the file in front of them or without.

var javaScriptTestName = form.Lazy(`^(?:tests?|test-.*|.*[._-](?:test|tests|spec)|.*(?:Test|Spec))\.[cm]?[jt]sx?$`)

// javaScriptDirs are where runners look for tests whatever their names are.
var javaScriptDirs = []string{"test", "tests", "__tests__", "spec", "specs"}

// javaScriptTestFile says whether a file of JavaScript or TypeScript may hold tests.
func javaScriptTestFile(p string) bool {
	if !twin.JavaScript(p) || strings.HasSuffix(p, ".d.ts") {
		return false
	}
	segments := strings.Split(path.Dir(p), "/")
	if slices.Contains(segments, "node_modules") {
		return false
	}
	return javaScriptTestName().MatchString(path.Base(p)) || slices.ContainsFunc(segments, func(s string) bool { return slices.Contains(javaScriptDirs, s) })
}

// titleIndex finds tests by their titles.
type titleIndex struct {
	exact   map[string][]*suiteTest
	partial []*suiteTest // a part of their titles is computed
	files   []*suiteFile
}

func (x *titleIndex) add(f *suiteFile) {
	if x.exact == nil {
		x.exact = make(map[string][]*suiteTest)
	}
	x.files = append(x.files, f)
	for _, t := range f.tests {
		switch len(t.title) {
		case 0: // it was recorded: its file is read again before anything is looked for
		case 1:
			title := trimmed(t.title[0])
			x.exact[title] = append(x.exact[title], t)
		default:
			x.partial = append(x.partial, t)
		}
	}
}

// test is the test of an identity, nil if there is none or more than one. What a
// test makes by itself, as its subtests, belongs to it.
func (x *titleIndex) test(id string) *suiteTest {
	if len(x.files) == 0 {
		return nil
	}
	var in *suiteFile
	for _, f := range x.files {
		if rest, ok := behindFile(id, f.path); ok {
			in, id = f, rest
			break
		}
	}
	id = trimmed(unescapeTAP.Replace(id))
	for title := id; ; {
		if found, known := x.titled(title, in); known {
			return found
		}
		at := strings.LastIndex(title, twin.TitleSeparator)
		if at < 0 {
			return nil
		}
		title = title[:at]
	}
}

// behindFile is an identity without the file that it begins with.
func behindFile(id, file string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(strings.TrimPrefix(id, "./"), file)
	if !ok {
		return id, false
	}
	for _, separator := range []string{twin.TitleSeparator, "::", ": ", " "} {
		if title, ok := strings.CutPrefix(rest, separator); ok {
			return title, true
		}
	}
	return id, false
}

// unescapeTAP takes out what TAP puts in front of characters.
var unescapeTAP = strings.NewReplacer(`\\`, `\`, `\#`, "#")

// titled is the test of a whole title. known says that there is such a title, which
// may be that of several tests.
func (x *titleIndex) titled(title string, in *suiteFile) (t *suiteTest, known bool) {
	var found []*suiteTest
	for _, t := range x.exact[title] {
		if in == nil || t.file == in {
			found = append(found, t)
		}
	}
	if len(found) == 0 {
		for _, t := range x.partial {
			// Where no file is named, a title that is computed as a whole fits everything.
			if (t.file == in || in == nil && len(strings.Join(t.title, "")) >= minTitle) && matchesTitle(title, t.title) {
				found = append(found, t)
			}
		}
	}
	if len(found) != 1 {
		return nil, len(found) > 0
	}
	return found[0], true
}

// matchesTitle says whether a title consists of the pieces, with any text between
// them.
func matchesTitle(title string, pieces []string) bool {
	first, last := strings.TrimLeft(pieces[0], " "), strings.TrimRight(pieces[len(pieces)-1], " ")
	if !strings.HasPrefix(title, first) || !strings.HasSuffix(title[len(first):], last) {
		return false
	}
	rest := title[len(first) : len(title)-len(last)]
	for _, piece := range pieces[1 : len(pieces)-1] {
		at := strings.Index(rest, piece)
		if at < 0 {
			return false
		}
		rest = rest[at+len(piece):]
	}
	return true
}

// minTitle is how much of a title must be known where nothing says which file it
// is of.
const minTitle = 4

// trimmed is a title as runners print it.
func trimmed(title string) string { return strings.TrimSpace(title) }
