package detect

import (
	"bufio"
	"bytes"
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/form"
)

var pythonTestFile = form.Lazy(`^(?:.*/)?(?:test_[^/]*|[^/]*_test|tests?)\.py$`)

// python finds projects of Python. One at the top stands for what is below it.
func (f *finder) python() {
	dirs := f.places("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini", "Pipfile", "pytest.ini", "noxfile.py", "manage.py")
	if len(dirs) == 0 && len(f.below(".", func(n string) bool { return path.Ext(n) == ".py" && depth(path.Dir(n)) <= 1 })) > 0 {
		dirs = []string{"."} // modules without any manifest
	}
	dirs = top(dirs)
	for _, dir := range dirs {
		p := f.pythonProject(dir)
		if p.Manifest != "" {
			f.project(p)
		}
		s := f.pythonSigns(dir)
		tests := f.tests(dir, dirs, pythonTestFile().MatchString)
		switch {
		case f.has[in(dir, "manage.py")] && !s.pytest:
			f.command(in(dir, "manage.py"), "python3 "+in(dir, "manage.py")+" test")
		case len(tests) == 0:
			f.pythonWithout(p, dir)
			continue
		case s.pytest || f.contains(tests, "import pytest", "from pytest"):
			f.pytest(dir, s)
		case f.contains(tests, "unittest", "TestCase"):
			f.unittest(dir, tests)
		case f.contains(tests, "def test"):
			f.pytest(dir, pythonSigns{from: tests[0] + ", which has test functions"})
		default:
			f.pythonWithout(p, dir)
		}
		f.pythonNeeds(p)
	}
}

func (f *finder) pythonManifest(dir string) string {
	return f.first(dir, "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini", "Pipfile", "pytest.ini", "noxfile.py", "manage.py")
}

func (f *finder) pythonWithout(p Project, dir string) {
	if p.Manifest != "" && len(f.below(dir, func(n string) bool { return path.Ext(n) == ".py" })) > 0 {
		f.note(p.Manifest, "no test of unittest or pytest was found")
	}
}

// pythonProject says which tool installs a project.
func (f *finder) pythonProject(dir string) Project {
	p := Project{Dir: dir, Ecosystem: "python", Manager: "pip"}
	if name := f.pythonManifest(dir); name != "" {
		p.Manifest = in(dir, name)
	}
	var tools map[string]any
	if f.has[in(dir, "pyproject.toml")] {
		tools, _ = f.toml(in(dir, "pyproject.toml"))["tool"].(map[string]any)
	}
	for _, m := range []struct{ lock, manager, tool string }{
		{"uv.lock", "uv", "uv"}, {"poetry.lock", "poetry", "poetry"}, {"pdm.lock", "pdm", "pdm"}, {"Pipfile.lock", "pipenv", ""},
	} {
		if f.has[in(dir, m.lock)] {
			p.Manager, p.Lock = m.manager, in(dir, m.lock)
			break
		}
		if tools[m.tool] != nil || m.manager == "pipenv" && f.has[in(dir, "Pipfile")] {
			p.Manager = m.manager
			break
		}
	}
	if p.Lock == "" && f.hashedRequirements(dir) {
		p.Lock = in(dir, "requirements.txt")
	}
	return p
}

// requirementFiles are where requirements are, the ones for tests first.
var requirementFiles = []string{"requirements-dev.txt", "requirements-test.txt", "requirements_dev.txt", "dev-requirements.txt", "test-requirements.txt",
	"requirements/dev.txt", "requirements/test.txt", "requirements.txt"}

// hashedRequirements reports whether requirements.txt names files by their digests.
func (f *finder) hashedRequirements(dir string) bool {
	src, ok := f.text(in(dir, "requirements.txt"))
	return ok && bytes.Contains(src, []byte("--hash=sha"))
}

// pythonSigns is what configuration says of a project's tests.
type pythonSigns struct {
	pytest     bool
	from       string // what says so
	pythonpath bool   // the configuration of pytest sets the path itself
}

var (
	pytestSection = form.Lazy(`(?m)^\[(?:tool:)?pytest\]`)
	pytestWord    = form.Lazy(`(?mi)(?:^|[\s"'])(?:pytest|py\.test)(?:[\s"'=<>~!\[;,]|$)`)
)

func (f *finder) pythonSigns(dir string) (s pythonSigns) {
	say := func(from string) {
		if s.pytest = true; s.from == "" {
			s.from = from
		}
	}
	if f.has[in(dir, "pytest.ini")] {
		say(in(dir, "pytest.ini"))
	}
	if doc := f.toml(in(dir, "pyproject.toml")); doc != nil {
		tools, _ := doc["tool"].(map[string]any)
		if conf, ok := tools["pytest"].(map[string]any); ok {
			say(in(dir, "pyproject.toml") + ", tool.pytest")
			options, _ := conf["ini_options"].(map[string]any)
			s.pythonpath = options["pythonpath"] != nil
		}
		if slices.ContainsFunc(stringsIn(doc, 0), func(t string) bool { return pytestWord().MatchString(t) }) {
			say(in(dir, "pyproject.toml") + ", dependency on pytest")
		}
	}
	for _, name := range []string{"setup.cfg", "tox.ini"} {
		src, ok := f.text(in(dir, name))
		switch {
		case !ok:
		case pytestSection().Match(src):
			say(in(dir, name) + ", section of pytest")
			s.pythonpath = s.pythonpath || bytes.Contains(src, []byte("pythonpath"))
		case name == "tox.ini" && pytestWord().Match(src):
			say(in(dir, name))
		}
	}
	for _, name := range slices.Concat(requirementFiles, []string{"Pipfile", "noxfile.py"}) {
		if src, ok := f.text(in(dir, name)); ok && pytestWord().Match(src) {
			say(in(dir, name))
		}
	}
	for _, name := range f.below(dir, func(n string) bool { return path.Base(n) == "conftest.py" }) {
		say(name)
	}
	return s
}

// stringsIn are the texts of a document and the keys of its tables, down to a depth.
func stringsIn(v any, depth int) (out []string) {
	if depth > 8 {
		return nil
	}
	switch v := v.(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, e := range v {
			out = append(out, stringsIn(e, depth+1)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(append(out, key), stringsIn(v[key], depth+1)...)
		}
	}
	return out
}

// sourceLayout is the assignment that makes packages below src importable, "" for
// a project that keeps them at its top.
func (f *finder) sourceLayout(dir string) string {
	src := in(dir, "src")
	if len(f.below(src, func(n string) bool { return path.Ext(n) == ".py" })) == 0 || f.has[in(src, "__init__.py")] {
		return ""
	}
	return "PYTHONPATH=" + src + " "
}

func (f *finder) pytest(dir string, s pythonSigns) {
	line := "python3 -m pytest"
	if !s.pythonpath {
		line = f.sourceLayout(dir) + line
	}
	if dir != "." {
		line += " " + dir
	}
	from := s.from
	if from == "" {
		from = "test files that import pytest"
	}
	f.command(from, line)
}

// unittest finds what discovery has to begin with: the top finds test files there
// and in packages, other directories have to be named.
func (f *finder) unittest(dir string, tests []string) {
	prefix := f.sourceLayout(dir)
	if dir != "." && prefix == "" {
		prefix = "PYTHONPATH=" + dir + " "
	}
	var starts []string
	for _, name := range tests {
		start := path.Dir(name)
		for start != dir && f.has[in(start, "__init__.py")] {
			start = path.Dir(start)
		}
		key := start
		if strings.HasSuffix(name, "_test.py") {
			key += "\x00"
		}
		if !slices.Contains(starts, key) && shellDir(start) {
			starts = append(starts, key)
		}
	}
	for _, start := range starts {
		start, suffix := strings.CutSuffix(start, "\x00")
		line := "python3 -m unittest"
		if start != "." || suffix {
			line += " discover"
		}
		if start != "." {
			line += " -s " + start
		}
		if suffix {
			line += " -p '*_test.py'"
		}
		f.command("test files that use unittest", prefix+line)
	}
}

// exports are the commands that write the requirements that a project has locked,
// with their digests, by the tool that manages it.
var exports = map[string]string{
	"uv":     "uv lock makes uv.lock, which it reads too",
	"poetry": "poetry lock makes poetry.lock, which it reads too",
	"pdm":    "pdm export -o requirements.txt",
	"pipenv": "pipenv requirements --dev --hash > requirements.txt",
	"pip":    "pip-compile --generate-hashes",
}

// pythonNeeds asks for the packages of a project, which takes a requirements.txt
// with digests.
func (f *finder) pythonNeeds(p Project) {
	locked := map[string]task.Ecosystem{"uv.lock": task.UV, "poetry.lock": task.Poetry}[path.Base(p.Lock)]
	switch {
	case locked != "" && slices.Contains(f.can, locked):
		f.prepare(locked, p)
	case !f.hashedRequirements(p.Dir) && p.Lock == "" && !f.pythonRequires(p.Dir):
	case f.hashedRequirements(p.Dir) || !slices.Contains(f.can, task.Pip):
		p.Lock = in(p.Dir, "requirements.txt")
		f.prepare(task.Pip, p)
	default:
		f.note(cmp.Or(p.Lock, p.Manifest), "has packages, and environment.prepare installs those of a requirements.txt with digests: write one (%s), and commit it", exports[p.Manager])
	}
}

// pythonRequires reports whether a project states that it needs packages.
func (f *finder) pythonRequires(dir string) bool {
	doc := f.toml(in(dir, "pyproject.toml"))
	project, _ := doc["project"].(map[string]any)
	if deps, _ := project["dependencies"].([]any); len(deps) > 0 {
		return true
	}
	tools, _ := doc["tool"].(map[string]any)
	poetry, _ := tools["poetry"].(map[string]any)
	deps, _ := poetry["dependencies"].(map[string]any)
	for name := range deps {
		if name != "python" {
			return true
		}
	}
	for _, name := range append(slices.Clone(requirementFiles), "Pipfile") {
		src, ok := f.text(in(dir, name))
		lines := bufio.NewScanner(bytes.NewReader(src))
		for ok && lines.Scan() {
			line := strings.TrimSpace(lines.Text())
			if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "[") {
				return true
			}
		}
	}
	return false
}
