package verify

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Makefiles are read as far as they can be read without make: explicit and pattern rules,
// with plain variables. Functions give nothing.

// rules are the targets of the makefiles that are read in one directory.
type rules struct {
	order  []string
	words  map[string][]string // prerequisites, and what their recipes call of make
	needs  map[string]bool     // has a prerequisite that is no order-only one
	makes  map[string]bool     // its recipe does more than make a directory
	phony  map[string]bool     // no files
	values map[string]string   // plain variables
	spare  int                 // how many variables may still be replaced
	// partly says that .PHONY names what is not known here.
	partly bool
}

// Bounds of the makefiles of one directory.
const (
	maxTargets   = 2000
	maxVariables = 2000
	maxReplaced  = 20_000
	maxExpanded  = 16 << 10 // bytes of one line
	maxMakes     = 200      // directories with makefiles
)

func newRules() *rules {
	return &rules{words: map[string][]string{}, needs: map[string]bool{}, makes: map[string]bool{}, phony: map[string]bool{},
		values: map[string]string{"MAKE": "make", "CURDIR": ".", "PWD": "."}, spare: maxReplaced}
}

// makeLines are the lines of a makefile, joined where one goes on, without remarks.
func makeLines(text string) []string {
	var out []string
	for line := range strings.Lines(strings.NewReplacer("\\\n", " ", "\\\r\n", " ").Replace(text)) {
		line = strings.TrimRight(line, "\r\n")
		if !strings.HasPrefix(line, "\t") {
			line, _, _ = strings.Cut(line, "#")
		}
		out = append(out, line)
	}
	return out
}

// read takes in a makefile.
func (m *rules) read(text string) {
	var current []string
	for _, line := range makeLines(text) {
		if recipe, is := strings.CutPrefix(line, "\t"); is {
			m.recipe(current, recipe)
			continue
		}
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
		normal, first, _ := strings.Cut(needs, "|")
		current = m.rule(strings.Fields(strings.TrimSuffix(strings.TrimSpace(names), "&")), strings.Fields(normal), strings.Fields(first))
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

func (m *rules) rule(names, needs, first []string) (added []string) {
	for _, name := range names {
		name = path.Clean(name)
		switch {
		case name == ".PHONY":
			for _, n := range needs {
				m.phony[path.Clean(n)] = true
				m.partly = m.partly || strings.Contains(n, "$")
			}
		case isSpecial(name) || strings.Contains(name, "$") || len(m.order) >= maxTargets:
		default:
			if _, known := m.words[name]; !known {
				m.order = append(m.order, name)
			}
			m.words[name] = append(append(m.words[name], needs...), first...)
			m.needs[name] = m.needs[name] || len(needs) > 0
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
	if len(of) == 0 || strings.TrimSpace(line) == "" {
		return
	}
	of = of[:min(len(of), maxReachDirs)]
	if !makesDirectory().MatchString(line) {
		for _, name := range of {
			m.makes[name] = true
		}
	}
	if !strings.Contains(line, "make") && !strings.Contains(line, "MAKE") {
		return
	}
	words := fileWords(m.expand(line, 0))
	for _, name := range of {
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

// asked are the targets that goals lead to, and all patterns; also the first one, if that
// is said, or without a goal among them.
func (m *rules) asked(goals map[string]bool, first bool) []string {
	var queue, patterns []string
	for _, name := range m.order {
		switch {
		case strings.Contains(name, "%"):
			patterns = append(patterns, name)
		case goals[name]:
			queue = append(queue, name)
		}
	}
	if i := slices.IndexFunc(m.order, func(n string) bool { return !strings.Contains(n, "%") && !strings.HasPrefix(n, ".") }); i >= 0 && (len(queue) == 0 || first) {
		queue = append(queue, m.order[i])
	}
	queue = append(queue, patterns...)
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

// included is a makefile that others read into themselves.
type included struct{ path, text string }

// makefile notes a makefile of the base, and what it reads of the tree. One that is
// included may be read in any directory that make runs in.
func (r *reacher) makefile(p, text string, by how) {
	if by == readIn {
		if len(r.included) < maxMakes {
			r.included = append(r.included, included{p, text})
		}
	} else if d := path.Dir(p); r.makes[d] != nil || len(r.makes) < maxMakes {
		if r.makes[d] == nil {
			r.makes[d] = newRules()
		}
		r.makes[d].read(text)
	}
}

// settleMake reads the other makefiles of the base, which any recipe may call by a name
// that is computed, and chooses the targets that the commands lead to.
func (r *reacher) settleMake() {
	if !r.out.makefiles {
		return
	}
	for _, d := range r.makefileDirs() {
		for _, name := range append([]string{"Makefile.in", "Makefile.am"}, ownFiles["make"]...) {
			if p := path.Join(d, name); r.names(d)[name] {
				r.visit(p, named, 1, false)
			}
		}
	}
	if !r.vpath {
		r.out.searched = nil
	}
	for _, i := range r.included {
		if d := path.Dir(i.path); r.makes[d] == nil {
			r.makes[d] = newRules()
		}
		for _, m := range r.makes {
			m.read(i.text)
		}
	}
	for _, m := range r.makes {
		for _, words := range m.words {
			for _, w := range words {
				if len(r.goals) < maxReachWords {
					r.goals[path.Clean(w)] = true
				}
			}
		}
	}
	for d, m := range r.makes {
		r.standing(d, m)
		for _, name := range m.asked(r.goals, true) {
			p := path.Join(d, name)
			if m.phony[name] || m.needs[name] || !m.makes[name] || !inside(p) || p == "." || strings.Trim(name, "%/") == "" {
				continue
			}
			if strings.Contains(name, "%") || !r.exists(p) {
				r.target(target{d, name})
			}
		}
		for _, dir := range strings.Split(m.expand(m.values["PATH"], 0), ":") {
			if at := path.Join(d, strings.TrimSpace(dir)); dir != "" && at != "." && inside(at) && !strings.Contains(at, "$") {
				r.target(target{dir: at, name: "*"}) // programs that come before those of the system
			}
		}
	}
}

// makefileDirs are the directories of the base that have makefiles.
func (r *reacher) makefileDirs() (out []string) {
	queue := []string{"."}
	for n := 0; n < len(queue) && n < maxReachFiles*4 && len(out) < maxMakes; n++ {
		f, err := r.root.Open(queue[n])
		if err != nil {
			continue
		}
		entries, _ := f.ReadDir(maxReachLooks) // of what can be read
		f.Close()
		slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		has := false
		for _, e := range entries {
			switch name := e.Name(); {
			case e.IsDir() && name != ".git" && name != "node_modules" && strings.Count(queue[n], "/") < maxReachDepth:
				queue = append(queue, path.Join(queue[n], name))
			case makefile().MatchString(name):
				has = true
			case sourceName().MatchString(name) && len(r.out.searched) < maxReachLooks:
				r.out.searched[name] = true
			}
		}
		if has {
			out = append(out, queue[n])
		}
	}
	return out
}

// readsOf notes what a makefile reads, or looks for, beside makefiles of plain names.
func (r *reacher) readsOf(dirs []string, text string) {
	r.vpath = r.vpath || strings.Contains(text, "VPATH") || strings.Contains(text, "vpath")
	for _, line := range makeLines(text) {
		if m := includeLine().FindStringSubmatch(line); m != nil {
			values := newRules()
			if rules := r.makes[dirs[len(dirs)-1]]; rules != nil {
				values = rules
			}
			r.readsWords(dirs, values.expand(m[1], 0), "include")
			r.readsWords(dirs, m[1], "include")
		}
		for _, m := range makeFunction().FindAllStringSubmatch(line, maxReachDirs) {
			r.readsWords(dirs, m[2], m[1])
		}
	}
}

// readsWords notes files, names with * and endings among the words of an include or of a
// function. The names of sources are lists of what is built, and no part of the machinery;
// so is what a wildcard with a * finds.
func (r *reacher) readsWords(dirs []string, text, by string) {
	for _, w := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t$(){}:,='\"", c) }) {
		ending := path.Ext(w)
		source := sourceName().MatchString("x"+ending) && ending != ".o" || by != "include" && strings.EqualFold(strings.TrimPrefix(path.Base(w), "."), "version")
		if source || ending == "" && by == "include" && strings.HasPrefix(w, "-") {
			continue
		}
		if by == "include" && len(ending) > 1 && len(ending) < 6 && (w == ending || strings.Contains(w, "%")) {
			r.out.suffixes[ending] = true
			continue
		}
		for _, d := range dirs {
			p := path.Join(d, w)
			switch glob := strings.ContainsAny(w, "*?["); {
			case !inside(p) || p == "." || strings.Contains(w, "%"):
			case glob && by != "wildcard", !glob && by == "wildcard" && !r.exists(p):
				r.target(target{d, path.Clean(w)})
			case !glob && by != "wildcard" && scriptWord().MatchString(w):
				r.note(p, true)
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

// standing are targets that check something, which a command leads to and for which make
// does nothing on the base, as they stand for a file that is there.
func (r *reacher) standing(d string, m *rules) {
	words := map[string]bool{}
	for _, command := range r.out.commands {
		for _, w := range fileWords(command) {
			words[path.Clean(w)] = true
		}
	}
	if m.partly || !words["make"] && !words["gmake"] || d != "." && !words[d] {
		return
	}
	for _, name := range m.asked(words, false) {
		if p := path.Join(d, name); asksTarget().MatchString(name) && !m.phony[name] && m.makes[name] && !m.needs[name] && !strings.Contains(name, "%") && r.exists(p) {
			r.out.standing = append(r.out.standing, p)
		}
	}
}
