package depend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"strconv"
	"strings"

	"remit/law/task"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/sandbox"
	"remit/work/tree"
)

// The debian ecosystem: packages of Debian, by the list that apt itself writes of what it
// would fetch (--print-uris). Remit fetches each file through the front, holds it against
// the size and SHA-256 of the list, and unpacks it, without dpkg and without running a
// maintainer script: the layer is a directory with what the packages would put below /.
//
// What is not proved here: that Debian signed the files. apt compared the signed index
// when it wrote the list, and the author of the commit vouches for the list, as with
// every other lock file.

const (
	debianDefault = ".remit-debian"
	debianLock    = "debian.lock"
	debianHint    = "write it with `apt-get install --print-uris -qq --no-install-recommends -o Acquire::ForceHash=SHA256 NAME… > debian.lock`, and commit it"
	maxDebian     = 2000
	debianUnpack  = "remit: unpack data.tar of each package"
)

// deb is a line of the list.
type deb struct {
	archive, pool string // the address of the archive, and the path below it
	name, version string
	size          int64
	sha256        string
}

var (
	debianDigest = form.Lazy(`^SHA256:([0-9a-f]{64})$`)
	// debianSnapshot are archives that keep every version, by the day.
	debianSnapshot = form.Lazy(`^snapshot\.debian\.org/archive/debian(-security)?/[0-9]{8}T[0-9]{6}Z$`)
)

// debianMachines are the architectures of Debian for those of Go, each with the
// directory of its libraries.
var debianMachines = map[string]struct{ name, triplet string }{
	"amd64": {"amd64", "x86_64-linux-gnu"},
	"arm64": {"arm64", "aarch64-linux-gnu"},
}

// debianPlan reads what is to be fetched.
func debianPlan(base fs.FS, p task.Prepare) (*plan, error) {
	at := path.Join(p.Dir, debianLock)
	text, err := readInput(base, at, maxLockBytes)
	var debs []deb
	if err == nil {
		debs, err = readDebianLock(text)
	}
	if err != nil {
		e := reason.Errorf(reason.LockFileInvalid, "%s cannot be used: %w", at, err)
		e.File = at
		return nil, e.WithHint(debianHint)
	}
	machine, known := debianMachines[runtime.GOARCH]
	if !known {
		return nil, reason.Errorf(reason.EnvironmentUnavailable, "Remit unpacks packages of Debian for amd64 and arm64, not for %s", runtime.GOARCH)
	}
	place, err := onePath(p, "packages of Debian have one place", debianDefault)
	if err != nil {
		return nil, err
	}
	place = path.Join(p.Dir, place)
	o := &plan{packages: map[string]bool{}, lockFiles: []string{at}, build: p.Build, paths: []string{place}, fetch: []string{debianUnpack}, debs: debs}
	written := new(bytes.Buffer)
	for _, d := range debs {
		_, _, architecture, _ := registry.DebianPool(d.pool)
		if architecture != machine.name && architecture != "all" {
			return nil, reason.Errorf(reason.EnvironmentUnavailable, "%s names %s for %s, and this machine is %s", at, d.name, architecture, machine.name).
				WithHint("make the list on a machine of this architecture, or run there")
		}
		if d.name == "libc6" {
			return nil, reason.Errorf(reason.DependencyRefused, "%s names libc6, which belongs to the system layer: another one beside it would break every program", at).
				WithHint("upgrade the system, or take a newer environment.image, and make the list there: apt leaves out what is installed")
		}
		o.packages[d.name+"@"+d.version] = true
		// Where a file comes from says nothing of what is in it.
		fmt.Fprintf(written, "%s %d %s\n", path.Base(d.pool), d.size, d.sha256)
	}
	o.files = []file{{at, written.Bytes()}}
	below := func(dirs ...string) string {
		for i, dir := range dirs {
			dirs[i] = path.Join(sandbox.WorkspacePath, place, dir)
		}
		return strings.Join(dirs, ":")
	}
	libraries := "usr/lib/" + machine.triplet
	o.lists = map[string]string{
		"LD_LIBRARY_PATH": below(libraries, "usr/lib"),
		"LIBRARY_PATH":    below(libraries, "usr/lib"),
		"CPATH":           below("usr/include", "usr/include/"+machine.triplet),
		"PKG_CONFIG_PATH": below(libraries+"/pkgconfig", "usr/share/pkgconfig", "usr/lib/pkgconfig"),
	}
	o.pathDirs = debianPrograms(place)
	return o, nil
}

// debianPrograms are the directories of a layer that have programs.
func debianPrograms(place string) []string {
	return []string{path.Join(place, "usr/bin"), path.Join(place, "usr/sbin"), path.Join(place, "usr/games")}
}

// readDebianLock reads what apt-get --print-uris writes: an address in quotes, the name
// of the file, its size and digest. A line with # in front is a remark.
func readDebianLock(text []byte) ([]deb, error) {
	var debs []deb
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(debs) == maxDebian {
			return nil, fmt.Errorf("it names more than %d packages", maxDebian)
		}
		d, err := readDebianLine(words)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		debs = append(debs, d)
	}
	slices.SortFunc(debs, func(a, b deb) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(debs); i++ {
		if debs[i].name == debs[i-1].name {
			return nil, fmt.Errorf("it names %s twice", debs[i].name)
		}
	}
	if len(debs) == 0 {
		return nil, errors.New("it names no package: apt lists nothing for what is installed where the list is made")
	}
	return debs, nil
}

func readDebianLine(words []string) (d deb, err error) {
	if len(words) != 4 || len(words[0]) < 3 || words[0][0] != '\'' || words[0][len(words[0])-1] != '\'' {
		return d, errors.New("it is not an address in quotes, the name of a file, a size and a digest")
	}
	address := words[0][1 : len(words[0])-1]
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return d, fmt.Errorf("%.200q is no http or https address", address)
	}
	before, pool, _ := strings.Cut(u.Path, "/pool/") // without one it is no name below
	var ok bool
	d.archive, d.pool = u.Scheme+"://"+strings.ToLower(u.Host)+before, "pool/"+pool
	if d.name, d.version, _, ok = registry.DebianPool(d.pool); !ok || path.Clean(u.Path) != u.Path {
		return d, fmt.Errorf("%.200q is no .deb in the pool of an archive", address)
	}
	digest := debianDigest().FindStringSubmatch(words[3])
	if digest == nil {
		return d, fmt.Errorf("%.100q is no SHA-256 of %s", words[3], d.name)
	}
	d.sha256 = digest[1]
	if d.size, err = strconv.ParseInt(words[2], 10, 64); err != nil || d.size <= 0 {
		return d, fmt.Errorf("%.100q is no size of %s", words[2], d.name)
	}
	return d, nil
}

// debian fetches the packages, and unpacks them.
func (b *Builder) debian(ctx context.Context, p task.Prepare, plan *plan, work string) ([]tree.Change, []Delivery, error) {
	up, err := b.upstream(ctx, p.Ecosystem)
	if err != nil {
		return nil, nil, err
	}
	if err := plan.archives(&up); err != nil {
		return nil, nil, err
	}
	front, err := registry.New(registry.Options{Upstreams: map[registry.Ecosystem]registry.Upstream{registry.Debian: up}, Allow: b.counting(p, plan),
		Other: func(p registry.Package) string { return plan.from[p.Name] }})
	if err != nil {
		return nil, nil, err
	}
	defer front.Close()
	all := &unpacked{place: plan.paths[0], owner: map[string]string{}, left: tree.MaxTotalBytes, entries: tree.MaxEntries}
	for i, d := range plan.debs {
		if err := d.fetch(ctx, front, filepath.Join(work, "deb"), func(f *os.File) error {
			return all.add(ctx, d, f, filepath.Join(work, "unpacked-"+strconv.Itoa(i)))
		}); err != nil {
			return nil, nil, explain(err, p, front.Close())
		}
	}
	return all.changes, delivered(front.Close()), nil
}

// archives says which archive each package comes from. One that only the repository
// names is refused; the user's own of the same name stands in the place of a public one.
func (p *plan) archives(up *registry.Upstream) error {
	bare := func(address string) string {
		_, rest, _ := strings.Cut(address, "://")
		return strings.TrimRight(rest, "/")
	}
	own := append([]registry.Upstream{*up}, up.Others...)
	public := registry.Defaults()[registry.Debian]
	p.from = map[string]string{}
	for _, d := range p.debs {
		at := bare(d.archive)
		same := func(u registry.Upstream) bool { return bare(u.URL) == at }
		i := slices.IndexFunc(own, same)
		known := same(public) || slices.ContainsFunc(public.Others, same) || at == "security.debian.org/debian-security"
		if i < 0 && known {
			i = slices.IndexFunc(own, func(u registry.Upstream) bool { return path.Base(bare(u.URL)) == path.Base(at) })
		}
		if i < 0 && debianSnapshot().MatchString(at) {
			up.Others = append(up.Others, registry.Upstream{URL: "https://" + at, Proxy: up.Proxy})
			own = append(own, up.Others[len(up.Others)-1])
			i = len(own) - 1
		}
		if i < 0 {
			return reason.Errorf(reason.DependencyRefused, "the package %s is to come from %.200q, which is no archive of Debian or of your apt", d.name, d.archive).
				WithHint("take it from an archive that `apt-get indextargets` of yours names")
		}
		if i > 0 {
			p.from[d.name] = own[i].URL
		}
	}
	return nil
}

// fetch gets the file of a package, and holds it against the list before a byte of it is
// read as a package.
func (d deb) fetch(ctx context.Context, front *registry.Front, at string, use func(*os.File) error) error {
	f, err := fetchFile(ctx, front, registry.Package{Ecosystem: registry.Debian, Name: d.name, Version: d.version}, d.pool, d.sha256, at)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != d.size {
		return errors.Join(err, reason.Errorf(reason.RegistryAnswer, "the file of %s %s has not the %d bytes that the list says", d.name, d.version, d.size))
	}
	return use(f)
}

// fetchFile gets a file that Remit fetches itself, by its path below the ecosystem, and
// holds it against its SHA-256. The caller closes it.
func fetchFile(ctx context.Context, front *registry.Front, p registry.Package, below, digest, at string) (*os.File, error) {
	f, err := os.Create(at)
	if err != nil {
		return nil, unusable(err)
	}
	sum := sha256.New()
	err = front.Fetch(ctx, "/"+string(p.Ecosystem)+"/"+below, io.MultiWriter(f, sum))
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != digest {
		err = reason.Errorf(reason.RegistryAnswer, "the file of %s %s has the SHA-256 %s, and %s was locked", p.Name, p.Version, got, digest).
			WithHint("this is another file than the one that was locked: find out why before you make the lock file again")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// delivered are the files that a front has delivered, as they stand in a manifest.
func delivered(told []registry.Delivery) (out []Delivery) {
	for _, d := range told {
		if d.Refused == "" && d.Version != "" && d.SHA256 != "" {
			out = append(out, Delivery{Name: d.Name, Version: d.Version, Path: d.Path, SHA256: d.SHA256, Bytes: d.Bytes})
		}
	}
	return out
}

// join puts the directories of a layer in front of those that are there.
func join(env, lists map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if was := env[name]; was != "" {
			env[name] = lists[name] + ":" + was
		} else {
			env[name] = lists[name]
		}
	}
}
