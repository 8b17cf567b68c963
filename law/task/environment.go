package task

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"remit/proof/form"
	"remit/proof/reason"
)

// Environment is what the commands of a run find beside the tree. Only the
// policy of the base commit states it: a task file that could name a lock file or
// a variable would change what a verdict is about.
type Environment struct {
	// Image is the root file system of every command, NAME@sha256:…; "" is the
	// host's. The digest counts, the name is for people.
	Image string `json:"image,omitempty"`
	// Prepare are the dependency layers, made from the base's lock files.
	Prepare []Prepare `json:"prepare,omitempty"`
	// Env are plain variables for every command, of the engine and the verifier.
	Env map[string]string `json:"env,omitempty"`
	// Services run beside every command.
	Services []Service `json:"services,omitempty"`
	// Dependencies says with which layer the head is verified; "" where nothing is
	// prepared.
	Dependencies DependencyRule `json:"dependencies,omitempty"`
}

// Prepare is one set of dependencies, of one ecosystem and one directory.
type Prepare struct {
	Ecosystem Ecosystem `json:"ecosystem"`
	Dir       string    `json:"dir"`             // of manifest and lock file, "." for the top
	Build     []string  `json:"build,omitempty"` // foreign code, run without a network
	Paths     []string  `json:"paths,omitempty"` // relative to Dir; none: by ecosystem
	// Groups are the dependency groups and extras of uv and poetry that are
	// installed beside what the project itself needs; none: every group, no extra.
	Groups []string `json:"groups,omitempty"`
	// Fetch and Hosts are of connect: shell commands that see the base tree, and the
	// hosts that they reach by tunnels.
	Fetch []string `json:"fetch,omitempty"`
	Hosts []string `json:"hosts,omitempty"`
}

// Ecosystem is a family of packages with its registry and its client.
type Ecosystem string

// The ecosystems that a policy may name.
const (
	NPM    Ecosystem = "npm"
	PNPM   Ecosystem = "pnpm"
	Yarn   Ecosystem = "yarn"
	Pip    Ecosystem = "pip"
	UV     Ecosystem = "uv"
	Poetry Ecosystem = "poetry"
	Cargo  Ecosystem = "cargo"
	Go     Ecosystem = "go"
	Debian Ecosystem = "debian"
	// Bundler is RubyGems, by Gemfile.lock.
	Bundler Ecosystem = "bundler"
	// Connect is none of them: commands of the policy that reach hosts by tunnels, for
	// packages whose client has no front. It keeps less than the others, as
	// docs/environments.md says, and a user has to allow each host.
	Connect Ecosystem = "connect"
)

// Ecosystems lists them.
func Ecosystems() []Ecosystem {
	return []Ecosystem{NPM, PNPM, Yarn, Pip, UV, Poetry, Cargo, Go, Bundler, Debian, Connect}
}

// DependencyRule is a word of environment.dependencies.
type DependencyRule string

// DependenciesBase verifies base and head with the layer of the base. Another
// lock file of the head is said, and changes nothing.
const DependenciesBase DependencyRule = "base"

// DependenciesPrepare verifies the head with layers that are made from its own lock
// files. What is fetched is then for the change to say: its author can have the
// registry see any name and version.
const DependenciesPrepare DependencyRule = "prepare"

// groupForm is the form of the name of a group or extra of a Python project.
var groupForm = form.Lazy(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)

// Bounds on an environment.
const (
	maxPrepare      = 8
	maxPrepareList  = 64
	maxEnvironment  = 64
	maxVariableText = 1000
)

// Empty says whether commands find nothing but the tree and this machine.
func (e Environment) Empty() bool {
	return e.Image == "" && len(e.Prepare) == 0 && len(e.Env) == 0 && len(e.Services) == 0
}

// Surroundings returns the environment that the policy states. A nil policy has
// none.
func (p *Policy) Surroundings() Environment {
	if p == nil {
		return Environment{}
	}
	return p.Environment
}

func environmentKeys(e *Environment) []key {
	prepares := list(func(count int) { e.Prepare = make([]Prepare, count) }, func(i int) reader { return prepare(&e.Prepare[i]) })
	return []key{
		{"image", text(&e.Image)},
		{"prepare", prepares},
		{"services", services(&e.Services)},
		{"env", byName(&e.Env, "variable", variableForm, "capital letters, digits and underscores", text[string])},
		{"dependencies", text(&e.Dependencies)},
	}
}

// environment reads the block and holds it against its rules.
func environment(e *Environment) reader {
	return func(r *report, field string, n ast.Node) {
		object(environmentKeys(e))(r, field, n)
		checkImage(r, join(field, "image"), e.Image)
		at := join(field, "prepare")
		if len(e.Prepare) > maxPrepare {
			r.field(at, reason.ContractValue, "prepare one workspace instead of each of its packages",
				"%d entries, at most %d", len(e.Prepare), maxPrepare)
			return
		}
		for i := range e.Prepare {
			e.Prepare[i].check(r, fmt.Sprintf("%s[%d]", at, i))
			for j := range i {
				if e.Prepare[i].Ecosystem == e.Prepare[j].Ecosystem && e.Prepare[i].Dir == e.Prepare[j].Dir {
					r.field(fmt.Sprintf("%s[%d]", at, i), reason.ContractValue, "remove one of the two",
						"%s of %q is prepared by entry %d already", e.Prepare[i].Ecosystem, e.Prepare[i].Dir, j)
				}
			}
		}
		if e.Dependencies != "" {
			oneOf(r, join(field, "dependencies"), e.Dependencies, []DependencyRule{DependenciesBase, DependenciesPrepare})
		}
		if e.Dependencies == "" && len(e.Prepare) > 0 {
			e.Dependencies = DependenciesBase
		}
		for i, p := range e.Prepare {
			if p.Ecosystem == Connect && e.Dependencies == DependenciesPrepare {
				r.field(fmt.Sprintf("%s[%d]", at, i), reason.ContractValue, "write dependencies: base",
					"with dependencies: prepare the code of a change would run with a way out")
			}
		}
		checkVariables(r, join(field, "env"), e.Env)
		e.checkServices(r, join(field, "services"))
		if len(e.Prepare) == 0 {
			e.Prepare = nil // the same rules have the same digest
		}
	}
}

func prepare(p *Prepare) reader {
	return func(r *report, field string, n ast.Node) {
		p.Dir = "."
		keys := []key{{"ecosystem", text(&p.Ecosystem)}, {"dir", text(&p.Dir)}, {"build", texts(&p.Build)}, {"paths", texts(&p.Paths)},
			{"groups", texts(&p.Groups)}, {"fetch", texts(&p.Fetch)}, {"hosts", texts(&p.Hosts)}}
		object(keys)(r, field, n)
	}
}

func (p *Prepare) check(r *report, field string) {
	if p.Ecosystem == "" {
		r.field(join(field, "ecosystem"), reason.ContractMissingKey,
			"write ecosystem: npm, pnpm, yarn, pip, uv, poetry, cargo, go, bundler, debian or connect", "ecosystem is missing")
	} else {
		oneOf(r, join(field, "ecosystem"), p.Ecosystem, Ecosystems())
	}
	const hint = "a path relative to the repository, slash-separated, as in packages/app"
	if p.Dir != "." && !plainPath(p.Dir) {
		r.field(join(field, "dir"), reason.ContractValue, hint, "%q is not a plain path below the repository", p.Dir)
	}
	if len(p.Groups) > 0 && p.Ecosystem != UV && p.Ecosystem != Poetry {
		r.field(join(field, "groups"), reason.ContractValue, "leave groups out", "only uv and poetry have groups of dependencies")
	}
	for i, group := range p.Groups {
		if !groupForm().MatchString(group) || slices.Contains(p.Groups[:i], group) {
			r.field(fmt.Sprintf("%s[%d]", join(field, "groups"), i), reason.ContractValue, "name a group or extra of pyproject.toml, once", "%.100q is no name of a group, or stands twice", group)
		}
	}
	p.checkConnect(r, field)
	lists := map[string][]string{"build": p.Build, "paths": p.Paths, "groups": p.Groups, "fetch": p.Fetch, "hosts": p.Hosts}
	for name, of := range lists {
		if n := len(of); n > maxPrepareList {
			r.field(join(field, name), reason.ContractValue, "", "%d entries, at most %d", n, maxPrepareList)
		}
	}
	for name, commands := range map[string][]string{"build": p.Build, "fetch": p.Fetch} {
		for i, command := range commands {
			at := fmt.Sprintf("%s[%d]", join(field, name), i)
			if strings.TrimSpace(command) == "" || len(command) > MaxCommandBytes {
				r.field(at, reason.ContractValue, "one shell command line of at most 16 KiB", "not a command line")
			}
			checkText(r, at, command, true)
		}
	}
	for i, dir := range p.Paths {
		at := fmt.Sprintf("%s[%d]", join(field, "paths"), i)
		if !plainPath(dir) {
			r.field(at, reason.ContractValue, hint, "%q is not a plain path below %s", dir, p.Dir)
		}
		for j := range i {
			if a, b := p.Paths[j], dir; a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") {
				r.field(at, reason.ContractValue, "name the upper one only", "%q and %q are at or below each other", b, a)
			}
		}
	}
}

// hostForm is the name of a public host.
var hostForm = form.Lazy(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z][a-z0-9-]{0,61}[a-z0-9]$`)

// checkConnect holds what only connect has, and has to have.
func (p *Prepare) checkConnect(r *report, field string) {
	for _, k := range []struct {
		name string
		of   []string
	}{{"fetch", p.Fetch}, {"hosts", p.Hosts}, {"paths", p.Paths}} {
		switch {
		case p.Ecosystem == Connect && len(k.of) == 0:
			r.field(join(field, k.name), reason.ContractMissingKey,
				"write fetch, hosts and paths: commands, the hosts that they reach, and what they make", "connect has no %s", k.name)
		case p.Ecosystem != Connect && len(k.of) > 0 && k.name != "paths":
			r.field(join(field, k.name), reason.ContractValue, "leave "+k.name+" out",
				"only connect has %s: the others run no code while there is a network", k.name)
		}
	}
	for i, host := range p.Hosts {
		if !hostForm().MatchString(host) || slices.Contains(p.Hosts[:i], host) {
			r.field(fmt.Sprintf("%s[%d]", join(field, "hosts"), i), reason.ContractValue,
				"a name such as repo.maven.apache.org, in small letters, once; the port is always 443",
				"%.100q is no name of a public host, or stands twice", host)
		}
	}
}

// plainPath accepts a clean relative path without a part that git would take for
// a repository, and without characters that a person could not see.
func plainPath(p string) bool {
	strange := func(c rune) bool { return c < ' ' || c > '~' || c == '\\' || c == ':' }
	if p == "" || len(p) > 500 || path.IsAbs(p) || path.Clean(p) != p || strings.ContainsFunc(p, strange) {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "." || part == ".." || strings.EqualFold(part, ".git") {
			return false
		}
	}
	return true
}
