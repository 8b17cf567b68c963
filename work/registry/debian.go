package registry

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
)

var (
	debianDir  = form.Lazy(`^[a-z0-9][a-z0-9+.-]*$`)
	debianFile = form.Lazy(`^([a-z0-9][a-z0-9+.-]+)_([0-9A-Za-z][0-9A-Za-z.+~-]*)_([a-z0-9-]+)\.deb$`)
)

// maxPool is how many directories lie between pool and a file: an archive's own part,
// the component, the first letters and the source package.
const maxPool = 5

// DebianPool reads the path of a package below an archive of Debian's form:
//
//	pool/COMPONENT/LETTER/SOURCE/NAME_VERSION_ARCHITECTURE.deb
//
// The version of a file name has no epoch.
func DebianPool(at string) (name, version, architecture string, ok bool) {
	parts := strings.Split(at, "/")
	dirs, file := parts[:len(parts)-1], debianFile().FindStringSubmatch(parts[len(parts)-1])
	if file == nil || len(dirs) < 2 || len(dirs) > maxPool || dirs[0] != "pool" ||
		slices.ContainsFunc(dirs, func(d string) bool { return !debianDir().MatchString(d) }) {
		return "", "", "", false
	}
	return file[1], file[2], file[3], true
}

// readDebian reads a path below /debian/, which is that of a file in the pool. Indexes
// (dists/…) are not asked for: a lock file has the digest of each file, and apt compared
// the signed index when it wrote it.
func readDebian(_ *site, parts []string, _ string) (*question, error) {
	at := strings.Join(parts, "/")
	name, version, _, ok := DebianPool(at)
	if !ok {
		return nil, refused(reason.RegistryRefused, "the path is none of a file in the pool of a Debian archive")
	}
	return &question{pkg: Package{Debian, name, version}, path: at, at: at}, nil
}

// archivesOf reads the archives that apt is configured for, one a line. The first one
// whose path ends in /debian stands in the place of Debian's own.
func archivesOf(said string) Upstream {
	var u Upstream
	var seen []string
	for line := range strings.Lines(said) {
		address := strings.TrimRight(strings.TrimSpace(line), "/")
		at, err := url.Parse(address)
		if err != nil || at.Scheme != "http" && at.Scheme != "https" || slices.Contains(seen, address) {
			continue // cdrom:, file: and what else apt knows
		}
		seen = append(seen, address)
		if u.URL == "" && path.Base(at.Path) == "debian" {
			u.URL = address
			continue
		}
		u.Others = append(u.Others, Upstream{URL: address})
	}
	if u.URL == "" && len(u.Others) > 0 {
		u.URL, u.Others = u.Others[0].URL, u.Others[1:]
	}
	return u
}
