package depend

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/sandbox"
	"remit/work/tree"
)

// Builder makes the layers of an environment, or finds them in the store.
type Builder struct {
	Store   *Store
	Sandbox sandbox.Driver
	// Upstream says where a registry of an ecosystem is. It is asked when something
	// has to be fetched, and for a lock file that names another host than the public
	// one. nil is the public registries.
	Upstream func(context.Context, registry.Ecosystem) (registry.Upstream, error)
	// Tell receives lines for a person, nil for nowhere.
	Tell  func(line string)
	Clock func() time.Time
	// Scratch holds what is under way.
	Scratch string
}

// Base is the commit that an environment is made for.
type Base struct {
	Dir  string // a checkout, which is only read
	Tree string // its name in git
}

// Prepare returns the layers of an environment for a base, in its order. What the
// store does not have is fetched and built.
func (b *Builder) Prepare(ctx context.Context, env task.Environment, base Base) (*Prepared, error) {
	out := &Prepared{Env: maps.Clone(env.Env)}
	if out.Env == nil {
		out.Env = map[string]string{}
	}
	for _, p := range env.Prepare {
		l, plan, err := b.prepare(ctx, p, env.Env, base, out.beside(), nil)
		if err != nil {
			out.Release()
			return nil, err
		}
		out.add(l, plan)
	}
	return out, nil
}

func (b *Builder) tell(format string, args ...any) {
	if b.Tell != nil {
		b.Tell(fmt.Sprintf(format, args...))
	}
}

// prepare returns one layer, and what it is made by: the known one where nothing but
// the tree that a build would see is another. Beside are the layers with what a build
// may need of a system.
func (b *Builder) prepare(ctx context.Context, p task.Prepare, env map[string]string, base Base, beside *Prepared, known *Layer) (*Layer, *plan, error) {
	root, err := os.OpenRoot(base.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the base tree: %w", err)
	}
	defer root.Close()
	plan, err := planOf(root.FS(), p, func() []string { return b.hosts(ctx, p.Ecosystem) })
	if err != nil {
		return nil, nil, err
	}
	if err := untracked(root, plan.paths); err != nil {
		return nil, nil, err
	}
	recipe, err := b.recipe(p, plan, env, base, beside)
	if err != nil {
		return nil, nil, err
	}
	if known != nil {
		same := recipe
		same.BaseTree = known.Recipe.BaseTree
		if key, err := same.Key(); err == nil && key == known.Key {
			recipe = same
		}
	}
	key, err := recipe.Key()
	if err != nil {
		return nil, nil, err
	}
	l, err := b.Store.Find(key)
	if l == nil && err == nil {
		l, err = b.make(ctx, p, plan, recipe, env, base, beside)
	}
	return l, plan, err
}

// untracked refuses paths that the tree has: one of the two would be hidden.
func untracked(root *os.Root, paths []string) error {
	for _, p := range paths {
		if _, err := root.Lstat(p); err == nil {
			return reason.Errorf(reason.LayerOverlap, "%q is in the base tree, and a layer of dependencies is to be mounted there", p).
				WithHint("do not track %s, or name other paths in environment.prepare", p)
		}
	}
	return nil
}

// hosts are those of the user's own registry, and the whole addresses of the further
// ones, behind the scope of npm that they are for.
func (b *Builder) hosts(ctx context.Context, e task.Ecosystem) []string {
	up, err := b.upstream(ctx, e)
	if err != nil {
		return nil // the fetch will say it
	}
	u, err := url.Parse(up.URL)
	if err != nil {
		return nil
	}
	known := []string{strings.ToLower(u.Host)}
	for _, other := range up.Others {
		known = append(known, strings.TrimSpace(other.Scope+" "+other.URL))
	}
	return known
}

// registries are the kinds of registry that the ecosystems of a policy ask.
var registries = map[task.Ecosystem]registry.Ecosystem{task.NPM: registry.NPM, task.PNPM: registry.NPM, task.Yarn: registry.NPM, task.Pip: registry.PyPI, task.UV: registry.PyPI,
	task.Poetry: registry.PyPI, task.Cargo: registry.Crates, task.Go: registry.Go, task.Bundler: registry.RubyGems, task.Debian: registry.Debian, task.Connect: registry.Connect}

func (b *Builder) upstream(ctx context.Context, e task.Ecosystem) (registry.Upstream, error) {
	if b.Upstream == nil {
		return registry.Defaults()[registries[e]], nil
	}
	return b.Upstream(ctx, registries[e])
}

func (b *Builder) recipe(p task.Prepare, plan *plan, env map[string]string, base Base, beside *Prepared) (Recipe, error) {
	r := Recipe{Format: recipeFormat, Ecosystem: string(p.Ecosystem), Dir: p.Dir, Fetch: plan.fetch, Install: plan.install, Build: plan.build,
		Paths: plan.paths, Hosts: plan.hosts, OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, f := range plan.files {
		r.Inputs = append(r.Inputs, Input{f.path, canon.Digest(f.text)})
	}
	at, ok := b.Sandbox.(programs)
	image := b.Sandbox.Describe().Config[sandbox.ConfigImage]
	if !ok {
		return r, reason.Errorf(reason.EnvironmentUnavailable, "this sandbox cannot say which programs make a layer, so none is made here").
			WithHint("a provider prepares no dependencies for the jobs of others: run the task on your own machine")
	}
	for _, name := range plan.tools {
		if image != "" {
			r.Tools = append(r.Tools, Tool{name, image}) // the image has it, or the fetch says that it does not
			continue
		}
		tool, err := b.Store.tool(at, name)
		if err != nil {
			return r, err
		}
		r.Tools = append(r.Tools, tool)
	}
	if len(plan.build)+len(plan.hosts) > 0 { // they see the whole tree, and the variables of the policy
		r.BaseTree, r.Env = base.Tree, env
	}
	if len(plan.build) > 0 {
		for _, l := range beside.Layers {
			r.Beside = append(r.Beside, l.Key)
		}
	}
	return r, nil
}

// buildLimits are the caps on making a layer: packages are unpacked twice on the
// disk of the sandbox.
func buildLimits() sandbox.Limits {
	l := sandbox.DefaultLimits()
	l.DiskMB, l.MemoryMB, l.OpenFiles, l.Wall, l.OutputBytes = 8<<10, 4<<10, 16<<10, 30*time.Minute, 64<<20
	return l
}

// make fetches and builds a layer, and seals it.
func (b *Builder) make(ctx context.Context, p task.Prepare, plan *plan, recipe Recipe, env map[string]string, base Base, beside *Prepared) (*Layer, error) {
	if b.Sandbox.Describe().Driver == sandbox.DriverNone {
		return nil, reason.Errorf(reason.EnvironmentUnavailable, "the sandbox driver none keeps no foreign code away from the network, so no layer is made under it").
			WithHint("leave --sandbox none out")
	}
	work, err := os.MkdirTemp(b.Scratch, "remit-layer-")
	if err != nil {
		return nil, unusable(err)
	}
	defer func() { _ = os.RemoveAll(work) }() // temporary
	began := b.Clock()
	key, _ := recipe.Key()
	if p.Ecosystem != task.Connect { // of which nothing is known before
		b.tell("%s in %s: layer %s is made: fetching %d package(s)%s", p.Ecosystem, p.Dir, Short(key), plan.count(), plan.client)
	}
	var changes []tree.Change
	var deliveries []Delivery
	switch p.Ecosystem {
	case task.Connect:
		changes, deliveries, err = b.connect(ctx, p, plan, env, work, base)
	case task.Debian:
		changes, deliveries, err = b.debian(ctx, p, plan, work)
	case task.Bundler:
		changes, deliveries, err = b.bundler(ctx, p, plan, work)
	default:
		changes, deliveries, err = b.fetch(ctx, p, plan, work)
	}
	if err != nil {
		return nil, err
	}
	if len(plan.install) > 0 {
		if changes, err = b.install(ctx, p, plan, changes, work); err != nil {
			return nil, err
		}
	}
	if len(plan.build) > 0 {
		b.tell("%s in %s: building, without a network", p.Ecosystem, p.Dir)
		if changes, err = b.build(ctx, p, plan, changes, env, work, base, beside); err != nil {
			return nil, err
		}
	}
	m := Manifest{Recipe: recipe, Deliveries: deliveries, MadeAt: began.UTC().Format(time.RFC3339)}
	l, err := b.Store.seal(ctx, m, func(visit func(tree.Change) error) error {
		for _, c := range tree.Sorted(append(plan.own(), changes...)) {
			if slices.Contains(plan.leaveOut, path.Base(c.Path)) {
				continue
			}
			if err := plan.inFront(p, c); err != nil {
				return err
			}
			if err := visit(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		b.tell("%s in %s: layer %s has %d entries, %d MB, made in %s", p.Ecosystem, p.Dir, Short(l.Key), l.Entries, l.Bytes>>20,
			b.Clock().Sub(began).Round(100*time.Millisecond))
	}
	return l, err
}

// frontAddress is where a client finds the front, from inside.
func frontAddress() string {
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(sandbox.DefaultLoopbackPort))
}

// fetch runs the client in a tree that has nothing but what Remit wrote, with one
// way out.
func (b *Builder) fetch(ctx context.Context, p task.Prepare, plan *plan, work string) ([]tree.Change, []Delivery, error) {
	lower, err := writeInputs(work, plan.files)
	if err != nil {
		return nil, nil, err
	}
	up, err := b.upstream(ctx, p.Ecosystem)
	if err != nil {
		return nil, nil, err
	}
	plan.lead(up)
	e := registries[p.Ecosystem]
	front, err := registry.New(registry.Options{Upstreams: map[registry.Ecosystem]registry.Upstream{e: up}, Allow: b.counting(p, plan),
		Other: func(p registry.Package) string { return plan.from[p.Name] }, Unlocked: plan.unlocked,
		Placed: func(p registry.Package) bool { return plan.placed[p.Name+"@"+p.Version] }})
	if err != nil {
		return nil, nil, err
	}
	client := registry.Configure(e, frontAddress())
	env := maps.Clone(plan.fetchEnv)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, client.Env)
	s := sandbox.Spec{Lower: lower, Env: env, Limits: buildLimits(), Capture: true, SpoolDir: work, Loopback: front.Serve, StopOnFailure: true}
	if s.Binds, err = writeConfiguration(work, client.Files); err != nil {
		return nil, nil, err
	}
	for _, command := range plan.fetch {
		s.Commands = append(s.Commands, sandbox.Command{Argv: words(command), Dir: p.Dir})
	}
	changes, runErr := b.run(ctx, s, plan.fetch)
	told := front.Close()
	if runErr != nil {
		return nil, nil, explain(runErr, p, told)
	}
	if err := plan.compare(told); err != nil {
		return nil, nil, err
	}
	if n := len(plan.weak); n > 0 {
		b.tell("%s in %s: the lock file has only SHA-1 of %d package(s)", p.Ecosystem, p.Dir, n)
	}
	var unlocked []string
	for _, d := range told {
		if d.Refused == "" && d.Version != "" && d.SHA256 != "" && plan.isUnlocked(d) {
			unlocked = append(unlocked, d.Name+"@"+d.Version)
		}
	}
	b.tellUnlocked(p, unlocked)
	return changes, delivered(told), nil
}

// tellUnlocked says of which packages the lock file has no digest.
func (b *Builder) tellUnlocked(p task.Prepare, unlocked []string) {
	if len(unlocked) > 0 {
		b.tell("%s in %s: the lock file has no digest of %d package(s), which were compared with the registry's own index: %s",
			p.Ecosystem, p.Dir, len(unlocked), strings.Join(unlocked[:min(len(unlocked), 5)], ", "))
	}
}

// explain adds what the registry refused to the error of a client, which tells of
// it in its own words or not at all.
func explain(err error, p task.Prepare, told []registry.Delivery) error {
	for _, d := range told {
		if d.Refused == "" {
			continue
		}
		what := strings.TrimSuffix(d.Name+"@"+d.Version, "@")
		e := reason.Errorf(d.Refused, "fetching the %s packages of %s: %s: %s", p.Ecosystem, p.Dir, what, d.Why)
		e.Err = err
		if d.Refused == reason.RegistryRefused {
			return e.WithHint("the client asked for more than the lock file has, as it does where that file is not complete: make it anew (for npm: `npm install`), " +
				"and commit it; `remit env build` tries it alone")
		}
		return e.WithHint("this is about the registry, not the repository: it lacks that package or cannot be reached; `remit env build` tries it alone")
	}
	return err
}

// install runs Remit's own commands over what was fetched, without a network.
func (b *Builder) install(ctx context.Context, p task.Prepare, plan *plan, fetched []tree.Change, work string) ([]tree.Change, error) {
	s := sandbox.Spec{Lower: inputsIn(work), Apply: fetched, Env: plan.fetchEnv, Limits: buildLimits(), Capture: true, SpoolDir: work, StopOnFailure: true}
	for _, command := range plan.install {
		s.Commands = append(s.Commands, sandbox.Command{Argv: words(command), Dir: p.Dir})
	}
	return b.run(ctx, s, plan.install)
}

// build runs the policy's commands over the base tree with what was fetched: it is
// foreign code, and nothing can be reached from there.
func (b *Builder) build(ctx context.Context, p task.Prepare, plan *plan, fetched []tree.Change, env map[string]string, work string, base Base, beside *Prepared) ([]tree.Change, error) {
	kept := slices.DeleteFunc(append(plan.own(), fetched...), func(c tree.Change) bool { return !below(c.Path, plan.paths) })
	for _, c := range kept { // what no layer may have is not laid out either
		if err := allowed(c, plan.paths); err != nil {
			return nil, err
		}
	}
	all := maps.Clone(plan.buildEnv)
	if all == nil {
		all = map[string]string{}
	}
	if dir := b.nodeHeaders(p.Ecosystem); dir != "" {
		all["npm_config_nodedir"] = dir
	}
	maps.Copy(all, plan.env)
	maps.Copy(all, env)
	join(all, beside.lists)
	join(all, plan.lists)
	s := sandbox.Spec{Lower: base.Dir, Layers: beside.Mounts(), Apply: kept, PathDirs: append(slices.Clone(plan.pathDirs), beside.PathDirs...), Env: all, Limits: buildLimits(), Capture: true, SpoolDir: work, StopOnFailure: true}
	for _, command := range plan.build {
		s.Commands = append(s.Commands, sandbox.Command{Argv: []string{"sh", "-c", "--", command}, Dir: p.Dir})
	}
	return b.run(ctx, s, plan.build)
}
