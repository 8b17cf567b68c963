package workspace

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/git"
	"remit/work/tree"
)

// maxIgnoreFile bounds a .gitignore file.
const maxIgnoreFile = 8 << 20

// withoutIgnored takes the ignored paths out of the candidates. git itself decides, looking at a directory of ours that
// holds nothing but the base's .gitignore files on the way to the candidates: no link can lead it elsewhere, and
// what the sandbox wrote has no say.
func (im *importer) withoutIgnored(ctx context.Context, candidates []candidate) ([]candidate, error) {
	var paths []string
	for _, c := range candidates {
		if !c.tracked && c.Kind != tree.Delete {
			paths = append(paths, ignorePath(c.Change))
		}
	}
	rules, err := im.ignoreFiles(ctx, paths)
	if err != nil || len(rules) == 0 {
		return candidates, err
	}
	var ignored []string
	err = im.store.scratch(false, func(d git.Dir) error {
		d.WorkTree = filepath.Join(d.Path, "rules")
		if err := writeRules(d.WorkTree, rules); err != nil {
			return reason.Errorf(reason.InfrastructureFault, "laying out .gitignore files: %w", err)
		}
		ignored, err = d.CheckIgnore(ctx, paths)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking what is ignored: %w", err)
	}
	set := map[string]bool{}
	for _, p := range ignored {
		set[p] = true
	}
	return slices.DeleteFunc(candidates, func(c candidate) bool {
		drop := !c.tracked && c.Kind != tree.Delete && set[ignorePath(c.Change)]
		if drop {
			im.result.Ignored = append(im.result.Ignored, c.Path)
		}
		return drop
	}), nil
}

// ignorePath is what git is asked about: a nested git directory is ignored with the directory that it is in.
func ignorePath(c tree.Change) string {
	if c.Kind == tree.Special && path.Base(c.Path) == ".git" && c.Path != ".git" {
		return path.Dir(c.Path)
	}
	return c.Path
}

// ignoreFiles reads the .gitignore files in the directories above the paths.
func (im *importer) ignoreFiles(ctx context.Context, paths []string) (map[string][]byte, error) {
	rules, seen := map[string][]byte{}, map[string]bool{}
	for _, p := range paths {
		for dir := path.Dir(p); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			file := path.Join(dir, ".gitignore")
			at, err := im.store.find(ctx, im.base, file)
			if err != nil {
				return nil, err
			}
			if m := plainMode(at.entry.mode); m != modeFile && m != modeExec { // git does not follow a link here either
				continue
			}
			if rules[file], err = im.store.read(ctx, at.entry.id, maxIgnoreFile); err != nil {
				return nil, err
			}
		}
	}
	return rules, nil
}

func writeRules(dir string, rules map[string][]byte) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for file, text := range rules {
		if parent := path.Dir(file); strings.Contains(file, "/") {
			if err := root.MkdirAll(parent, 0o700); err != nil {
				return err
			}
		}
		if err := root.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
