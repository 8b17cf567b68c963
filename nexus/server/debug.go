package server

import (
	"net/http"
	"net/http/pprof"
)

// DebugHandler serves profiles below /debug/pprof/. They show memory, so it
// belongs on a listener of its own on a loopback address ([CheckLoopback]), and
// it answers nobody who comes through a proxy or under another name.
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
