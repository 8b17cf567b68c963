package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"remit/work/git"
)

// sourceConfig is the little that we take from a repository's configuration: how its objects are named, and how
// its work tree compares with its index. None of it can start anything.
type sourceConfig struct {
	format     git.Format
	worktree   string // core.worktree
	fileMode   bool   // is the executable bit real?
	trustCtime bool
	symlinks   bool              // false: links are checked out as files
	partial    bool              // objects may be missing
	remotes    map[string]string // name to the last url
}

func readConfig(loc location) (sourceConfig, error) {
	c := sourceConfig{format: git.SHA1, fileMode: true, trustCtime: true, symlinks: true}
	files := []string{filepath.Join(loc.common, "config"), filepath.Join(loc.gitDir, "config.worktree")}
	for _, file := range files {
		src, err := readBounded(file, maxConfig)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, invalid(file, "reading it: %w", err)
		}
		entries, err := git.ParseConfig(context.Background(), src)
		if err != nil {
			return c, invalid(file, "it is not a configuration file: %w", err)
		}
		for _, e := range entries {
			c.set(e.Key, e.Value)
		}
		if c.format == "" {
			return c, invalid(file, "unknown extensions.objectFormat")
		}
	}
	if _, err := os.Stat(filepath.Join(loc.common, "reftable")); err == nil {
		return c, invalid(loc.common, "its refs are stored as a reftable, which is not supported").
			WithHint("run `git refs migrate --ref-format=files`, or give a clone made with `git clone --ref-format=files`")
	}
	return c, nil
}

func (c *sourceConfig) set(key, value string) {
	switch key {
	case "extensions.objectformat":
		if c.format = git.Format(strings.ToLower(value)); !c.format.Valid() {
			c.format = ""
		}
	case "extensions.partialclone":
		c.partial = true
	case "core.worktree":
		c.worktree = value
	case "core.filemode":
		c.fileMode = isTrue(value)
	case "core.trustctime":
		c.trustCtime = isTrue(value)
	case "core.symlinks":
		c.symlinks = isTrue(value)
	default:
		name, isRemote := strings.CutPrefix(key, "remote.")
		if _, ok := strings.CutSuffix(name, ".promisor"); ok && isRemote {
			c.partial = isTrue(value)
		}
		if name, ok := strings.CutSuffix(name, ".url"); ok && isRemote {
			if c.remotes == nil {
				c.remotes = map[string]string{}
			}
			c.remotes[name] = value
		}
	}
}

// isTrue reads a git boolean. A key without a value is true, and reaches us as "".
func isTrue(value string) bool {
	switch strings.ToLower(value) {
	case "false", "no", "off", "0":
		return false
	}
	return true
}
