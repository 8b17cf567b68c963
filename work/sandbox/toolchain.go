//go:build linux

package sandbox

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// toolchain is what the host lends to every command besides /usr.
type toolchain struct {
	binds    []Bind   // read-only
	pathDirs []string // inside, before the system's
	hostDirs []string // the same on the host, for driver none
	goCache  string   // host directory of Remit's own Go build cache, "" if none
	cache    *goCache // that fills it, nil if none
	modCache string   // host directory of the user's Go module cache; a run sees what its tree names, see modules
	env      map[string]string
}

// onPath puts what a lent directory has of programs on PATH: its bin, or itself if it has
// none.
func (t *toolchain) onPath(b Bind) {
	bin := "bin"
	if info, err := os.Stat(filepath.Join(b.Host, bin)); err != nil || !info.IsDir() {
		bin = "."
	}
	t.pathDirs = append(t.pathDirs, filepath.Join(b.Inside, bin))
	t.hostDirs = append(t.hostDirs, filepath.Join(b.Host, bin))
}

// findToolchain looks where the invoking user's tools are, without starting
// any of them.
func findToolchain(dirs []string, cache BuildCache) (toolchain, error) {
	t := toolchain{env: map[string]string{"GOCACHE": insideGoCache}}
	for _, dir := range dirs {
		host, err := directory(dir)
		if err != nil {
			return t, fmt.Errorf("sandbox: toolchain: %w", err)
		}
		if !filepath.IsAbs(dir) || isHome(host) {
			return t, fmt.Errorf("sandbox: toolchain %q is not an absolute path or is a whole home directory", dir)
		}
		// Tools remember where they were installed, so the path stays.
		b, err := Bind{Host: host, Inside: filepath.Clean(dir)}.check()
		if err != nil {
			return t, err
		}
		t.binds = append(t.binds, b)
		t.onPath(b)
	}
	root := goRoot()
	if root != "" && !visibleInside(root) {
		t.binds = append(t.binds, Bind{Host: root, Inside: insideGoRoot})
		t.pathDirs = append(t.pathDirs, insideGoRoot+"/bin")
		t.hostDirs = append(t.hostDirs, filepath.Join(root, "bin"))
	}
	t.modCache = firstDir(os.Getenv("GOMODCACHE"), below(firstPath("GOPATH"), "pkg/mod"), below(home(), "go/pkg/mod"))
	t.cache = cache.on(root)
	t.goCache = t.cache.build()
	return t, nil
}

// goRoot follows the go command on the invoking PATH to its installation.
func goRoot() string {
	found, err := exec.LookPath("go")
	if err != nil {
		return ""
	}
	real, err := filepath.EvalSymlinks(found)
	if err != nil || filepath.Base(filepath.Dir(real)) != "bin" {
		return ""
	}
	root := filepath.Dir(filepath.Dir(real))
	if info, err := os.Stat(filepath.Join(root, "pkg/tool")); err != nil || !info.IsDir() {
		return ""
	}
	return root
}

func visibleInside(path string) bool { return strings.HasPrefix(path, "/usr/") }

func home() string {
	h, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return h
}

func isHome(dir string) bool {
	h, err := filepath.EvalSymlinks(home())
	return err == nil && (h == dir || strings.HasPrefix(h, dir+"/"))
}

func below(dir, rest string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, rest)
}

func firstPath(variable string) string {
	if list := filepath.SplitList(os.Getenv(variable)); len(list) > 0 {
		return list[0]
	}
	return ""
}

// firstDir returns the first path that is a directory which we may enter.
func firstDir(paths ...string) string {
	for _, p := range paths {
		if p == "" || !filepath.IsAbs(p) {
			continue
		}
		if dir, err := directory(p); err == nil && unix.Access(dir, unix.R_OK|unix.X_OK) == nil {
			return dir
		}
	}
	return ""
}

// pathDirs are the directories of Spec.PathDirs in a workspace.
func (s Spec) pathDirs(workspace string) []string {
	var dirs []string
	for _, d := range s.PathDirs {
		dirs = append(dirs, workspace+"/"+d)
	}
	return dirs
}

// environment builds what a command sees, from nothing: what is not named here
// or in the Spec does not exist inside.
func environment(s Spec, home, tmp string, pathDirs []string) map[string]string {
	env := map[string]string{
		"PATH":                    strings.Join(append(pathDirs, SystemPath), ":"),
		"HOME":                    home,
		"TMPDIR":                  tmp,
		"LANG":                    "C.UTF-8",
		"PYTHONDONTWRITEBYTECODE": "1",
		// No /sys inside, so runtimes cannot see the processor cap themselves.
		"GOMAXPROCS":  strconv.Itoa(max(1, (s.Limits.CPUsMilli+999)/1000)),
		"GOFLAGS":     "-buildvcs=false", // would run git in the tree
		"GOPROXY":     "off",
		"GOTOOLCHAIN": "local",
	}
	maps.Copy(env, s.Env)
	return env
}
