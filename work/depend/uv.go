package depend

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/tree"
)

// The uv ecosystem: uv.lock, read as data and written as a requirements file for
// pip. No pyproject.toml is given to the fetch, so that no build backend and no
// index that it names can count. The packages of the workspace are not installed:
// their modules are found by PYTHONPATH.

const (
	uvLock     = "uv.lock"
	pyDefault  = "https://pypi.org/simple"
	uvHint     = "make it with `uv lock`"
	maxMembers = 500
)

// pyHosts are where the public index has its files.
var pyHosts = []string{"files.pythonhosted.org", "pypi.org"}

type uvDocument struct {
	Version  int         `toml:"version"`
	Packages []uvPackage `toml:"package"`
	Manifest struct {
		Members []string `toml:"members"`
	} `toml:"manifest"`
}

type uvPackage struct {
	Name    string              `toml:"name"`
	Version string              `toml:"version"`
	Source  map[string]any      `toml:"source"`
	Forks   []string            `toml:"resolution-markers"`
	Needs   []uvEdge            `toml:"dependencies"`
	Extras  map[string][]uvEdge `toml:"optional-dependencies"`
	Groups  map[string][]uvEdge `toml:"dev-dependencies"`
	Wheels  []uvFile            `toml:"wheels"`
	Sdist   uvFile              `toml:"sdist"`
}

type uvEdge struct {
	Name    string         `toml:"name"`
	Version string         `toml:"version"`
	Source  map[string]any `toml:"source"`
	Extras  []string       `toml:"extra"`
	Marker  string         `toml:"marker"`
}

type uvFile struct {
	URL  string `toml:"url"`
	Path string `toml:"path"`
	Hash string `toml:"hash"`
}

// uvReader turns the packages of a lock file into a graph.
type uvReader struct {
	*pipReader
	doc    uvDocument
	hosts  func() []string
	graph  []*pyPackage
	byName map[string][]int // places in the lock file
	own    []string         // directories of the workspace's packages
}

// uvPlan reads what is to be installed. hosts are those of the user's own index.
func uvPlan(base fs.FS, p task.Prepare, hosts func() []string) (*plan, error) {
	u := &uvReader{hosts: hosts, byName: map[string][]int{},
		pipReader: &pipReader{base: base, dir: p.Dir, hint: uvHint, out: &plan{packages: map[string]bool{}, lockFiles: []string{path.Join(p.Dir, uvLock)}}}}
	text, err := readInput(base, path.Join(p.Dir, uvLock), maxLockBytes)
	if err == nil {
		err = readTOML(text, &u.doc)
	}
	switch {
	case err != nil:
	case u.doc.Version != 1:
		err = fmt.Errorf("it is of version %d, and Remit reads 1", u.doc.Version)
	case len(u.doc.Packages) > maxRequirements:
		err = fmt.Errorf("it names more than %d packages", maxRequirements)
	}
	if err != nil {
		return nil, u.invalid(uvLock, err)
	}
	roots, err := u.read(p.Groups)
	if err != nil {
		return nil, err
	}
	if err := spread(u.graph, roots); err != nil {
		return nil, u.invalid(uvLock, err)
	}
	for i, g := range u.graph {
		if len(g.ways[""]) == 0 || u.local(i) {
			continue // nothing that was asked for needs it
		}
		if err := u.fromIndex(u.doc.Packages[i]); err != nil {
			return nil, err
		}
		if err := u.require(uvLock, g, g.ways[""].marker()); err != nil {
			return nil, err
		}
	}
	return u.plan(p, u.projectPath(u.own))
}

// local reports whether a package is one of the workspace.
func (u *uvReader) local(i int) bool {
	_, own, _ := u.member(u.doc.Packages[i])
	return own
}

// member is the directory of a package of the workspace.
func (u *uvReader) member(p uvPackage) (dir string, own bool, err error) {
	at, stated := p.Source["virtual"]
	if !stated {
		at, stated = p.Source["editable"]
	}
	if dir, _ = at.(string); !stated {
		return "", false, nil
	}
	if len(u.doc.Manifest.Members) == 0 && dir != "." || len(u.doc.Manifest.Members) > 0 && !slices.Contains(u.doc.Manifest.Members, p.Name) {
		return "", false, u.refused(p, "the path "+dir)
	}
	if dir != "." && !tree.ValidPath(dir) {
		return "", false, u.refused(p, "the path "+dir)
	}
	return dir, true, nil
}

func (u *uvReader) refused(p uvPackage, from string) error {
	return reason.Errorf(reason.DependencyRefused, "%s: the package %.200q is to come from %.200q, and Remit fetches from the index only", path.Join(u.dir, uvLock), p.Name, from).
		WithHint("take a released version of %.200q from the index; git, path and URL dependencies are not fetched", p.Name)
}

// read makes the graph, and returns what leads to it: everything that the
// workspace's packages need, with the chosen groups and extras.
func (u *uvReader) read(groups []string) ([]pyEdge, error) {
	for i, p := range u.doc.Packages {
		u.byName[p.Name] = append(u.byName[p.Name], i)
		g := &pyPackage{name: p.Name, version: p.Version, edges: map[string][]pyEdge{}}
		for _, f := range append(slices.Clone(p.Wheels), p.Sdist) {
			if f == (uvFile{}) {
				continue
			}
			at, err := url.Parse(f.URL)
			if err != nil {
				return nil, u.invalid(uvLock, fmt.Errorf("%.200q is no URL", f.URL))
			}
			g.files = append(g.files, pyFile{path.Base(at.Path), f.Hash})
		}
		u.graph = append(u.graph, g)
	}
	var roots []pyEdge
	known := map[string]bool{}
	for i, p := range u.doc.Packages {
		dir, own, err := u.member(p)
		if err != nil {
			return nil, err
		}
		if err := u.edges(p, u.graph[i]); err != nil {
			return nil, err
		}
		if !own {
			continue
		}
		if u.own = append(u.own, dir); len(u.own) > maxMembers {
			return nil, u.invalid(uvLock, fmt.Errorf("it names more than %d packages of the workspace", maxMembers))
		}
		e := pyEdge{to: i}
		for _, extra := range slices.Sorted(maps.Keys(p.Extras)) {
			known[extra] = true
			if slices.Contains(groups, extra) {
				e.extras = append(e.extras, extra)
			}
		}
		roots = append(roots, e)
		for _, group := range slices.Sorted(maps.Keys(p.Groups)) {
			known[group] = true
			if len(groups) > 0 && !slices.Contains(groups, group) {
				continue
			}
			edges, err := u.edgesOf(p, p.Groups[group])
			if err != nil {
				return nil, err
			}
			roots = append(roots, edges...)
		}
	}
	if len(roots) == 0 {
		return nil, u.invalid(uvLock, errors.New("it has no package of the repository itself"))
	}
	return roots, u.chosen(uvLock, groups, known)
}

// chosen refuses a group that the lock file does not have.
func (r *pipReader) chosen(own string, groups []string, known map[string]bool) error {
	for _, group := range groups {
		if !known[group] {
			return reason.Errorf(reason.LockFileInvalid, "%s has no group or extra %q: it has %s", path.Join(r.dir, own), group,
				strings.Join(append([]string{"none"}, slices.Sorted(maps.Keys(known))...)[min(len(known), 1):], ", ")).
				WithHint("correct environment.prepare[].groups in remit.yaml")
		}
	}
	return nil
}

// edges fills in what a package needs.
func (u *uvReader) edges(p uvPackage, g *pyPackage) (err error) {
	if g.edges[""], err = u.edgesOf(p, p.Needs); err != nil {
		return err
	}
	for extra, needs := range p.Extras {
		if g.edges[extra], err = u.edgesOf(p, needs); err != nil {
			return err
		}
	}
	return nil
}

func (u *uvReader) edgesOf(of uvPackage, needs []uvEdge) (out []pyEdge, err error) {
	for _, e := range needs {
		if pyExtra().MatchString(e.Marker) {
			return nil, u.invalid(uvLock, fmt.Errorf("%s needs %s under the marker %.200q, which is of extras or groups that exclude each other", of.Name, e.Name, e.Marker))
		}
		var to []int
		for _, i := range u.byName[e.Name] {
			c := u.doc.Packages[i]
			if (e.Version == "" || e.Version == c.Version) && (e.Source == nil || maps.Equal(e.Source, c.Source)) {
				to = append(to, i)
			}
		}
		if len(to) != 1 {
			return nil, u.invalid(uvLock, fmt.Errorf("%s needs %.100s %.100s, of which it has %d", of.Name, e.Name, e.Version, len(to)))
		}
		out = append(out, pyEdge{to: to[0], extras: e.Extras, marker: e.Marker})
	}
	return out, nil
}

// fromIndex refuses a package that does not come from an index which the user is
// configured for.
func (u *uvReader) fromIndex(p uvPackage) error {
	from, ok := p.Source["registry"].(string)
	if !ok || len(p.Source) != 1 {
		return u.refused(p, fmt.Sprint(p.Source))
	}
	own, err := u.knownIndex(p.Name, from, u.hosts)
	if err != nil {
		return err
	}
	for _, f := range append(slices.Clone(p.Wheels), p.Sdist) {
		if f == (uvFile{}) {
			continue
		}
		at, err := url.Parse(f.URL)
		if err != nil || at.Scheme != "https" && !own || at.User != nil || f.Path != "" || !own && !slices.Contains(pyHosts, strings.ToLower(at.Host)) {
			return u.refused(p, f.URL+f.Path)
		}
	}
	return nil
}

// knownIndex refuses an index that is neither the public one nor the user's own. It
// reports whether it is the user's.
func (r *pipReader) knownIndex(name, from string, hosts func() []string) (own bool, err error) {
	if strings.TrimRight(from, "/") == pyDefault {
		return false, nil
	}
	if known := hosts(); slices.Contains(known[min(1, len(known)):], strings.TrimRight(from, "/")) {
		if r.out.from == nil {
			r.out.from = map[string]string{}
		}
		r.out.from[projectName(name)] = strings.TrimRight(from, "/")
		return true, nil
	}
	at, err := url.Parse(from)
	if err == nil && at.User == nil && (at.Scheme == "https" || at.Scheme == "http") && slices.Contains(hosts(), strings.ToLower(at.Host)) {
		return true, nil
	}
	return false, reason.Errorf(reason.DependencyRefused, "%s: the package %.200q is to come from the index %.200q, which this machine is not configured for", r.dir, name, from).
		WithHint("who runs Remit says which index is asked, not the repository: `pip config set global.extra-index-url %.200s`, if it is to be trusted", shownURL(at))
}

// shownURL is an address without what may be a secret in it.
func shownURL(at *url.URL) string {
	if at == nil || at.Host == "" {
		return "https://…/simple"
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
}

// projectName is the one form of a package's name.
func projectName(name string) string { return registry.ProjectName(name) }
