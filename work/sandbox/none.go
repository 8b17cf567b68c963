//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remit/work/tree"
)

// none confines nothing. Commands run as the invoking user in a temporary copy
// of the tree, with a scrubbed environment. It exists for hosts without user
// namespaces and for tests of the pipeline; it is chosen by name only, and what
// it does not hold is in the evidence. WorkspacePath does not exist, and a bind
// is seen only by an argument that begins with its path.
type none struct {
	stateDir string
	tools    toolchain
}

// notHeld is everything that driver none does not promise.
var notHeld = []string{
	"files: every file of the invoking user can be read and written",
	"network: not restricted",
	"loopback: a listener of a run is on the loopback of this host, where every process reaches it",
	"processes: other processes of the user can be seen and signalled",
	"identity: commands run as the invoking user",
	"system calls: not filtered",
	"cpu", "memory", "pids", "disk", "open_files",
	"cleanup: a process can survive when both Remit and its keeper are killed",
}

func (d *none) Describe() Description {
	return Description{
		Driver: DriverNone, Version: "1", Layer: layerCopy, Root: os.Geteuid() == 0,
		NotEnforced: slices.Clone(notHeld), Config: map[string]string{},
	}
}

// Run implements Driver.
func (d *none) Run(ctx context.Context, s Spec) (*Result, error) {
	s, err := s.check()
	if err != nil {
		return nil, err
	}
	if err := refuseServices(s.Services); err != nil {
		return nil, err
	}
	s.Commands = unbind(s.Commands, s.Binds)
	dir, err := os.MkdirTemp(d.stateDir, ownName())
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	result, err := d.runIn(ctx, dir, s)
	return result, errors.Join(err, removeTree(dir))
}

func (d *none) runIn(ctx context.Context, dir string, s Spec) (*Result, error) {
	work, tmp := filepath.Join(dir, "workspace"), filepath.Join(dir, "tmp")
	home := filepath.Join(tmp, "home")
	for _, p := range []string{work, tmp, home} {
		if err := os.Mkdir(p, 0o755); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	if err := copyTree(ctx, work, s.Lower); err != nil {
		return nil, fmt.Errorf("sandbox: copy the base tree: %w", err)
	}
	layers, err := layInto(ctx, work, s.Layers)
	if err != nil {
		return nil, err
	}
	conf := &setup{
		Lower: source{Host: work, IDMap: -1}, Base: s.Lower, Layers: layers,
		Env: environment(s, home, tmp, append(s.pathDirs(work), d.tools.hostDirs...)), Rlimits: rlimits{Processes: -1},
		DiskBytes: int64(s.Limits.DiskMB) << 20,
	}
	for name, value := range map[string]string{"GOCACHE": filepath.Join(dir, "go-build"), "GOMODCACHE": d.tools.modCache} {
		if _, set := conf.Env[name]; !set && value != "" {
			conf.Env[name] = value
		}
	}
	r := &run{spec: s, conf: conf, group: &group{}, collect: collectTime(s.Limits.Wall)}
	err = r.do(ctx)
	if r.result != nil {
		r.result.GoCache = noCaches(s)
	}
	return r.result, err
}

// noCaches says that a run without walls neither uses nor leaves a cache.
func noCaches(s Spec) (c GoCache) {
	const why = "driver none neither lends nor keeps a Go build cache"
	if len(s.Caches) > 0 {
		c.NotLent = why
	}
	if s.KeepCache != "" {
		c.NotKept = why
	}
	return c
}

// unbind replaces arguments that name a bind by its place on the host, where
// nothing is mounted elsewhere.
func unbind(commands []Command, binds []Bind) []Command {
	commands = slices.Clone(commands)
	for i := range commands {
		argv := slices.Clone(commands[i].Argv)
		for j, a := range argv {
			for _, b := range binds {
				if rest, ok := strings.CutPrefix(a, b.Inside); ok && (rest == "" || rest[0] == '/') {
					argv[j] = b.Host + rest
				}
			}
		}
		commands[i].Argv = argv
	}
	return commands
}

func copyTree(ctx context.Context, to, from string) error {
	src, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	_, err = tree.Copy(ctx, dst, src, nil)
	return err
}

// removeTree deletes a directory that a hostile command wrote to.
func removeTree(dir string) error {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("sandbox: clean up: %w", err)
	}
	defer parent.Close()
	if err := parent.RemoveAll(filepath.Base(dir)); err != nil {
		return fmt.Errorf("sandbox: clean up: %w", err)
	}
	return nil
}

// removeStaleCopies deletes the copies of processes that were killed before
// they could.
func removeStaleCopies(stateDir string) {
	entries, err := os.ReadDir(stateDir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if stale(e, time.Now()) {
			_ = removeTree(filepath.Join(stateDir, e.Name())) // tried again next time
		}
	}
}
