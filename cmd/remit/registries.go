package main

import (
	"context"
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
			known[e] = a
		}
		return a.up, a.err
	}
}
