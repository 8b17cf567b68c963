package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"remit/work/harness"
	"remit/work/keycommand"
	"remit/work/registry"
)

// registries ask the clients of this machine where their registries are, each
// once, and only when something has to be fetched: npm takes half a second to say.
// They are started as the user, in the user's home.
func registries() harness.Registries {
	var mu sync.Mutex
	type answer struct {
		up  registry.Upstream
		err error
	}
	known := map[registry.Ecosystem]answer{}
	return func(ctx context.Context, e registry.Ecosystem) (registry.Upstream, error) {
		mu.Lock()
		defer mu.Unlock()
		a, ok := known[e]
		if !ok {
			found, bad := registry.Discover(ctx, keycommand.Run, e)
			a = answer{found[e], bad[e]}
			a.up.Proxy = proxyFor(a.up, http.ProxyFromEnvironment)
			for i := range a.up.Others {
				a.up.Others[i].Proxy = proxyFor(a.up.Others[i], http.ProxyFromEnvironment)
			}
			known[e] = a
		}
		return a.up, a.err
	}
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
