package depend

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"remit/law/task"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/sandbox"
)

// The pip ecosystem: requirements.txt as `pip-compile --generate-hashes` or `uv
// export` writes it, each requirement pinned to a version with the digests of its
// files. It is read as data and written anew. Wheels only: pip would run the
// setup.py of a source package in the fetch. They are installed, without a network,
// into a virtual environment whose programs come first on the search path.

const (
	pipRequirements = "requirements.txt"
	pipWheels       = ".remit-wheels"
	pipDefault      = ".venv"
	maxRequirements = 5000
	maxIncludes     = 8
)

var (
	pipLine   = form.Lazy(`^([A-Za-z0-9][A-Za-z0-9._-]*)(\[[A-Za-z0-9._, -]*\])?\s*==\s*([A-Za-z0-9.!+_-]+)\s*(;[^#]*)?$`)
	pipHash   = form.Lazy(`^--hash=sha(256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})$`)
	pipJoined = form.Lazy(`\\\r?\n`) // a line that goes on
	pipMarker = form.Lazy(`^;[A-Za-z0-9_.,<>=!~* ()'"-]*$`)
)

// pipPlan reads what is to be installed.
func pipPlan(base fs.FS, p task.Prepare) (*plan, error) {
	r := &pipReader{base: base, dir: p.Dir, out: &plan{packages: map[string]bool{}},
		hint: "make it with `pip-compile --generate-hashes` or `uv export --format requirements-txt`"}
	if err := r.read(pipRequirements, 0); err != nil {
		return nil, err
	}
	return r.plan(p, nil)
}

// plan is that of the requirements which were read. own are directories of the
// workspace with the project's own modules.
func (r *pipReader) plan(p task.Prepare, own []string) (*plan, error) {
	venv, err := onePath(p, string(p.Ecosystem)+" installs into one directory", pipDefault)
	if err != nil {
		return nil, err
	}
	at := path.Join(p.Dir, venv)
	o := r.out
	o.files = []file{{path.Join(p.Dir, pipRequirements), []byte(strings.Join(r.lines, ""))}}
	o.paths, o.pathDirs, o.build = []string{at}, []string{path.Join(at, "bin")}, p.Build
	o.tools = []string{"python3"}
	o.fetch = []string{"python3 -m pip download --only-binary :all: --no-deps --require-hashes --dest " + pipWheels + " -r " + pipRequirements}
	o.install = []string{"python3 -m venv --without-pip --copies " + venv,
		"python3 -m pip --python " + venv + "/bin/python3 install --no-index --find-links " + pipWheels + " --no-deps --require-hashes --no-compile -r " + pipRequirements}
	o.fetchEnv = map[string]string{"PIP_NO_CACHE_DIR": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1",
		"SOURCE_DATE_EPOCH": "315532800"} // 1980: no zip has an earlier time
	o.buildEnv = map[string]string{"PIP_NO_INDEX": "1"}
	o.env = map[string]string{"VIRTUAL_ENV": path.Join(sandbox.WorkspacePath, at)}
	for _, dir := range own {
		o.env["PYTHONPATH"] += path.Join(sandbox.WorkspacePath, dir) + ":"
	}
	if len(own) > 0 {
		o.env["PYTHONPATH"] = strings.TrimSuffix(o.env["PYTHONPATH"], ":")
	}
	return o, nil
}

type pipReader struct {
	base  fs.FS
	dir   string
	out   *plan
	lines []string
	hint  string // how the lock file is made
}

func (r *pipReader) invalid(name string, err error) error {
	e := reason.Errorf(reason.LockFileInvalid, "%s cannot be used: %w", path.Join(r.dir, name), err)
	e.File = path.Join(r.dir, name)
	return e.WithHint("%s, and commit it", r.hint)
}

// read reads one file, and those that it includes.
func (r *pipReader) read(name string, depth int) error {
	full := path.Join(r.dir, name)
	if depth > maxIncludes || !fs.ValidPath(full) {
		return r.invalid(name, errors.New("it is included from too deep, or from outside of the repository"))
	}
	text, err := readInput(r.base, full, maxLockBytes)
	if err != nil {
		return r.invalid(name, err)
	}
	r.out.lockFiles = append(r.out.lockFiles, full)
	joined := pipJoined().ReplaceAllString(string(text), " ")
	for line := range strings.Lines(joined) {
		if at := strings.Index(" "+line, " #"); at >= 0 {
			line = line[:at]
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := r.line(name, line, depth); err != nil {
			return err
		}
	}
	return nil
}

func (r *pipReader) line(name, line string, depth int) error {
	words := strings.Fields(line)
	switch option, value, _ := strings.Cut(words[0], "="); option {
	case "-r", "--requirement":
		if len(words) == 2 {
			value = words[1]
		}
		if value == "" || strings.Contains(value, ":") {
			return r.invalid(name, fmt.Errorf("%.200q names no file", line))
		}
		return r.read(path.Join(path.Dir(name), value), depth+1)
	case "-i", "--index-url", "--pypi-url", "--only-binary", "--prefer-binary", "--require-hashes", "--trusted-host":
		return nil // which registry is asked is the user's matter, and wheels and hashes are asked for anyway
	}
	if strings.HasPrefix(line, "-") {
		return reason.Errorf(reason.DependencyRefused, "%s: the option %.200q is not taken over: Remit installs wheels of the registry only", path.Join(r.dir, name), line).
			WithHint("leave it out of the file, and pin released versions")
	}
	return r.requirement(name, line)
}

func (r *pipReader) requirement(name, line string) error {
	var hashes []string
	at := strings.Index(line, "--hash")
	if at < 0 {
		at = len(line)
	}
	m := pipLine().FindStringSubmatch(strings.TrimSpace(line[:at]))
	if m == nil || m[4] != "" && !pipMarker().MatchString(m[4]) {
		return reason.Errorf(reason.DependencyRefused, "%s: %.200q is not a release pinned with ==, and Remit fetches from the registry only", path.Join(r.dir, name), line).
			WithHint("pin it, as in `name==1.2.3 --hash=sha256:…`; git, path and URL requirements are not fetched")
	}
	for _, h := range strings.Fields(line[at:]) {
		if !pipHash().MatchString(h) {
			return r.invalid(name, fmt.Errorf("%.100q is no hash", h))
		}
		hashes = append(hashes, h)
	}
	if len(hashes) == 0 {
		return reason.Errorf(reason.DependencyRefused, "%s has no digest of %s==%s", path.Join(r.dir, name), m[1], m[3]).
			WithHint("make the file with `pip-compile --generate-hashes` or `uv export --format requirements-txt`")
	}
	if len(r.lines) == maxRequirements {
		return r.invalid(name, fmt.Errorf("it names more than %d packages", maxRequirements))
	}
	r.lines = append(r.lines, fmt.Sprintf("%s%s==%s %s %s\n", m[1], m[2], m[3], m[4], strings.Join(hashes, " ")))
	r.out.packages[registry.ProjectName(m[1])] = true
	r.out.packages[registry.ProjectName(m[1])+"@"+m[3]] = true
	return nil
}
