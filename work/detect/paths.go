package detect

import (
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// languageOf says which language a file is in, by the end of its name.
var languageOf = map[string]string{
	".go": "Go", ".js": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript", ".jsx": "JavaScript", ".vue": "Vue", ".svelte": "Svelte",
	".ts": "TypeScript", ".tsx": "TypeScript", ".mts": "TypeScript", ".cts": "TypeScript", ".py": "Python", ".pyx": "Python", ".rs": "Rust",
	".java": "Java", ".kt": "Kotlin", ".scala": "Scala", ".groovy": "Groovy", ".rb": "Ruby", ".php": "PHP", ".cs": "C#", ".fs": "F#", ".vb": "Visual Basic",
	".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".cxx": "C++", ".hpp": "C++", ".hh": "C++", ".s": "Assembly",
	".sh": "Shell", ".bash": "Shell", ".bats": "Shell", ".swift": "Swift", ".ex": "Elixir", ".exs": "Elixir", ".erl": "Erlang", ".hs": "Haskell",
	".lua": "Lua", ".pl": "Perl", ".pm": "Perl", ".t": "Perl", ".r": "R", ".jl": "Julia", ".dart": "Dart", ".zig": "Zig", ".ml": "OCaml", ".clj": "Clojure",
}

// languages counts the files of each language, the most first.
func (f *finder) languages() {
	count := map[string]int{}
	for _, name := range f.files {
		if l := languageOf[path.Ext(name)]; l != "" {
			count[l]++
		}
	}
	for _, l := range slices.Sorted(maps.Keys(count)) {
		f.facts.Languages = append(f.facts.Languages, Language{l, count[l]})
	}
	slices.SortStableFunc(f.facts.Languages, func(a, b Language) int { return b.Files - a.Files })
}

// maxAllowed bounds the list of paths: a repository with more directories of code
// is taken whole.
const maxAllowed = 40

// paths says what may change: the top directories that hold code, with their
// tests and data, and files of code at the top; not what is foreign in them.
func (f *finder) paths() {
	code := map[string]bool{}
	for _, name := range f.files {
		ext := path.Ext(name)
		dir, _, below := strings.Cut(name, "/")
		if strings.HasPrefix(name, ".") || languageOf[ext] == "" && (below && code[dir+"/**"] || !f.script(name)) {
			continue
		}
		switch {
		case !below && ext == "":
			code[name] = true
		case !below:
			code["*"+ext] = true
		case globSafe(dir):
			code[dir+"/**"] = true
		default:
			f.note(dir, "has a name that means something else as a pattern: allow it by hand")
		}
	}
	allowed := slices.Sorted(maps.Keys(code))
	switch {
	case len(allowed) > maxAllowed:
		f.note("", "more than %d directories hold code: all of the repository may change", maxAllowed)
		allowed = []string{"**"}
	case len(allowed) == 0:
		f.note("", "no file of code was found: all of the repository may change")
		allowed = []string{"**"}
	}
	f.facts.Allowed = allowed
	f.facts.Forbidden, f.facts.Protected = []string{}, []string{}
	for _, dir := range f.foreign {
		top, _, _ := strings.Cut(dir, "/")
		if (code[top+"/**"] || allowed[0] == "**") && globSafe(dir) && len(f.facts.Forbidden) < maxAllowed {
			f.facts.Forbidden = append(f.facts.Forbidden, dir+"/")
		}
	}
	for _, name := range f.files {
		if guarded(name) && globSafe(name) && len(f.facts.Protected) < maxAllowed {
			f.facts.Protected = append(f.facts.Protected, name)
		}
	}
}

// maxScripts is how many files without an end are looked into.
const maxScripts = 400

// script says whether a file without an end is a program: by its first line.
func (f *finder) script(name string) bool {
	if path.Ext(name) != "" || !globSafe(name) || slices.Contains([]string{"gradlew", "mvnw", "configure"}, path.Base(name)) || f.looked >= maxScripts {
		return false
	}
	f.looked++
	in, err := f.fsys.Open(name)
	if err != nil {
		return false
	}
	defer in.Close()
	var first [2]byte
	_, err = io.ReadFull(in, first[:])
	return err == nil && string(first[:]) == "#!"
}

// guarded are files that say what others may do with the code, or hold secrets.
func guarded(name string) bool {
	base := strings.ToUpper(path.Base(name))
	if base == "CODEOWNERS" || base == ".ENV" || strings.HasPrefix(base, ".ENV.") {
		return true
	}
	stem, _, _ := strings.Cut(base, ".")
	return !strings.Contains(name, "/") && slices.Contains([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}, stem)
}
