//go:build linux

package sandbox

import (
	"maps"
	"strconv"
	"strings"
)

// SystemPath is the search path inside; toolchains come before it.
const SystemPath = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"

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
