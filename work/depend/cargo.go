package depend

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"remit/law/task"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/sandbox"
)

// The cargo ecosystem: Cargo.lock, read as data. No manifest of the repository is
// used in the fetch: Remit writes one that asks for each locked crate at its very
// version, without features, so that everything which the repository can want is
// fetched and nothing of it decides how.

const (
	cargoDefault = ".remit-cargo"
	cargoLock    = "Cargo.lock"
	cargoSource  = "registry+https://github.com/rust-lang/crates.io-index"
	maxCrates    = 5000
)

var (
	crateName    = form.Lazy(`^[A-Za-z0-9_-]{1,64}$`)
	crateVersion = form.Lazy(`^[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]{0,100}$`)
	crateSum     = form.Lazy(`^[0-9a-f]{64}$`)
	crateNeeds   = form.Lazy(`^[A-Za-z0-9_-]{1,64}( [0-9A-Za-z.+-]{1,100}( \(registry\+https://github\.com/rust-lang/crates\.io-index\))?)?$`)
)

// crate is a [[package]] of a lock file.
type crate struct {
	name, version, source, checksum string
	needs                           []string
}

// cargoPlan reads what is to be fetched.
func cargoPlan(base fs.FS, p task.Prepare) (*plan, error) {
	invalid := func(err error) error {
		e := reason.Errorf(reason.LockFileInvalid, "%s cannot be used: %w", path.Join(p.Dir, cargoLock), err)
		e.File = path.Join(p.Dir, cargoLock)
		return e.WithHint("make it with `cargo generate-lockfile`, and commit it")
	}
	text, err := readInput(base, path.Join(p.Dir, cargoLock), maxLockBytes)
	if err != nil {
		return nil, invalid(err)
	}
	form, crates, err := readCargoLock(text)
	if err != nil {
		return nil, invalid(err)
	}
	home, err := onePath(p, "cargo has one home", cargoDefault)
	if err != nil {
		return nil, err
	}
	o := &plan{packages: map[string]bool{}, lockFiles: []string{path.Join(p.Dir, cargoLock)}, build: p.Build, tools: []string{"cargo", "rustc"},
		paths: []string{path.Join(p.Dir, home)}, fetch: []string{"cargo fetch"}, leaveOut: []string{".global-cache", ".package-cache", ".package-cache-mutate"}}
	manifest, lock := new(bytes.Buffer), new(bytes.Buffer)
	manifest.WriteString("[package]\nname = \"remit-fetch\"\nversion = \"0.0.0\"\nedition = \"2018\"\n\n[workspace]\n\n[dependencies]\n")
	fmt.Fprintf(lock, "version = %d\n", form)
	for i, c := range crates {
		if c.source == "" {
			continue // of the repository
		}
		if err := c.check(); err != nil {
			if reason.CodeOf(err) == "" {
				return nil, invalid(err)
			}
			return nil, err
		}
		o.packages[c.name+"@"+c.version], o.packages[c.name], o.packages[strings.ToLower(c.name)] = true, true, true
		exact, _, _ := strings.Cut(c.version, "+") // what is behind it does not decide
		fmt.Fprintf(manifest, "crate-%d = {package = %q, version = %q, default-features = false}\n", i, c.name, "="+exact)
		fmt.Fprintf(lock, "\n[[package]]\nname = %q\nversion = %q\nsource = %q\nchecksum = %q\n", c.name, c.version, c.source, c.checksum)
		if len(c.needs) > 0 {
			lock.WriteString("dependencies = [\n")
			for _, n := range c.needs {
				fmt.Fprintf(lock, " %q,\n", n)
			}
			lock.WriteString("]\n")
		}
	}
	inside := path.Join(sandbox.WorkspacePath, p.Dir, home)
	config := registry.Configure(registry.Crates, frontAddress()).Files[".cargo/config.toml"]
	o.files = []file{{path.Join(p.Dir, "Cargo.toml"), manifest.Bytes()}, {path.Join(p.Dir, cargoLock), lock.Bytes()},
		{path.Join(p.Dir, "src/lib.rs"), nil}, {path.Join(p.Dir, home, "config.toml"), []byte(config)}}
	o.fetchEnv = map[string]string{"CARGO_HOME": inside}
	o.env = map[string]string{"CARGO_HOME": inside, "CARGO_NET_OFFLINE": "true"}
	return o, nil
}

// check refuses a crate that does not come from the public index by its digest.
func (c crate) check() error {
	if !crateName().MatchString(c.name) || !crateVersion().MatchString(c.version) {
		return fmt.Errorf("%.100q %.100q is no crate", c.name, c.version)
	}
	if c.source != cargoSource {
		return reason.Errorf(reason.DependencyRefused, "the crate %s is to come from %.200q, and Remit fetches from the registry only", c.name, c.source).
			WithHint("take a released version of %s from crates.io; git dependencies are not fetched", c.name)
	}
	if !crateSum().MatchString(c.checksum) {
		return reason.Errorf(reason.DependencyRefused, "the lock file has no digest of the crate %s %s", c.name, c.version).
			WithHint("make the lock file again with `cargo generate-lockfile`")
	}
	for _, n := range c.needs {
		if !crateNeeds().MatchString(n) {
			return fmt.Errorf("the crate %s needs %.200q, which is no crate of the registry", c.name, n)
		}
	}
	return nil
}

// readCargoLock reads the form that cargo writes, which is a small part of TOML:
// tables of packages with texts and lists of texts.
func readCargoLock(text []byte) (form int, crates []crate, err error) {
	form = 3
	var in *crate
	var listing bool
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		key, value, pair := strings.Cut(line, " = ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case listing && line == "]":
			listing = false
		case listing:
			need, err := strconv.Unquote(strings.TrimSuffix(line, ","))
			if err != nil {
				return 0, nil, fmt.Errorf("line %d is no text", n)
			}
			if in != nil {
				in.needs = append(in.needs, need)
			}
		case line == "[[package]]":
			if len(crates) == maxCrates {
				return 0, nil, fmt.Errorf("it names more than %d crates", maxCrates)
			}
			crates = append(crates, crate{})
			in = &crates[len(crates)-1]
		case strings.HasPrefix(line, "["):
			in = nil // what is not used, or of older forms
		case !pair:
			return 0, nil, fmt.Errorf("line %d is neither a key nor a table", n)
		case value == "[":
			listing = true
		case in == nil && key == "version" && len(crates) == 0:
			if form, err = strconv.Atoi(value); err != nil || form < 3 || form > 4 {
				return 0, nil, fmt.Errorf("it is of version %.20q, and Remit reads 3 and 4", value)
			}
		case in != nil && slices.Contains([]string{"name", "version", "source", "checksum"}, key):
			word, err := strconv.Unquote(value)
			if err != nil {
				return 0, nil, fmt.Errorf("line %d is no text", n)
			}
			*map[string]*string{"name": &in.name, "version": &in.version, "source": &in.source, "checksum": &in.checksum}[key] = word
		}
	}
	if err := lines.Err(); err != nil {
		return 0, nil, err
	}
	if len(crates) == 0 {
		return 0, nil, errors.New("it names no package")
	}
	return form, crates, nil
}
