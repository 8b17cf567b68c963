package jobs

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"remit/nexus/store"
)

var (
	// ownDirectory is how the authority of one machine calls a directory.
	ownDirectory = regexp.MustCompile(`^local:(.+)@[0-9a-f]{12}$`)
	// sshAddress is a repository as scp writes it.
	sshAddress = regexp.MustCompile(`^[\w.-]+@([\w.-]+\.[\w.-]+):([^/].*)$`)
	hosted     = regexp.MustCompile(`^([\w-]+(?:\.[\w-]+)+)/(.+)$`)
)

// RepositoryName is one name for a repository that people write in several ways: a URL
// with or without .git, the address that ssh takes, a directory. It is for lists and
// filters; what a run, an approval or a receipt says stays as it was written.
func RepositoryName(ref string) string {
	name := strings.TrimSpace(ref)
	if m := ownDirectory.FindStringSubmatch(name); m != nil {
		name = m[1]
	}
	if m := sshAddress.FindStringSubmatch(name); m != nil {
		name = "ssh://" + m[1] + "/" + m[2]
	}
	scheme, rest, isURL := strings.Cut(name, "://")
	switch {
	case isURL && scheme != "file":
		name = rest
		if user, after, found := strings.Cut(rest, "@"); found && !strings.Contains(user, "/") {
			name = after
		}
	case isURL:
		name = path.Base(rest)
	case strings.HasPrefix(name, "/"):
		name = path.Base(name)
	}
	name = strings.TrimSuffix(strings.TrimRight(name, "/"), ".git")
	if m := hosted.FindStringSubmatch(name); m != nil {
		// owner/name alone is how issues call a repository of this host.
		if name = strings.ToLower(m[1]) + "/" + m[2]; strings.HasPrefix(name, "github.com/") {
			name = m[2]
		}
	}
	if name == "" || name == "." {
		return ref
	}
	return name
}

// spellings are the ways in which people write a repository with such a name.
func spellings(name string) []string {
	out := []string{name}
	places := []string{}
	if hosted.MatchString(name) {
		places = append(places, name)
	} else if strings.Count(name, "/") == 1 {
		places = append(places, "github.com/"+name)
	}
	for _, place := range places {
		host, rest, _ := strings.Cut(place, "/")
		out = append(out, place, "https://"+place, "http://"+place, "ssh://git@"+place, "git@"+host+":"+rest)
	}
	for _, text := range slices.Clone(out) {
		out = append(out, text+".git")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// findRepository puts the spellings of a repository into a filter that names one.
func findRepository(tx *store.Tx, owner string, f *RunFilter) error {
	if f.RepoRef == "" {
		return nil
	}
	known, err := tx.Repositories(owner, append(spellings(RepositoryName(f.RepoRef)), f.RepoRef))
	if len(known) > 0 {
		f.RepoRef, f.Also = known[0], known[1:]
	}
	return err
}
