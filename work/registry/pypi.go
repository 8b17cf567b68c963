package registry

import (
	"context"
	"net/url"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
)

// What the simple index is served as (PEP 503 and PEP 691).
const (
	simpleJSON = "application/vnd.pypi.simple.v1+json"
	simpleHTML = "text/html"
)

// acceptSimple is what a registry is asked for, whatever the client wants: one
// form is written from the other.
const acceptSimple = simpleJSON + ", application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"

var (
	pypiName    = form.Lazy(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)
	pypiRun     = form.Lazy(`[-_.]+`)
	pypiVersion = form.Lazy(`^v?[0-9][A-Za-z0-9.!+_-]{0,127}$`)
	pypiFile    = form.Lazy(`^[A-Za-z0-9][A-Za-z0-9._+!~-]{1,240}$`)
	pypiTags    = form.Lazy(`^([0-9][A-Za-z0-9_.]*-)?[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+$`)
)

// readPyPI reads a path below /pypi/:
//
//	simple/NAME/          the simple index of a project
//	file/NAME/FILE        a file that this index names
//	file/NAME/FILE.metadata  its metadata (PEP 658)
//
// The place of a file is not in the path: it is what the index said, and an index
// that was not read yet is read first.
func readPyPI(s *site, parts []string, accept string) (*question, error) {
	switch {
	case parts[0] == "simple" && (len(parts) == 2 || len(parts) == 3 && parts[2] == "") && pypiName().MatchString(parts[1]):
		name := ProjectName(parts[1])
		q := pypiIndex(s, name)
		if !strings.Contains(accept, simpleJSON) {
			q.rewrite = func(a answer) (answer, error) { return s.simpleIndex(name, false, a) }
		}
		return q, nil
	case parts[0] == "file" && len(parts) == 3 && pypiName().MatchString(parts[1]):
		name, file := ProjectName(parts[1]), strings.TrimSuffix(parts[2], ".metadata")
		version, ok := pypiFileVersion(name, file)
		if !ok {
			return nil, refused(reason.RegistryRefused, "the name of the file is not that of a wheel or source archive of %s", name)
		}
		q := &question{pkg: Package{PyPI, name, version}, path: "file/" + name + "/" + parts[2]}
		q.find = func(ctx context.Context, cancel context.CancelCauseFunc) (*url.URL, error) {
			return s.pypiPlace(ctx, cancel, name, file, strings.TrimPrefix(parts[2], file))
		}
		return q, nil
	}
	return nil, refused(reason.RegistryRefused, "the path is neither the index of a project nor a file of one")
}

// pypiIndex is the question for an index, in JSON.
func pypiIndex(s *site, name string) *question {
	return &question{pkg: Package{PyPI, name, ""}, path: "simple/" + name + "/", at: name + "/", accept: acceptSimple,
		rewrite: func(a answer) (answer, error) { return s.simpleIndex(name, true, a) }}
}

// pypiPlace is where the index of a project says that a file is.
func (s *site) pypiPlace(ctx context.Context, cancel context.CancelCauseFunc, name, file, suffix string) (*url.URL, error) {
	key := name + "/" + file
	at := s.recalled(key)
	if at == nil {
		if _, err := s.index(ctx, cancel, pypiIndex(s, name), ""); err != nil {
			return nil, err
		}
		if at = s.recalled(key); at == nil {
			return nil, refused(reason.RegistryMissing, "the index of %s names no such file at a place that can be reached", name)
		}
	}
	place := *at
	place.Path += suffix
	if place.RawPath != "" {
		place.RawPath += suffix
	}
	return &place, nil
}

// ProjectName is a name of a project in the one form in which names are compared
// (PEP 503).
func ProjectName(name string) string {
	return strings.ToLower(pypiRun().ReplaceAllString(name, "-"))
}

// pypiFileVersion reads the version out of the name of a wheel or of a source
// archive, and holds the rest against the name of the project.
func pypiFileVersion(name, file string) (version string, ok bool) {
	if !pypiFile().MatchString(file) {
		return "", false
	}
	if stem, wheel := strings.CutSuffix(file, ".whl"); wheel {
		project, rest, _ := strings.Cut(stem, "-")
		version, tags, _ := strings.Cut(rest, "-")
		return version, ProjectName(project) == name && pypiVersion().MatchString(version) && pypiTags().MatchString(tags)
	}
	for _, ext := range []string{".tar.gz", ".zip", ".tgz", ".tar.bz2"} {
		stem, found := strings.CutSuffix(file, ext)
		if !found {
			continue
		}
		// Names of old archives have dashes themselves: the project's ends the name.
		for i := range len(stem) {
			if stem[i] == '-' && ProjectName(stem[:i]) == name && pypiVersion().MatchString(stem[i+1:]) {
				return stem[i+1:], true
			}
		}
	}
	return "", false
}
