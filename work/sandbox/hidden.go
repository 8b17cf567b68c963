//go:build linux

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"remit/proof/reason"
)

// hidden are host directories that no command may see, see [Options.Hidden].
type hidden []string

// hiddenFrom resolves the directories. One that every sandbox shows, since it
// lies below a directory that is always there, cannot be hidden.
func hiddenFrom(dirs []string) (hidden, error) {
	out := make(hidden, 0, len(dirs))
	for _, dir := range dirs {
		real, err := resolved(dir)
		if err != nil {
			return nil, err
		}
		if visibleInside(real) {
			return nil, reason.Errorf(reason.SandboxUnavailable, "sandbox: %s lies below /usr, which every command sees", dir).
				WithHint("set REMIT_HOME to a directory elsewhere")
		}
		out = append(out, real)
	}
	return out, nil
}

// resolved follows the links of a path of which the end may not exist yet.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
			return "", err
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
}

// check refuses a bind that would show a hidden directory, whole or in part. The
// host path of the bind has no links any more. Sockets, files and directories
// count alike.
func (h hidden) check(b Bind) error {
	for _, dir := range h {
		if within(dir, b.Host) || within(b.Host, dir) {
			return reason.Errorf(reason.SandboxUnavailable, "sandbox: cannot show %q to a command: it would show %q", b.Host, dir).
				WithHint("name a smaller directory: keys and the books of the authority lie there")
		}
	}
	return nil
}

// within reports whether a clean path is top or lies below it.
func within(path, top string) bool {
	return path == top || strings.HasPrefix(path, strings.TrimSuffix(top, string(os.PathSeparator))+string(os.PathSeparator))
}
