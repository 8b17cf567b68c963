package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"remit/nexus/api"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/canon"
	"remit/proof/reason"
)

// maxKey bounds an Idempotency-Key.
const maxKey = 255

// What stands before the media type of a stored answer.
const (
	sealedType = "sealed:" // it holds a secret, see identity.Caller.Seal
	unusedType = "unused:" // a refusal that changed nothing: another request may take the key
)

// keyOf reads the Idempotency-Key of a mutation.
func keyOf(r *request) (store.Key, error) {
	values := r.Header.Values(api.HeaderKey)
	k := store.Key{Principal: r.caller.ID, Method: r.Method, Route: r.route.Path}
	if len(values) == 0 || values[0] == "" {
		return k, reason.Errorf(reason.IdempotencyKeyMissing, "%s %s needs an %s", r.Method, r.route.Path, api.HeaderKey)
	}
	k.Key = values[0]
	bad := func(c rune) bool { return c <= ' ' || c > '~' }
	if len(values) > 1 || len(k.Key) > maxKey || strings.ContainsFunc(k.Key, bad) {
		e := reason.Errorf(reason.RequestInvalid, "the key is not one word of 1 to %d visible ASCII characters", maxKey)
		e.Field = api.HeaderKey
		return k, e
	}
	return k, nil
}

// fingerprint identifies a request: two requests under one key are the same if
// they have it in common. The credential is not part of it, the principal is in
// the scope of the key.
func fingerprint(r *request) string {
	sum := sha256.New()
	for _, part := range []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("If-Match"),
		r.bodySHA256} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return canon.DigestSum(sum)
}

// perform runs a mutation once and for ever: the answer is stored in the
// transaction of the effect, and a repeat gets it back. A deterministic refusal
// is stored too, in a transaction of its own, since its effect is rolled back; it
// gives way to another request with its key.
func (s *Server) perform(ctx context.Context, r *request, act action) (reply, error) {
	key, err := keyOf(r)
	if err != nil {
		return reply{}, err
	}
	var out reply
	print := fingerprint(r)
	err = s.retryNotYet(ctx, r, func() error {
		return s.opt.Store.Update(ctx, func(tx *store.Tx) (err error) {
			if out, err = s.stored(tx, r, key, print); err != nil || out.status != 0 {
				return err
			}
			if r.caller.Used {
				return &unstored{reason.Errorf(reason.TokenExpired, "the token was good for one use")}
			}
			if !r.route.always {
				if err := treasury.Writable(tx); err != nil {
					return err
				}
			}
			result, err := act(tx, r)
			if err != nil {
				return err
			}
			out, err = s.save(tx, r, key, print, result)
			return err
		})
	})
	if err == nil {
		if out.replayed {
			s.metrics.replays.Add(1)
		}
		return out, nil
	}
	if reason.CodeOf(err) == reason.IdempotencyKeyReused {
		s.metrics.conflicts.Add(1)
	}
	refusal := s.refusal(r, err)
	if _, final := errors.AsType[*unstored](err); final || !storable(refusal.status) {
		return refusal, nil
	}
	return s.saveRefusal(ctx, r, key, print, refusal, err)
}

// errNotYet undoes a command that may succeed later.
var errNotYet = errors.New("not yet")

// waitStep is the pause between two attempts at a command that waits.
const waitStep = 250 * time.Millisecond

// retryNotYet repeats a command whose request may wait, and holds no transaction
// between two attempts.
func (s *Server) retryNotYet(ctx context.Context, r *request, command func() error) error {
	began := time.Now()
	for {
		err := command()
		if !errors.Is(err, errNotYet) {
			return err
		}
		if err := api.Pause(ctx, waitStep); err != nil {
			return err
		}
		r.waited = time.Since(began)
	}
}

// unstored is a refusal that is about the key or the credential, not about the
// request: it must not become the answer to the key.
type unstored struct{ err error }

func (u *unstored) Error() string { return u.err.Error() }
func (u *unstored) Unwrap() error { return u.err }

// stored looks the key up, before anything else is asked. A zero reply means
// that the request is new.
func (s *Server) stored(tx *store.Tx, r *request, key store.Key, print string) (reply, error) {
	claim, err := tx.Idempotency(key)
	switch {
	case err != nil || claim == nil:
		return reply{}, err
	case claim.Response == nil:
		return reply{}, &unstored{reason.Errorf(reason.IdempotencyInFlight, "a request with this key is being worked on")}
	case claim.RequestSHA256 != print && strings.HasPrefix(claim.Response.ContentType, unusedType):
		return reply{}, tx.FreeIdempotency(key)
	case claim.RequestSHA256 != print:
		return reply{}, &unstored{reason.Errorf(reason.IdempotencyKeyReused, "the key was used for another request")}
	}
	was := claim.Response
	out := reply{status: was.Status, contentType: strings.TrimPrefix(was.ContentType, unusedType), etag: was.ETag, location: was.Location,
		body: was.Body, replayed: true}
	if plain, sealed := strings.CutPrefix(was.ContentType, sealedType); sealed {
		out.contentType = plain
		if out.body, err = r.caller.Open(sealName(key), was.Body); err != nil {
			return reply{}, &unstored{err}
		}
	}
	return out, nil
}

func sealName(k store.Key) string {
	return k.Principal + "\n" + k.Method + "\n" + k.Route + "\n" + k.Key
}

// save stores the answer of an action beside its effect.
func (s *Server) save(tx *store.Tx, r *request, key store.Key, print string, a answer) (reply, error) {
	if a.refused != nil {
		out := s.refusal(r, a.refused)
		return out, tx.SaveIdempotency(key, print, store.Response{Status: out.status, ContentType: out.contentType, Body: out.body,
			Brief: r.route.brief})
	}
	body, err := encode(a.value)
	if err != nil {
		return reply{}, err
	}
	out := reply{status: r.route.Status, contentType: "application/json", etag: a.etag, location: a.location, body: body}
	if a.existed {
		out.status = http.StatusOK
	}
	keep := store.Response{Status: out.status, ContentType: out.contentType, Body: body, ETag: a.etag, Location: a.location,
		Brief: r.route.brief || a.brief}
	if a.secret {
		keep.ContentType = sealedType + keep.ContentType
		if keep.Body, err = r.caller.Seal(sealName(key), body); err != nil {
			return reply{}, err
		}
	}
	return out, tx.SaveIdempotency(key, print, keep)
}

// saveRefusal stores a 4xx, unless another request with the key was faster. A
// transfer that was refused stays so: its id comes from the key.
func (s *Server) saveRefusal(ctx context.Context, r *request, key store.Key, print string, refusal reply, cause error) (reply, error) {
	var out reply
	err := s.opt.Store.Update(ctx, func(tx *store.Tx) (err error) {
		if out, err = s.stored(tx, r, key, print); err != nil || out.status != 0 {
			return err
		}
		out = refusal
		if err := treasury.Remember(tx, cause); err != nil {
			return err
		}
		kind := unusedType + out.contentType
		if _, remembered := errors.AsType[*treasury.Refused](cause); remembered {
			kind = out.contentType
		}
		return tx.SaveIdempotency(key, print, store.Response{Status: out.status, ContentType: kind, Body: out.body, Brief: r.route.brief})
	})
	return out, err
}
