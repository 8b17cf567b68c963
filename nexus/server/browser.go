package server

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"remit/nexus/api"
	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/proof/reason"
)

// A browser sends the cookie of a session by itself, whichever page asks it to.
// So the cookie is half a credential: it is enough to read, since a page of
// another origin cannot see the answer, and for everything else the page has to
// show that it is ours, by its Origin and by a CSRF token that only it has read.

// Names of the cookie. Browsers take the first one only from a server with TLS,
// for the whole of exactly that host: no page of a neighbour can plant it.
const (
	cookieSecure = "__Host-remit_session"
	cookiePlain  = "remit_session"
)

// sessionCookies returns the session cookies of a request; there are several when
// an attacker has planted another. Under TLS the plain one does not count: an
// attacker on the network could have set it.
func sessionCookies(r *http.Request) []*http.Cookie {
	found := r.CookiesNamed(cookieSecure)
	if len(found) == 0 && r.TLS == nil {
		found = r.CookiesNamed(cookiePlain)
	}
	return found
}

// setSession gives a session to the browser, for a time in milliseconds; 0 takes
// it away.
func setSession(w http.ResponseWriter, secure bool, secret string, lasts int64) {
	//nolint:gosec // Secure without TLS would make the browser drop it
	c := &http.Cookie{Name: cookiePlain, Value: secret, Path: "/", MaxAge: int(lasts / 1000), HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: secure}
	if secure {
		c.Name = cookieSecure
	}
	if lasts <= 0 {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// verifySession finds out who asks with a cookie.
func (s *Server) verifySession(r *request, cookies []*http.Cookie) error {
	if len(cookies) != 1 {
		return reason.Errorf(reason.Unauthenticated, "the request has several sessions")
	}
	var now int64
	err := s.opt.Store.View(r.Context(), func(tx *store.Tx) (err error) {
		now = tx.Now()
		r.caller, err = identity.VerifySession(tx, cookies[0].Value)
		return err
	})
	switch {
	case err != nil:
		return err
	case r.caller.Used && r.route.ID != api.EndSession.ID:
		return reason.Errorf(reason.TokenExpired, "the session was ended")
	case r.route.Mutates():
		if err := s.provePage(r); err != nil {
			return err
		}
	}
	if r.caller.Session.Due(now) {
		err := s.opt.Store.Update(r.Context(), func(tx *store.Tx) error { return tx.SeeSession(r.caller.Session.ID) })
		if err != nil { // who may look still may: the session only ends sooner
			s.opt.Log.Warn("the use of a session was not noted", "request_id", r.id, "error", err)
		}
	}
	return nil
}

// provePage checks what a cookie alone does not prove.
func (s *Server) provePage(r *request) error {
	if _, err := s.ownPage(r.Request); err != nil {
		return err
	}
	said := r.Header.Values(api.HeaderCSRF)
	if len(said) != 1 || subtle.ConstantTimeCompare([]byte(said[0]), []byte(r.caller.Session.CSRF)) != 1 {
		return reason.Errorf(reason.CSRFRefused, "the %s is missing or is not that of the session", api.HeaderCSRF)
	}
	return nil
}

// ownPage refuses what no page of this server, or of an --origin, has sent.
// Browsers name the origin with every request that is not a GET, and no page can
// change what they name. secure says that the browser sees TLS, also behind a proxy.
func (s *Server) ownPage(r *http.Request) (secure bool, err error) {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return false, reason.Errorf(reason.OriginRefused, "a browser names one Origin, and this request has %d", len(origins))
	}
	u, err := url.Parse(origins[0])
	own := func(host string) bool { return strings.EqualFold(host, u.Host) }
	switch {
	case err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origins[0]:
	case u.Scheme != "https" && (u.Scheme != "http" || r.TLS != nil):
	case own(r.Host) || slices.ContainsFunc(s.opt.Lanes.Origins, own):
		return u.Scheme == "https", nil
	}
	return false, reason.Errorf(reason.OriginRefused, "pages of %.100q are not this server's", origins[0])
}
