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
	call, ok := parseCall(command)
	if !ok {
		return command, "", false
	}
	switch call.runner {
	case GoTest:
		return call.augmentGo(command)
	case Pytest:
		return call.augmentPytest(command)
	default:
		return call.augmentUnittest(command)
	}
}

// call is a simple command that starts a known runner.
type call struct {
	runner string
	words  []word
	args   int // index of the first argument of the runner
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
	if i == len(words) {
		return call{}, false
	}
	switch program := path.Base(words[i].text); {
	case program == "go":
		return goCall(words, i+1)
	case program == "pytest" || program == "py.test":
		return call{Pytest, words, i + 1}, true
	case python().MatchString(program):
		return pythonCall(words, i+1)
	}
	return call{}, false
}

func goCall(words []word, i int) (call, bool) {
	if i+1 < len(words) && words[i].text == "-C" {
		i += 2
	} else if i < len(words) && strings.HasPrefix(words[i].text, "-C=") {
		i++
	}
	if i < len(words) && words[i].text == "test" {
		return call{GoTest, words, i + 1}, true
	}
	return call{}, false
}

// pythonCall finds -m pytest or -m unittest behind the interpreter's options.
func pythonCall(words []word, i int) (call, bool) {
	for ; i < len(words); i++ {
		switch text := words[i].text; {
		case text == "-m" && i+1 < len(words):
			switch words[i+1].text {
			case "pytest":
				return call{Pytest, words, i + 2}, true
			case "unittest":
				return call{Unittest, words, i + 2}, true
			}
			return call{}, false
		case text == "-X" || text == "-W":
			i++
		case len(text) < 2 || text[0] != '-' || strings.ContainsAny(text, "mc"):
			return call{}, false
		}
	}
	return call{}, false
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

func (c call) augmentGo(command string) (string, string, bool) {
	flags := c.goFlags()
	for _, alone := range []string{"c", "list", "n", "json=false", "fuzz", "h", "help"} {
		if slices.Contains(flags, alone) {
			return command, "", false
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
	return command, GoTest, true
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

func (c call) augmentPytest(command string) (string, string, bool) {
	if c.has("--co", "--collect-only", "--version", "-V", "--help", "-h", "--markers", "--fixtures", "--funcargs", "--cache-show", "--setup-plan", "--setup-only") {
		return command, "", false
	}
	return insert(command, c.words, c.options(), "--verbosity=1 -rap"), Pytest, true
}

func (c call) augmentUnittest(command string) (string, string, bool) {
	if c.has("-q", "--quiet", "-h", "--help") {
		return command, "", false
	}
	if c.has("-v", "--verbose") {
		return command, Unittest, true
	}
	return insert(command, c.words, c.options(), "-v"), Unittest, true
}
