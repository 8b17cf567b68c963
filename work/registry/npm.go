package registry

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
)

// Abbreviated packuments have what an installation needs and a tenth of the
// size; a client says which it wants.
const (
	npmFull        = "application/json"
	npmAbbreviated = "application/vnd.npm.install-v1+json"
)

var (
	npmName = form.Lazy(`^(@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*$`)
	// semver is semantic versioning's grammar but for the bounds of its numbers.
	semver = form.Lazy(`^[0-9]{1,18}(\.[0-9]{1,18}){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
)

// readNPM reads a path below /npm/:
//
//	NAME                        the packument
//	NAME/-/BASENAME-VERSION.tgz a tarball
//
// where NAME is name, @scope/name or @scope%2fname.
func readNPM(s *site, parts []string, accept string) (*question, error) {
	if len(parts) > 1 && isScope(parts[0]) {
		parts = append([]string{parts[0] + "/" + parts[1]}, parts[2:]...)
	}
	name := parts[0]
	if len(name) > 214 || !npmName().MatchString(name) {
		return nil, refused(reason.RegistryRefused, "the path does not begin with the name of an npm package")
	}
	switch {
	case len(parts) == 1:
		return s.npmPackument(name, strings.Contains(accept, npmAbbreviated)), nil
	case len(parts) == 3 && parts[1] == "-":
		version, ok := npmVersionOf(name, parts[2])
		if !ok {
			return nil, refused(reason.RegistryRefused, "the name of the tarball is not that of a version of %s", name)
		}
		return s.npmTarball(Package{NPM, name, version}, name+"/-/"+parts[2]), nil
	}
	return nil, refused(reason.RegistryRefused, "the path is neither a packument nor a tarball of the npm registry")
}

// npmPackument is the question for the index of a package.
func (s *site) npmPackument(name string, abbreviated bool) *question {
	q := &question{pkg: Package{NPM, name, ""}, path: name, at: npmPath(name), accept: npmFull}
	if abbreviated {
		q.accept = npmAbbreviated + ", " + npmFull + ";q=0.5"
	}
	q.rewrite = func(a answer) (answer, error) { return s.packument(name, a) }
	return q
}

// npmTarball is the question for the file of a version. For an unlocked one the
// packument is read first, if the client did not ask for it.
func (s *site) npmTarball(pkg Package, path string) *question {
	key := pkg.Name + "@" + pkg.Version
	q := &question{pkg: pkg, path: path, at: path}
	digest := func() string { s.mu.Lock(); defer s.mu.Unlock(); return s.told[key] }
	unlocked := s.front.unlocked != nil && s.front.unlocked(pkg)
	if unlocked {
		q.digest = digest
	}
	q.find = func(ctx context.Context, cancel context.CancelCauseFunc) (*url.URL, error) {
		if unlocked && digest() == "" {
			if _, err := s.index(ctx, cancel, s.npmPackument(pkg.Name, true), ""); err != nil {
				return nil, err
			}
			if digest() == "" {
				return nil, refused(reason.RegistryAnswer, "neither the lock file nor the registry has a SHA-512 of %s", key)
			}
		}
		if s.recalled(key) == nil && s.front.placed != nil && s.front.placed(pkg) {
			if _, err := s.index(ctx, cancel, s.npmPackument(pkg.Name, true), ""); err != nil {
				return nil, err
			}
		}
		return s.recalled(key), nil
	}
	return q
}

// npmPath is how clients ask for a packument: with the scope's slash escaped, which it
// is not in the usual place of a tarball.
func npmPath(name string) string { return strings.Replace(name, "/", "%2f", 1) }

// npmFile is the name of a version's tarball.
func npmFile(name, version string) string {
	return name[strings.LastIndexByte(name, '/')+1:] + "-" + version + ".tgz"
}

// npmVersionOf reads the version out of the name of a tarball.
func npmVersionOf(name, file string) (version string, ok bool) {
	version, ok = strings.CutPrefix(file, strings.TrimSuffix(npmFile(name, ""), ".tgz"))
	if !ok {
		return "", false
	}
	version, ok = strings.CutSuffix(version, ".tgz")
	return version, ok && semver().MatchString(version)
}

// tell keeps the digest that a packument has of an unlocked file.
func (s *site) tell(key, integrity string) {
	for digest := range strings.FieldsSeq(integrity) {
		if strings.HasPrefix(digest, "sha512-") {
			s.mu.Lock()
			if s.told == nil {
				s.told = map[string]string{}
			}
			s.told[key] = digest
			s.mu.Unlock()
		}
	}
}

// packument writes a packument again, with each tarball at the front. A tarball
// that the registry has under another name on its own server is remembered, one
// on another server is not: the usual place is asked then.
func (s *site) packument(name string, a answer) (answer, error) {
	doc, err := object(a.body)
	if err != nil {
		return answer{}, refused(reason.RegistryAnswer, "the packument of %s is no JSON object", name)
	}
	if said := textOf(doc["name"]); said != name {
		return answer{}, refused(reason.RegistryAnswer, "the packument of %s is that of another package", name)
	}
	var versions map[string]json.RawMessage
	if doc["versions"] != nil {
		if versions, err = object(doc["versions"]); err != nil {
			return answer{}, refused(reason.RegistryAnswer, "the versions of %s are no JSON object", name)
		}
	}
	for version, raw := range versions {
		manifest, err := object(raw)
		if err != nil || !semver().MatchString(version) {
			delete(versions, version) // it could not be asked for
			continue
		}
		dist, err := object(manifest["dist"])
		if err != nil {
			delete(versions, version)
			continue
		}
		usual := s.up.at(name + "/-/" + npmFile(name, version))
		if u, err := a.url.Parse(textOf(dist["tarball"])); err == nil && s.up.owns(u) && u.String() != usual.String() {
			s.remember(name+"@"+version, u)
		}
		if f := s.front; f.unlocked != nil && f.unlocked(Package{NPM, name, version}) {
			s.tell(name+"@"+version, textOf(dist["integrity"]))
		}
		dist["tarball"] = jsonOf(a.front + "/npm/" + name + "/-/" + npmFile(name, version))
		manifest["dist"] = jsonOf(dist)
		versions[version] = jsonOf(manifest)
	}
	if versions != nil {
		doc["versions"] = jsonOf(versions)
	}
	kind := npmFull
	if strings.HasPrefix(a.kind, npmAbbreviated) {
		kind = npmAbbreviated
	}
	return answer{body: jsonOf(doc), kind: kind}, nil
}
