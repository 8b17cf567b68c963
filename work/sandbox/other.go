//go:build !linux

package sandbox

import (
	"context"

	"remit/proof/reason"
)

// Init does nothing here: no driver starts this binary again.
func Init() {}

// WarmGoCache has nothing to warm: no driver works here.
func WarmGoCache(context.Context, func()) error { return nil }

// Open fails: every driver needs Linux.
func Open(_ context.Context, opt Options) (Driver, error) {
	return nil, reason.Errorf(reason.SandboxUnavailable, "sandbox: driver %q needs Linux", opt.Driver).
		WithHint("run Remit in a Linux virtual machine")
}
