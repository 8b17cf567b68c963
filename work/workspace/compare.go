package workspace

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Compare lists what is different in after, section by section: "head", "refs: refs/heads/main",
// "worktree: src/a.go". Empty means untouched. At most 20 names of a section are listed, then their number. A
// fingerprint that was read from JSON knows sections only.
func (f *Fingerprint) Compare(after *Fingerprint) []string {
	names := slices.Sorted(maps.Keys(f.Sections))
	for name := range after.Sections {
		if _, ok := f.Sections[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var differences []string
	for _, section := range names {
		if f.Sections[section] != after.Sections[section] {
			differences = append(differences, f.name(after, section)...)
		}
	}
	return differences
}

// name says what differs in one section, as exactly as both values allow.
func (f *Fingerprint) name(after *Fingerprint, section string) []string {
	var changed []string
	switch {
	case section == "worktree" && f.tree != nil && after.tree != nil:
		changed = f.tree.compare(after.tree)
	case section == "head" || section == "index" || section == "shallow":
		// one file: its section says it all
	case f.parts != nil && after.parts != nil:
		changed = differing(f.parts[section], after.parts[section])
	}
	if len(changed) == 0 {
		return []string{section}
	}
	more := len(changed) - maxNamed
	changed = changed[:min(len(changed), maxNamed)]
	for i := range changed {
		changed[i] = section + ": " + changed[i]
	}
	if more > 0 {
		changed = append(changed, fmt.Sprintf("%s: %s and %d more", section, ellipsis, more))
	}
	return changed
}

// ellipsis begins the line that says how many more there are.
const ellipsis = "…"

// ChangedAt says when the file system last changed what one line of [Fingerprint.Compare] names: its ctime, which no
// program can set, or that of the directory that it is gone from. The zero time says that neither is there.
func (s *Source) ChangedAt(difference string) time.Time {
	section, name, _ := strings.Cut(difference, ": ")
	if strings.HasPrefix(name, ellipsis) {
		return time.Time{}
	}
	var places []string
	switch git, common := s.loc.gitDir, s.loc.common; section {
	case "worktree":
		if !s.Bare() {
			places = []string{filepath.Join(s.loc.worktree, name)}
		}
	case "hooks":
		places = []string{filepath.Join(common, "hooks", name)}
	case "head":
		places = []string{filepath.Join(git, "HEAD")}
	case "index", "shallow":
		places = []string{filepath.Join(git, section), filepath.Join(common, section)}
	case "refs", "logs", "info", "config":
		if name != "" {
			places = []string{filepath.Join(git, name), filepath.Join(common, name)}
		}
	}
	for len(places) > 0 {
		for _, place := range places {
			var st unix.Stat_t
			if unix.Lstat(place, &st) == nil {
				return time.Unix(st.Ctim.Unix())
			}
		}
		places = []string{filepath.Dir(places[0])} // there is a top that exists
	}
	return time.Time{}
}

// differing returns the keys that are new, gone or changed.
func differing(before, after map[string]string) []string {
	var keys []string
	for key, value := range before {
		if now, ok := after[key]; !ok || now != value {
			keys = append(keys, key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// compare returns the paths that are new, gone or changed. A directory whose own times changed is only named when
// nothing in it is: then something came and went.
func (t statTree) compare(after statTree) []string {
	all := maps.Clone(t)
	maps.Copy(all, after)
	var changed []string
	for _, dir := range all.paths() {
		if bytes.Equal(t[dir], after[dir]) {
			continue
		}
		names := differing(t[dir].asMap(), after[dir].asMap())
		if len(names) > 1 {
			names = slices.DeleteFunc(names, func(n string) bool { return n == "." })
		}
		for _, name := range names {
			changed = append(changed, path.Join(dir, name))
		}
	}
	return withoutParents(changed)
}

// withoutParents drops a directory when something below it is named too: its own times say nothing more.
func withoutParents(paths []string) []string {
	below := map[string]bool{}
	for _, p := range paths {
		for dir := path.Dir(p); dir != "." && !below[dir]; dir = path.Dir(dir) {
			below[dir] = true
		}
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return below[p] })
	slices.Sort(paths)
	return slices.Compact(paths)
}

func (s dirStats) asMap() map[string]string {
	m := map[string]string{}
	for name, stat := range s.each {
		m[name] = stat
	}
	return m
}
