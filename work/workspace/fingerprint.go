package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Section is one part of a Fingerprint: a digest, and how many things it covers.
type Section struct {
	Digest string `json:"digest"`
	Count  int64  `json:"count"`
}

// Fingerprint is the state of a source at one moment. Two of them that do not differ prove that no process, ours included,
// changed the source in between. Its sections:
//
//	head      the bytes of HEAD
//	refs      every ref and its value, and the bytes of packed-refs
//	index     the bytes of the index, and of shared indexes
//	config    the bytes of config and config.worktree
//	logs      the bytes of every reflog
//	hooks     names, modes, sizes and times of the hooks
//	info      the bytes of info/**
//	shallow   the bytes of shallow
//	worktree  path, mode, size, mtime, ctime and inode of everything in the work tree, nested repositories included;
//	          contents are not read, so a huge file costs nothing (a write cannot hide: it sets ctime)
//
// Objects are not covered: adding one changes nothing that git shows.
type Fingerprint struct {
	Sections map[string]Section `json:"sections"`

	// What a section is made of, to name what differs. Lost when the value goes through JSON.
	parts map[string]map[string]string
	tree  statTree
}

// maxNamed is how many paths of one section Compare names.
const maxNamed = 20

// Fingerprint reads the state of the source.
func (s *Source) Fingerprint(ctx context.Context) (*Fingerprint, error) {
	f := &Fingerprint{Sections: map[string]Section{}, parts: map[string]map[string]string{}}
	walked := make(chan error, 1)
	go func() {
		var err error
		if !s.Bare() {
			f.tree, err = statWalk(s.loc.worktree, true)
		}
		walked <- err
	}()
	err := s.digestGitDir(f)
	if werr := <-walked; err == nil && werr != nil {
		err = fmt.Errorf("walking %q: %w", s.loc.worktree, werr)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("taking the fingerprint of the source: %w", err)
	}
	f.Sections["worktree"] = f.tree.section()
	return f, nil
}

// digestGitDir fills every section but the work tree. The gitDir comes first, the common directory adds to it.
func (s *Source) digestGitDir(f *Fingerprint) error {
	git, common := s.loc.gitDir, s.loc.common
	refs, err := readRefs(s.loc, s.config.format)
	if err != nil {
		return err
	}
	refParts := maps.Clone(refs.ids)
	for name, target := range refs.links {
		refParts[name] = "ref: " + target
	}
	f.parts["refs"] = refParts
	shared, _ := filepath.Glob(globEscape(git) + "/sharedindex.*")
	for section, files := range map[string][]string{
		"head":    {filepath.Join(git, "HEAD")},
		"index":   append(shared, filepath.Join(git, "index")),
		"config":  {filepath.Join(common, "config"), filepath.Join(git, "config.worktree")},
		"shallow": {filepath.Join(common, "shallow")},
		"refs":    {filepath.Join(common, "packed-refs")},
	} {
		for _, file := range files {
			if err := f.addFile(section, filepath.Base(file), file); err != nil {
				return err
			}
		}
	}
	for section, dirs := range map[string][]string{
		"logs": {filepath.Join(common, "logs"), filepath.Join(git, "logs")},
		"info": {filepath.Join(common, "info"), filepath.Join(git, "info")},
	} {
		for _, dir := range slices.Compact(dirs) {
			if err := f.addDir(section, dir); err != nil {
				return err
			}
		}
	}
	if err := f.addHooks(filepath.Join(common, "hooks")); err != nil {
		return err
	}
	for _, section := range []string{"head", "refs", "index", "config", "logs", "hooks", "info", "shallow"} {
		f.Sections[section] = sectionOf(f.parts[section])
	}
	return nil
}

func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (f *Fingerprint) add(section, name, value string) {
	if f.parts[section] == nil {
		f.parts[section] = map[string]string{}
	}
	f.parts[section][name] = value
}

// addFile digests the bytes of one file; a symbolic link counts by its target, and what is absent is no part.
func (f *Fingerprint) addFile(section, name, path string) error {
	if target, err := os.Readlink(path); err == nil {
		f.add(section, name, "link "+target)
		return nil
	}
	file, err := openRegular(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	f.add(section, name, digestText(h))
	return nil
}

func (f *Fingerprint) addDir(section, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(dir), path)
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() && d.Type()&fs.ModeSymlink == 0 {
			f.add(section, rel, d.Type().String())
			return nil
		}
		return f.addFile(section, rel, path)
	})
}

func (f *Fingerprint) addHooks(dir string) error {
	tree, err := statWalk(dir, false)
	if errors.Is(err, os.ErrNotExist) || gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for sub, stats := range tree {
		for name, stat := range stats.each {
			f.add("hooks", filepath.Join(sub, name), stat)
		}
	}
	return nil
}

func digestText(h hash.Hash) string { return fmt.Sprintf("sha256:%x", h.Sum(nil)) }

func sectionOf(parts map[string]string) Section {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		fmt.Fprintf(h, "%s\x00%s\x00", name, parts[name])
	}
	return Section{Digest: digestText(h), Count: int64(len(parts))}
}

func (t statTree) section() Section {
	h := sha256.New()
	var count int64
	for _, dir := range t.paths() {
		fmt.Fprintf(h, "%s\x00%d\x00", dir, len(t[dir]))
		h.Write(t[dir])
		for name := range t[dir].each {
			if name != "." {
				count++
			}
		}
	}
	return Section{Digest: digestText(h), Count: count}
}
