package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

const (
	// askTime is how long a client may take to say what it is configured for.
	askTime = 30 * time.Second
	// maxSaid is more than any of them says.
	maxSaid = 64 << 10
)

// Discover asks the clients on this machine which registries they are configured
// for, and returns those of the given ecosystems (all, when none is given). If a client
// is not installed, the registry is the public one. If a client does not answer in time,
// there is no registry: the public one must not see the names of private packages.
//
// Clients are asked for single settings ("npm config get registry"): their files hold
// tokens, and are never read here. A user and password in an address become
// [Upstream].Auth. A registry that cannot be led to from a sandbox is in the second
// map, with an error that says why and has no address in it. What is not asked for:
// proxies, which the caller sets, and tokens that stand beside an address, for which
// there are [Credentials].
//
// The caller's run starts a program outside of every sandbox, as the user, in a
// directory without any configuration of a project, and returns what it printed.
func Discover(ctx context.Context, run func(ctx context.Context, argv []string) ([]byte, error), of ...Ecosystem) (
	map[Ecosystem]Upstream, map[Ecosystem]error) {
	silent := false // a client that is there, and of which nothing is known
	ask := func(argv ...string) string {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		out, err := run(ctx, argv)
		silent = silent || ctx.Err() != nil || len(out) > maxSaid
		if err != nil || silent {
			return ""
		}
		return string(bytes.TrimSpace(out))
	}
	if len(of) == 0 {
		of = Ecosystems()
	}
	found, bad := map[Ecosystem]Upstream{}, map[Ecosystem]error{}
	for _, e := range of {
		u := Defaults()[e]
		silent = false
		said, err := configuredFor[e](ask)
		if ctx.Err() != nil {
			err = context.Cause(ctx) // the client was stopped with the command, which says nothing of either
		} else if silent {
			err = unusable(e, "is not known: its client said too much, or nothing in %s", askTime)
		}
		if err == nil && said.URL != "" {
			u.URL, u.Auth, err = withoutUser(e, said.URL)
		}
		if err != nil {
			bad[e] = err
			continue
		}
		u.CAFile = said.CAFile
		if said.URL != "" {
			u.Others = nil
		}
		for _, other := range said.Others {
			other.URL, other.Auth, err = withoutUser(e, other.URL)
			if _, unfit := baseURL(e, other.URL); err != nil || unfit != nil {
				continue // a package that is to come from there is refused by its name
			}
			other.URL, other.CAFile, other.Local = strings.TrimRight(other.URL, "/"), said.CAFile, true
			u.Others = append(u.Others, other)
		}
		base, err := baseURL(e, u.URL)
		if err != nil {
			bad[e] = err
			continue
		}
		if public, _ := url.Parse(Defaults()[e].URL); base.Host != public.Host {
			u.Local = true // the user's own choice may be on the user's own network
		}
		found[e] = u
	}
	return found, bad
}

// configuredFor reads an address and a CA file out of what a client says. An empty
// address is the default's.
var configuredFor = map[Ecosystem]func(ask func(argv ...string) string) (Upstream, error){
	NPM: func(ask func(argv ...string) string) (Upstream, error) {
		var u Upstream
		for line := range strings.Lines(ask("npm", "config", "get", "registry", "cafile")) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if value = strings.TrimSpace(value); value == "null" || value == "undefined" {
				value = ""
			}
			switch strings.TrimSpace(key) {
			case "registry":
				u.URL = value
			case "cafile":
				u.CAFile = value
			}
		}
		if u.URL == "" && ask("npm", "--version") != "" {
			return u, unusable(NPM, "is one that npm does not tell, as where a password stands in its address").
				WithHint("npm config set registry https://… without a user and a password, and " +
					"name the credential in $REMIT_HOME/registries; no other one is asked in its place")
		}
		u.Others = npmScopes(ask("npm", "config", "list"))
		return u, nil
	},
	Go: func(ask func(argv ...string) string) (Upstream, error) {
		var said struct{ GOPROXY string }
		if json.Unmarshal([]byte(ask("go", "env", "-json", "GOPROXY")), &said) != nil {
			said.GOPROXY = "" // there is no go, or none that answers
		}
		return goProxyOf(said.GOPROXY)
	},
	Debian: func(ask func(argv ...string) string) (Upstream, error) {
		return archivesOf(ask("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")), nil
	},
	RubyGems: func(ask func(argv ...string) string) (Upstream, error) {
		return Upstream{URL: gemMirror(ask("bundle", "config", "get", "mirror.https://rubygems.org/", "--parseable"))}, nil
	},
	PyPI: func(ask func(argv ...string) string) (Upstream, error) {
		said := ask("pip", "config", "list")
		if said == "" {
			said = ask("python3", "-m", "pip", "config", "list")
		}
		return pipSays(said), nil
	},
	Crates: func(ask func(argv ...string) string) (Upstream, error) {
		// cargo tells its configuration to its own developers; this is how it takes one for such.
		get := []string{"env", "RUSTC_BOOTSTRAP=1", "cargo", "config", "get", "-Zunstable-options", "--format", "json"}
		var http struct {
			HTTP struct{ CAInfo string }
		}
		if said := ask(append(get, "http.cainfo")...); said != "" && json.Unmarshal([]byte(said), &http) != nil {
			http.HTTP.CAInfo = ""
		}
		u, err := cargoSource([]byte(ask(append(get, "source")...)))
		u.CAFile = http.HTTP.CAInfo
		return u, err
	},
}

// npmScopes reads lines such as @acme:registry = "https://…" of npm's own listing,
// which has "(protected)" in the place of tokens and *** in that of passwords. A
// registry whose address has one is left out: its packages are refused by name. The
// first line of a scope counts, as it does for npm.
func npmScopes(said string) (others []Upstream) {
	seen := map[string]bool{}
	for line := range strings.Lines(said) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		scope, ok := strings.CutSuffix(key, ":registry")
		if !ok || !strings.HasPrefix(scope, "@") || seen[scope] {
			continue
		}
		seen[scope] = true
		var address string
		if json.Unmarshal([]byte(value), &address) == nil && !strings.Contains(address, "***") {
			others = append(others, Upstream{URL: address, Scope: scope})
		}
	}
	return others
}

// goProxyOf is the first proxy of a list. A directory is refused, and so is a list
// without any proxy: what "direct" asks is every host that a module path names.
func goProxyOf(list string) (Upstream, error) {
	if list == "" {
		return Upstream{}, nil
	}
	entries := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '|' })
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if strings.HasPrefix(entry, "https://") || strings.HasPrefix(entry, "http://") {
			return Upstream{URL: entry}, nil
		}
	}
	for _, entry := range entries {
		if strings.HasPrefix(strings.TrimSpace(entry), "file:") {
			return Upstream{URL: "file:///"}, nil // refused as every directory is
		}
	}
	return Upstream{}, unusable(Go, "is no proxy (GOPROXY is off or direct), and direct asks every host that a module path names").
		WithHint("go env -w GOPROXY=https://proxy.golang.org,direct, or the address of your own proxy in the place of the first")
}

// pipSays reads lines such as global.index-url='https://…'. The environment wins
// over a section of the command, and that over the global one.
func pipSays(said string) (u Upstream) {
	rank := map[string]int{"global": 1, "download": 2, ":env:": 3}
	best := map[string]int{}
	for line := range strings.Lines(said) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.ReplaceAll(value, `\n`, " ") // several addresses, as Python writes a text of several lines
		section, name, _ := strings.Cut(key, ".")
		if len(value) < 2 || value[0] != value[len(value)-1] || value[0] != '\'' && value[0] != '"' || strings.ContainsRune(value, '\\') ||
			rank[section] <= best[name] {
			continue
		}
		value = value[1 : len(value)-1]
		switch name {
		case "index-url":
			u.URL = value
		case "cert":
			u.CAFile = value
		case "extra-index-url":
			u.Others = nil
			for address := range strings.FieldsSeq(value) {
				u.Others = append(u.Others, Upstream{URL: address})
			}
		}
		best[name] = rank[section]
	}
	return u
}

// cargoSource follows what replaces crates.io.
func cargoSource(said []byte) (Upstream, error) {
	var doc struct {
		Source map[string]struct {
			ReplaceWith string `json:"replace-with"`
			Registry    string `json:"registry"`
		} `json:"source"`
	}
	if len(said) == 0 || json.Unmarshal(said, &doc) != nil {
		return Upstream{}, nil //nolint:nilerr // no source is configured, or there is no cargo
	}
	name := "crates-io"
	for range len(doc.Source) + 1 {
		s, ok := doc.Source[name]
		switch {
		case ok && s.ReplaceWith != "":
			name = s.ReplaceWith
		case name == "crates-io":
			return Upstream{}, nil
		case strings.HasPrefix(s.Registry, "sparse+"):
			return Upstream{URL: s.Registry}, nil
		default:
			return Upstream{}, unusable(Crates, "is a directory or a git repository, and not a sparse index").
				WithHint("name the mirror's sparse index in [source] of cargo's configuration: registry = \"sparse+https://…/\"")
		}
	}
	return Upstream{}, unusable(Crates, "is replaced in a circle")
}

// withoutUser takes user and password out of an address.
func withoutUser(e Ecosystem, address string) (string, Auth, error) {
	prefix := ""
	if rest, ok := strings.CutPrefix(address, "sparse+"); ok {
		prefix, address = "sparse+", rest
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", Auth{}, unusable(e, "is no http or https URL")
	}
	if u.User == nil {
		return prefix + address, Auth{}, nil
	}
	password, _ := u.User.Password()
	auth := Basic(u.User.Username(), password)
	u.User = nil
	return prefix + u.String(), auth, nil
}
