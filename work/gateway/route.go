package gateway

import (
	"mime"
	"net/http"
	"strings"

	"remit/proof/reason"
)

// routes are the request targets that exist, to the byte. Whatever is spelled
// in another way is another target, also where a server would take it for the
// same: what is not compared byte by byte is interpreted twice.
var routes = map[string]Protocol{
	"/v1/chat/completions":   Chat,
	"/chat/completions":      Chat,
	"/v1/responses":          Responses,
	"/responses":             Responses,
	"/v1/messages":           Messages,
	"/v1/messages?beta=true": Messages,
}

// route finds the protocol of a request, or says why there is none.
func route(r *http.Request) (Protocol, *refusal) {
	switch p, ok := routes[r.RequestURI]; {
	case r.Method == http.MethodConnect:
		return Chat, refuse(reason.RouteRefused, http.StatusMethodNotAllowed, "the gateway opens no tunnels")
	case r.URL.Host != "" || r.URL.Scheme != "":
		return formOf(r.URL.Path), refuse(reason.RouteRefused, http.StatusBadRequest, "the gateway is no proxy for other hosts")
	case !ok:
		return formOf(r.URL.Path), refuse(reason.RouteRefused, http.StatusNotFound, "the gateway has no such path")
	case r.Method != http.MethodPost:
		return p, refuse(reason.RouteRefused, http.StatusMethodNotAllowed, "the gateway takes POST alone")
	default:
		return p, nil
	}
}

// authorize holds the token that the engine presents against the run's. One of
// the two usual headers must have it; what else is presented must be it too.
func (g *Gateway) authorize(h http.Header) *refusal {
	if !g.guarded {
		return nil
	}
	presented := 0
	for _, v := range h.Values("Authorization") {
		scheme, token, _ := strings.Cut(v, " ")
		if !strings.EqualFold(scheme, "Bearer") || !g.knows(strings.TrimSpace(token)) {
			return unauthenticated()
		}
		presented++
	}
	for _, v := range h.Values("X-Api-Key") {
		if !g.knows(v) {
			return unauthenticated()
		}
		presented++
	}
	if presented == 0 {
		return unauthenticated()
	}
	return nil
}

func unauthenticated() *refusal {
	return refuse(reason.Unauthenticated, http.StatusUnauthorized, "the request does not have this run's token")
}

// readable refuses a body that the gateway could not read as the provider does.
func readable(r *http.Request, limit int64) *refusal {
	kinds := r.Header.Values("Content-Type")
	if len(kinds) != 1 {
		return refuse(reason.ContentTypeRefused, http.StatusUnsupportedMediaType, "the body must be application/json")
	}
	kind, params, err := mime.ParseMediaType(kinds[0])
	if charset := params["charset"]; err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refuse(reason.ContentTypeRefused, http.StatusUnsupportedMediaType, "the body must be application/json")
	}
	for _, v := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(v, "identity") {
			return refuse(reason.ContentTypeRefused, http.StatusUnsupportedMediaType, "the body must not be compressed")
		}
	}
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	return nil
}

func tooLarge(limit int64) *refusal {
	return refuse(reason.RequestTooLarge, http.StatusRequestEntityTooLarge, "the body has more than %d bytes", limit)
}
