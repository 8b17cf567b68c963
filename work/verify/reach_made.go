package verify

import (
	"os"
	"path"
	"slices"
	"strings"
)

// A build tool does not make what is there already. What a patch brings is older than the
// base (see lay), so that what is made of files of the base is made all the same. The
// rest is found here: what is made of nothing, as a target without prerequisites, for
// make test does nothing where there is a file named test; and what is read where it
// exists. A new path that takes such a place is treated like a test.

// target is what a rule makes of nothing, in the directory that its name is relative to.
type target struct {
	dir, name string // the name may have one %, as a pattern, or * and ? of a shell
}

// builds notes the directories that a text builds in, and the tools that it calls.
func (r *reacher) builds(dirs []string, text string) {
	for _, m := range buildsIn.all(text, maxReachDirs) {
		for _, d := range dirs {
			if p := path.Join(d, m[1]); inside(p) && p != "." && !r.exists(p) {
				r.target(target{dir: d, name: path.Clean(m[1])})
			}
		}
	}
	// What is only done where a file is there, or is not.
	for _, m := range asksFile.all(text, maxReachWords) {
		for _, d := range dirs {
			if p := path.Join(d, m[1]); inside(p) && p != "." && !r.exists(p) {
				r.note(p, true)
			}
		}
	}
	words := fileWords(text)
	r.out.cmake = r.out.cmake || slices.Contains(words, "cmake") || slices.Contains(words, "ctest")
	for i, o := range outputs {
		if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(o.programs, path.Base(w)) }) {
			r.out.outputs[i] = true
		}
	}
}

func (r *reacher) target(t target) {
	if len(r.out.targets) < maxTargets {
		r.out.targets = append(r.out.targets, t)
	}
}

// outputs are the directories that tools keep what they have made in, each beside a
// file that says so.
var outputs = []struct {
	programs, beside, dirs []string
}{
	{[]string{"mvn", "mvnw"}, []string{"pom.xml"}, []string{"target"}},
	{[]string{"gradle", "gradlew"}, gradleFiles, []string{"build", ".gradle"}},
	{[]string{"cargo"}, []string{"Cargo.toml"}, []string{"target"}},
	{[]string{"sbt"}, []string{"build.sbt"}, []string{"target"}},
	{[]string{"mix"}, []string{"mix.exs"}, []string{"_build"}},
	{[]string{"dotnet"}, []string{"*.csproj", "*.fsproj", "*.vbproj"}, []string{"bin", "obj"}},
	{[]string{"tox"}, []string{"tox.ini", "tox.toml", "setup.cfg", "pyproject.toml"}, []string{".tox"}},
	{[]string{"nox"}, []string{"noxfile.py"}, []string{".nox"}},
	{[]string{"task"}, []string{"*askfile*.y*ml"}, []string{".task"}},
	{[]string{"cmake", "ctest"}, []string{"CMakeLists.txt"}, []string{"CMakeCache.txt", "CMakeFiles", "CMakePresets.json", "CMakeUserPresets.json"}},
}

// brings says whether a path that the base does not have takes the place of what the
// commands would make, or is read because it is there.
func (s *steering) brings(root *os.Root, p string) bool {
	if slices.ContainsFunc(s.targets, func(t target) bool { return t.matches(p) }) {
		return true
	}
	if s.searched[path.Base(p)] {
		return true
	}
	if s.makefiles && shadowsHeader().MatchString(p) || s.suffixes[path.Ext(p)] {
		return true
	}
	if strings.HasSuffix(p, ".tsbuildinfo") {
		return true // the compiler takes its word for what it has compiled
	}
	segments := strings.Split(p, "/")
	for i, name := range segments {
		for k := range s.outputs {
			if !slices.ContainsFunc(outputs[k].dirs, func(pattern string) bool { return matchName(pattern, name) }) {
				continue
			}
			at := path.Join(segments[:i]...)
			if _, err := root.Lstat(path.Join(at, name)); err != nil && besideOne(root, at, outputs[k].beside) {
				return true
			}
		}
	}
	return false
}

func (t target) matches(p string) bool {
	rel := p
	if t.dir != "." {
		var is bool
		if rel, is = strings.CutPrefix(p, t.dir+"/"); !is {
			return false
		}
	}
	if strings.ContainsAny(t.name, "*?[") {
		return matchName(t.name, rel)
	}
	before, after, pattern := strings.Cut(t.name, "%")
	if !pattern {
		return rel == t.name || strings.HasPrefix(rel, t.name+"/")
	}
	if !strings.Contains(t.name, "/") { // then the pattern is of the last part alone
		rel = path.Base(rel)
	}
	return len(rel) > len(before)+len(after) && strings.HasPrefix(rel, before) && strings.HasSuffix(rel, after)
}

func matchName(pattern, name string) bool {
	is, err := path.Match(pattern, name)
	return err == nil && is
}

// besideOne reports whether a directory of the base has a file of one of the names.
func besideOne(root *os.Root, dir string, names []string) bool {
	f, err := root.Open(path.Join(".", dir))
	if err != nil {
		return false
	}
	defer f.Close()
	there, _ := f.Readdirnames(maxReachLooks) // what is no directory has none
	return slices.ContainsFunc(there, func(n string) bool {
		return slices.ContainsFunc(names, func(pattern string) bool { return matchName(pattern, n) })
	})
}
