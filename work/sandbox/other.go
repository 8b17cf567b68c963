//go:build !linux

package sandbox

import (
	"context"

	"remit/proof/reason"
)

// Init does nothing here: no driver starts this binary again.
func Init() {}

// Fill has nothing to fill: no driver works here.
func (c BuildCache) Fill(context.Context) error { return nil }

// State is that of no cache.
func (c BuildCache) State() CacheState { return CacheState{Dir: c.Dir} }

// CompilesGo reports nothing: no driver works here.
func CompilesGo(line, tree string) bool { return false }

// Open fails: every driver needs Linux.
func Open(_ context.Context, opt Options) (Driver, error) {
	return nil, reason.Errorf(reason.SandboxUnavailable, "sandbox: driver %q needs Linux", opt.Driver).
		WithHint("run Remit in a Linux virtual machine")
}
