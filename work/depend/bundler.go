package depend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/sandbox"
	"remit/work/tree"
)

// The bundler ecosystem: Gemfile.lock, read as data. A Gemfile is a program, so it is not
// read, and bundler is not started: Remit fetches each gem of the lock file through the
// front, holds it against its SHA-256, and has RubyGems install it from that file, without
// a network. An extension in C is compiled then, which is foreign code: it sees the gems
// and nothing of the repository.

const (
	bundlerDefault = ".remit-gems"
	bundlerLock    = "Gemfile.lock"
	bundlerOther   = "gems.locked" // beside gems.rb
	bundlerFetched = ".remit-gem-files"
	bundlerPublic  = "rubygems.org"
	bundlerHint    = "make it with `bundle lock`, and commit it"
	maxGems        = 2000
)

// gem is one of the lock file, for a platform of this machine.
type gem struct {
	name, version string // the version with its platform
	sha256        string // "" where the lock file has none
}

func (g gem) file() string { return g.name + "-" + g.version + ".gem" }

var (
	gemSpec   = form.Lazy(`^    ([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}) \(([0-9][0-9A-Za-z.]*)(?:-([A-Za-z0-9_.-]+))?\)$`)
	gemDigest = form.Lazy(`^  ([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}) \(([0-9][0-9A-Za-z.-]*)\)(?: sha256=([0-9a-f]{64}))?$`)
	gemRemote = form.Lazy(`^  remote: (\S+)$`)
)

// gemPlatforms are the platforms of gems that run here. One without a platform is made of
// source.
var gemPlatforms = map[string][]string{
	"amd64": {"x86_64-linux", "x86_64-linux-gnu"},
	"arm64": {"aarch64-linux", "aarch64-linux-gnu", "arm64-linux"},
}

// gemLock is what is read of a Gemfile.lock.
type gemLock struct {
	gems    map[string]map[string]string // NAME@VERSION: the platforms, "" for none, each with its digest
	order   []string
	remotes []string
}

// bundlerPlan reads what is to be installed.
func bundlerPlan(base fs.FS, p task.Prepare, hosts func() []string) (*plan, error) {
	at := path.Join(p.Dir, bundlerLock)
	if _, err := lstat(base, at); err != nil {
		if _, err := lstat(base, path.Join(p.Dir, bundlerOther)); err == nil {
			at = path.Join(p.Dir, bundlerOther)
		}
	}
	text, err := readInput(base, at, maxLockBytes)
	var lock *gemLock
	if err == nil {
		lock, err = readGemfileLock(at, text)
	}
	if err != nil {
		if reason.CodeOf(err) != "" {
			return nil, err
		}
		e := reason.Errorf(reason.LockFileInvalid, "%s cannot be used: %w", at, err)
		e.File = at
		return nil, e.WithHint(bundlerHint)
	}
	for _, remote := range lock.remotes {
		if u, err := url.Parse(remote); err != nil || u.User != nil || u.Host != bundlerPublic && !slices.Contains(hosts(), strings.ToLower(u.Host)) {
			return nil, reason.Errorf(reason.DependencyRefused, "%s has gems of %.200q, and Remit fetches from one registry only: yours, or rubygems.org", at, remote).
				WithHint("lead to it with `bundle config set --global mirror.https://rubygems.org/ ADDRESS`, or leave these gems out")
		}
	}
	home, err := onePath(p, "gems have one home", bundlerDefault)
	if err != nil {
		return nil, err
	}
	o := &plan{packages: map[string]bool{}, lockFiles: []string{at}, build: p.Build, tools: []string{"ruby", "gem"}, paths: []string{path.Join(p.Dir, home)},
		leaveOut: []string{"gem_make.out", "mkmf.log"}}
	install := []string{"gem", "install", "--local", "--ignore-dependencies", "--no-document", "--no-user-install", "--norc", "--install-dir", home}
	written := new(bytes.Buffer)
	for _, key := range lock.order {
		g, err := lock.choose(key, at)
		if err != nil {
			return nil, err
		}
		name, version, ok := registry.GemFile(g.file())
		if !ok {
			return nil, reason.Errorf(reason.LockFileInvalid, "%s names %.200q, which is no gem", at, key)
		}
		o.gems = append(o.gems, g)
		o.packages[name+"@"+version], o.packages[g.name] = true, true
		install = append(install, path.Join(bundlerFetched, g.file()))
		fmt.Fprintf(written, "%s %s\n", g.file(), g.sha256)
	}
	o.files = []file{{at, written.Bytes()}}
	// The gems are unpacked from files by their names: what each file has is compared before.
	o.fetch, o.install = []string{"remit: fetch each gem"}, []string{strings.Join(install, " ")}
	if len(o.gems) == 0 { // all that it needs is in the repository, or of the system
		o.install = []string{"mkdir -p " + home + "/bin"}
	}
	inside := path.Join(sandbox.WorkspacePath, p.Dir, home)
	o.fetchEnv = map[string]string{"GEM_HOME": inside, "SOURCE_DATE_EPOCH": "315532800"}
	o.env = map[string]string{"GEM_HOME": inside}
	o.pathDirs = []string{path.Join(p.Dir, home, "bin")}
	return o, nil
}

// choose takes the file of a gem for this machine.
func (l *gemLock) choose(key, at string) (gem, error) {
	name, version, _ := strings.Cut(key, "@")
	there := l.gems[key]
	platforms := append(slices.Clone(gemPlatforms[runtime.GOARCH]), "")
	for _, platform := range platforms {
		if digest, is := there[platform]; is {
			return gem{name, strings.TrimSuffix(version+"-"+platform, "-"), digest}, nil
		}
	}
	return gem{}, reason.Errorf(reason.EnvironmentUnavailable, "%s has %s %s for %s only, and this machine is %s/%s", at, name, version,
		strings.Join(slices.Sorted(maps.Keys(there)), ", "), runtime.GOOS, runtime.GOARCH).
		WithHint("add this platform with `bundle lock --add-platform %s`", platforms[0])
}

// readGemfileLock reads the form that bundler writes: sections, with two, four and six
// spaces in front. Of gems of the repository itself (PATH) nothing is fetched.
func readGemfileLock(at string, text []byte) (*gemLock, error) {
	l := &gemLock{gems: map[string]map[string]string{}}
	digests := map[string]string{} // by NAME (VERSION)
	section, locked := "", false
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		if strings.HasPrefix(line, "<<<<<<<") || strings.HasPrefix(line, ">>>>>>>") {
			return nil, fmt.Errorf("line %d is a mark of a merge", n)
		}
		if line[0] != ' ' {
			section = line
			switch section {
			case "GIT", "PLUGIN SOURCE":
				return nil, reason.Errorf(reason.DependencyRefused, "line %d of %s: gems of a section %s are not fetched, as Remit fetches from the registry only", n, at, section).
					WithHint("take released versions of them from rubygems.org")
			case "GEM", "PATH":
				locked = true
			case "=======":
				return nil, fmt.Errorf("line %d is a mark of a merge", n)
			}
			continue
		}
		if err := l.line(section, line, digests); err != nil {
			if e, is := errors.AsType[*reason.Error](err); is {
				e.File, e.Line = at, n
				return nil, e
			}
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if !locked {
		return nil, errors.New("it has no section GEM or PATH")
	}
	for key, platforms := range l.gems {
		name, version, _ := strings.Cut(key, "@")
		for platform := range platforms {
			platforms[platform] = digests[name+" "+strings.TrimSuffix(version+"-"+platform, "-")]
		}
	}
	return l, nil
}

// line reads one line of a section.
func (l *gemLock) line(section, line string, digests map[string]string) error {
	remote := gemRemote().FindStringSubmatch(line)
	switch {
	case strings.HasPrefix(line, "  remote:") && remote == nil:
		return fmt.Errorf("%.200q is no address", strings.TrimSpace(line))
	case section == "PATH" && remote != nil && (path.IsAbs(remote[1]) || !fs.ValidPath(path.Clean(remote[1]))):
		return reason.Errorf(reason.DependencyRefused, "gems of %.200q are outside of the repository", remote[1]).WithHint("take released versions of them from rubygems.org, or move them into the repository")
	case section == "GEM" && remote != nil:
		l.remotes = append(l.remotes, remote[1])
	case section == "GEM" && strings.HasPrefix(line, "    ") && line[4] != ' ' && len(l.remotes) == 0:
		return errors.New("a gem stands before the remote that it comes from")
	case section == "GEM" && strings.HasPrefix(line, "    ") && line[4] != ' ':
		m := gemSpec().FindStringSubmatch(line)
		if m == nil {
			return fmt.Errorf("%.200q is no gem with a version", strings.TrimSpace(line))
		}
		key := m[1] + "@" + m[2]
		if l.gems[key] == nil {
			if len(l.order) == maxGems {
				return fmt.Errorf("more than %d gems are named", maxGems)
			}
			l.gems[key] = map[string]string{}
			l.order = append(l.order, key)
		}
		l.gems[key][m[3]] = ""
	case section == "CHECKSUMS":
		m := gemDigest().FindStringSubmatch(line)
		if m == nil {
			return fmt.Errorf("%.200q is no digest of a gem", strings.TrimSpace(line))
		}
		digests[m[1]+" "+m[2]] = m[3]
	}
	return nil
}

// bundler fetches the gems. What the lock file has no digest of is held against that of
// the registry's index.
func (b *Builder) bundler(ctx context.Context, p task.Prepare, plan *plan, work string) ([]tree.Change, []Delivery, error) {
	if _, err := writeInputs(work, plan.files); err != nil {
		return nil, nil, err
	}
	up, err := b.upstream(ctx, p.Ecosystem)
	if err != nil {
		return nil, nil, err
	}
	front, err := registry.New(registry.Options{Upstreams: map[registry.Ecosystem]registry.Upstream{registry.RubyGems: up}, Allow: b.counting(p, plan)})
	if err != nil {
		return nil, nil, err
	}
	defer front.Close()
	var changes []tree.Change
	var unlocked []string
	byFile := map[string]gem{} // the name of a file does not say where that of its gem ends
	for _, g := range plan.gems {
		byFile[g.file()] = g
		weak := g.sha256 == ""
		if weak {
			unlocked = append(unlocked, g.name+"@"+g.version)
			if g.sha256, err = indexed(ctx, front, g); err != nil {
				return nil, nil, explain(err, p, front.Close())
			}
		}
		at := filepath.Join(work, g.file())
		f, err := fetchFile(ctx, front, registry.Package{Ecosystem: registry.RubyGems, Name: g.name, Version: g.version}, "gems/"+g.file(), g.sha256, at)
		if e, is := errors.AsType[*reason.Error](err); is && weak && e.Code == reason.RegistryAnswer {
			err = reason.Errorf(reason.RegistryAnswer, "the registry's file of %s %s is another one than its own index says", g.name, g.version).
				WithHint("ask who runs the registry; a lock file with digests (`bundle lock --add-checksums`) would say which one is meant")
		}
		if err != nil {
			return nil, nil, explain(err, p, front.Close())
		}
		info, err := f.Stat()
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, nil, unusable(err)
		}
		changes = append(changes, tree.Change{Path: path.Join(p.Dir, bundlerFetched, g.file()), Kind: tree.File, Size: info.Size(),
			Open: func() (io.ReadCloser, error) { return os.Open(at) }})
	}
	b.tellUnlocked(p, unlocked)
	out := delivered(front.Close())
	for i, d := range out {
		g := byFile[path.Base(d.Path)]
		out[i].Name, out[i].Version = g.name, g.version
	}
	return changes, out, nil
}

// indexed is the SHA-256 that the registry's index has of a gem.
func indexed(ctx context.Context, front *registry.Front, g gem) (string, error) {
	var index bytes.Buffer
	if err := front.Fetch(ctx, "/"+string(registry.RubyGems)+"/info/"+g.name, &index); err != nil {
		return "", err
	}
	for line := range strings.Lines(index.String()) {
		if version, digest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && version == g.version {
			return digest, nil
		}
	}
	return "", reason.Errorf(reason.RegistryMissing, "the index of the registry has no %s %s", g.name, g.version)
}
