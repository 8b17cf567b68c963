package verify

import (
	"slices"
	"strings"
)

// addsSources says whether a makefile differs by nothing but further names of sources and
// objects in lists of them: what a new file of a project takes. A list may go on in a line
// of its own (OBJS += new.o). Where names stand in a recipe, it has to be one of a compiler.
func addsSources(before, after string) bool {
	lines := func(text string) []string {
		return slices.DeleteFunc(makeLines(text), func(l string) bool { return strings.TrimSpace(l) == "" })
	}
	left := lines(before)
	lists := map[string]bool{} // variables that are lists of sources so far
	for _, l := range lines(after) {
		v := assignment().FindStringSubmatch(l)
		switch {
		case len(left) > 0 && addsWords(left[0], l):
			left = left[1:]
			if v != nil {
				lists[v[1]] = (lists[v[1]] || v[2] != "+") && onlySources(strings.Fields(v[3]))
			}
		case v == nil || v[2] != "+" || !lists[v[1]] || !onlySources(strings.Fields(v[3])):
			return false
		}
	}
	return len(left) == 0
}

// onlySources says whether words are names of sources, one or more.
func onlySources(words []string) bool {
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool {
		return !sourceName().MatchString(w) || strings.HasPrefix(w, "/") || strings.Contains(w, "..")
	})
}

func addsWords(before, after string) bool {
	if before == after {
		return true
	}
	recipe := strings.HasPrefix(before, "\t")
	if directive().MatchString(before) || recipe && !compiles().MatchString(before) || recipe != strings.HasPrefix(after, "\t") {
		return false
	}
	words := func(line string) []string {
		return strings.Fields(strings.NewReplacer("=", " = ", ":", " : ").Replace(line))
	}
	left := words(before)
	// In a list of sources alone a name may come first; elsewhere it comes behind one.
	i := slices.IndexFunc(left, func(w string) bool { return w == "=" })
	listed, whole := false, !recipe && i >= 0 && onlySources(left[i+1:])
	for _, w := range words(after) {
		switch {
		case len(left) > 0 && left[0] == w:
			left, listed = left[1:], listed || sourceName().MatchString(w) || whole && w == "="
		case !listed || !onlySources([]string{w}):
			return false
		}
	}
	return len(left) == 0
}
