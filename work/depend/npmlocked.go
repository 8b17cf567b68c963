package depend

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"remit/proof/reason"
	"remit/work/registry"
)

// noDigest is the hint for a lock file that has no digest of a package.
const noDigest = "make the lock file again, without node_modules beside it (npm takes no digests from there) and from a registry that tells them"

// locked holds an installed package of the lock file against the rules, and
// returns the entry that the client reads.
func (n *npmReader) locked(key string, entry, all npmObject) (npmObject, error) {
	kept := pick(entry, npmLocked)
	if err := n.specs(key, entry, kept); err != nil {
		return nil, err
	}
	name := key[strings.LastIndex(key, npmModules+"/")+len(npmModules)+1:]
	if real, ok := entry["name"].(string); ok {
		name = real // an alias
	}
	from, _ := entry["resolved"].(string)
	if link, _ := entry["link"].(bool); link {
		_, known := all[from].(npmObject)
		if _, installed := modulesOf(from); from == "" || !known || installed || !n.isWorkspace(all, from) {
			return nil, n.refused(name, "the path "+from)
		}
		kept["resolved"] = from
		return kept, nil
	}
	if bundled, _ := entry["inBundle"].(bool); bundled {
		return kept, nil // it lies in the file of the package that bundles it
	}
	version, _ := entry["version"].(string)
	if !npmName().MatchString(name) || !npmVersion().MatchString(version) {
		return nil, n.refused(name, "version "+version)
	}
	file, err := n.tarball(name, version, from)
	if err != nil {
		return nil, err
	}
	integrity, _ := entry["integrity"].(string)
	if !npmIntegrity().MatchString(integrity) {
		return nil, reason.Errorf(reason.DependencyRefused, "%s: the lock file has no digest of the package %.200q %.50q", n.dir, name, version).
			WithHint(noDigest)
	}
	kept["integrity"] = integrity
	n.out.held(name+"@"+version, integrity)
	if file != "" {
		kept["resolved"] = file
	}
	n.out.packages[name+"@"+version], n.out.packages[name] = true, true
	return kept, nil
}

// tarball is where the public registry has the file of a package, "" where the
// address in the lock file is another one, of a known host: then the client asks
// the registry for it. Which registry is asked is never the lock file's matter.
func (n *npmReader) tarball(name, version, from string) (string, error) {
	if from == "" {
		return "", nil
	}
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || !n.known(name, strings.ToLower(u.Host)) {
		return "", n.refused(name, from)
	}
	usual := name + "/-/" + path.Base(name) + "-" + version + ".tgz"
	if strings.HasSuffix(u.Path, "/"+usual) {
		return npmDefault + usual, nil
	}
	return "", nil
}

// known reports whether a host is one of the public registry, or the user's own: for
// every package, or for those of the scope that the package is of.
func (n *npmReader) known(name, host string) bool {
	if slices.Contains(npmHosts, host) {
		return true
	}
	of, _, _ := strings.Cut(name, "/")
	for _, entry := range n.hosts() {
		scope, address, scoped := strings.Cut(entry, " ")
		if !scoped && entry == host {
			return true
		}
		if at, err := url.Parse(address); scoped && scope == of && err == nil && strings.ToLower(at.Host) == host {
			return true
		}
	}
	return false
}

// isWorkspace reports whether the repository's own manifest has a package as one
// of its workspaces: then npm links it, and a path dependency is no other thing.
func (n *npmReader) isWorkspace(all npmObject, dir string) bool {
	root, _ := all[""].(npmObject)
	globs := root["workspaces"]
	if o, ok := globs.(npmObject); ok {
		globs = o["packages"]
	}
	list, _ := globs.([]any)
	for _, g := range list {
		glob := path.Clean(strings.TrimPrefix(fmt.Sprint(g), "./"))
		for at := dir; at != "."; at = path.Dir(at) {
			if ok, err := path.Match(strings.ReplaceAll(glob, "**", "*"), at); ok && err == nil {
				return true
			}
		}
	}
	return false
}

// held remembers a package of which SHA-1 is all that the lock file has: npm takes the
// digest that the registry tells in its place, so the file is compared here.
func (p *plan) held(pkg, integrity string) {
	var weak []string
	for digest := range strings.FieldsSeq(integrity) {
		text, ok := strings.CutPrefix(digest, "sha1-")
		if !ok {
			return
		}
		sum, _ := base64.StdEncoding.DecodeString(text) // what is none is no file's
		weak = append(weak, hex.EncodeToString(sum))
	}
	if p.weak == nil {
		p.weak = map[string][]string{}
	}
	p.weak[pkg] = append(p.weak[pkg], weak...)
}

// compare holds what was delivered against the digests that no client compares.
func (p *plan) compare(told []registry.Delivery) error {
	for _, d := range told {
		if d.Refused == reason.RegistryAnswer && p.isUnlocked(d) {
			return reason.Errorf(d.Refused, "%s@%s: %s", d.Name, d.Version, d.Why).
				WithHint("the lock file has no digest of it, and the registry contradicts itself: find out why before you fetch it again")
		}
		for _, sum := range p.weak[d.Name+"@"+d.Version] {
			if d.Refused == "" && d.SHA1 != "" && d.SHA1 != sum {
				return reason.Errorf(reason.RegistryAnswer, "the file of %s@%s has another SHA-1 than the lock file, which has no better digest of it: %s, not %s",
					d.Name, d.Version, d.SHA1, sum).WithHint("this is another file than the one that was locked: find out why before you make the lock file again")
			}
		}
	}
	return nil
}

// isUnlocked reports whether a file was compared with the registry's own digest.
func (p *plan) isUnlocked(d registry.Delivery) bool {
	return p.unlocked != nil && d.Version != "" && p.unlocked(registry.Package{Ecosystem: d.Ecosystem, Name: d.Name, Version: d.Version})
}
