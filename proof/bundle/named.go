package bundle

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
)

// A self-validating bundle says itself how it is to be checked: in
// audit-commands.txt at its top, or by a pytest.ini there. Its commands are as
// hostile as its files, so they are run only where [Options.Named] allows it.

const (
	// CommandsName is the file in which a bundle names its commands: one a line,
	// behind "imports: " or "tests: ". Empty lines and lines that begin with #
	// say nothing. A gate that the file does not name is not made.
	CommandsName = "audit-commands.txt"

	// PytestName names both gates where there is no CommandsName: python3 imports
	// every module of the bundle's packages, and pytest runs.
	PytestName = "pytest.ini"

	maxNamedCommands = 100
	maxNamedBytes    = 64 << 10 // of the file, and of the modules that one command imports
)

// runPytest ends with notThere where pytest is not installed: then nothing was
// checked, and nothing has failed.
const (
	runPytest = `python3 -c 'import pytest' || exit 127; python3 -m pytest -q`
	notThere  = 127
)

// named are the commands that a bundle names for a gate, and the file that does;
// the finding says why they cannot be read.
func (a *audit) named(gate string) (commands []string, source string, wrong *reason.Finding) {
	files := a.contents.files
	at := func(name string) *member {
		if i := slices.IndexFunc(files, func(f *member) bool { return f.name == name }); i >= 0 {
			return files[i]
		}
		return nil
	}
	if f := at(CommandsName); f != nil {
		byGate, wrong := f.commands()
		return byGate[gate], CommandsName, wrong
	}
	if at(PytestName) == nil {
		return nil, "", nil
	}
	if gate == GateTests {
		return []string{runPytest}, PytestName, nil
	}
	if commands = importCommands(files); len(commands) > maxNamedCommands {
		return nil, PytestName, &reason.Finding{Code: reason.GateUnavailable, Path: PytestName, Detail: "the bundle has more modules than are imported"}
	}
	return commands, PytestName, nil
}

// commands reads a CommandsName.
func (f *member) commands() (map[string][]string, *reason.Finding) {
	unread := func(line int, format string, args ...any) (map[string][]string, *reason.Finding) {
		return nil, &reason.Finding{Code: reason.GateUnavailable, Path: CommandsName, Line: line, Detail: fmt.Sprintf(format, args...)}
	}
	if f.err != nil || f.size > maxNamedBytes {
		return unread(0, "cannot be read, or has more than %d bytes", maxNamedBytes)
	}
	text, err := f.read()
	if err != nil {
		return unread(0, "%v", err)
	}
	out := map[string][]string{}
	n, number := 0, 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		gate, command, _ := strings.Cut(line, ": ")
		if command = strings.TrimSpace(command); command == "" || gate != GateImports && gate != GateTests {
			return unread(number, "is neither %q nor %q and a command", GateImports+": ", GateTests+": ")
		}
		if n++; n > maxNamedCommands {
			return unread(number, "there are more than %d commands", maxNamedCommands)
		}
		out[gate] = append(out[gate], command)
	}
	return out, nil
}

// identifier is a name that Python can import, in ASCII.
var identifier = form.Lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)

// importCommands import every module of the packages of a bundle. Tests are left
// to pytest, and __main__ is a program.
func importCommands(files []*member) []string {
	packages := map[string]bool{".": true}
	dirs := map[string]bool{}
	for _, f := range files {
		dirs[path.Dir(f.name)] = dirs[path.Dir(f.name)] || path.Base(f.name) == "__init__.py"
	}
	for dir, is := range dirs {
		packages[dir] = packages[dir] || is
	}
	var modules []string
	for _, f := range files {
		if name := moduleOf(f.name, packages); name != "" {
			modules = append(modules, name)
		}
	}
	slices.Sort(modules)
	var out []string
	for begin := 0; begin < len(modules); {
		end, size := begin, 0
		for end < len(modules) && (end == begin || size+len(modules[end]) < maxNamedBytes) {
			size += len(modules[end]) + 1
			end++
		}
		out = append(out, fmt.Sprintf(`python3 -c 'import importlib; [importlib.import_module(name) for name in "%s".split()]'`, strings.Join(modules[begin:end], " ")))
		begin = end
	}
	return out
}

// moduleOf is the name under which Python imports a file, "" if it is no module
// of a package, or one of its tests.
func moduleOf(name string, packages map[string]bool) string {
	dir, base := path.Dir(name), path.Base(name)
	stem, isPython := strings.CutSuffix(base, ".py")
	if !isPython || dir == "." || stem == "__main__" || stem == "conftest" || strings.HasPrefix(stem, "test_") || strings.HasSuffix(stem, "_test") {
		return ""
	}
	parts := strings.Split(dir, "/")
	for i, part := range parts {
		if !packages[strings.Join(parts[:i+1], "/")] || !identifier().MatchString(part) || part == "tests" || part == "test" {
			return ""
		}
	}
	if stem != "__init__" {
		parts = append(parts, stem)
	}
	if !identifier().MatchString(stem) {
		return ""
	}
	return strings.Join(parts, ".")
}

// notMade records a gate that nothing was run for: skipped, or blocked in a
// strict audit.
func (a *audit) notMade(gate, why string) {
	status := Skipped
	if a.opt.Strict {
		status = Blocked
	}
	if a.report.Profile == ProfileBundle { // what a run proves does not hang on these gates
		a.leave(gate, status, "no command was given")
		return
	}
	a.report.NotMade = append(a.report.NotMade, gate)
	a.leave(gate, status, "NOT MADE: "+why)
}

// whyNot says why a gate without commands of the caller is not made, where source
// is the file of the bundle that could name some.
func whyNot(source string, commands []string) string {
	switch {
	case len(commands) > 0:
		return "the bundle names its own commands in " + source + ", and they are run in a sandbox only"
	case source != "":
		return source + " names no command for it, nor does a flag"
	}
	return "neither the bundle nor a flag names a command"
}

// byProducts are what a run leaves behind by itself: names of files and
// directories, compared without case.
var byProducts = []string{"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ds_store", "thumbs.db"}

// byProduct reports whether a path is, or lies in, a cache or another by-product
// of a run. A manifest that lists one was made of a directory in which something
// had been run.
func byProduct(name string) bool {
	parts := strings.Split(strings.ToLower(name), "/")
	for i, part := range parts {
		if slices.Contains(byProducts, part) || part == ".cache" && i > 0 && parts[i-1] == "node_modules" {
			return true
		}
	}
	last := parts[len(parts)-1]
	return strings.HasSuffix(last, ".pyc") || strings.HasSuffix(last, ".pyo")
}
