package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"remit/proof/reason"
	"remit/work/edge"
	"remit/work/harness"
	"remit/work/keycommand"
	"remit/work/registry"
	"remit/work/session"
)

// registries ask the clients of this machine where their registries are, each
// once, and only when something has to be fetched: npm takes half a second to say.
// They are started as the user, in the user's home. Credentials come from what the
// user's own file names.
func (a *app) registries() harness.Registries {
	var mu sync.Mutex
	type answer struct {
		up  registry.Upstream
		err error
	}
	known := map[registry.Ecosystem]answer{}
	return func(ctx context.Context, e registry.Ecosystem) (registry.Upstream, error) {
		mu.Lock()
		defer mu.Unlock()
		said, ok := known[e]
		if !ok {
			if e != registry.Connect { // whose hosts no client knows
				found, bad := registry.Discover(ctx, keycommand.Run, e)
				said = answer{found[e], bad[e]}
			}
			if said.err == nil {
				said.up, said.err = enter(ctx, e, said.up, a.home.RegistriesFile())
			}
			said.up = throughProxies(said.up)
			known[e] = said
		}
		return said.up, said.err
	}
}

// enter gives a registry what the user's file names for it: its credentials, or the hosts
// of tunnels.
func enter(ctx context.Context, e registry.Ecosystem, up registry.Upstream, file string) (registry.Upstream, error) {
	text, err := edge.ReadFile(file, registry.MaxCredentialFile)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv(session.EnvRegistries) == "" {
		return up, nil
	}
	if err != nil {
		return up, reason.Errorf(reason.RegistryUnusable, "reading the credentials of registries: %w", err).
			WithHint("$%s, or else $REMIT_HOME/registries, names them", session.EnvRegistries)
	}
	lines, err := registry.ReadCredentials(text)
	if err != nil {
		return up, err
	}
	if e == registry.Connect {
		return registry.Upstream{Tunnels: lines.Tunnels()}, nil
	}
	home, _ := os.UserHomeDir() // a path without ~ works
	return lines.Enter(ctx, e, up, registry.Surroundings{Getenv: os.Getenv, Home: home, Run: keycommand.Run})
}

// throughProxies has a registry, and those beside it, asked as the environment says.
func throughProxies(up registry.Upstream) registry.Upstream {
	up.Proxy = proxyFor(up, http.ProxyFromEnvironment)
	for i := range up.Others {
		up.Others[i].Proxy = proxyFor(up.Others[i], http.ProxyFromEnvironment)
	}
	return up
}

// proxyFor is the proxy that the user's environment has for a registry (HTTPS_PROXY,
// HTTP_PROXY, NO_PROXY), "" for none. The front asks through it; the sandbox sees
// nothing of it.
func proxyFor(up registry.Upstream, environment func(*http.Request) (*url.URL, error)) string {
	at, err := url.Parse(strings.TrimPrefix(up.URL, "sparse+"))
	if err != nil {
		return ""
	}
	proxy, err := environment(&http.Request{URL: at})
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.String()
}
