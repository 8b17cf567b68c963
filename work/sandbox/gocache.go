//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/form"
)

// goCache is the part of a BuildCache for one Go installation.
type goCache struct {
	BuildCache
	root    string // of the installation
	version string // "go1.26.8"

	mu    sync.Mutex
	tried bool // in this process: it is filled, or cannot be
}

// on finds the part for the installation on the PATH, nil where there is none
// that we understand: tests run with a cold cache then.
func (c BuildCache) on(root string) *goCache {
	if c.Dir == "" {
		c.Dir = ofLogin()
	}
	if root == "" || !filepath.IsAbs(c.Dir) {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		return nil
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	version := strings.Map(plainName, string(first))
	if version == "" || strings.HasPrefix(version, ".") {
		return nil
	}
	return &goCache{BuildCache: c, root: root, version: version}
}

func (c *goCache) path(name string) string { return filepath.Join(c.Dir, c.version, name) }

// build is the directory that is lent, made if it can be; "" if not.
func (c *goCache) build() string {
	if c == nil || os.MkdirAll(c.path("go-build"), 0o700) != nil {
		return ""
	}
	return firstDir(c.path("go-build"))
}

func (c *goCache) filled() bool {
	text, err := os.ReadFile(c.path("filled"))
	return err == nil && string(text) == c.mark()
}

// mark is the content of the file "filled": the version, and which fill it was. The
// first one had nothing of what vet finds out about the standard library.
func (c *goCache) mark() string { return c.version + "\nfill 2\n" }

// Intervals of a fill: of the lines that say that it goes on, and of the looks
// whether another process has ended its fill.
const (
	tellEvery = 10 * time.Second
	lookEvery = 100 * time.Millisecond
)

// Fill fills the cache for the Go installation on the PATH, if that is to be
// done. Only the installation is read; no code of any repository is. One process
// fills it, others wait for that. A machine without Go needs nothing and gets
// no error.
func (c BuildCache) Fill(ctx context.Context) error {
	part := c.on(goRoot())
	if part == nil {
		return nil
	}
	return part.fill(ctx)
}

func (c *goCache) fill(ctx context.Context) error {
	if c.filled() {
		return nil
	}
	if err := os.MkdirAll(c.path("go-build"), 0o700); err != nil {
		return fmt.Errorf("making Remit's own Go build cache: %w", err)
	}
	lock, err := c.lock(ctx)
	if err != nil {
		return fmt.Errorf("locking Remit's own Go build cache: %w", err)
	}
	defer lock.Close()
	if c.filled() {
		return nil // another process was faster
	}
	begun := time.Now()
	if c.takeOver() {
		c.tell(fmt.Sprintf("Remit's own Go build cache is now in %s; %s is no longer used and can be removed", c.Dir, oldCache()))
	} else {
		c.tell(fmt.Sprintf("filling Remit's own Go build cache with the standard library of %s, in %s: once for each Go version, about a minute (four on a slow machine)", c.version, c.Dir))
		if err := c.compile(ctx, begun); err != nil {
			return err
		}
		c.tell(fmt.Sprintf("the Go build cache is filled: %d MiB in %s", sizeOf(c.path("go-build"))>>20, time.Since(begun).Round(time.Second)))
	}
	if err := os.WriteFile(c.path("filled"), []byte(c.mark()), 0o600); err != nil {
		return fmt.Errorf("marking Remit's own Go build cache as filled: %w", err)
	}
	return nil
}

// lock waits until no other process fills the cache. A process that dies leaves
// no lock behind.
func (c *goCache) lock(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(c.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for waits := false; ; waits = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, err
		}
		if !waits {
			c.tell("another process fills Remit's own Go build cache: waiting for it")
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// compile runs the go command, and says every few seconds that it goes on.
func (c *goCache) compile(ctx context.Context, begun time.Time) error {
	ended := make(chan struct{})
	var reports sync.WaitGroup
	var out [len(warmUp)]goOutput
	reports.Go(func() {
		for {
			select {
			case <-time.After(tellEvery):
				c.tell(c.going(&out, time.Since(begun)))
			case <-ended:
				return
			}
		}
	})
	defer reports.Wait()
	defer close(ended)
	for i, args := range warmUp {
		if err := c.runGo(ctx, args, nil, &out[i]); err != nil {
			return err
		}
	}
	// Without it tests are slower, and nothing else: an installation may lack a package
	// that it lists.
	if err := c.runGo(ctx, warmVet, warmModule(out[0].begin), new(goOutput)); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// going says how far a fill is. A package that an earlier one has compiled is no line of
// this one, so that the number of all is the most that there can be.
func (c *goCache) going(out *[len(warmUp)]goOutput, after time.Duration) string {
	return fmt.Sprintf("still filling the Go build cache: %d of up to %d packages, %d MiB after %s", out[1].lines.Load(), out[0].lines.Load(),
		sizeOf(c.path("go-build"))>>20, after.Round(time.Second))
}

// oldCache is where earlier versions kept the cache of this login, "" if unknown.
func oldCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "remit", "go-build")
}

// takeOver copies an old cache of the same user that is filled for this Go
// version: entries, and nothing else. It reports whether that gave all of it; half
// an entry is none to the go command.
func (c *goCache) takeOver() bool {
	old := oldCache()
	if old == "" {
		return false
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(old), "warm-"+c.version)); err != nil {
		return false
	}
	resolved, err := checkCaches([]string{old})
	if err != nil {
		return false
	}
	from, err := os.OpenRoot(resolved[0])
	if err != nil {
		return false
	}
	defer from.Close()
	to, err := os.OpenRoot(c.path("go-build"))
	if err != nil {
		return false
	}
	defer to.Close()
	return fs.WalkDir(from.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !isCacheEntry(name) || !e.Type().IsRegular() {
			return err
		}
		return copyEntry(to, from, name)
	}) == nil
}

func copyEntry(to, from *os.Root, name string) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := to.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	out, err := to.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// State looks at the cache.
func (c BuildCache) State() CacheState {
	if c.Dir == "" {
		c.Dir = ofLogin()
	}
	s := CacheState{Dir: c.Dir, Bytes: sizeOf(c.Dir)}
	if part := c.on(goRoot()); part != nil {
		s.Go, s.Filled = part.version, part.filled()
	}
	if old := firstDir(oldCache()); old != "" {
		s.Old = old
	}
	return s
}

// sizeOf adds up the files below a directory; what cannot be read counts as 0.
func sizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// goCommand finds a use of the go command that compiles in a command line.
var goCommand = form.Lazy(`(^|[\s;&|(/'"])go\s+(test|build|vet|run|install|generate|tool|fix)\b`)

// CompilesGo reports whether a command line, or anything that is run over a tree,
// compiles Go: the line says so, or the tree is a Go module.
func CompilesGo(line, tree string) bool {
	if goCommand().MatchString(line) {
		return true
	}
	for _, name := range []string{"go.mod", "go.work"} {
		if info, err := os.Lstat(filepath.Join(tree, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// fillFor fills the cache before commands that need it. A cache that cannot be
// filled costs time, not the run.
func (c *goCache) fillFor(ctx context.Context, s Spec) error {
	if c == nil {
		return nil
	}
	lines := ""
	for _, command := range s.Commands {
		lines += strings.Join(command.Argv, " ") + "\n"
	}
	if !CompilesGo(lines, s.Lower) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tried {
		return nil
	}
	if err := c.fill(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.tell(err.Error() + "; every command compiles the standard library for itself")
	}
	c.tried = true
	return nil
}

func plainName(c rune) rune {
	if c == '.' || c == '-' || ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') {
		return c
	}
	return '_'
}
