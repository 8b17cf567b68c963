package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/work/detect"
	"remit/work/harness"
)

// printDry prints the file alone.
func (a *app) printDry(w io.Writer, out *initResult) error {
	if a.json {
		return printJSON(w, out)
	}
	_, err := io.WriteString(w, out.Policy)
	return err
}

// printFacts prints what was found.
func printFacts(w io.Writer, out *initResult) {
	f := out.Facts
	fmt.Fprintf(w, "%s at %.12s\n", plain(out.Repository), out.BaseCommit)
	var languages, projects []string
	for _, l := range f.Languages {
		languages = append(languages, fmt.Sprintf("%s (%s)", l.Name, detect.Plural(l.Files, "file")))
	}
	for _, p := range f.Projects {
		text := p.Manifest + " (" + cmp.Or(p.Manager, p.Ecosystem)
		if p.Workspace {
			text += " workspace"
		}
		projects = append(projects, text+")")
	}
	printColumn(w, "languages", languages[:min(len(languages), 8)]...)
	printColumn(w, "projects", projects...)
	var tests, prepare []string
	for _, c := range f.Commands {
		tests = append(tests, strings.Join(c.Lines, " && ")+"   ("+c.From+")")
	}
	for _, p := range f.Prepare {
		prepare = append(prepare, string(p.Ecosystem)+" in "+p.Dir+"   ("+p.Lock+")")
	}
	printColumn(w, "tests", tests...)
	printColumn(w, "prepare", prepare...)
	printColumn(w, "changes", strings.Join(f.Allowed, " "))
	var notes []string
	for _, n := range f.Notes {
		if n.Path != "" {
			n.Text = n.Path + ": " + n.Text
		}
		notes = append(notes, n.Text)
	}
	if n := len(out.uncommitted); n > 0 {
		notes = append(notes, fmt.Sprintf("%s not as in the commit that was looked at, such as %s: commit them, and run init again",
			map[bool]string{true: "1 tracked file is", false: fmt.Sprintf("%d tracked files are", n)}[n == 1], out.uncommitted[0]))
	}
	printColumn(w, "note", notes...)
}

// printColumn prints lines behind a word. They have words of strangers.
func printColumn(w io.Writer, word string, lines ...string) {
	for i, line := range lines {
		if i > 0 {
			word = ""
		}
		fmt.Fprintf(w, "  %-10s %s\n", word, plain(line))
	}
}

// printChanges prints what writing over a file would change.
func printChanges(w io.Writer, out *initResult, lost []string) {
	fmt.Fprintf(w, "\n%s is there and differs:\n", plain(out.File))
	for _, line := range out.Changes {
		fmt.Fprintf(w, "  %s\n", plain(line))
	}
	if len(lost) > 0 {
		fmt.Fprintf(w, "The new file does not have these keys of yours: %s\n", plain(strings.Join(lost, ", ")))
	}
}

// printTried prints what was written, what came of trying it, and what to type.
func printTried(w io.Writer, out *initResult) {
	switch {
	case out.Written:
		fmt.Fprintf(w, "\nwrote %s\n", plain(out.File))
	default:
		fmt.Fprintf(w, "\n%s is as it would be written\n", plain(out.File))
	}
	if out.Backup != "" {
		fmt.Fprintf(w, "kept the old one, with its comments, as %s\n", plain(out.Backup))
	}
	switch {
	case len(out.Facts.Commands) == 0:
		fmt.Fprintf(w, "\nno test command found: name one with --test 'CMD'. A run without one is blocked (missing_test_command)\n")
	case out.Tried == nil:
		fmt.Fprintf(w, "\nnot tried\n")
	default:
		printTrial(w, out.Tried, out.repairable())
	}
	fmt.Fprint(w, "\nNext:\n")
	for _, line := range out.Next {
		fmt.Fprintf(w, "  %s\n", plain(line))
	}
	if !out.committed {
		fmt.Fprintln(w, commitNote(out))
	}
}

// commitNote says what of the file counts before it is committed.
func commitNote(out *initResult) string {
	if len(out.Facts.Prepare) > 0 {
		return "Commit it first: what `environment:` and `verify:` say counts in a base commit only. The rest of " + task.PolicyFile +
			" counts as it is in the work tree, and a run says so."
	}
	return "A run takes " + task.PolicyFile + " as it is in the work tree, committed or not, and says so; commit it so that others have it, and that\n" +
		"`verify:` and `environment:` count, should you add them: those are the base commit's."
}

// printTrial prints one line for all commands of the base, and what to do about
// those that did not pass. A run may be able to repair those.
func printTrial(w io.Writer, t *harness.Tried, repairable bool) {
	var took time.Duration
	ran, failed, broken, named := 0, 0, 0, false
	for _, c := range t.Commands {
		took += time.Duration(c.DurationMS) * time.Millisecond
		switch {
		case c.Tests != nil:
			ran, failed, named = ran+c.Tests.Passed+c.Tests.Failed, failed+c.Tests.Failed, true
		case !c.Passed:
			broken++
		}
	}
	what, bad := detect.Plural(len(t.Commands), "command"), broken
	if named {
		what, bad = detect.Plural(ran, "test"), failed
	}
	fmt.Fprintf(w, "\n%s  base", upper(t.Status))
	if len(t.Commands) > 0 {
		fmt.Fprintf(w, "  %s in %s, %d failed", what, took.Round(100*time.Millisecond), bad)
	}
	fmt.Fprintln(w)
	for _, f := range t.Findings {
		fmt.Fprintf(w, "  %s\n", plain(f.String()))
		if f.Hint != "" {
			fmt.Fprintf(w, "  hint: %s\n", plain(f.Hint))
		}
	}
	unread := false
	for _, c := range t.Commands {
		if c.Passed {
			fmt.Fprintf(w, "  pass  %s\n", plain(c.Command))
			unread = unread || c.Tests == nil
			continue
		}
		printTriedFailure(w, c)
	}
	if unread {
		fmt.Fprintln(w, "A command that passes and of which no test could be read is judged by its exit code: see docs/init.md.")
	}
	switch {
	case failed > 0:
		fmt.Fprintln(w, "A run passes only if each command exits with 0 after the change. Tests that fail before it have to be repaired by it: repair them\n"+
			"first, have the first task do it, or leave them out of the command with --test 'CMD'.")
	case repairable && t.Status != evidence.StatusPass:
		fmt.Fprintln(w, "If that is the bug to repair, go on: a run passes if each command exits with 0 after the change. If not, name a command that works on\n"+
			"a checkout of what is committed, without network, with --test 'CMD'.")
	case t.Status != evidence.StatusPass && len(t.Commands) > 0:
		fmt.Fprintln(w, "The checkout has what is committed and nothing else, and no network. Name a command that works there with --test 'CMD'.")
	}
}

// Bounds of what is printed of a command that failed.
const (
	maxNamedFailures = 10
	maxOutputLines   = 12
)

func printTriedFailure(w io.Writer, c harness.TriedCommand) {
	fmt.Fprintf(w, "  FAIL  %s: %s\n", plain(c.Command), c.Why)
	for _, name := range c.Failed[:min(len(c.Failed), maxNamedFailures)] {
		fmt.Fprintf(w, "          %s\n", plain(name))
	}
	if more := len(c.Failed) - maxNamedFailures; more > 0 {
		fmt.Fprintf(w, "          and %d more\n", more)
	}
	if len(c.Failed) == 0 {
		lines := strings.Split(strings.TrimSpace(c.Output), "\n")
		for _, line := range lines[max(0, len(lines)-maxOutputLines):] {
			fmt.Fprintf(w, "        | %s\n", plain(line))
		}
	}
	if c.Hint != "" {
		fmt.Fprintf(w, "        %s\n", plain(c.Hint))
	}
	if dir := toolchainFor(c); dir != "" {
		fmt.Fprintf(w, "        on this machine it is there with --toolchain %s\n", plain(dir))
	}
	if name := missingPackage(c.Output); name != "" {
		fmt.Fprintf(w, "        %s is not installed in the sandbox: docs/init.md has the lock files that environment.prepare installs from, or install it below /usr\n", name)
	}
}
