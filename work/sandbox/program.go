//go:build linux

package sandbox

import (
	"path/filepath"
	"slices"
)

// program returns the host file that a command would start under a name, with
// links resolved, "" if the search path inside has none.
func (t toolchain) program(name string) string {
	for _, dir := range slices.Concat(t.hostDirs, filepath.SplitList(SystemPath)) {
		if found, err := lookPath(name, "/", dir); err == nil {
			if real, err := filepath.EvalSymlinks(found); err == nil {
				return real
			}
		}
	}
	return ""
}

// Program returns the host file that a command would start under a name, "" if
// there is none.
func (d *bwrap) Program(name string) string {
	if d.image != nil {
		return "" // a program of the image is no file of the host's
	}
	return d.tools.program(name)
}

// Program returns the host file that a command would start under a name, "" if
// there is none.
func (d *none) Program(name string) string { return d.tools.program(name) }
