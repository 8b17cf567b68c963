package registry

import "net/netip"

// Admits reports whether an address of a registry that the user named may be
// dialled: public ones, and private ones too where the user said so. The rule is
// the same for packages and for images.
func Admits(a netip.Addr, private bool) bool {
	if private {
		return local.admits(a)
	}
	return configured.admits(a)
}
