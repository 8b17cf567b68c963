// Package command is the engine that runs any program: a codemod, `go fix`, a
// script. `remit run … -- CMD` uses it.
//
// The program runs inside the sandbox, at the root of the workspace. A program
// of the repository or of the system is simply there. A file that the command
// line names and that the sandbox would not show is lent to it, read-only: the
// first word when it is a path to a file that the baseline does not have, and
// any other word that is an absolute path of a regular file, or (of an engine
// that is given its path) that of one in the invoking user's directory. It stands below
// /opt/remit/bin there, and the word is changed to that place. Nothing else of
// the invoking user's files is visible.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/sandbox"
)

// Name is the engine's name in contracts and reports.
const Name = "command"

// version changes when the way a command is run changes.
const version = "2"

// lentDir is where a lent program stands inside the sandbox.
const lentDir = "/opt/remit/bin"

// visible are the host directories that every sandbox shows.
var visible = []string{"/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/"}

// Engine runs Argv. Dir is the directory that relative words are looked up in:
// the invoking user's. With LendWords the words behind the first are, too.
type Engine struct {
	Argv      []string
	Dir       string
	LendWords bool
}

// Identity digests the words of the command and the program that they name, if
// it is a file that the host can read.
func (e *Engine) Identity(context.Context) (evidence.EngineIdentity, error) {
	if len(e.Argv) > 0 && e.Argv[0] == "" {
		return evidence.EngineIdentity{}, reason.Errorf(reason.ProgramNotFound, "the first word behind the two dashes is empty").
			WithHint("the first word names the program: -- CMD ARG; an empty variable in quotes is an empty word")
	}
	if len(e.Argv) == 0 {
		return evidence.EngineIdentity{}, reason.Errorf(reason.ProviderUnavailable, "the command engine got no command").
			WithHint("put the command after two dashes: remit run --repo . -- CMD ARG")
	}
	words := make([]string, len(e.Argv))
	for i, w := range e.Argv {
		words[i] = evidence.DisplayPath(w)
	}
	identity := map[string]any{"argv": words}
	for i, w := range e.Argv {
		file, ok := e.hostFile(i, w)
		if !ok {
			continue
		}
		digest, err := digestFile(file)
		if err != nil {
			return evidence.EngineIdentity{}, reason.Errorf(reason.ProviderUnavailable, "reading %q: %w", w, err)
		}
		identity[fmt.Sprintf("file_%d", i)] = digest
	}
	digest, err := canon.DigestOf(identity)
	if err != nil {
		return evidence.EngineIdentity{}, fmt.Errorf("digesting the command: %w", err)
	}
	return evidence.EngineIdentity{Name: Name, Version: version, SHA256: digest}, nil
}

// Invocation lends what the baseline and the system do not have.
func (e *Engine) Invocation(_ context.Context, t engine.Task) (*engine.Invocation, error) {
	if w := e.Argv[0]; strings.Contains(w, "/") && isDir(e.Dir, w) && (filepath.IsAbs(w) || !t.InBaseline(path.Clean(w))) {
		return nil, reason.Errorf(reason.ProgramNotExecutable, "%s is a directory", evidence.DisplayPath(w)).WithHint("name a program in it")
	}
	inv := &engine.Invocation{Argv: append([]string{}, e.Argv...), Program: e.Argv[0]}
	if filepath.IsAbs(inv.Program) {
		inv.Program = filepath.Base(inv.Program)
	}
	for i, w := range e.Argv {
		file, ok := e.hostFile(i, w)
		if !ok || isVisible(file) {
			continue
		}
		if !filepath.IsAbs(w) && t.InBaseline(path.Clean(w)) {
			continue
		}
		// Never at its own path: the evidence tells the command line, and must
		// not tell how its maker's machine is laid out.
		inv.Argv[i] = path.Join(lentDir, filepath.Base(file))
		if i > 0 {
			inv.Argv[i] = path.Join(lentDir, strconv.Itoa(i), filepath.Base(file))
			if !filepath.IsAbs(w) {
				inv.Notes = append(inv.Notes, fmt.Sprintf("%s is not in the base commit: it is lent read-only from this directory, as %s", w,
					inv.Argv[i]))
			}
		}
		inv.Binds = append(inv.Binds, sandbox.Bind{Host: file, Inside: inv.Argv[i]})
	}
	return inv, nil
}

// hostFile is the regular file that a word of the command names on the host.
// A relative word counts as the program if it has a slash in it: the others are
// looked up inside. Behind the program it counts with LendWords, if it leads to
// a file in Dir or below: no link and no ".." shows what lies elsewhere.
func (e *Engine) hostFile(i int, w string) (string, bool) {
	switch {
	case filepath.IsAbs(w):
	case i == 0 && strings.Contains(w, "/"):
		w = filepath.Join(e.Dir, w)
	case i > 0 && e.LendWords && filepath.IsLocal(w) && !strings.HasPrefix(w, "-") && staysBelow(e.Dir, w):
		w = filepath.Join(e.Dir, w)
	default:
		return "", false
	}
	info, err := os.Stat(w)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	return filepath.Clean(w), true
}

// staysBelow reports whether a path leads to something below dir, by its links
// too.
func staysBelow(dir, name string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Stat(name)
	return err == nil
}

// isDir reports whether a word names a directory of the host, seen from dir.
func isDir(dir, w string) bool {
	if !filepath.IsAbs(w) {
		w = filepath.Join(dir, w)
	}
	info, err := os.Stat(w)
	return err == nil && info.IsDir()
}

func isVisible(file string) bool {
	for _, dir := range visible {
		if strings.HasPrefix(file, dir) {
			return true
		}
	}
	return false
}

func digestFile(name string) (string, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		// An executable may be unreadable; its name is all there is.
		return "unreadable", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	digest, _, err := canon.DigestReader(f)
	return digest, err
}
