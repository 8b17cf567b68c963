package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/engine/fake"
	"remit/work/sandbox"
	"remit/work/session"
)

// readCommands reads one shell command a line; blank lines and lines that begin
// with # are left out.
func readCommands(file string) ([]string, error) {
	text, err := readInput(file)
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	if len(out) == 0 {
		e := reason.Errorf(reason.ContractValue, "has no command: one a line")
		e.File = file
		return nil, fmt.Errorf("reading the checks: %w", e)
	}
	return out, nil
}

// readFlagFile reads a file that a flag names, at most limit bytes and one more:
// that it is too long is for the reader of its content to say.
func readFlagFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

func upper(s string) string { return strings.ToUpper(s) }

// maxInput bounds a text that a flag names.
const maxInput = 1 << 20

func readInput(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, reason.Errorf(reason.ContractUnreadable, "reading the issue: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxInput)
	}
	if err != nil {
		return nil, reason.Errorf(reason.ContractUnreadable, "reading the issue: %w", err)
	}
	return b, nil
}

// tellCache prints what becomes of the Go build cache: one line each, above a
// live line.
func tellCache(w io.Writer) func(string) {
	clear := ""
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		clear = "\r\x1b[K"
	}
	return func(line string) { fmt.Fprintf(w, "%scache   %s\n", clear, plain(line)) }
}

// fillCache fills the Go build cache before a run that needs it: no time limit
// of the run counts it then. What it cannot know is filled by the first command
// that needs it.
func (a *app) fillCache(ctx context.Context, driver, repo string, lines ...string) error {
	if driver == sandbox.DriverNone || !sandbox.CompilesGo(strings.Join(lines, "\n"), repo) {
		return nil
	}
	cache := a.home.BuildCache()
	cache.Tell = tellCache(os.Stderr)
	if err := cache.Fill(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		cache.Tell(err.Error())
	}
	return nil
}

// examineCache is the line of remit doctor about the Go build cache.
func (a *app) examineCache() checkup {
	s := a.home.BuildCache().State()
	c := checkup{Check: "build cache", Status: fine, Detail: fmt.Sprintf("%s, %d MiB", s.Dir, s.Bytes>>20)}
	switch {
	case s.Go == "":
		c.Detail += ": there is no Go to fill it for"
	case s.Filled:
		c.Detail += ": filled for " + s.Go
	default:
		c.Detail += ": not filled for " + s.Go + ", the first command that compiles Go in the sandbox does that, once, in about a minute"
	}
	if s.Old != "" && s.Filled {
		c.Detail += "; " + s.Old + " is the place of earlier versions, no longer used: remove it"
	}
	return c
}

// takeChange has a run take the change of an earlier session in the place of an
// engine: its patch, under its contract, from its base, in its repository. It
// is for a good change behind an end that let no run pass. Nothing of the
// earlier verdict counts: the patch is applied and verified like any other.
func (f *runFlags) takeChange(cmd *cobra.Command, home session.Home, args []string) error {
	if f.task != "" || f.issue != "" || f.fakePatch != "" || f.base != "" || len(args) > 0 || f.engine != "" && f.engine != fake.Name {
		return usagef("--patch-of takes task, base and change from the session, and no engine, --task, --issue, --base, --fake-patch or command")
	}
	e, err := earlierChange(home, f.patchOf)
	if err != nil {
		return err
	}
	f.given, f.base, f.fakePatch = e.contract, string(e.opened.BaselineCommit), e.patch
	f.given.Base = f.base // a name may have moved
	if !cmd.Flags().Changed("repo") {
		f.repo = e.local.Repo
	}
	return nil
}

// A path inside of an argument, such as that of sh -c.
var pathInside = form.Lazy(`(?:^|[\s'"=(<])([A-Za-z0-9._+@/-]+)`)

// shownBelow are the places of the host that every sandbox shows.
var shownBelow = []string{"/usr/", "/bin/", "/sbin/", "/lib", "/etc/", "/dev/", "/proc/"}

// notLent are files of this machine that a command line names inside of a longer
// argument. Only an argument that is a path by itself is lent to the sandbox. A name
// from the current directory, which may be in the base commit or be a plain word,
// counts where the failure speaks of it.
func notLent(argv []string, failure string) (paths []string) {
	for _, arg := range argv {
		for _, m := range pathInside().FindAllStringSubmatch(arg, -1) {
			path := m[1]
			if slices.Contains(argv, path) || slices.Contains(paths, path) || slices.ContainsFunc(shownBelow, func(below string) bool { return strings.HasPrefix(path, below) }) {
				continue
			}
			info, err := os.Stat(path)
			if err == nil && (filepath.IsAbs(path) || info.Mode().IsRegular() && strings.Contains(failure, path)) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// hintLent says what of a command line that failed was not lent.
func hintLent(w io.Writer, argv []string, failure string) {
	if strings.HasPrefix(failure, string(reason.VerifierTampering)) || strings.HasPrefix(failure, string(reason.VerificationFailed)) {
		return // the command did its work: what is wrong is in the change
	}
	for _, path := range notLent(argv, failure) {
		fmt.Fprintf(w, "hint: %[1]s is not lent to the sandbox: a program of your own and arguments that are paths are, words inside of an argument are not; "+
			"name it as an argument of its own, such as sh -c 'cat \"$1\"' sh %[1]s\n", plain(path))
	}
}
