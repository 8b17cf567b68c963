package results

import (
	"path"
	"slices"
	"strings"

	"remit/proof/form"
)

// Augment adds to a test command the flags that make its runner report every
// test. It changes nothing else: the same tests run, and the exit status means
// the same. The report names the command as given; the log shows both.
//
//	command                          becomes                                  format
//	go [-C d] test ARGS              go [-C d] test -json -count=1 ARGS       gotest
//	  with -count                    go test -json ARGS                       gotest
//	  with -c, -list, -n, -json=false, -fuzz, -help  as given                  –
//	pytest ARGS, python -m pytest    … --verbosity=1 -rap (before a bare --)  pytest
//	  with --co, --version, …        as given                                 –
//	python -m unittest ARGS          … -v                                     unittest
//	  with -q or --help              as given                                 –
//	another runner of the table      as given                                 its own
//	anything else                    as given, format recognised from output  ""
//
// Only a simple command is touched: one program, words and quotes, variable
// assignments in front. A pipeline, a list, `sh -c` or `make test` runs as
// given.
//
// -count=1 switches off the cache of test results. pytest gets a verbosity
// because its summary does not name what was skipped (an absolute one: the
// project's own configuration may hold -q), and -rap rather than -rA because
// the latter repeats the output of every passed test, which the code under
// test writes, in front of the summary. `-p no:cacheprovider` is left out: it makes
// --lf and a configured cache_dir an error, and a fresh tree has no cache.
func Augment(command string) (run, runner string, recognised bool) {
	c, ok := parseCall(command)
	if !ok || c.has(c.adapter.mute...) {
		return command, "", false
	}
	if c.adapter.ask == nil {
		return command, c.adapter.Name, true
	}
	if run, ok = c.adapter.ask(c, command); !ok {
		return command, "", false
	}
	return run, c.adapter.Name, true
}

// kept are the variables that Remit asks runners by. What a command sets in front of
// itself stays in force: what Remit says follows it, from the variable that is named.
var kept = map[string]string{
	"NODE_OPTIONS": `" $REMIT_NODE_OPTIONS"`, "SPEC_OPTS": `" $REMIT_SPEC_OPTS"`, "PHP_INI_SCAN_DIR": `":$REMIT_PHP"`,
	"RUBYLIB": `":$REMIT_RUBYLIB"`,
}

// Keep has the variables that a simple command sets for itself hold what Remit asks
// its runner as well. Any other command runs as given.
func Keep(command string) string {
	words, ok := simpleWords(command)
	if !ok {
		return command
	}
	for i := 0; i < len(words) && assignment().MatchString(words[i].text); i++ {
		name, _, _ := strings.Cut(words[i].text, "=")
		if more := kept[name]; more != "" && i+1 < len(words) {
			at := words[i].end
			return command[:at] + more + command[at:]
		}
	}
	return command
}

// call is a simple command that starts a known runner.
type call struct {
	adapter *Adapter
	words   []word
	args    int // index of the first argument of the runner
}

var (
	assignment = form.Lazy(`^[A-Za-z_][A-Za-z0-9_]*=`)
	python     = form.Lazy(`^python()[0-9.]*$`)
)

func parseCall(command string) (call, bool) {
	words, ok := simpleWords(command)
	if !ok {
		return call{}, false
	}
	i := 0
	for i < len(words) && assignment().MatchString(words[i].text) {
		i++
	}
	for _, a := range adapters {
		if a.call == nil || i == len(words) {
			continue
		}
		if args, ok := a.call(words[i:]); ok {
			return call{a, words, i + args}, true
		}
	}
	return call{}, false
}

// program says whether a word names a program, wherever it lies.
func (w word) program(names ...string) bool { return slices.Contains(names, path.Base(w.text)) }

// startedBy is the call of a runner by one of the names of its program.
func startedBy(names ...string) func(words []word) (int, bool) {
	return func(words []word) (int, bool) { return 1, words[0].program(names...) }
}

func goCall(words []word) (int, bool) {
	i := 1
	if i+1 < len(words) && words[i].text == "-C" {
		i += 2
	} else if i < len(words) && strings.HasPrefix(words[i].text, "-C=") {
		i++
	}
	return i + 1, words[0].program("go") && i < len(words) && words[i].text == "test"
}

func pytestCall(words []word) (int, bool) {
	if words[0].program("pytest", "py.test") {
		return 1, true
	}
	return pythonCall(words, "pytest")
}

func unittestCall(words []word) (int, bool) { return pythonCall(words, "unittest") }

// pythonCall finds -m and a module behind the options of the interpreter.
func pythonCall(words []word, module string) (int, bool) {
	if !python().MatchString(path.Base(words[0].text)) {
		return 0, false
	}
	for i := 1; i < len(words); i++ {
		switch text := words[i].text; {
		case text == "-m" && i+1 < len(words):
			return i + 2, words[i+1].text == module
		case text == "-X" || text == "-W":
			i++
		case len(text) < 2 || text[0] != '-' || strings.ContainsAny(text, "mc"):
			return 0, false
		}
	}
	return 0, false
}

// goFlags are the flags in front of -args, without dashes and values.
func (c call) goFlags() (flags []string) {
	for i := c.args; i < len(c.words); i++ {
		text := c.words[i].text
		if text == "-args" || text == "--args" {
			return flags
		}
		if strings.HasPrefix(text, "-") {
			name, value, _ := strings.Cut(strings.TrimLeft(text, "-"), "=")
			if name == "json" && value != "" && value != "true" && value != "1" {
				name = "json=false"
			}
			flags = append(flags, strings.TrimPrefix(name, "test."))
		}
	}
	return flags
}

func askGo(c call, command string) (string, bool) {
	flags := c.goFlags()
	for _, alone := range []string{"c", "list", "n", "json=false", "fuzz", "h", "help"} {
		if slices.Contains(flags, alone) {
			return "", false
		}
	}
	var add []string
	if !slices.Contains(flags, "json") {
		add = append(add, "-json")
	}
	if !slices.Contains(flags, "count") {
		add = append(add, "-count=1")
	}
	if len(add) > 0 {
		command = insert(command, c.words, c.args, strings.Join(add, " "))
	}
	return command, true
}

// has says whether one of the arguments up to a bare -- is among names.
func (c call) has(names ...string) bool {
	for _, w := range c.words[c.args:c.options()] {
		name, _, _ := strings.Cut(w.text, "=")
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// options is the index of a bare --, or the number of words.
func (c call) options() int {
	for i := c.args; i < len(c.words); i++ {
		if c.words[i].text == "--" {
			return i
		}
	}
	return len(c.words)
}

func askPytest(c call, command string) (string, bool) {
	return insert(command, c.words, c.options(), "--verbosity=1 -rap"), true
}

func askUnittest(c call, command string) (string, bool) {
	if c.has("-v", "--verbose") {
		return command, true
	}
	return insert(command, c.words, c.options(), "-v"), true
}
