//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// goCacheDir is Remit's own Go build cache. The sandbox never shows the user's:
// it holds object code and test output of every project on the machine. This
// one holds the standard library and nothing else.
func goCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "remit", "go-build")
}

// warmUp compiles what every Go test needs, vet included.
var warmUp = [][]string{{"build", "std"}, {"vet", "errors"}, {"test", "-count=1", "-run", "^$", "errors"}}

// WarmGoCache fills Remit's own Go build cache with the standard library, once
// for each Go version, so that verification does not compile it in every
// phase. Only the Go installation is read; no code of any repository is. began,
// when not nil, is called if there is something to do, which takes a minute. A
// machine without Go needs nothing and gets no error.
func WarmGoCache(ctx context.Context, began func()) error {
	root, dir := goRoot(), goCacheDir()
	if root == "" || dir == "" {
		return nil
	}
	version, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		return nil // not a Go installation that we understand: tests run with a cold cache
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making Remit's Go build cache: %w", err)
	}
	first, _, _ := bytes.Cut(version, []byte("\n"))
	marker := "warm-" + strings.Map(plainName, string(first))
	beside, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("opening the place of Remit's Go build cache: %w", err)
	}
	defer beside.Close()
	if _, err := beside.Stat(marker); err == nil {
		return nil
	}
	lock, err := beside.OpenFile(marker+".lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("locking Remit's Go build cache: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("locking Remit's Go build cache: %w", err)
	}
	if _, err := beside.Stat(marker); err == nil {
		return nil // another process was faster
	}
	if began != nil {
		began()
	}
	for _, args := range warmUp {
		if err := runGo(ctx, root, dir, args); err != nil {
			return err
		}
	}
	return beside.WriteFile(marker, first, 0o600)
}

// runGo runs the go command of the installation, with nothing of the user's
// settings.
func runGo(ctx context.Context, root, cache string, args []string) error {
	scratch, err := os.MkdirTemp("", "remit-go-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // only the go command wrote there
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "go"), args...)
	cmd.Dir = scratch
	cmd.Env = []string{"PATH=" + filepath.Join(root, "bin") + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + scratch, "TMPDIR=" + scratch,
		"GOCACHE=" + cache, "GOENV=off", "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOTOOLCHAIN=local", "LANG=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("filling Remit's Go build cache: go %s: %w", strings.Join(args, " "), err), errors.New(string(bytes.TrimSpace(out[max(0, len(out)-500):]))))
	}
	return nil
}

func plainName(c rune) rune {
	if c == '.' || c == '-' || ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') {
		return c
	}
	return '_'
}
