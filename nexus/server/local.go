package server

import (
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"

	"remit/nexus/api"
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

// isLocal reports whether a request comes from this machine, was not forwarded by a
// proxy on it, and is not one that a web page makes.
func isLocal(r *http.Request) bool { return r.Header.Get("Origin") == "" && api.FromHere(r) }

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
