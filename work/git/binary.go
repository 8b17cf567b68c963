package git

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"remit/proof/reason"
)

// trustedDirs are the only places where git is looked for. The caller's PATH is not: a directory that the
// user's shell happens to search may be writable by others, or be a checkout.
var trustedDirs = []string{
	"/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin",
}

// MinVersion is the oldest git that understands everything this package says.
var MinVersion = [2]int{2, 31}

// Binary is the git that was found.
type Binary struct {
	Path    string `json:"path"`
	Version string `json:"version"` // as it reports itself, without "git version "
}

var find = sync.OnceValues(func() (Binary, error) { return findIn(trustedDirs) })

// Find returns the git binary that this process uses. It is looked up once.
func Find() (Binary, error) { return find() }

func findIn(dirs []string) (Binary, error) {
	hint := "install git " + fmt.Sprintf("%d.%d", MinVersion[0], MinVersion[1]) + " or newer in one of " + strings.Join(dirs, ", ")
	for _, dir := range dirs {
		path := filepath.Join(dir, "git")
		info, err := os.Stat(path)
		if err != nil || !trustworthy(info) {
			continue
		}
		version, err := versionOf(path)
		if err != nil {
			return Binary{}, reason.Errorf(reason.ProviderUnavailable, "asking %q for its version: %w", path, err).WithHint("%s", hint)
		}
		if !atLeast(version, MinVersion) {
			return Binary{}, reason.Errorf(reason.ProviderUnavailable, "git %q at %q is too old", version, path).WithHint("%s", hint)
		}
		return Binary{Path: path, Version: version}, nil
	}
	return Binary{}, reason.Errorf(reason.ProviderUnavailable, "no git binary").WithHint("%s", hint)
}

// trustworthy refuses a program that another user could have replaced.
func trustworthy(info os.FileInfo) bool {
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

func versionOf(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env = environment(Dir{Path: nowhere})
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	version, ok := bytes.CutPrefix(bytes.TrimSpace(out), []byte("git version "))
	if !ok || len(version) > 100 {
		return "", fmt.Errorf("unexpected answer %.40q", out)
	}
	return string(version), nil
}

func atLeast(version string, least [2]int) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > least[0] || major == least[0] && minor >= least[1]
}
