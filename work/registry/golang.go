package registry

import (
	"strings"

	"golang.org/x/mod/module"

	"remit/proof/form"
	"remit/proof/reason"
)

// DefaultSumDB is the checksum database of the Go project.
const DefaultSumDB = "sum.golang.org"

// sumTile are the tiles of a checksum database (golang.org/x/mod/sumdb/tlog).
var sumTile = form.Lazy(`^tile/8/(data|[0-9]|[1-5][0-9]|6[0-3])(/x[0-9]{3}){0,5}/[0-9]{3}(\.p/[1-9][0-9]{0,2})?$`)

// readGo reads a path below /go/, which is Go's module proxy protocol:
//
//	MODULE/@v/list, MODULE/@latest
//	MODULE/@v/VERSION.info, .mod, .zip
//	sumdb/NAME/supported, latest, lookup/MODULE@VERSION, tile/…
func readGo(s *site, parts []string, _ string) (*question, error) {
	if parts[0] == "sumdb" {
		return readSumDB(s, parts[1:])
	}
	path := strings.Join(parts, "/")
	escaped, rest, ok := strings.Cut(path, "/@")
	if !ok {
		return nil, refused(reason.RegistryRefused, "the path is none of the Go module proxy protocol")
	}
	name, err := module.UnescapePath(escaped)
	if err != nil {
		return nil, refused(reason.RegistryRefused, "the path does not begin with an escaped module path")
	}
	q := &question{pkg: Package{Go, name, ""}, path: path, at: path}
	if rest == "v/list" || rest == "latest" {
		return q, nil
	}
	file, ok := strings.CutPrefix(rest, "v/")
	for _, ext := range []string{".info", ".mod", ".zip"} {
		if v, found := strings.CutSuffix(file, ext); ok && found {
			if q.pkg.Version, err = goVersion(name, v); err != nil {
				return nil, err
			}
			return q, nil
		}
	}
	return nil, refused(reason.RegistryRefused, "the path is none of the Go module proxy protocol")
}

// goVersion reads an escaped version. Names of branches are refused: a go.sum has
// none.
func goVersion(name, escaped string) (string, error) {
	v, err := module.UnescapeVersion(escaped)
	if err == nil {
		err = module.Check(name, v)
	}
	if err != nil {
		return "", refused(reason.RegistryRefused, "the path has no canonical version of %s", name)
	}
	return v, nil
}

// readSumDB reads what is below sumdb/.
func readSumDB(s *site, parts []string) (*question, error) {
	if len(parts) < 2 || parts[0] != s.up.sumDB {
		return nil, refused(reason.RegistryRefused, "the path names another checksum database than the configured one")
	}
	path := strings.Join(append([]string{"sumdb"}, parts...), "/")
	q := &question{pkg: Package{Go, "sumdb/" + parts[0], ""}, path: path, at: path, open: true}
	rest := strings.Join(parts[1:], "/")
	if rest == "supported" || rest == "latest" || sumTile().MatchString(rest) {
		return q, nil
	}
	asked, ok := strings.CutPrefix(rest, "lookup/")
	escaped, version, found := strings.Cut(asked, "@")
	name, err := module.UnescapePath(escaped)
	if !ok || !found || err != nil {
		return nil, refused(reason.RegistryRefused, "the path is none of a checksum database")
	}
	v, err := goVersion(name, version)
	if err != nil {
		return nil, err
	}
	q.pkg, q.open = Package{Go, name, v}, false
	return q, nil
}
