package verify

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// A build tool does not make what is there already. A patch that brings a file with
// the name of a target, or what a rule would make of the sources, keeps the rule from
// running: make test does nothing where there is a file named test, and links an
// object file that nobody compiled. What takes such a place is treated like a test.

// target is what a makefile can make, in the directory that its names are relative to.
type target struct {
	dir, name string // the name may have one %, as a pattern
	from      string // the first prerequisite of a pattern; "" for none
}

// rules are the targets of the makefiles that are read in one directory.
type rules struct {
	order  []string
	words  map[string][]string // prerequisites, and what their recipes call of make
	from   map[string]string   // the first prerequisite of a pattern
	phony  map[string]bool     // no files
	values map[string]string   // plain variables
	spare  int                 // how many variables may still be replaced
}

// Bounds of the makefiles of one directory.
const (
	maxTargets   = 2000
	maxVariables = 2000
	maxReplaced  = 20_000
	maxExpanded  = 16 << 10 // bytes of one line
)

func newRules() *rules {
	return &rules{words: map[string][]string{}, from: map[string]string{}, phony: map[string]bool{}, values: map[string]string{"MAKE": "make"}, spare: maxReplaced}
}

// read takes in a makefile, as far as one can be read without make: explicit and
// pattern rules, with plain variables. Functions give nothing.
func (m *rules) read(text string) {
	var current []string
	for line := range strings.Lines(strings.NewReplacer("\\\n", " ", "\\\r\n", " ").Replace(text)) {
		line = strings.TrimRight(line, "\r\n")
		if recipe, is := strings.CutPrefix(line, "\t"); is {
			m.recipe(current, recipe)
			continue
		}
		line, _, _ = strings.Cut(line, "#")
		if v := assignment().FindStringSubmatch(line); v != nil {
			m.assign(v[1], v[2], strings.TrimSpace(v[3]))
			continue
		}
		if directive().MatchString(line) {
			continue
		}
		names, rest, is := strings.Cut(m.expand(line, 0), ":")
		if !is {
			continue
		}
		needs, recipe, _ := strings.Cut(strings.TrimPrefix(rest, ":"), ";")
		current = m.rule(strings.Fields(strings.TrimSuffix(strings.TrimSpace(names), "&")), strings.Fields(strings.ReplaceAll(needs, "|", " ")))
		m.recipe(current, recipe)
	}
}

func (m *rules) assign(name, how, value string) {
	if _, known := m.values[name]; !known && len(m.values) >= maxVariables || known && how == "?" {
		return
	}
	if how == "+" {
		value = m.values[name] + " " + value
	}
	m.values[name] = value[:min(len(value), maxExpanded)]
}

func (m *rules) rule(names, needs []string) (added []string) {
	for _, name := range names {
		name = path.Clean(name)
		switch {
		case name == ".PHONY":
			for _, n := range needs {
				m.phony[path.Clean(n)] = true
			}
		case isSpecial(name) || strings.Contains(name, "$") || len(m.order) >= maxTargets:
		default:
			if _, known := m.words[name]; !known {
				m.order = append(m.order, name)
			}
			m.words[name] = append(m.words[name], needs...)
			if len(needs) > 0 && strings.Contains(name, "%") && strings.Contains(needs[0], "%") {
				m.from[name] = path.Clean(needs[0])
			}
			added = append(added, name)
		}
	}
	return added
}

// isSpecial reports whether a name is none of a file: .SUFFIXES, or a rule of suffixes
// such as .c.o.
func isSpecial(name string) bool {
	return len(name) > 1 && name[0] == '.' && !strings.Contains(name, "/") && (name[1:] == strings.ToUpper(name[1:]) || strings.Count(name, ".") == 2)
}

// recipe notes which targets a line asks make for once more.
func (m *rules) recipe(of []string, line string) {
	if len(of) == 0 || !strings.Contains(line, "make") && !strings.Contains(line, "MAKE") {
		return
	}
	words := fileWords(m.expand(line, 0))
	for _, name := range of[:min(len(of), maxReachDirs)] {
		m.words[name] = append(m.words[name], words...)
	}
}

// expand replaces plain variables by their values; one without, and a function, is
// replaced by nothing.
func (m *rules) expand(text string, depth int) string {
	if !strings.Contains(text, "$") || depth > maxReachDepth {
		return text
	}
	text = variable().ReplaceAllStringFunc(text, func(v string) string {
		if m.spare--; m.spare < 0 {
			return ""
		}
		return m.expand(m.values[strings.Trim(v, "$(){}")], depth+1)
	})
	return text[:min(len(text), maxExpanded)]
}

// asked are the targets that goals lead to, and all patterns. Without a goal among them
// it begins at the first.
func (m *rules) asked(goals map[string]bool) []string {
	var queue, first []string
	for _, name := range m.order {
		switch {
		case strings.Contains(name, "%"):
			first = append(first, name)
		case goals[name]:
			queue = append(queue, name)
		}
	}
	if i := slices.IndexFunc(m.order, func(n string) bool { return !strings.Contains(n, "%") && !strings.HasPrefix(n, ".") }); i >= 0 && len(queue) == 0 {
		queue = append(queue, m.order[i])
	}
	queue = append(queue, first...)
	seen := map[string]bool{}
	for n := 0; n < len(queue); n++ {
		if seen[queue[n]] {
			continue
		}
		seen[queue[n]] = true
		for _, w := range m.words[queue[n]] {
			if _, known := m.words[path.Clean(w)]; known {
				queue = append(queue, path.Clean(w))
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// makefile notes the rules of a makefile of the base. One that is included may be read
// in any directory that make runs in.
func (r *reacher) makefile(p, text string, included bool) {
	dirs := []string{path.Dir(p)}
	if included {
		dirs = slices.AppendSeq(append(dirs, "."), maps.Keys(r.makes))
	}
	slices.Sort(dirs)
	for _, d := range slices.Compact(dirs) {
		if r.makes[d] == nil {
			r.makes[d] = newRules()
		}
		r.makes[d].read(text)
	}
}

// settleMake chooses, when all makefiles are read, the targets that the commands lead to.
func (r *reacher) settleMake() {
	for d, m := range r.makes {
		for _, name := range m.asked(r.goals) {
			p := path.Join(d, name)
			if m.phony[name] || !inside(p) || p == "." || strings.Trim(name, "%/") == "" {
				continue
			}
			if strings.Contains(name, "%") || !r.exists(p) {
				r.out.targets = append(r.out.targets, target{d, name, m.from[name]})
			}
		}
	}
}

// goal notes the words of a text that may be targets.
func (r *reacher) goal(text string) {
	for _, w := range fileWords(text) {
		if len(r.goals) < maxReachWords {
			r.goals[path.Clean(w)] = true
		}
	}
}

// builds notes the directories that a text builds in.
func (r *reacher) builds(dirs []string, text string) {
	for _, m := range buildsIn.all(text, maxReachDirs) {
		for _, d := range dirs {
			if p := path.Join(d, m[1]); inside(p) && p != "." && !r.exists(p) && len(r.out.targets) < maxReachDirs {
				r.out.targets = append(r.out.targets, target{dir: d, name: path.Clean(m[1])})
			}
		}
	}
	words := fileWords(text)
	for i, o := range outputs {
		if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(o.programs, path.Base(w)) }) {
			r.out.outputs[i] = true
		}
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
}

// brings says whether a path that the base does not have takes the place of what the
// commands would make.
func (s *steering) brings(root *os.Root, p string) bool {
	has := func(name string) bool {
		_, err := root.Lstat(name)
		return err == nil
	}
	if slices.ContainsFunc(s.targets, func(t target) bool { return t.matches(p, has) }) {
		return true
	}
	if s.makefiles {
		// The rules that make has by itself: x.o of x.c, and x of either.
		stem := strings.TrimSuffix(strings.TrimSuffix(p, ".o"), ".lo")
		for _, ext := range []string{".c", ".cc", ".cpp", ".C", ".cxx", ".f", ".F", ".p", ".m", ".s", ".S", ".sh", ".o"} {
			if stem+ext != p && has(stem+ext) {
				return true
			}
		}
	}
	if strings.HasSuffix(p, ".tsbuildinfo") {
		return true // the compiler takes its word for what it has compiled
	}
	segments := strings.Split(p, "/")
	for i, name := range segments {
		for k := range s.outputs {
			if !slices.Contains(outputs[k].dirs, name) {
				continue
			}
			at := path.Join(segments[:i]...)
			if !has(path.Join(at, name)) && besideOne(root, at, outputs[k].beside) {
				return true
			}
		}
	}
	return false
}

func (t target) matches(p string, has func(string) bool) bool {
	rel := p
	if t.dir != "." {
		var is bool
		if rel, is = strings.CutPrefix(p, t.dir+"/"); !is {
			return false
		}
	}
	before, after, pattern := strings.Cut(t.name, "%")
	if !pattern {
		return rel == t.name || strings.HasPrefix(rel, t.name+"/")
	}
	dir := ""
	if !strings.Contains(t.name, "/") { // then the pattern is of the last part alone
		dir, rel = path.Split(rel)
	}
	if len(rel) <= len(before)+len(after) || !strings.HasPrefix(rel, before) || !strings.HasSuffix(rel, after) {
		return false
	}
	stem := rel[len(before) : len(rel)-len(after)]
	return t.from == "" || has(path.Join(t.dir, dir, strings.Replace(t.from, "%", stem, 1)))
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
		return slices.ContainsFunc(names, func(pattern string) bool {
			is, err := path.Match(pattern, n)
			return err == nil && is
		})
	})
}
