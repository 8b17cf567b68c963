package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"remit/law/task"
	"remit/proof/reason"
)

// write puts the file at the top of the work tree. One that is there and differs
// is kept under another name, and written over only on a person's word.
func (f *initFlags) write(cmd *cobra.Command, quiet bool, top string, out *initResult) error {
	out.File = filepath.Join(top, task.PolicyFile)
	root, err := os.OpenRoot(top)
	if err != nil {
		return fmt.Errorf("opening the work tree: %w", err)
	}
	defer root.Close()
	old, found, err := policyThere(root, out.File)
	if err != nil || found && old == out.Policy {
		return err
	}
	if found {
		out.Changes = lineChanges(old, out.Policy)
		w := io.Writer(os.Stderr)
		if !quiet {
			w = cmd.OutOrStdout()
		}
		printChanges(w, out, lostKeys(old, out.Policy))
		if err := f.mayOverwrite(cmd, out.File); err != nil {
			return err
		}
		if !out.kept(old) {
			if out.Backup, err = keepPolicy(root, old); err != nil {
				return err
			}
			out.Backup = filepath.Join(top, out.Backup)
		}
	}
	if err := replacePolicy(root, out.Policy); err != nil {
		return err
	}
	out.Written = true
	return nil
}

// policyThere is the text of the file that is there.
func policyThere(root *os.Root, name string) (text string, found bool, err error) {
	info, err := root.Lstat(task.PolicyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("looking for the policy: %w", err)
	case !info.Mode().IsRegular() || info.Size() > task.MaxSourceBytes:
		e := reason.Errorf(reason.OutputExists, "something is there that is no policy: no regular file of at most %d bytes", task.MaxSourceBytes)
		e.File = name
		return "", false, e.WithHint("move it away")
	}
	b, err := root.ReadFile(task.PolicyFile)
	if err != nil {
		return "", false, fmt.Errorf("reading the policy: %w", err)
	}
	return string(b), true, nil
}

// mayOverwrite asks for the word of a person.
func (f *initFlags) mayOverwrite(cmd *cobra.Command, name string) error {
	if f.yes && f.force {
		return nil
	}
	in := terminalOf(cmd.InOrStdin())
	if f.yes || in == nil {
		e := reason.Errorf(reason.OutputExists, "the repository has a policy that differs from what would be written")
		e.File = name
		return e.WithHint("`remit init --yes --force` writes over it and keeps the old one under another name; `remit init --dry-run` prints what would be written")
	}
	return confirmed(cmd.ErrOrStderr(), in, "Write over it? What the new one lacks is kept under another name.", "written")
}

// maxBackups bounds the names that are tried for the old file.
const maxBackups = 100

// kept says whether nothing is lost when an old file is written over: the base commit
// has it, or the new one has every line of it.
func (r *initResult) kept(old string) bool {
	return r.policyInBase == old || !slices.ContainsFunc(r.Changes, func(line string) bool { return strings.HasPrefix(line, "-") })
}

// keepPolicy writes the old file under a name that is free, unless one of those
// beside it has it already.
func keepPolicy(root *os.Root, old string) (string, error) {
	for n := range maxBackups {
		name := task.PolicyFile + ".bak"
		if n > 0 {
			name = fmt.Sprintf("%s.bak%d", task.PolicyFile, n+1)
		}
		err := createFile(root, name, old)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
		if there, err := root.ReadFile(name); err == nil && string(there) == old {
			return name, nil
		}
	}
	return "", reason.Errorf(reason.OutputExists, "%d old versions of %s lie beside it", maxBackups, task.PolicyFile).
		WithHint("remove some of them")
}

// replacePolicy writes the file beside its place and renames it: a reader sees the
// old or the new one.
func replacePolicy(root *os.Root, text string) error {
	name := fmt.Sprintf(".%s.%d", task.PolicyFile, os.Getpid())
	if err := createFile(root, name, text); err != nil {
		return err
	}
	if err := root.Rename(name, task.PolicyFile); err != nil {
		return errors.Join(fmt.Errorf("writing the policy: %w", err), root.Remove(name))
	}
	return nil
}

func createFile(root *os.Root, name, text string) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("writing the policy: %w", err)
	}
	if _, err = file.WriteString(text); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("writing the policy: %w", err), root.Remove(name))
	}
	return nil
}

// lostKeys are the keys at the top of the old file that the new one does not have.
func lostKeys(old, text string) []string {
	there := topKeys(text)
	return slices.DeleteFunc(topKeys(old), func(key string) bool { return slices.Contains(there, key) })
}

func topKeys(text string) (keys []string) {
	for line := range strings.Lines(text) {
		if key, _, ok := strings.Cut(line, ":"); ok && key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") == "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// maxCompared bounds the lines of which two versions are compared.
const maxCompared = 2000

// lineChanges are the lines that only one of two texts has: with - those of the
// first, with + those of the second, in order.
func lineChanges(a, b string) (out []string) {
	x, y := linesOf(a), linesOf(b)
	if max(len(x), len(y)) > maxCompared {
		return []string{fmt.Sprintf("-(%d lines)", len(x)), fmt.Sprintf("+(%d lines)", len(y))}
	}
	common := make([][]int32, len(x)+1) // how many lines the ends from here have in common
	for i := range common {
		common[i] = make([]int32, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "-"+x[i])
			i++
		default:
			out = append(out, "+"+y[j])
			j++
		}
	}
	return out
}

// linesOf are the lines of a text, without their ends.
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
