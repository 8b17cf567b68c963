//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/sys/unix"

	"remit/proof/form"
)

// The Go module cache of the invoking user has the source of everything that he
// ever built, private modules included. A sandbox sees of it what the base tree
// can prove to know: a module is lent when a go.sum of the tree has its name,
// its version and the very hash of its content that the cache has. A repository
// that only guesses a name gets nothing.
//
//	path version h1:HASH          the extracted module, and its files below cache/download
//	path version/go.mod h1:HASH   its go.mod and .info below cache/download
//
// Toolchains that a go.mod names are public, and are lent by their name. What is
// lent is decided from the base tree alone, never from what an engine changed.

// Bounds on what a tree may name. An honest tree is far below; beyond them the
// rest is not lent, and the go command says which module it misses.
const (
	maxSumFiles   = 1000
	maxSumBytes   = 16 << 20 // of one file
	maxSumTotal   = 32 << 20
	maxSumLine    = 1 << 10
	maxNamed      = 40_000 // lines that name a module
	maxTreeNames  = 1 << 20
	maxLent       = 1500 // mounts cost time in every command, and memory
	maxModFile    = 1 << 20
	maxToolchains = 4
)

// moduleSum is one line of a go.sum.
type moduleSum struct {
	path, version string // escaped, as they are in the cache
	sum           string // h1:…
	modOnly       bool   // only its go.mod is named
}

// named is what a tree says of modules.
type named struct {
	sums       []moduleSum
	toolchains []string // versions, as in go1.26.1
}

// lentModules are paths below the module cache.
type lentModules struct {
	Cache source   `json:"cache"`
	Dirs  []string `json:"dirs"`  // extracted modules
	Files []string `json:"files"` // small files below cache/download

	dropped int // modules that were named and are not lent
}

// cap tells of modules that were not lent because there are too many.
func (l *lentModules) cap() []Cap {
	if l == nil || l.dropped == 0 {
		return nil
	}
	return []Cap{{Name: "go_modules", Limit: maxLent, Enforced: true, Observed: int64(len(l.Dirs) + l.dropped),
		How: fmt.Sprintf("%d modules of the Go module cache that the base tree names are not lent", l.dropped)}}
}

// modulesOf reads what a tree names, once for each tree.
type modulesOf struct {
	mu    sync.Mutex
	known map[treeKey]named
}

type treeKey struct {
	dir      string
	dev, ino uint64
	changed  unix.Timespec
}

func (m *modulesOf) named(ctx context.Context, dir string) (named, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return named{}, fmt.Errorf("sandbox: %w", err)
	}
	key := treeKey{dir, st.Dev, st.Ino, st.Ctim}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.known[key]; ok {
		return n, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return named{}, fmt.Errorf("sandbox: %w", err)
	}
	defer root.Close()
	n, err := readNamed(ctx, root)
	if err == nil {
		if m.known == nil || len(m.known) > 100 {
			m.known = map[treeKey]named{}
		}
		m.known[key] = n
	}
	return n, err
}

// sumReader walks a hostile tree.
type sumReader struct {
	root         *os.Root
	seen         map[moduleSum]bool
	files, names int
	total        int64
	out          named
}

// errEnough ends a walk at a bound.
var errEnough = errors.New("enough")

func readNamed(ctx context.Context, root *os.Root) (named, error) {
	r := &sumReader{root: root, seen: map[moduleSum]bool{}}
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		r.names++
		switch {
		case r.names > maxTreeNames || r.files > maxSumFiles || r.total > maxSumTotal || len(r.seen) > maxNamed:
			return errEnough
		case err != nil: // what cannot be read names nothing
			return fs.SkipDir
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "vendor"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		switch d.Name() {
		case "go.sum", "go.work.sum":
			if !r.vendored(path.Dir(name)) {
				r.read(name, r.sumLine)
			}
		case "go.mod", "go.work":
			r.read(name, r.modLine)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return named{}, fmt.Errorf("sandbox: looking for modules: %w", err)
	}
	return r.out, nil
}

// vendored says that a module has its dependencies in the tree.
func (r *sumReader) vendored(dir string) bool {
	info, err := r.root.Lstat(path.Join(dir, "vendor", "modules.txt"))
	return err == nil && info.Mode().IsRegular()
}

// read hands on the lines of a file. One that is too long or cannot be read
// names what was read of it.
func (r *sumReader) read(name string, line func(string)) {
	r.files++
	info, err := r.root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSumBytes {
		return
	}
	f, err := r.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	r.total += info.Size()
	lines := bufio.NewScanner(io.LimitReader(f, info.Size()))
	lines.Buffer(make([]byte, 4096), maxSumLine)
	for lines.Scan() && len(r.seen) <= maxNamed {
		line(lines.Text())
	}
}

// The patterns are made when they are needed: this package is part of every
// start of the program, the helpers of the sandbox included.
var (
	sumForm       = form.Lazy(`^h1:[A-Za-z0-9+/]{43}=$`)
	toolchainForm = form.Lazy(`^(?:toolchain\s+go|go\s+)(1\.[0-9]{1,3}(?:\.[0-9]{1,3})?(?:(?:rc|beta)[0-9]{1,2})?)$`)
)

func (r *sumReader) sumLine(line string) {
	f := strings.Fields(line)
	if len(f) != 3 || !sumForm().MatchString(f[2]) {
		return
	}
	version, modOnly := strings.CutSuffix(f[1], "/go.mod")
	escaped, err := module.EscapePath(f[0]) // also refuses every path that is none
	if err != nil {
		return
	}
	v, err := module.EscapeVersion(version)
	if err != nil || strings.ContainsAny(v, `/\`) || strings.Contains(v, "..") {
		return
	}
	s := moduleSum{path: escaped, version: v, sum: f[2], modOnly: modOnly}
	if !r.seen[s] {
		r.seen[s] = true
		r.out.sums = append(r.out.sums, s)
	}
}

func (r *sumReader) modLine(line string) {
	text, _, _ := strings.Cut(line, "//")
	m := toolchainForm().FindStringSubmatch(strings.TrimSpace(text))
	if m != nil && len(r.out.toolchains) < maxToolchains && !slices.Contains(r.out.toolchains, "go"+m[1]) {
		r.out.toolchains = append(r.out.toolchains, "go"+m[1])
	}
}

// choose holds what a tree names against the cache, which is the invoking user's
// own: it is trusted, and the names were checked. dropped is how many modules
// were named beyond what is ever lent.
func (n named) choose(cache string) (dirs, files []string, dropped int) {
	for _, s := range n.sums {
		at := path.Join("cache/download", s.path, "@v", s.version)
		if s.modOnly {
			mod, err := readSmall(cache+"/"+at+".mod", maxModFile)
			if err == nil && hashOfGoMod(mod) == s.sum {
				files = append(files, at+".mod", at+".info")
			}
			continue
		}
		hash, err := readSmall(cache+"/"+at+".ziphash", 256)
		if err != nil || string(bytes.TrimSpace(hash)) != s.sum || !isDir(cache+"/"+s.path+"@"+s.version) {
			continue
		}
		if len(dirs) == maxLent {
			dropped++
			continue
		}
		dirs, files = append(dirs, s.path+"@"+s.version), append(files, at+".ziphash", at+".mod", at+".info")
	}
	for _, version := range n.toolchains {
		v := "v0.0.1-" + version + "." + runtime.GOOS + "-" + runtime.GOARCH
		if dir := "golang.org/toolchain@" + v; isDir(cache + "/" + dir) {
			at := path.Join("cache/download/golang.org/toolchain/@v", v)
			dirs, files = append(dirs, dir), append(files, at+".ziphash", at+".mod", at+".info")
		}
	}
	slices.Sort(dirs)
	slices.Sort(files)
	return slices.Compact(dirs), slices.Compact(files), dropped
}

// hashOfGoMod is the h1 hash that go.sum has for a go.mod file.
func hashOfGoMod(text []byte) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%x  go.mod\n", sha256.Sum256(text)))
	return "h1:" + base64.StdEncoding.EncodeToString(sum[:])
}

func isDir(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}

// readSmall reads a regular file of at most limit bytes.
func readSmall(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > limit) {
		err = fmt.Errorf("%q is not a regular file of at most %d bytes", name, limit)
	}
	if err != nil {
		return nil, err
	}
	text := make([]byte, info.Size())
	_, err = io.ReadFull(f, text)
	return text, err
}

// lend decides what a run over the base tree lower sees of the cache; nil is
// nothing.
func (m *modulesOf) lend(ctx context.Context, cache, lower string) (*lentModules, error) {
	if cache == "" {
		return nil, nil
	}
	n, err := m.named(ctx, lower)
	if err != nil || len(n.sums)+len(n.toolchains) == 0 {
		return nil, err
	}
	dirs, files, dropped := n.choose(cache)
	if len(dirs)+len(files) == 0 {
		return nil, nil
	}
	return &lentModules{Dirs: dirs, Files: files, dropped: dropped}, nil
}

// modulesBytes sizes the tmpfs that holds the directories and small files of the
// lent part of the module cache.
const modulesBytes = 256 << 20

// lendModules builds the part of the module cache that is lent: a tmpfs with its
// directories and small files, and a mount for each module. Nothing is there
// that was not named, whatever appears in the cache meanwhile.
func (k *keeper) lendModules(cache *clone) error {
	if cache == nil {
		return nil
	}
	if err := errors.Join(cache.place(stageModCache), os.Mkdir(stageModules, 0o755)); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", stageModules, "tmpfs", flags, fmt.Sprintf("mode=0755,size=%d", modulesBytes)); err != nil {
		return fmt.Errorf("mount modules: %w", err)
	}
	if err := fillModules(stageModCache, stageModules, k.setup.Modules); err != nil {
		return err
	}
	for _, dir := range k.setup.Modules.Dirs {
		if err := k.show(filepath.Join(stageModCache, dir), dir, filepath.Join(stageModules, dir)); err != nil {
			return err
		}
	}
	k.binds = append(k.binds, Bind{Host: stageModules, Inside: insideModCache})
	return nil
}

// fillModules copies what is small from the cache and makes the directories for
// the rest. No sandboxed process has seen either place yet.
func fillModules(from, to string, m *lentModules) error {
	made := map[string]bool{}
	for _, file := range m.Files {
		text, err := readSmall(from+"/"+file, maxModFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue // not every module has all of them
		}
		if err == nil {
			err = mkdirIn(to, path.Dir(file), made)
		}
		if err == nil {
			err = os.WriteFile(to+"/"+file, text, 0o444)
		}
		if err != nil {
			return fmt.Errorf("lend module file %q: %w", file, err)
		}
	}
	for _, dir := range m.Dirs {
		if err := mkdirIn(to, dir, made); err != nil {
			return fmt.Errorf("lend module %q: %w", dir, err)
		}
	}
	// Two runs over the same tree see the same times.
	for dir := range made {
		if err := os.Chtimes(to+"/"+dir, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
			return fmt.Errorf("lend module directory %q: %w", dir, err)
		}
	}
	return nil
}

// mkdirIn makes a directory and those above it, each once.
func mkdirIn(top, dir string, made map[string]bool) error {
	if dir == "." || made[dir] {
		return nil
	}
	if err := mkdirIn(top, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return os.Mkdir(top+"/"+dir, 0o755)
}
