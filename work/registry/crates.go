package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
)

var crateName = form.Lazy(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// readCrates reads a path below /crates/, which is cargo's sparse protocol:
//
//	config.json
//	1/N, 2/NN, 3/N/NNN, NN/NN/NAME   the index of a crate, in lower case
//	dl/NAME/VERSION/download         a crate
func readCrates(s *site, parts []string, _ string) (*question, error) {
	path := strings.Join(parts, "/")
	if path == "config.json" {
		return crateConfig(s), nil
	}
	if parts[0] == "dl" && len(parts) == 4 && parts[3] == "download" && crateName().MatchString(parts[1]) && semver().MatchString(parts[2]) {
		q := &question{pkg: Package{Crates, parts[1], parts[2]}, path: path}
		q.find = func(ctx context.Context, cancel context.CancelCauseFunc) (*url.URL, error) {
			return s.cratePlace(ctx, cancel, parts[1], parts[2])
		}
		return q, nil
	}
	name := parts[len(parts)-1]
	if !crateName().MatchString(name) || name != strings.ToLower(name) || path != crateDirectory(name)+"/"+name {
		return nil, refused(reason.RegistryRefused, "the path is none of cargo's sparse protocol")
	}
	return &question{pkg: Package{Crates, name, ""}, path: path, at: path, accept: "*/*",
		rewrite: func(a answer) (answer, error) { return crateIndex(name, a) }}, nil
}

// crateDirectory is where the index of a crate lies.
func crateDirectory(name string) string {
	switch n := len(name); {
	case n <= 2:
		return string('0' + rune(n))
	case n == 3:
		return "3/" + name[:1]
	}
	return name[:2] + "/" + name[2:4]
}

// crateIndex holds an index against the name of its crate. Nothing in it is an address
// that cargo would ask.
func crateIndex(name string, a answer) (answer, error) {
	for line := range bytes.Lines(a.body) {
		var entry struct {
			Name string `json:"name"`
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if json.Unmarshal(line, &entry) != nil || strings.ToLower(entry.Name) != name {
			return answer{}, refused(reason.RegistryAnswer, "the index of %s is none of cargo's, or that of another crate", name)
		}
	}
	return answer{body: a.body, kind: "text/plain"}, nil
}

// crateConfig is the question for the configuration of the registry. Its place of
// crates becomes that of the front; its web API, and its wish for a credential, have no
// meaning inside.
func crateConfig(s *site) *question {
	return &question{pkg: Package{Crates, "config.json", ""}, path: "config.json", at: "config.json", open: true, accept: "application/json",
		rewrite: func(a answer) (answer, error) {
			doc, err := object(a.body)
			dl := textOf(doc["dl"])
			if err != nil || dl == "" {
				return answer{}, refused(reason.RegistryAnswer, "the configuration of the registry does not say where crates are (dl)")
			}
			s.mu.Lock()
			s.dl = dl
			s.mu.Unlock()
			return answer{body: jsonOf(map[string]string{"dl": a.front + "/crates/dl"}), kind: "application/json"}, nil
		}}
}

// cratePlace is where a crate is, as the registry's configuration says.
func (s *site) cratePlace(ctx context.Context, cancel context.CancelCauseFunc, name, version string) (*url.URL, error) {
	place := func() string { s.mu.Lock(); defer s.mu.Unlock(); return s.dl }
	dl := place()
	if dl == "" {
		if _, err := s.index(ctx, cancel, crateConfig(s), ""); err != nil {
			return nil, err
		}
		dl = place()
	}
	directory := crateDirectory(name)
	filled := strings.NewReplacer("{crate}", name, "{version}", version,
		"{prefix}", directory, "{lowerprefix}", strings.ToLower(directory)).Replace(dl)
	if filled == dl {
		filled = dl + "/" + name + "/" + version + "/download"
	}
	u, err := url.Parse(filled)
	if err != nil || strings.ContainsAny(filled, "{}") {
		return nil, refused(reason.RegistryAnswer, "the configuration of the registry has a place of crates (dl) that cannot be used")
	}
	return u, nil
}
