package depend

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/tree"
)

// plan is what one entry of environment.prepare comes to: everything that the
// recipe says, and what only the making needs.
type plan struct {
	files []file // written for the fetch, in order
	// fetch has a way to the registry, install has none: both are Remit's own
	// commands. build are the policy's.
	fetch, install, build []string
	paths                 []string          // relative to the workspace
	fetchEnv, buildEnv    map[string]string // of fetch and install, and of build
	env                   map[string]string // of every command that uses the layer
	pathDirs              []string          // of the workspace, with programs of the layer
	lists                 map[string]string // directories that come before those of a variable
	tools                 []string
	leaveOut              []string        // names of files that differ from one fetch to the next, and are not needed
	lockFiles             []string        // of the base, for saying that a patch changes one
	packages              map[string]bool // what may be asked for: NAME, NAME@VERSION
	// from are the packages that come from a further registry of the user's, by NAME,
	// with its address.
	from map[string]string
	// weak are the packages that a lock file names by nothing better than SHA-1, by
	// NAME@VERSION, with the digests in hex.
	weak map[string][]string
	// unlocked are the packages of which the lock file has no digest that the client
	// compares: the front holds them to that of the registry's index. nil for none.
	unlocked func(registry.Package) bool
	// placed are the packages of which the lock file says that their file is not in the
	// usual place: where it is, the index of the registry says.
	placed map[string]bool
	client string // a package manager that Remit names
	debs   []deb  // of Debian, which Remit fetches and unpacks itself
	gems   []gem  // of RubyGems, which Remit fetches itself
	// hosts are those of connect, whose fetch are commands of the policy.
	hosts []string
}

// file is one that Remit writes for a client.
type file struct {
	path string
	text []byte
}

// Ecosystems are those whose layers can be made.
func Ecosystems() []task.Ecosystem {
	return []task.Ecosystem{task.NPM, task.PNPM, task.Yarn, task.Pip, task.UV, task.Poetry, task.Cargo, task.Go, task.Bundler, task.Debian, task.Connect}
}

// planOf reads the manifests of one entry.
func planOf(base fs.FS, p task.Prepare, hosts func() []string) (*plan, error) {
	switch p.Ecosystem {
	case task.NPM:
		return npmPlan(base, p, hosts)
	case task.PNPM:
		return pnpmPlan(base, p, hosts)
	case task.Yarn:
		return yarnPlan(base, p, hosts)
	case task.Pip:
		return pipPlan(base, p)
	case task.UV:
		return uvPlan(base, p, hosts)
	case task.Poetry:
		return poetryPlan(base, p, hosts)
	case task.Cargo:
		return cargoPlan(base, p)
	case task.Go:
		return goPlan(base, p)
	case task.Bundler:
		return bundlerPlan(base, p, hosts)
	case task.Debian:
		return debianPlan(base, p)
	case task.Connect:
		return connectPlan(base, p)
	}
	return nil, fmt.Errorf("no ecosystem %q", p.Ecosystem)
}

// onePath is the path of an ecosystem whose client has one, as what says.
func onePath(p task.Prepare, what, usual string) (string, error) {
	switch len(p.Paths) {
	case 0:
		return usual, nil
	case 1:
		return p.Paths[0], nil
	}
	return "", reason.Errorf(reason.EnvironmentUnavailable, "%s, and environment.prepare names %d paths for %s", what, len(p.Paths), p.Dir).
		WithHint("name one path, or none for %s", usual)
}

// allow holds what the client asks for against the lock file.
func (p *plan) allow(asked registry.Package) error {
	name := asked.Name
	if asked.Version != "" {
		name += "@" + asked.Version
	}
	if !p.packages[name] {
		return reason.Errorf(reason.DependencyRefused, "the lock file of the base does not name %s", name)
	}
	return nil
}

// lead has the packages of a scope come from the registry that the user has for it,
// whatever the lock file says: no other registry is asked for a package of that name,
// or learns that there is one.
func (p *plan) lead(up registry.Upstream) {
	for name := range p.packages {
		scope, _, scoped := strings.Cut(name, "/")
		for _, other := range up.Others {
			if scoped && other.Scope == scope && strings.LastIndexByte(name, '@') == 0 {
				if p.from == nil {
					p.from = map[string]string{}
				}
				p.from[name] = other.URL
			}
		}
	}
}

// own are the files of Remit's that are a part of the layer: a client's settings.
func (p *plan) own() []tree.Change {
	var out []tree.Change
	for _, f := range p.files {
		if below(f.path, p.paths) {
			out = append(out, tree.Change{Path: f.path, Kind: tree.File, Size: int64(len(f.text)),
				Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.text)), nil }})
		}
	}
	return out
}

// systemPrograms are those that commands of every project call by name.
var systemPrograms = strings.Fields(`[ ar as awk basename bash bats c++ cargo cat cc chmod chown clang cmake cmp cp ctest curl cut dash date diff dirname echo egrep env expr false
	fgrep find g++ gawk gcc gem git gmake go gradle grep gzip head id install java javac jq ld ln ls make mawk mkdir mv mvn ninja node npm npx patch perl php printf python python3 rm rmdir
	ruby rustc sed seq sh sleep sort ssh su sudo tail tar tee test time timeout touch tr true uniq wc wget which xargs zsh`)

// inFront refuses a program of a layer that would come before one of the system which
// commands trust. Packages of Debian are such programs.
func (p *plan) inFront(of task.Prepare, c tree.Change) error {
	name := path.Base(c.Path)
	own := of.Ecosystem == task.Debian || of.Ecosystem == task.Connect || strings.HasPrefix(name, "python") // that of the environment itself
	if c.Kind == tree.Delete || own || !slices.Contains(p.pathDirs, path.Dir(c.Path)) || !slices.Contains(systemPrograms, name) {
		return nil
	}
	return reason.Errorf(reason.LayerRefused, "a package of %s in %s has a program %q, which would come before that of the system", of.Ecosystem, of.Dir, name).
		WithHint("leave that package out")
}

// count is the number of packages with their version.
func (p *plan) count() (n int) {
	for name := range p.packages {
		if strings.LastIndexByte(name, '@') > 0 {
			n++
		}
	}
	return n
}

// lstat is what stands at a name of the base, behind no link.
func lstat(base fs.FS, name string) (fs.FileInfo, error) {
	for i := range name {
		if name[i] != '/' {
			continue
		}
		if info, err := fs.Lstat(base, name[:i]); err != nil || !info.IsDir() {
			return nil, errors.Join(err, fmt.Errorf("%q is no directory of the base", name[:i]))
		}
	}
	return fs.Lstat(base, name)
}

// readInput reads a regular file of the base tree: no link is followed, since it
// would be read outside of any sandbox.
func readInput(base fs.FS, name string, limit int64) ([]byte, error) {
	info, err := lstat(base, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the base commit does not have it (%w)", fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	f, err := base.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return text, err
}

// words splits one of Remit's own commands, which need no shell.
func words(command string) []string { return strings.Fields(command) }
