package acp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/engine/agent"
	"remit/work/sandbox"
)

// program is what is executed: a file, with the packages that it belongs to
// and needs, or alone.
type program struct {
	name     string           // for people
	file     string           // absolute, without symbolic links
	packages []*agent.Package // the first has the file; none for a file that is in no package
	driven   string           // the program that an adapter drives, "" for none
}

// find looks for the agent. It starts nothing.
func (e *Engine) find() (*program, error) {
	if e.known != nil {
		return e.known.program(e.bin)
	}
	file, err := located(e.command[0])
	if err != nil {
		return nil, reason.Errorf(reason.ProviderUnavailable, "the agent %q: %w", filepath.Base(e.command[0]), withoutPath(err)).
			WithHint("name a program on PATH or the path of one; acp knows %s by name", strings.Join(Known(), ", "))
	}
	p := &program{name: filepath.Base(e.command[0]), file: file}
	owner, err := agent.Owner(file)
	if err != nil || owner == nil {
		return p, err
	}
	all, err := owner.Closure()
	if err != nil {
		return nil, err
	}
	p.packages = first(owner, all)
	return p, nil
}

// first puts the owner before the others, which stay sorted.
func first(owner *agent.Package, all []*agent.Package) []*agent.Package {
	rest := slices.DeleteFunc(slices.Clone(all), func(p *agent.Package) bool { return p.Dir == owner.Dir })
	return append([]*agent.Package{owner}, rest...)
}

// program finds an agent of the table.
func (k *known) program(bin string) (*program, error) {
	owner, err := k.Find(bin)
	if err != nil {
		return nil, err
	}
	dir := owner.Dir
	if k.Platform != nil {
		if dir, err = k.Native(owner); err != nil {
			return nil, err
		}
	}
	p := &program{name: k.Program}
	if p.file, err = agent.File(dir, k.entry); err != nil {
		return nil, err
	}
	if dir != owner.Dir {
		if owner, err = agent.Owner(p.file); err != nil {
			return nil, err
		}
	}
	p.packages = []*agent.Package{owner}
	if k.driven != nil {
		// Beside the adapter, where it is one prefix of all agents, else where it always is.
		if p.driven, err = k.driven(bin); err != nil && bin != "" {
			p.driven, err = k.driven("")
		}
		if err != nil {
			return nil, err
		}
	}
	if k.alone {
		return p, nil
	}
	all, err := owner.Closure()
	if err != nil {
		return nil, err
	}
	p.packages = first(owner, slices.DeleteFunc(all, k.unused))
	return p, nil
}

// unused reports whether a package is one that the agent does not get.
func (k *known) unused(p *agent.Package) bool {
	return slices.ContainsFunc(k.without, func(prefix string) bool { return strings.HasPrefix(p.Name, prefix) })
}

// located is the file that a word names: a path, or a program on PATH.
func located(word string) (string, error) {
	if !strings.Contains(word, "/") {
		var err error
		if word, err = exec.LookPath(word); err != nil {
			return "", err
		}
	}
	file, err := filepath.EvalSymlinks(word)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	return file, err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// withoutPath keeps places of this machine out of what becomes evidence.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

// digest is that of everything that could be executed: of a single file if
// there is no more, else of the list of all of them.
func (p *program) digest(ctx context.Context) (string, error) {
	if len(p.packages) == 0 {
		return agent.FileDigest(p.file)
	}
	list, err := agent.Digests(ctx, p.packages[0].Modules(), p.packages, func(string) bool { return true })
	if err != nil {
		return "", err
	}
	if p.driven != "" {
		digest, err := agent.FileDigest(p.driven)
		if err != nil {
			return "", err
		}
		list = append(list, digest+"  driven") // no path: those are quoted
	}
	slices.Sort(list)
	return canon.Digest([]byte(strings.Join(list, "\n") + "\n")), nil
}

// start is the command in the sandbox, and what has to be lent for it.
func (p *program) start() (argv []string, lent []sandbox.Bind, err error) {
	inside := path.Join(insideProgram, filepath.Base(p.file))
	if len(p.packages) == 0 {
		if strings.HasPrefix(p.file, "/usr/") { // which every sandbox shows
			inside = p.file
		} else {
			lent = []sandbox.Bind{{Host: p.file, Inside: inside}}
		}
	} else {
		root := p.packages[0].Modules()
		sorted := slices.Clone(p.packages)
		slices.SortFunc(sorted, func(a, b *agent.Package) int { return strings.Compare(a.Dir, b.Dir) })
		if lent, err = agent.Lend(root, sorted, insideModules); err != nil {
			return nil, nil, err
		}
		below, err := filepath.Rel(root, p.file)
		if err != nil {
			return nil, nil, reason.Errorf(reason.ProviderUnavailable, "the program of %s: %w", p.name, err)
		}
		inside = path.Join(insideModules, filepath.ToSlash(below))
	}
	if p.driven != "" {
		lent = append(lent, sandbox.Bind{Host: p.driven, Inside: insideOwn})
	}
	if !forNode(p.file) {
		return []string{inside}, lent, nil
	}
	node, more, err := agent.Node(p.name)
	return []string{node, inside}, append(lent, more...), err
}

// forNode reports whether node executes a file: by its name, or as its first
// line wants it.
func forNode(file string) bool {
	switch filepath.Ext(file) {
	case ".js", ".mjs", ".cjs":
		return true
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 200))
	if err != nil || !bytes.HasPrefix(head, []byte("#!")) {
		return false
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return slices.Contains(strings.FieldsFunc(string(line), func(r rune) bool { return strings.ContainsRune(" /\t\r", r) }), "node")
}
