package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/sandbox"
)

// The kernel says little of a program that it cannot execute: "no such file"
// stands for a missing program, for a missing interpreter and for a line end of
// Windows behind the interpreter's name. So the program is looked at.

// maxShebang bounds the first line of a script, as the kernel does.
const maxShebang = 256

// explainStart gives the blockers of an engine the reason for which its program
// could not be started, and a hint that can be followed. An engine by name keeps
// the code that says so of agents, for that is a fact about this machine; words
// of the user's own have codes of their own.
func (r *run) explainStart(blockers []evidence.Blocker, f evidence.EngineFinished, inv *engine.Invocation) {
	if len(blockers) == 0 {
		return
	}
	b := &blockers[0]
	var why *reason.Error
	switch {
	case !f.ProcessStarted && b.Code == reason.ProviderUnavailable:
		why = r.unstartable(inv)
	case b.Code == reason.EngineFailed && f.ExitCode != nil && *f.ExitCode == 127:
		// `#!/usr/bin/env python3` with such a line end starts env, which finds nothing.
		if why = r.unstartable(inv); why.Code != reason.ProgramLineEndings {
			why = nil
		}
	}
	if why == nil && b.Code == reason.EngineFailed && inv.Program != "" {
		why = r.missingScript(inv)
	}
	if why == nil {
		return
	}
	b.Message, b.Hint = r.scrub(why.Message), r.scrub(why.Hint)
	if inv.Program != "" {
		b.Code = why.Code
	}
}

// interpreters are programs whose first argument is the file that they run.
var interpreters = []string{"sh", "bash", "dash", "zsh", "ksh", "python", "python3", "node", "perl", "ruby", "php"}

// missingScript says that the script which an interpreter was to run is not
// there; nil when it is, or when the command line names none.
func (r *run) missingScript(inv *engine.Invocation) *reason.Error {
	if len(inv.Argv) < 2 || !slices.Contains(interpreters, path.Base(inv.Argv[0])) || inv.Argv[1] == "" || inv.Argv[1][0] == '-' {
		return nil
	}
	word := inv.Argv[1]
	places := []string{word}
	if !strings.Contains(word, "/") { // a shell looks on the PATH, too
		for dir := range strings.SplitSeq(sandbox.SystemPath, ":") {
			places = append(places, path.Join(dir, word))
		}
	}
	for _, place := range places {
		file, err := r.openProgram(inv, place)
		if err == nil {
			_ = file.Close() // it was only read
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return reason.Errorf(reason.ProgramNotFound, "there is no file %s for %s to run, neither in the base commit nor in the directory that the run was started from",
		evidence.DisplayPath(r.secrets.Redact(evidence.CutText(word, maxDifference))), path.Base(inv.Argv[0])).
		WithHint("check the spelling, and the directory that you are in: a file there is lent, even when it is not committed")
}

// unstartable says why a program that the system would not execute is none.
func (r *run) unstartable(inv *engine.Invocation) *reason.Error {
	word, lent := inv.Argv[0], false
	shown := evidence.DisplayPath(r.secrets.Redact(evidence.CutText(path.Base(word), maxDifference)))
	if inv.Program != "" {
		shown = evidence.DisplayPath(r.secrets.Redact(evidence.CutText(inv.Program, maxDifference)))
	}
	refuse := func(code reason.Code, hint, format string, args ...any) *reason.Error {
		return reason.Errorf(code, format, args...).WithHint("%s", hint)
	}
	if !strings.Contains(word, "/") {
		return refuse(reason.ProgramNotFound, fmt.Sprintf("a file of this directory is ./%s; another program has to be below /usr, or in a directory that --toolchain DIR lends: its bin, or DIR itself if it has none, is put on PATH", shown),
			"there is no program %s in the sandbox (its PATH begins with those of each --toolchain, then %s)", shown, sandbox.SystemPath)
	}
	for _, b := range inv.Binds {
		lent = lent || b.Inside == word
	}
	file, err := r.openProgram(inv, word)
	if err != nil {
		if path.IsAbs(word) {
			return refuse(reason.ProgramNotFound, "a file of this machine is lent if it exists and is a regular file; directories are lent with --toolchain DIR",
				"there is no program %s at the absolute path that was given", shown)
		}
		hint := "the sandbox shows the base commit, /usr and what --toolchain DIR lends: check the spelling, and the directory that you are in"
		return refuse(reason.ProgramNotFound, hint, "there is no program %s, neither in the base commit nor in the directory that the run was started from", shown)
	}
	defer file.Close()
	info, err := file.Stat()
	commit := " in the repository, and commit that"
	if lent {
		commit = ""
	}
	switch {
	case err == nil && info.IsDir():
		return refuse(reason.ProgramNotExecutable, "name a program in it", "%s is a directory", shown)
	case err == nil && info.Mode().Perm()&0o111 == 0:
		return refuse(reason.ProgramNotExecutable, fmt.Sprintf("make it executable (chmod +x %s%s), or name its interpreter: -- sh %s", shown, commit, shown), "%s is not executable", shown)
	}
	line, err := io.ReadAll(io.LimitReader(file, maxShebang))
	if line, _, _ = bytes.Cut(line, []byte("\n")); err != nil || !bytes.HasPrefix(line, []byte("#!")) {
		return refuse(reason.ProgramNotExecutable, "a script needs a first line such as #!/bin/sh; a program has to be built for this machine, and its loader has to be in the sandbox",
			"%s is there and marked as executable, but the system cannot execute it", shown)
	}
	if bytes.HasSuffix(line, []byte("\r")) {
		return refuse(reason.ProgramLineEndings, fmt.Sprintf("take them out (sed -i 's/\\r$//' %s%s)", shown, commit),
			"%s has the line ends of Windows: its interpreter would have a carriage return in its name", shown)
	}
	interpreter := ""
	if words := strings.Fields(string(line[2:])); len(words) > 0 {
		interpreter = evidence.DisplayPath(r.secrets.Redact(words[0]))
	}
	return refuse(reason.InterpreterNotFound, fmt.Sprintf("install it below /usr, or write one that is there into the first line of %s: #!/usr/bin/env NAME finds it on PATH", shown),
		"the first line of %s names the interpreter %s, which is not in the sandbox", shown, interpreter)
}

// openProgram opens what a word of the sandbox names on the host: a file that is
// lent, one of the baseline, or one of the system. It never leaves those places.
func (r *run) openProgram(inv *engine.Invocation, word string) (*os.File, error) {
	for _, b := range inv.Binds {
		if b.Inside == word {
			return openPlain(os.Open, b.Host)
		}
	}
	if path.IsAbs(word) {
		word = path.Clean(word)
		for _, dir := range []string{"/usr/", "/bin/", "/sbin/"} {
			if strings.HasPrefix(word, dir) {
				return openPlain(os.Open, word)
			}
		}
		return nil, fs.ErrNotExist
	}
	root, err := os.OpenRoot(r.startDir())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return openPlain(func(name string) (*os.File, error) { return root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) }, path.Clean(word))
}

var errNoProgram = errors.New("neither a file nor a directory")

// openPlain opens a file or a directory, and waits for nothing else.
func openPlain(open func(string) (*os.File, error), name string) (*os.File, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return nil, errors.Join(errNoProgram, err, f.Close())
	}
	return f, nil
}
