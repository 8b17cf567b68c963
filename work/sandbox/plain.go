//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The keeper of driver none: no namespaces, only a subreaper, so that the
// processes of a command can be found after their parents died.

// errMissing means that the program or its directory does not exist.
var errMissing = errors.New("program not found")

func (k *keeper) openPlain() (err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	k.layer = layerCopy
	if k.root, err = os.OpenRoot(k.setup.Lower.Host); err != nil {
		return err
	}
	if k.base, err = os.OpenRoot(k.setup.Base); err != nil {
		return err
	}
	for _, l := range k.setup.Layers {
		if err := k.openLayer(l.Host); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) startPlain(c *command, req request, std []uintptr) error {
	dir := filepath.Join(k.setup.Lower.Host, req.Dir)
	program, err := lookPath(req.Argv[0], dir, k.setup.Env["PATH"])
	if err == nil {
		var env []string
		for _, name := range slices.Sorted(maps.Keys(k.setup.Env)) {
			env = append(env, name+"="+k.setup.Env[name])
		}
		c.pid, err = syscall.ForkExec(program, req.Argv, &syscall.ProcAttr{
			Dir: dir, Env: env, Files: std,
			Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
		})
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, exec.ErrNotFound):
		message := fmt.Appendf(nil, "sandbox: cannot execute %q in %q\n", req.Argv[0], req.Dir)
		_, _ = unix.Write(int(std[2]), message) // the answer says it too
		return fmt.Errorf("%w: %w", errMissing, err)
	case err != nil:
		return fmt.Errorf("start command: %w", err)
	}
	go reap(c.pid, &wards{}, c.ended)
	return nil
}

// lookPath finds a program the way execvp does with the given PATH.
func lookPath(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	for _, p := range filepath.SplitList(path) {
		full := filepath.Join(p, name)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", exec.ErrNotFound
}
