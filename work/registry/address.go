package registry

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"remit/proof/reason"
)

// reach is how far from the public network an address may lie.
type reach int

const (
	// public is for a host that an answer named: what the IANA registries of
	// special addresses call globally reachable.
	public reach = iota
	// configured is for a registry that the user configured by name. Ranges for
	// documentation and benchmarks are let through as well: filtering resolvers
	// give out addresses of theirs in the place of public ones.
	configured
	// local is for a registry that the user said is on a private address.
	local
)

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i := range s {
		out[i] = netip.MustParsePrefix(s[i])
	}
	return out
}

var (
	// never are no addresses of a server, or those of the machine's cloud, with its
	// metadata and credentials: link-local, and one each of Azure, Alibaba and AWS.
	never = prefixes("0.0.0.0/8", "168.63.129.16/32", "100.100.100.200/32", "169.254.0.0/16", "192.0.0.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/128", "fe80::/10", "ff00::/8", "100::/64", "2001::/23", "5f00::/16", "fd00:ec2::254/128")
	private = prefixes("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
		"::1/128", "fc00::/7", "fec0::/10", "64:ff9b:1::/48")
	special = prefixes("192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"2001:db8::/32", "3fff::/20")
)

// embedded are prefixes of IPv6 that hold an address of IPv4, and where.
var embedded = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
	{netip.MustParsePrefix("::/96"), 12},        // IPv4-compatible
}

// admits reports whether an address may be dialled.
func (r reach) admits(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if within(a, never) || within(a, private) && r < local || within(a, special) && r < configured {
		return false
	}
	for _, e := range embedded {
		if bytes := a.As16(); a.Is6() && e.prefix.Contains(a) && a != netip.IPv6Loopback() {
			inner := netip.AddrFrom4([4]byte(bytes[e.at : e.at+4]))
			return r.admits(inner)
		}
	}
	return true
}

func within(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// hostChars are the characters of a host name in the form in which it is dialled.
const hostChars = "abcdefghijklmnopqrstuvwxyz0123456789.-"

// ownNames are last labels that belong to a machine and its network.
var ownNames = []string{"localhost", "local", "internal"}

// publicName reports whether a host has the form of a public name. An address
// that is written as a number, in whatever way, is none: its last label would be one.
func publicName(host string) bool {
	if len(host) > 253 || strings.Trim(host, hostChars) != "" || strings.HasPrefix(host, ".") || strings.Contains(host, "..") {
		return false
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return strings.Contains(host, ".") && last != "" && 'a' <= last[0] && last[0] <= 'z' && !slices.Contains(ownNames, last)
}

// resolved returns the addresses of a host, all of them within reach: one that is not
// makes the name suspect as a whole.
func resolved(ctx context.Context, resolve resolver, host string, r reach) ([]netip.Addr, error) {
	var addrs []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{a}
	} else {
		if r == public {
			host += "." // no search domain is added to it
		}
		if addrs, err = resolve(ctx, host); err != nil {
			return nil, refused(reason.RegistryUnreachable, "%s cannot be resolved", whose(r, host))
		}
	}
	for _, a := range addrs {
		if !r.admits(a) {
			return nil, refused(reason.RegistryAddress, "%s has an address that is not public", whose(r, host))
		}
	}
	if len(addrs) == 0 {
		return nil, refused(reason.RegistryUnreachable, "%s has no address", whose(r, host))
	}
	return addrs, nil
}

// whose names a host in an error. It does not name the host of the user's configuration.
func whose(r reach, host string) string {
	if r == public {
		return "the host " + plain(strings.TrimSuffix(host, "."), 100) + ", which the registry's answer names,"
	}
	return "the registry"
}

// resolver gives the addresses of a name.
type resolver func(ctx context.Context, host string) ([]netip.Addr, error)

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
