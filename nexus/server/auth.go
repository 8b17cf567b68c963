package server

import (
	"net"
	"net/http"
	"strings"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/proof/reason"
)

// authenticate finds out who asks. A token that was sent on purpose counts; the
// cookie that a browser adds to every request does not count beside it.
func (s *Server) authenticate(r *request) error {
	values, cookies := r.Header.Values("Authorization"), sessionCookies(r.Request)
	if len(values) == 0 && len(cookies) > 0 {
		// Counted apart: a browser that goes on sending a cookie of yesterday
		// must not hide from a daemon of its machine what is wrong with its token.
		return s.limitFailures("session "+remoteAddress(r.Request), true, func() error { return s.verifySession(r, cookies) })
	}
	return s.limitFailures(remoteAddress(r.Request), r.Header.Get("Authorization") != "", func() error { return s.verify(r, values) })
}

// limitFailures checks a credential and counts refused ones under a name, which
// has to wait after too many. A valid credential is accepted all the same: the
// length of the secret keeps guessers out, and they must not keep out others.
func (s *Server) limitFailures(name string, tried bool, ask func() error) error {
	err := ask()
	if !tried || reason.CodeOf(err) != reason.Unauthenticated {
		return err
	}
	if wait, ok := s.failures.allow(name); !ok {
		return tooOften("refused credentials from this address", wait)
	}
	return err
}

// verify finds out who asks with a bearer token.
func (s *Server) verify(r *request, values []string) error {
	if len(values) != 1 {
		return reason.Errorf(reason.Unauthenticated, "the request has no credential, or several")
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return reason.Errorf(reason.Unauthenticated, "the credential is no bearer token")
	}
	err := s.opt.Store.Look(r.Context(), func(tx *store.Tx) (err error) {
		r.caller, err = identity.Verify(tx, strings.TrimSpace(text))
		return err
	})
	switch {
	case err != nil:
		return err
	case r.caller.Kind == identity.Ticket:
		return reason.Errorf(reason.Unauthenticated, "a ticket opens a lane, nothing else")
	case r.caller.Used && !r.route.Mutates():
		return reason.Errorf(reason.TokenExpired, "the token was good for one use")
	}
	return nil
}

// authorize checks what the token is for.
func authorize(r *request) error {
	if r.caller.OneTime && r.route.ID != api.RegisterProvider.ID {
		return reason.Errorf(reason.Forbidden, "a registration token registers a provider, nothing else")
	}
	if r.route.Scope == scopeAny {
		return nil
	}
	if r.caller.Kind == authority.Provider && r.route.Scope == authority.ScopeRead && !readByProviders[r.route.ID] {
		return reason.Errorf(reason.ScopeMissing, "the credential of a provider is for its own jobs")
	}
	return r.caller.Require(r.route.Scope)
}

// readByProviders are the reads that a daemon needs for its work; each looks
// whether what is asked for is this provider's. A credential that is stolen from a
// machine reads nothing else of its owner.
var readByProviders = map[string]bool{
	api.GetProvider.ID: true, api.GetJob.ID: true, api.GetArtifact.ID: true, api.GetRunArtifact.ID: true, api.CreateLaneTicket.ID: true,
}

// agree refuses a body that names another owner than the credential does.
func agree(r *request, owner *string) error {
	if owner == nil || *owner == r.caller.Owner {
		return nil
	}
	e := reason.Errorf(reason.Forbidden, "the owner is the credential's, and %.80q is another", *owner)
	e.Field = "owner"
	return e
}

// remoteAddress is who is on the other end of the connection. Headers that say
// otherwise are not believed: anybody can write them.
func remoteAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
