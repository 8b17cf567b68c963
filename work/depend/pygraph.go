package depend

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/registry"
)

// What the lock files of uv and poetry have in common: packages with files, and
// edges between them that hold under a marker (PEP 508). Which packages a machine
// needs follows from the markers, and those are pip's to evaluate: the line of a
// package gets every way that leads to it, as one marker.

// Bounds on a graph of Python packages.
const (
	maxWays  = 64      // to one package
	maxAtoms = 16      // markers on one way
	maxSteps = 500_000 // over edges
)

// pyFile is a file of a package.
type pyFile struct{ name, hash string }

// pyPackage is a package of a lock file. Its edges are by extra, those that it
// always has under "".
type pyPackage struct {
	name, version string
	files         []pyFile
	edges         map[string][]pyEdge
	ways          map[string]ways // what was found: by extra
}

// pyEdge leads to one of the packages, by its place in the list.
type pyEdge struct {
	to     int
	extras []string
	marker string // "" for always
	bad    error  // why it leads nowhere; who needs it fails with that
}

// ways are the conditions under which a package is needed: any one of them, each of
// which is markers that hold together, sorted. nil is never, and one that is empty
// is always.
type ways [][]string

// add takes a way up, and reports whether that says more than was known.
func (w *ways) add(way []string) bool {
	for _, known := range *w {
		if subset(known, way) {
			return false
		}
	}
	*w = append(slices.DeleteFunc(*w, func(known []string) bool { return subset(way, known) }), way)
	return true
}

// subset reports whether every element of a sorted list is in another.
func subset(a, b []string) bool {
	for _, x := range a {
		if _, found := slices.BinarySearch(b, x); !found {
			return false
		}
	}
	return true
}

// marker is the condition as a requirement states it, "" for always.
func (w ways) marker() string {
	var any []string
	for _, way := range w {
		if len(way) == 0 {
			return ""
		}
		any = append(any, "("+strings.Join(way, ") and (")+")")
	}
	slices.Sort(any)
	return strings.Join(any, " or ")
}

// errTangled is of a graph whose conditions cannot be written down.
var errTangled = errors.New("its markers lead to one package in too many ways")

// spread follows the edges from the roots.
func spread(packages []*pyPackage, roots []pyEdge) error {
	type place struct {
		at    int
		extra string
	}
	var todo []place
	step := func(e pyEdge, way []string) error {
		if e.bad != nil {
			return e.bad
		}
		if e.marker != "" {
			i, found := slices.BinarySearch(way, e.marker)
			if !found {
				way = slices.Insert(slices.Clone(way), i, e.marker)
			}
		}
		p := packages[e.to]
		if p.ways == nil {
			p.ways = map[string]ways{}
		}
		for _, extra := range append([]string{""}, e.extras...) {
			known := p.ways[extra]
			if !known.add(way) {
				continue
			}
			if len(known) > maxWays || len(way) > maxAtoms {
				return fmt.Errorf("%s: %w", p.name, errTangled)
			}
			p.ways[extra] = known
			todo = append(todo, place{e.to, extra})
		}
		return nil
	}
	for _, e := range roots {
		if err := step(e, nil); err != nil {
			return err
		}
	}
	for steps := 0; len(todo) > 0; {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, way := range slices.Clone(packages[p.at].ways[p.extra]) {
			for _, e := range packages[p.at].edges[p.extra] {
				if steps++; steps > maxSteps {
					return errTangled
				}
				if err := step(e, way); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

var (
	pyWheel = form.Lazy(`^([A-Za-z0-9][A-Za-z0-9._]*)-([0-9][A-Za-z0-9.!+_]*)(-[A-Za-z0-9_.]+){3,4}\.whl$`)
	pyHash  = form.Lazy(`^sha256:[0-9a-f]{64}$`)
	pyExtra = form.Lazy(`\bextra\b`)
)

// require writes the line of a package, as the pip ecosystem has it: wheels with
// their digests, and the marker. own is the lock file, for errors.
func (r *pipReader) require(own string, p *pyPackage, marker string) error {
	refused := func(hint, format string, args ...any) error {
		return reason.Errorf(reason.DependencyRefused, "%s: "+format, append([]any{path.Join(r.dir, own)}, args...)...).WithHint("%s", hint)
	}
	line, hashes, seen := p.name+"=="+p.version, []string{}, map[string]string{}
	if marker != "" {
		line += " ; " + marker
	}
	for _, f := range p.files {
		if len(f.name) > 250 || strings.ContainsAny(f.name, "/\\\x00") {
			return refused("make the lock file again", "a file of %s==%s is named %.200q", p.name, p.version, f.name)
		}
		if !pyHash().MatchString(f.hash) {
			return refused("make the lock file again, from an index that tells SHA-256 digests", "it has no SHA-256 of %.200q, a file of %s==%s", f.name, p.name, p.version)
		}
		if other, twice := seen[f.name]; twice && other != f.hash {
			return r.invalid(own, fmt.Errorf("it has two digests of %s, a file of %s", f.name, p.name))
		}
		seen[f.name] = f.hash
		if !strings.HasSuffix(f.name, ".whl") {
			continue
		}
		m := pyWheel().FindStringSubmatch(f.name)
		if m == nil || registry.ProjectName(m[1]) != registry.ProjectName(p.name) {
			return refused("make the lock file again", "%.200q is no wheel of %s", f.name, p.name)
		}
		r.out.packages[registry.ProjectName(p.name)+"@"+m[2]] = true // as the file writes it
		hashes = append(hashes, "--hash="+f.hash)
	}
	if len(hashes) == 0 {
		if marker == "" {
			return refused("take a release that has wheels: a source package runs its own code when it is fetched, and Remit runs none there", "%s==%s has no wheel", p.name, p.version)
		}
		for _, f := range p.files { // pip says that there is no wheel, where the marker holds
			hashes = append(hashes, "--hash="+f.hash)
		}
	}
	slices.Sort(hashes)
	return r.requirement(own, line+" "+strings.Join(slices.Compact(hashes), " "))
}

// projectPath is where the modules of a project's own packages are: below src, or in
// the directory itself. They are not installed.
func (r *pipReader) projectPath(dirs []string) []string {
	var out []string
	for _, dir := range dirs {
		at := path.Join(r.dir, dir)
		if info, err := lstat(r.base, path.Join(at, "src")); err == nil && info.IsDir() {
			at = path.Join(at, "src")
		}
		out = append(out, at)
	}
	return out
}
