package sandbox

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"remit/proof/reason"
	"remit/work/tree"
)

// reserved are the places inside that no bind may cover.
var reserved = []string{WorkspacePath, "/proc", "/dev", "/usr", "/etc", "/cache"}

// SystemPath is the search path inside; toolchains come before it.
const SystemPath = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"

// check returns s with defaults filled in and paths resolved, or the first
// thing that is wrong with it.
func (s Spec) check() (Spec, error) {
	var err error
	if s.Limits, err = s.Limits.filled(); err != nil {
		return s, err
	}
	if s.Lower, err = directory(s.Lower); err != nil {
		return s, fmt.Errorf("sandbox: base tree: %w", err)
	}
	if s.Layers, err = checkLayers(s.Lower, s.Layers, s.Apply); err != nil {
		return s, err
	}
	for _, c := range s.Commands {
		if err := c.check(); err != nil {
			return s, err
		}
	}
	if err := checkEnvironment(s.Env); err != nil {
		return s, err
	}
	if s.Services, err = checkServices(s.Services); err != nil {
		return s, err
	}
	if s.ServedTree != "" {
		if s.ServedTree, err = directory(s.ServedTree); err != nil {
			return s, fmt.Errorf("sandbox: tree of the services: %w", err)
		}
		if _, err := checkLayers(s.ServedTree, s.Layers, nil); err != nil {
			return s, err
		}
	}
	for _, dir := range s.PathDirs {
		if !tree.ValidPath(dir) || strings.Contains(dir, ":") {
			return s, reason.Errorf(reason.PathTraversal, "sandbox: %q on the search path is not below the workspace", dir)
		}
	}
	binds := make([]Bind, len(s.Binds))
	for i, b := range s.Binds {
		if binds[i], err = b.check(); err != nil {
			return s, err
		}
	}
	s.Binds = binds
	if s.Loopback != nil && s.LoopbackPort == 0 {
		s.LoopbackPort = DefaultLoopbackPort
	}
	if s.LoopbackPort < 0 || s.LoopbackPort > 65535 {
		return s, fmt.Errorf("sandbox: %d is no port for the loopback listener", s.LoopbackPort)
	}
	if s.Capture && s.SpoolDir == "" {
		return s, fmt.Errorf("sandbox: capture needs a spool directory")
	}
	return s, nil
}

func checkEnvironment(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("sandbox: invalid environment variable %q", name)
		}
	}
	return nil
}

func (c Command) check() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return fmt.Errorf("sandbox: empty command")
	}
	for _, a := range c.Argv {
		if strings.Contains(a, "\x00") {
			return fmt.Errorf("sandbox: NUL in argument %q", a)
		}
	}
	if strings.Contains(c.Dir, "\x00") || c.Dir != "" && !filepath.IsLocal(c.Dir) {
		return reason.Errorf(reason.PathTraversal, "sandbox: working directory %q is not below the workspace", c.Dir)
	}
	if c.Wall < 0 {
		return fmt.Errorf("sandbox: negative time limit %s", c.Wall)
	}
	return nil
}

func (b Bind) check() (Bind, error) {
	inside := path.Clean(b.Inside)
	if !path.IsAbs(inside) || inside == "/" || inside == "/tmp" || strings.Contains(inside, "\x00") {
		return b, fmt.Errorf("sandbox: cannot bind %q at %q", b.Host, b.Inside)
	}
	for _, r := range reserved {
		if inside == r || strings.HasPrefix(inside, r+"/") {
			return b, fmt.Errorf("sandbox: cannot bind %q at %q: %s is taken", b.Host, b.Inside, r)
		}
	}
	if !filepath.IsAbs(b.Host) {
		return b, fmt.Errorf("sandbox: bind %q: not an absolute path", b.Host)
	}
	host, err := filepath.EvalSymlinks(b.Host)
	if err == nil {
		host, err = filepath.Abs(host)
	}
	if err != nil {
		return b, fmt.Errorf("sandbox: bind %q: %w", b.Host, err)
	}
	info, err := os.Stat(host)
	if err != nil {
		return b, fmt.Errorf("sandbox: bind %q: %w", b.Host, err)
	}
	if host == "/" || !info.IsDir() && !info.Mode().IsRegular() {
		return b, fmt.Errorf("sandbox: bind %q: neither a file nor a directory below the root", b.Host)
	}
	return Bind{Host: host, Inside: inside}, nil
}

// directory resolves the path of an existing directory.
func directory(p string) (string, error) {
	if p == "" {
		return "", fmt.Errorf("no directory given") // "" would mean the current one
	}
	resolved, err := filepath.EvalSymlinks(p)
	if err != nil {
		return "", err
	}
	if resolved, err = filepath.Abs(resolved); err != nil {
		return "", err
	}
	info, err := os.Stat(resolved) //nolint:gosec // G703: a path that the operator chose is the argument
	if err != nil {
		return "", err
	}
	if !info.IsDir() || resolved == "/" {
		return "", fmt.Errorf("%q is not a directory below the root", p)
	}
	return resolved, nil
}

// filled replaces zero fields by their defaults.
func (l Limits) filled() (Limits, error) {
	d := DefaultLimits()
	for _, f := range []struct{ at, def *int }{
		{&l.CPUsMilli, &d.CPUsMilli}, {&l.MemoryMB, &d.MemoryMB}, {&l.Pids, &d.Pids},
		{&l.DiskMB, &d.DiskMB}, {&l.OpenFiles, &d.OpenFiles},
	} {
		if *f.at == 0 {
			*f.at = *f.def
		}
		if *f.at < 0 {
			return l, fmt.Errorf("sandbox: negative limit in %+v", l)
		}
	}
	if l.OutputBytes == 0 {
		l.OutputBytes = d.OutputBytes
	}
	if l.Wall == 0 {
		l.Wall = d.Wall
	}
	if l.OutputBytes < 0 || l.Wall < 0 {
		return l, fmt.Errorf("sandbox: negative limit in %+v", l)
	}
	return l, nil
}

// wallFor returns how long the next command may run: its own limit or what is
// left for all, whichever is shorter; not positive when nothing is left.
func (s Spec) wallFor(c Command, spent time.Duration) time.Duration {
	left := s.Limits.Wall - spent
	if c.Wall > 0 {
		left = min(left, c.Wall)
	}
	return left
}
