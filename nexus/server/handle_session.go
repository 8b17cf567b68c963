package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"remit/nexus/api"
	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/proof/reason"
)

func sessionRoutes() []route {
	return []route{
		{Operation: api.CreateSession.Operation, always: true, special: (*Server).createSession},
		query(api.GetSession, getSession),
		{Operation: api.EndSession.Operation, always: true, special: (*Server).endSession},
	}
}

// maxLogin bounds the body of a login, which comes from strangers.
const maxLogin = 4 << 10

// createSession logs a browser in. The token in the body is the credential, so
// the request is authenticated here and not on its way.
//
// A page of another origin cannot log a browser in under its own name: the
// Origin is checked, and a form cannot send JSON. The key belongs to the
// principal of the token. What is stored under it is sealed to the token and
// has no secret of the session in it but the CSRF token; the cookie of a repeat
// is derived anew from the token that the repeat itself brings, and only while
// the session is open. So neither the table nor a repeat without the token
// yields a session, and no repeat revives one.
func (s *Server) createSession(w http.ResponseWriter, r *request) error {
	secure, err := s.ownPage(r.Request)
	if err != nil {
		return err
	}
	if _, err := keyOf(r); err != nil {
		return err
	}
	if err := readBody(w, r, maxLogin); err != nil {
		return err
	}
	var body api.SessionRequest
	if err := r.json(&body); err != nil {
		return err
	}
	if err := s.login(r, body.Token); err != nil {
		return err
	}
	return s.commit(w, r, func(tx *store.Tx, _ *request) (answer, error) {
		c, err := identity.OpenSession(tx, body.Token)
		if err != nil {
			return answer{}, err
		}
		return answer{value: sessionOf(c), location: "/v1/sessions/current", secret: true}, nil
	}, func(ctx context.Context, out reply) error {
		if out.status != http.StatusCreated {
			return nil
		}
		return s.handOver(ctx, w, secure, body.Token, out.body)
	})
}

// login finds out whom the token of a login stands for. Guessing costs what it
// costs elsewhere.
func (s *Server) login(r *request, token string) error {
	err := s.limitFailures(remoteAddress(r.Request), true, func() error {
		return s.opt.Store.View(r.Context(), func(tx *store.Tx) (err error) {
			r.caller, err = identity.Verify(tx, token)
			return err
		})
	})
	if err != nil {
		return err
	}
	if err := identity.MayOpenSession(r.caller); err != nil {
		return err
	}
	if wait, ok := s.requests.allow(r.caller.ID); !ok {
		return tooOften("requests of "+r.caller.ID, wait)
	}
	return nil
}

// handOver sets the cookie of the session in an answer, unless the session has
// ended since.
func (s *Server) handOver(ctx context.Context, w http.ResponseWriter, secure bool, token string, stored []byte) error {
	var made api.Session
	if err := json.Unmarshal(stored, &made); err != nil {
		return fmt.Errorf("read the answer to a login: %w", err)
	}
	secret := identity.SessionSecret(token, made.SessionID)
	return s.opt.Store.View(ctx, func(tx *store.Tx) error {
		c, err := identity.VerifySession(tx, secret)
		switch code := reason.CodeOf(err); {
		case code == reason.TokenExpired || code == reason.Unauthenticated || err == nil && c.Used:
			return nil
		case err != nil:
			return err
		}
		setSession(w, secure, secret, c.ExpiresAt-tx.Now())
		return nil
	})
}

func sessionOf(c identity.Caller) api.Session {
	return api.Session{
		SessionID: c.Session.ID, CsrfToken: c.Session.CSRF, Principal: c.ID, Owner: c.Owner, TokenID: c.TokenID,
		Scopes: slices.Concat([]string{}, c.Scopes), CreatedAt: api.TimeOf(c.Session.CreatedAt),
		IdleAt: api.TimeOf(c.Session.IdleAt()), ExpiresAt: api.TimeOf(c.Session.ExpiresAt),
	}
}

// getSession shows a page who is logged in, and its CSRF token. A page of another
// origin cannot read the answer.
func getSession(_ *store.Tx, r *request) (answer, error) {
	if r.caller.Session == nil {
		return answer{}, reason.Errorf(reason.NotFound, "the request came with a token and not with a session")
	}
	return answer{value: sessionOf(r.caller)}, nil
}

// endSession logs out. Until its end by time, a session that was ended gets the
// answer to the request that ended it again, as every mutation does.
func (s *Server) endSession(w http.ResponseWriter, r *request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	if err := readBody(w, r, maxLogin); err != nil {
		return err
	}
	if r.caller.Session != nil {
		// The session is what the request is about, so it counts like a part of
		// the body: the same key in another session is another request.
		r.bodySHA256 += " " + r.caller.Session.ID
	}
	return s.commit(w, r, func(tx *store.Tx, r *request) (answer, error) {
		at, err := identity.EndSession(tx, r.caller)
		if err != nil {
			return answer{}, err
		}
		return answer{value: api.SessionEnded{SessionID: r.caller.Session.ID, EndedAt: api.TimeOf(at)}}, nil
	}, func(_ context.Context, out reply) error {
		if out.status == http.StatusOK {
			setSession(w, len(r.CookiesNamed(cookieSecure)) > 0, "", 0)
		}
		return nil
	})
}
