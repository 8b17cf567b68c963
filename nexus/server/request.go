package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"remit/nexus/api"
	"remit/nexus/identity"
	"remit/proof/reason"
)

// request is what a handler sees.
type request struct {
	*http.Request
	id         string
	route      *route
	caller     identity.Caller
	body       []byte
	bodySHA256 string
	refused    string        // reason code of a refusal
	waited     time.Duration // so far, by a request that may wait
}

// json reads the body into v, strictly.
func (r *request) json(v any) error {
	if r.route.BodyOptional && len(r.body) == 0 {
		return nil
	}
	return decode(r.Header.Get("Content-Type"), r.body, v)
}

// serve takes a request all the way, see the package comment.
func (s *Server) serve(rt *route) http.HandlerFunc {
	return func(w http.ResponseWriter, hr *http.Request) {
		begin := s.opt.Clock()
		r := &request{Request: hr, route: rt, id: rand.Text()}
		watched := &recorder{ResponseWriter: w}
		h := w.Header()
		h.Set(api.HeaderRequestID, r.id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		// Browsers add cookies to what other pages embed as well.
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		s.metrics.inFlight.Add(1)
		defer func() {
			s.metrics.inFlight.Add(-1)
			if p := recover(); p != nil {
				s.answerPanic(watched, r, p)
			}
			took := s.opt.Clock().Sub(begin)
			s.metrics.served(rt.ID, watched.status, took)
			s.logRequest(r, watched, took)
		}()
		if err := s.answer(watched, r); err != nil {
			if wait, ok := errors.AsType[limited](err); ok {
				h.Set("Retry-After", strconv.Itoa(wait.seconds))
			}
			s.refuse(watched, r, err)
		}
	}
}

// logRequest writes the line of a request. What a caller has sent is not in it, beyond
// the route: paths, queries and headers may hold secrets that were put there by
// mistake.
func (s *Server) logRequest(r *request, w *recorder, took time.Duration) {
	level := s.opt.Requests
	if probes[r.route.ID] {
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{slog.String("request_id", r.id), slog.String("operation", r.route.ID), slog.String("method", knownMethod(r.Method)),
		slog.String("route", r.route.Path), slog.Int("status", w.status), slog.String("principal", r.caller.ID),
		slog.String("remote", remoteAddress(r.Request)), slog.Int64("bytes", w.bytes), slog.Float64("took_ms", float64(took.Microseconds())/1000)}
	if r.refused != "" {
		attrs = append(attrs, slog.String("code", r.refused))
	}
	s.opt.Log.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

// probes ask so often that their lines would hide the others.
var probes = map[string]bool{api.GetHealth.ID: true, api.GetReady.ID: true, api.GetPrometheus.ID: true}

// knownMethod keeps words out of the log that callers make up.
func knownMethod(method string) string {
	if slices.Contains(methods, method) || method == http.MethodHead || method == http.MethodOptions {
		return method
	}
	return "other"
}

// answerPanic answers a broken invariant: the command was rolled back, the process
// goes on for the others.
func (s *Server) answerPanic(w *recorder, r *request, p any) {
	if p == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		panic(p)
	}
	s.opt.Log.Error("request panicked", "request_id", r.id, "operation", r.route.ID, "panic", fmt.Sprint(p))
	if w.status == 0 {
		s.refuse(w, r, errors.New("panic"))
	}
}

// answer writes the answer, or returns a refusal to be written.
func (s *Server) answer(w http.ResponseWriter, r *request) error {
	if r.route.special != nil && r.route.Scope == scopeNone {
		return r.route.special(s, w, r)
	}
	if err := s.authenticate(r); err != nil {
		return err
	}
	if wait, ok := s.requests.allow(r.caller.ID); !ok {
		return tooOften("requests of "+r.caller.ID, wait)
	}
	if err := authorize(r); err != nil {
		return err
	}
	switch {
	case r.route.special != nil:
		return r.route.special(s, w, r)
	case !r.route.Mutates():
		return s.read(w, r, r.route.act)
	}
	if _, err := keyOf(r); err != nil {
		return err
	}
	if err := readBody(w, r, api.MaxBody); err != nil {
		return err
	}
	return s.commit(w, r, r.route.act, nil)
}

// readBody takes a bounded body and its digest.
func readBody(w http.ResponseWriter, r *request, most int64) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return bodyError(err)
	}
	r.body = body
	sum := sha256.Sum256(body)
	r.bodySHA256 = hex.EncodeToString(sum[:])
	return nil
}

func bodyError(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return reason.Errorf(reason.RequestTooLarge, "the body is larger than %d bytes", large.Limit)
	}
	return invalid("", "the body could not be read: it ended early or came too slowly")
}

// recorder remembers the status for the metrics, and the size for the log.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController, and the upgrade to WebSocket, reach the
// connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// extendDeadlines gives a large body more time than others.
func extendDeadlines(w http.ResponseWriter, most time.Duration) error {
	c := http.NewResponseController(w)
	until := time.Now().Add(most)
	return errors.Join(c.SetReadDeadline(until), c.SetWriteDeadline(until.Add(commandTimeout)))
}
