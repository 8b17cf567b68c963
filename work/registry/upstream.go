package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"remit/proof/reason"
	"remit/work/edge"
)

// Upstream is a registry outside of the sandbox. The inside sees nothing of it.
type Upstream struct {
	// URL is its base: https://registry.npmjs.org, https://pypi.org/simple,
	// https://proxy.golang.org, https://index.crates.io (without "sparse+").
	URL    string
	CAFile string // PEM certificates that are trusted beside the system's
	Auth   Auth   // sent to the URL's own origin alone
	// Local says that the user's own mirror may be on a private address. A URL
	// whose host is such an address, or localhost, says so itself.
	Local bool
	// Proxy is an http, https or socks5 URL; "" is none, whatever the environment
	// says. Names are resolved by the proxy then, so that only their form is checked.
	Proxy string
	SumDB string // Go's checksum database; "" is [DefaultSumDB]
	// Scope is that of npm, as in @acme, whose packages are asked for at this further
	// registry and nowhere else.
	Scope string
	// Others are further registries of the user's, such as pip's extra indexes. They
	// are asked for the packages that [Options].Other leads to them, and no others.
	Others []Upstream
	// Tunnels are, of Connect, the hosts that the user allows. Resolve and Dial take the
	// place of the machine's resolver and network there, in tests.
	Tunnels []string
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)         `json:"-"`
	Dial    func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
}

// Defaults are the public registries.
func Defaults() map[Ecosystem]Upstream {
	return map[Ecosystem]Upstream{
		NPM:      {URL: "https://registry.npmjs.org"},
		PyPI:     {URL: "https://pypi.org/simple"},
		Go:       {URL: "https://proxy.golang.org"},
		Crates:   {URL: "https://index.crates.io"},
		Debian:   {URL: "https://deb.debian.org/debian", Others: []Upstream{{URL: "https://deb.debian.org/debian-security"}}},
		RubyGems: {URL: "https://rubygems.org"},
	}
}

// Auth is a credential. It prints as nothing but that it is one.
type Auth struct {
	header string
	secret string // the part of it that is one
}

// Format prints whether there is a credential, under every verb.
func (a Auth) Format(s fmt.State, _ rune) {
	if a.header != "" {
		_, _ = s.Write([]byte("(credential)"))
	}
}

// MarshalText is the same for JSON and logs.
func (a Auth) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%v", a), nil }

// upstream is a registry, and the only way to it and to hosts that it names.
type upstream struct {
	ecosystem Ecosystem
	base      *url.URL // without a slash at its end
	hostPort  string
	reach     reach // of the host of base
	auth      Auth
	sumDB     string
	proxy     *url.URL
	resolve   resolver
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	transport *http.Transport
	stall     time.Duration
}

// unusable is an error of the configuration. It never has a value of it.
func unusable(e Ecosystem, format string, args ...any) *reason.Error {
	return refused(reason.RegistryUnusable, "the registry that is configured for %s %s", e, fmt.Errorf(format, args...))
}

func newUpstream(e Ecosystem, u Upstream, o Options, l Limits) (*upstream, error) {
	base, err := baseURL(e, u.URL)
	if err != nil {
		return nil, err
	}
	up := &upstream{ecosystem: e, base: base, hostPort: hostPort(base), reach: configured, auth: u.Auth, sumDB: u.SumDB,
		resolve: o.Resolve, dial: o.Dial, stall: l.StallTime}
	if up.sumDB == "" {
		up.sumDB = DefaultSumDB
	}
	if u.Local || saysLocal(base.Hostname()) {
		up.reach = local
	}
	if base.Scheme == "http" && up.auth.header != "" && up.reach != local {
		return nil, unusable(e, "is not https, so that others on the way could read its credential")
	}
	roots, err := edge.Roots(u.CAFile)
	if err != nil {
		return nil, unusable(e, "has a CA file that cannot be used: %w", err)
	}
	if up.proxy, err = edge.Proxy(u.Proxy); err != nil {
		return nil, unusable(e, "has a proxy that is %w", err)
	}
	if up.resolve == nil {
		up.resolve = lookup
	}
	if up.dial == nil {
		up.dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	up.transport = &http.Transport{
		DialContext:            up.connect,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    15 * time.Second,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // a file is passed on byte for byte
		MaxIdleConnsPerHost:    l.Exchanges,
		IdleConnTimeout:        30 * time.Second,
		ResponseHeaderTimeout:  l.StallTime,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if up.proxy != nil {
		up.transport.Proxy = http.ProxyURL(up.proxy)
	}
	return up, nil
}

// baseURL reads the address of a registry.
func baseURL(e Ecosystem, address string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimPrefix(address, "sparse+"))
	if err == nil {
		u.Host = strings.ToLower(u.Host)
	}
	switch {
	case err == nil && u.Scheme == "file":
		return nil, unusable(e, "is a directory (file:), which a sandbox cannot be led to; configure one that is served over https")
	case err != nil || u.Host == "" || u.Opaque != "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, unusable(e, "is no http or https URL")
	case strings.Trim(u.Hostname(), hostChars+":") != "":
		return nil, unusable(e, "has a host name with other characters than a to z, digits, dots, colons and dashes")
	case u.User != nil:
		return nil, unusable(e, "holds a credential in its URL: state it beside it")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, unusable(e, "has a query or fragment")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// saysLocal reports whether a host is a private address by its very name.
func saysLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && local.admits(a) && !configured.admits(a)
}

// at is the URL of a path below the base, which is in its escaped form.
func (u *upstream) at(path string) *url.URL {
	target, err := url.Parse(u.base.String() + "/" + path)
	if err != nil {
		panic("registry: " + err.Error()) // a grammar let through what is no path
	}
	return target
}

// owns reports whether a URL is of the registry's own origin.
func (u *upstream) owns(target *url.URL) bool {
	return target.Scheme == u.base.Scheme && target.User == nil && hostPort(target) == u.hostPort
}

// checked holds the URL that an answer named against the rules: of the registry's
// own origin, or of a public host at the usual port, and not less safe than the
// registry is.
func (u *upstream) checked(target *url.URL) error {
	switch {
	case u.owns(target):
		return nil
	case target.User != nil || target.Opaque != "" || target.Scheme != "https" && (target.Scheme != "http" || u.base.Scheme != "http"):
		return refused(reason.RegistryAddress, "the registry's answer leads to %s, and not by an https URL without a credential", plain(cmp.Or(target.Host, target.Scheme+":"), 100))
	case !publicName(target.Hostname()) || target.Port() != "":
		return refused(reason.RegistryAddress, "the registry's answer leads to %s, which is no public host at the usual port",
			plain(target.Host, 100))
	}
	return nil
}

// connect dials one of the addresses that it has checked.
func (u *upstream) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if u.proxy != nil && address == hostPort(u.proxy) {
		return u.dial(ctx, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	r := public
	if address == u.hostPort {
		r = u.reach
	}
	addrs, err := resolved(ctx, u.resolve, host, r)
	if err != nil {
		return nil, err
	}
	var c net.Conn
	for _, a := range addrs[:min(len(addrs), 4)] {
		if c, err = u.dial(ctx, network, net.JoinHostPort(a.Unmap().String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, refused(reason.RegistryUnreachable, "%s does not take connections", whose(r, host))
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
