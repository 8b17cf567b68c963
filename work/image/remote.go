package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"remit/proof/reason"
	"remit/work/registry"
)

// remoteSource is a registry.
type remoteSource struct {
	ref     name.Reference
	options []remote.Option
	limits  Limits
}

func openRemote(ref Reference, opt Options, l Limits) *remoteSource {
	var keys authn.Keychain = authn.DefaultKeychain
	if opt.Anonymous {
		keys = authn.NewMultiKeychain()
	}
	t := &guard{private: opt.Private, most: l.Blob, proxies: map[string]bool{}}
	t.inner = &http.Transport{Proxy: t.proxy, DialContext: t.dial, TLSHandshakeTimeout: 20 * time.Second,
		ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true}
	return &remoteSource{ref: ref.remote, limits: l, options: []remote.Option{
		remote.WithAuthFromKeychain(keys), remote.WithTransport(t), remote.WithUserAgent("remit")}}
}

func (s *remoteSource) with(ctx context.Context) []remote.Option {
	return append([]remote.Option{remote.WithContext(ctx)}, s.options...)
}

func (s *remoteSource) root(ctx context.Context) ([]byte, error) {
	return s.get(ctx, s.ref)
}

func (s *remoteSource) manifest(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	return s.get(ctx, s.ref.Context().Digest(d.Digest.String()))
}

func (s *remoteSource) get(ctx context.Context, ref name.Reference) ([]byte, error) {
	d, err := remote.Get(ref, s.with(ctx)...)
	if err != nil {
		return nil, said(err)
	}
	if int64(len(d.Manifest)) > s.limits.Manifest {
		return nil, tooLarge("the manifest has %d bytes, at most %d are possible", len(d.Manifest), s.limits.Manifest)
	}
	return d.Manifest, nil
}

func (s *remoteSource) blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	layer, err := remote.Layer(s.ref.Context().Digest(d.Digest.String()), s.with(ctx)...)
	if err != nil {
		return nil, said(err)
	}
	r, err := layer.Compressed()
	if err != nil {
		return nil, said(err)
	}
	return r, nil
}

// said is what a registry's refusal may tell: no address with a query, no header,
// and nothing of a credential.
func said(err error) error {
	if _, ok := errors.AsType[*reason.Error](err); ok {
		return err
	}
	if t, ok := errors.AsType[*transport.Error](err); ok {
		text := ""
		for _, d := range t.Errors[:min(len(t.Errors), 3)] {
			text += " " + plain(string(d.Code))
		}
		if t.StatusCode == http.StatusNotFound {
			return reason.Errorf(reason.ImageMissing, "the registry does not have it (404%s)", text)
		}
		return reason.Errorf(reason.ImageUnreachable, "the registry answered with status %d%s", t.StatusCode, text)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		if refusal, ok := errors.AsType[*reason.Error](u.Err); ok {
			return refusal
		}
		host := ""
		if at, parseErr := url.Parse(u.URL); parseErr == nil {
			host = at.Host
		}
		return reason.Errorf(reason.ImageUnreachable, "asking %s: %w", plain(host), u.Err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if text := plain(err.Error()); strings.Contains(text, "error verifying") { // the library has no type for it
		return reason.Errorf(reason.ImageDigest, "the registry's answer: %s", text)
	}
	return reason.Errorf(reason.ImageUnreachable, "the registry's answer: %s", plain(err.Error()))
}

// guard is the way to a registry: TLS, public addresses and bounded answers.
type guard struct {
	inner   *http.Transport
	private bool // private addresses and plain HTTP are allowed
	most    int64

	mu      sync.Mutex
	proxies map[string]bool // addresses of the user's own proxies
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !g.private {
		return nil, reason.Errorf(reason.ImageAddress, "%s is asked without TLS", plain(r.URL.Host))
	}
	resp, err := g.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > g.most {
		_ = resp.Body.Close()
		return nil, tooLarge("an answer of the registry has %d bytes, at most %d are possible", resp.ContentLength, g.most)
	}
	resp.Body = &bounded{resp.Body, g.most}
	return resp, nil
}

// proxy is the user's own, which is asked by its address.
func (g *guard) proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("the proxy of the environment is no URL") // the text may have a password in it
	}
	if u != nil {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
		}
		g.mu.Lock()
		g.proxies[net.JoinHostPort(u.Hostname(), port)] = true
		g.mu.Unlock()
	}
	return u, nil
}

// dial connects to an address that was checked, so that no second answer of a
// name server counts.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 15 * time.Second}
	g.mu.Lock()
	own := g.proxies[address]
	g.mu.Unlock()
	if own {
		return d.DialContext(ctx, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be resolved", plain(host))
	}
	for _, a := range addrs {
		if !registry.Admits(a, g.private) {
			return nil, reason.Errorf(reason.ImageAddress, "%s has an address that is not public", plain(host))
		}
	}
	err = fmt.Errorf("%s has no address", plain(host))
	for _, a := range addrs {
		var c net.Conn
		if c, err = d.DialContext(ctx, network, netip.AddrPortFrom(a, portOf(port)).String()); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func portOf(s string) uint16 {
	n, _ := net.LookupPort("tcp", s) // 0, which nothing listens on, for what is none
	return uint16(n)                 // a port
}

// bounded ends a body that is longer than it may be.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, tooLarge("an answer of the registry is longer than it may be")
	}
	return n, err
}
