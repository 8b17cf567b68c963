package server

import (
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"

	"remit/proof/reason"
)

// DebugHandler serves profiles below /debug/pprof/. They show memory, so it
// belongs on a listener of its own on a loopback address ([CheckLoopback]), and
// it refuses requests through a proxy or under another name.
func DebugHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r) {
			http.Error(w, "only for this machine", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isLocal reports whether a request comes from this machine and was not
// forwarded by a proxy on it.
func isLocal(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via", "Origin"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	address, err := netip.ParseAddr(remoteAddress(r))
	return err == nil && address.Unmap().IsLoopback() && localHost(r.Host)
}

// localHost refuses names that only resolve to this machine, which is how a web
// page reaches it.
func localHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.Trim(host, "[]")
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// CheckLoopback refuses an address that others can reach.
func CheckLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		var ip netip.Addr
		if ip, err = netip.ParseAddr(host); err == nil && !ip.Unmap().IsLoopback() {
			err = errors.New("is not a loopback address")
		}
	}
	if err != nil {
		return reason.Errorf(reason.RequestInvalid, "%q: %w", address, err).WithHint("such as 127.0.0.1:6060")
	}
	return nil
}
