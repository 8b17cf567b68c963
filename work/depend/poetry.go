package depend

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/form"
	"remit/proof/reason"
)

// The poetry ecosystem: poetry.lock of the versions 1.0 to 2.1, read as data and
// written as a requirements file for pip. From 2.1 on the lock file says for each
// package in which groups and under which marker it is needed. Before that it
// follows from pyproject.toml and the edges between the packages: what is read of
// that file are the names and markers of dependencies.

const (
	poetryLock     = "poetry.lock"
	poetryManifest = "pyproject.toml"
	poetryMain     = "main"
)

type poetryDocument struct {
	Packages []poetryPackage     `toml:"package"`
	Extras   map[string][]string `toml:"extras"`
	Metadata struct {
		Version string                  `toml:"lock-version"`
		Files   map[string][]poetryFile `toml:"files"` // before 2.0
	} `toml:"metadata"`
}

type poetryPackage struct {
	Name     string         `toml:"name"`
	Version  string         `toml:"version"`
	Optional bool           `toml:"optional"`
	Groups   []string       `toml:"groups"`
	Markers  any            `toml:"markers"`
	Files    []poetryFile   `toml:"files"`
	Needs    map[string]any `toml:"dependencies"`
	Source   *struct {
		Type string `toml:"type"`
		URL  string `toml:"url"`
	} `toml:"source"`
}

type poetryFile struct {
	File string `toml:"file"`
	Hash string `toml:"hash"`
}

type poetryReader struct {
	*pipReader
	doc    poetryDocument
	hosts  func() []string
	byName map[string][]int
	graph  []*pyPackage
}

// poetryPlan reads what is to be installed. hosts are those of the user's own index.
func poetryPlan(base fs.FS, p task.Prepare, hosts func() []string) (*plan, error) {
	o := &poetryReader{hosts: hosts, byName: map[string][]int{}, pipReader: &pipReader{base: base, dir: p.Dir, hint: "make it with `poetry lock`",
		out: &plan{packages: map[string]bool{}, lockFiles: []string{path.Join(p.Dir, poetryLock)}}}}
	text, err := readInput(base, path.Join(p.Dir, poetryLock), maxLockBytes)
	if err == nil {
		err = readTOML(text, &o.doc)
	}
	if err == nil && len(o.doc.Packages) > maxRequirements {
		err = fmt.Errorf("it names more than %d packages", maxRequirements)
	}
	if err != nil {
		return nil, o.invalid(poetryLock, err)
	}
	switch o.doc.Metadata.Version {
	case "2.1":
		err = o.stated(p.Groups)
	case "1.0", "1.1", "2.0":
		err = o.followed(p.Groups)
	default:
		err = o.invalid(poetryLock, fmt.Errorf("it is of version %.20q, and Remit reads 1.0, 1.1, 2.0 and 2.1", o.doc.Metadata.Version))
	}
	if err != nil {
		return nil, err
	}
	return o.plan(p, o.projectPath([]string{"."}))
}

// take writes the line of a package.
func (o *poetryReader) take(p poetryPackage, marker string) error {
	if s := p.Source; s != nil {
		if s.Type != "legacy" {
			return reason.Errorf(reason.DependencyRefused, "%s: the package %.200q is to come from the %.40s %.200q, and Remit fetches from the index only",
				path.Join(o.dir, poetryLock), p.Name, s.Type, s.URL).
				WithHint("take a released version of %.200q from the index; git, path and URL dependencies are not fetched", p.Name)
		}
		if _, err := o.knownIndex(p.Name, s.URL, o.hosts); err != nil {
			return err
		}
	}
	return o.require(poetryLock, &pyPackage{name: p.Name, version: p.Version, files: o.filesOf(p)}, marker)
}

func (o *poetryReader) filesOf(p poetryPackage) (out []pyFile) {
	files := p.Files
	if len(files) == 0 {
		files = o.doc.Metadata.Files[p.Name]
	}
	for _, f := range files {
		out = append(out, pyFile{f.File, f.Hash})
	}
	return out
}

// stated reads the form in which groups and markers stand at each package.
func (o *poetryReader) stated(groups []string) error {
	known := map[string]bool{}
	for extra := range o.doc.Extras {
		known[extra] = true
	}
	for _, p := range o.doc.Packages {
		for _, g := range p.Groups {
			known[g] = true
		}
	}
	if err := o.chosen(poetryLock, groups, known); err != nil {
		return err
	}
	for _, p := range o.doc.Packages {
		var any []string
		always, wanted := false, false
		for _, g := range p.Groups {
			if g != poetryMain && len(groups) > 0 && !slices.Contains(groups, g) {
				continue
			}
			wanted = true
			marker, err := o.markerIn(p, g)
			if err != nil {
				return err
			}
			if marker = extrasTrue(marker, groups); marker == "" {
				always = true
			} else if !slices.Contains(any, "("+marker+")") {
				any = append(any, "("+marker+")")
			}
		}
		if !wanted {
			continue
		}
		if always {
			any = nil
		}
		if err := o.take(p, strings.Join(any, " or ")); err != nil {
			return err
		}
	}
	return nil
}

// markerIn is the marker of a package for a group.
func (o *poetryReader) markerIn(p poetryPackage, group string) (string, error) {
	switch m := p.Markers.(type) {
	case nil:
		return "", nil
	case string:
		return m, nil
	case map[string]any:
		if m[group] == nil {
			return "", nil
		}
		if text, ok := m[group].(string); ok {
			return text, nil
		}
	}
	return "", o.invalid(poetryLock, fmt.Errorf("the markers of %.100q are no text", p.Name))
}

var poetryExtra = form.Lazy(`\bextra\s*==\s*["']([A-Za-z0-9._-]+)["']`)

// extrasTrue has the extras that were chosen hold in a marker. The others do not
// hold: pip takes none to be asked for.
func extrasTrue(marker string, chosen []string) string {
	return poetryExtra().ReplaceAllStringFunc(marker, func(term string) string {
		if slices.Contains(chosen, poetryExtra().FindStringSubmatch(term)[1]) {
			return `python_version >= "0"`
		}
		return term
	})
}
