package verify

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
	"remit/work/verify/results"
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

var rubyTestName = form.Lazy(`^(?:.*_(?:spec|test)|test_.*)\.rb$`)

// rubyTestFile says whether a file of Ruby may hold examples of RSpec, whose identities
// are the file and all titles in one, or tests of Minitest.
func rubyTestFile(p string) bool {
	return rubyTestName().MatchString(path.Base(p)) && !slices.Contains(strings.Split(path.Dir(p), "/"), "vendor")
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
	for _, t := range f.tests { // of an earlier index
		t.alike = 0
	}
	for _, t := range f.tests {
		switch len(t.title) {
		case 0: // it was recorded: its file is read again before anything is looked for
		case 1:
			title := trimmed(t.title[0])
			for _, other := range x.exact[title] {
				if other.file == f {
					other.alike++
					t.alike = other.alike
				}
			}
			x.exact[title] = append(x.exact[title], t)
		default:
			x.partial = append(x.partial, t)
		}
	}
}

// test is the test of an identity, nil if there is none or more than one. Of tests
// that share a title in a file each has its number. What a test makes by itself, as
// its subtests, belongs to it.
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
	if in == nil {
		in, id = x.builtFrom(id)
	}
	id = trimmed(unescapeTAP.Replace(id))
	for title := id; ; {
		found := x.titled(title, in)
		if title == id {
			without, n := ordinalOf(id)
			if numbered := x.titled(without, in); n > 0 && len(found) == 0 && len(numbered) > 0 {
				if found = nth(numbered, n); len(found) == 0 {
					return nil
				}
			} else {
				found = nth(found, 1)
			}
		}
		if len(found) == 0 {
			found = x.computed(title, in)
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0]
		default:
			return nil
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

// builtFrom is the file of TypeScript that the file was made from which an identity begins
// with, and the identity behind it: the one of that name, of several the one with the most
// directories in common.
func (x *titleIndex) builtFrom(id string) (from *suiteFile, rest string) {
	file, rest, ok := strings.Cut(strings.TrimPrefix(id, "./"), twin.TitleSeparator)
	ext := path.Ext(file)
	if !ok || !slices.Contains([]string{".js", ".mjs", ".cjs"}, ext) {
		return nil, id
	}
	name := strings.TrimSuffix(path.Base(file), ext) + strings.Replace(ext, "js", "ts", 1)
	most, dirs := -1, strings.Split(path.Dir(file), "/")
	for _, f := range x.files {
		if path.Base(f.path) != name && path.Base(f.path) != name+"x" {
			continue
		}
		common := 0
		for i, dir := range strings.Split(path.Dir(f.path), "/") {
			if i == len(dirs) || dirs[i] != dir {
				break
			}
			common++
		}
		switch {
		case common > most:
			from, most = f, common
		case common == most:
			from = nil // which of them cannot be said
		}
	}
	if from == nil {
		return nil, id
	}
	return from, rest
}

// unescapeTAP takes out what TAP puts in front of characters.
var unescapeTAP = strings.NewReplacer(`\\`, `\`, `\#`, "#")

// ordinalOf takes the number of a test from its identity, 0 where it has none.
func ordinalOf(id string) (title string, n int) {
	at := strings.LastIndex(id, " (")
	if at < 0 || !strings.HasSuffix(id, ")") {
		return id, 0
	}
	n, err := strconv.Atoi(id[at+2 : len(id)-1])
	if err != nil || n < 2 || results.Ordinal(id[:at], n) != id {
		return id, 0
	}
	return id[:at], n
}

// nth is the nth of the tests that share a title in one file. One test alone is meant
// by any number: it runs more than once.
func nth(found []*suiteTest, n int) []*suiteTest {
	if len(found) < 2 || found[0].file != found[len(found)-1].file {
		return found
	}
	if n > len(found) {
		return nil
	}
	return found[n-1 : n]
}

// unclear says whether it cannot be said which of the tests that share a title an
// identity means: a runner that numbers them names another number of them, as where one
// is made in a loop.
func (t *suiteTest) unclear(id string, perTest map[string]results.Outcome) bool {
	if t.alike == 0 {
		return false
	}
	title, _ := ordinalOf(id)
	for n := 1; n <= t.alike+1; n++ {
		if _, named := perTest[results.Ordinal(title, n+1)]; named != (n < t.alike+1) {
			return true
		}
	}
	return false
}

// titled are the tests of a whole title, in one file or in all of them.
func (x *titleIndex) titled(title string, in *suiteFile) (found []*suiteTest) {
	for _, t := range x.exact[title] {
		if in == nil || t.file == in {
			found = append(found, t)
		}
	}
	return found
}

// computed are the tests that a title may be of, of which a part is computed.
func (x *titleIndex) computed(title string, in *suiteFile) (found []*suiteTest) {
	for _, t := range x.partial {
		// Where no file is named, a title that is computed as a whole fits everything.
		// What is computed at the end may be nothing, and the blank in front of it is cut off.
		if (t.file == in || in == nil && len(strings.Join(t.title, "")) >= minTitle) && (matchesTitle(title, t.title) || matchesTitle(title+" ", t.title)) {
			found = append(found, t)
		}
	}
	return found
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
