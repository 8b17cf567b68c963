//go:build linux

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// installation is a Go installation whose go command is a script. It finds the
// cache in $GOCACHE, and writes its arguments to calls beside the installation.
func installation(t *testing.T, script string) string {
	t.Helper()
	root := t.TempDir()
	write(t, root+"/VERSION", "go1.99.1\ntime 2026-01-01T00:00:00Z\n")
	write(t, root+"/bin/go", "#!/bin/sh\necho \"$*\" >>"+root+"/calls\n"+script+"\n")
	must(t, os.Chmod(root+"/bin/go", 0o755))
	return root
}

// calls are the command lines that the go command of an installation got.
func calls(t *testing.T, root string) []string {
	t.Helper()
	text, err := os.ReadFile(root + "/calls")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(text)))
}

// lines collects what a cache reports.
type lines struct {
	mu    sync.Mutex
	lines []string
}

func (s *lines) tell(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *lines) has(part string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, line := range s.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// One of several processes fills the cache, and says so; the others wait. (Each
// has a lock of its own here, as a process has.)
func TestFillOnce(t *testing.T) {
	t.Parallel()
	root := installation(t, `mkdir -p "$GOCACHE/00" && : >"$GOCACHE/00/x"`)
	var heard lines
	dir := t.TempDir() + "/gocache"
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if err := (BuildCache{Dir: dir, Tell: heard.tell}).on(root).fill(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := calls(t, root); len(got) != len(warmUp)+1 {
		t.Errorf("the go command was called %d times: %q", len(got), got)
	}
	if heard.has("filling Remit's own Go build cache with the standard library of go1.99.1, in "+dir) != 1 || heard.has("is filled: ") != 1 {
		t.Errorf("%q", heard.lines)
	}
	info, err := os.Stat(dir + "/go1.99.1/go-build")
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	// How far a fill is, it tells by the lines that the go command prints.
	var out [len(warmUp)]goOutput
	talks := installation(t, `case $1 in list) printf 'a\nb\nc\n';; build) echo a >&2;; esac`)
	for i, args := range warmUp {
		must(t, (BuildCache{Dir: t.TempDir()}).on(talks).runGo(t.Context(), args, nil, &out[i]))
	}
	if got := (BuildCache{Dir: dir}).on(root).going(&out, 12*time.Second); got != "still filling the Go build cache: 1 of up to 3 packages, 0 MiB after 12s" {
		t.Error(got)
	}
	// Another version of Go has a part of its own.
	write(t, root+"/VERSION", "go1.99.2")
	must(t, (BuildCache{Dir: dir}).on(root).fill(t.Context()))
	if got := calls(t, root); len(got) != 2*(len(warmUp)+1) {
		t.Errorf("%q", got)
	}
}

// A fill that is cut off ends with everything that it started, leaves nothing
// that could be taken for a filled cache, and is made again.
func TestFillCutOff(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	fifo := place + "/fifo"
	must(t, syscall.Mkfifo(fifo, 0o600))
	root := installation(t, "if [ -e "+fifo+" ]; then sh -c 'echo $$ >"+place+"/child; read x <"+fifo+"'; fi")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the user has enough")
	go func() {
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // opens when the child has
		if err == nil {
			defer f.Close()
		}
		cancel(stop)
		<-t.Context().Done()
	}()
	part := (BuildCache{Dir: place + "/gocache"}).on(root)
	if err := part.fill(ctx); !errors.Is(err, stop) {
		t.Fatalf("%v", err)
	}
	if part.filled() {
		t.Error("half a cache counts as filled")
	}
	must(t, os.Remove(fifo))
	must(t, part.fill(t.Context()))
	if !part.filled() {
		t.Error("it is not filled the second time")
	}
}

// A go command that fails costs time and not the run: it is reported once, and not
// tried before every command.
func TestFillFails(t *testing.T) {
	t.Parallel()
	root := installation(t, "echo no space left on device; exit 1")
	var heard lines
	part := (BuildCache{Dir: t.TempDir() + "/gocache", Tell: heard.tell}).on(root)
	s := Spec{Lower: t.TempDir(), Commands: []Command{{Argv: []string{"sh", "-c", "go test ./..."}}}}
	for range 3 {
		must(t, part.fillFor(t.Context(), s))
	}
	if len(calls(t, root)) != 1 || heard.has("no space left on device") != 1 || heard.has("compiles the standard library for itself") != 1 || part.filled() {
		t.Errorf("%q, %q", calls(t, root), heard.lines)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("cancelled")
	cancel(stop)
	again := (BuildCache{Dir: part.Dir}).on(root)
	if err := again.fillFor(ctx, s); !errors.Is(err, stop) {
		t.Errorf("a cancelled run goes on: %v", err)
	}
}

// What the place of earlier versions has is taken over once, said so; nothing but
// entries of a cache, and nothing from a directory that others can write to.
func TestOldCacheIsTakenOver(t *testing.T) {
	login := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", login)
	entry := "ab/ab" + strings.Repeat("0", 62) + "-d"
	write(t, login+"/remit/go-build/"+entry, "compiled")
	write(t, login+"/remit/go-build/README", "x")
	write(t, login+"/secret", "key")
	must(t, os.Symlink("../../../secret", login+"/remit/go-build/ab/ab"+strings.Repeat("1", 62)+"-d"))
	write(t, login+"/remit/warm-go1.99.1", "go1.99.1")
	for _, mode := range []os.FileMode{0o700, 0o777} {
		must(t, os.Chmod(login+"/remit/go-build", mode))
		root := installation(t, "")
		var heard lines
		part := (BuildCache{Dir: t.TempDir() + "/gocache", Tell: heard.tell}).on(root)
		must(t, part.fill(t.Context()))
		files, err := filepath.Glob(part.path("go-build") + "/*/*")
		must(t, err)
		taken := mode == 0o700
		if (len(files) == 1) != taken || (len(calls(t, root)) == 0) != taken || (heard.has(login+"/remit/go-build is no longer used") == 1) != taken || !part.filled() {
			t.Errorf("mode %o: %q, %q, %q", mode, files, calls(t, root), heard.lines)
		}
	}
}

func TestCompilesGo(t *testing.T) {
	t.Parallel()
	plain, module, workspace := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, module+"/go.mod", "module x\n")
	write(t, workspace+"/go.work", "go 1.26\n")
	for line, want := range map[string]bool{
		"go test ./...": true, "cd a && go vet ./...": true, `sh -c "go build ./..."`: true, "CGO_ENABLED=0 go run .": true, "/usr/local/go/bin/go test": true,
		"python3 -m unittest": false, "ergo test": false, "go version": false, "cargo test": false, "make test": false, "": false,
	} {
		if got := CompilesGo(line, plain); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
	if !CompilesGo("make test", module) || !CompilesGo("./check.sh", workspace) {
		t.Error("what a command of a Go module runs may compile Go")
	}
}

// No Go, or one that says no version, needs no cache.
func TestNoGoNoCache(t *testing.T) {
	t.Parallel()
	odd := t.TempDir()
	write(t, odd+"/VERSION", "../../x\n")
	for _, root := range []string{"", t.TempDir(), odd} {
		part := (BuildCache{Dir: t.TempDir()}).on(root)
		if root == odd {
			if part != nil && filepath.Dir(part.path("x")) != filepath.Join(part.Dir, part.version) {
				t.Errorf("%q leaves the cache", part.version)
			}
			continue
		}
		if part != nil || part.build() != "" || part.fillFor(t.Context(), Spec{}) != nil {
			t.Errorf("%q: %+v", root, part)
		}
	}
}
