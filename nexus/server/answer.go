package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"remit/nexus/api"
	"remit/nexus/store"
)

// action is the effect of a mutation, or a read. It may run more than once and
// has no effect but through tx.
type action func(tx *store.Tx, r *request) (answer, error)

// answer is what an action returns.
type answer struct {
	value          any  // written as JSON
	existed        bool // of an [api.Ensure]: nothing was created
	etag, location string
	secret         bool // value holds a credential
	brief          bool // doing it again does no harm: the answer is kept for a minute

	// refused is a refusal that is recorded: it is answered like an error, and
	// what the action wrote is committed.
	refused error
}

// reply is an answer as it goes out.
type reply struct {
	status                      int
	contentType, etag, location string
	body                        []byte
	replayed                    bool
}

// encode writes a value as one line of JSON.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write the answer: %w", err)
	}
	return b.Bytes(), nil
}

// read answers with a query on a snapshot.
func (s *Server) read(w http.ResponseWriter, r *request, act action) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.opt.Timeouts.Command)
	defer cancel()
	var a answer
	if err := s.opt.Store.View(ctx, func(tx *store.Tx) (err error) {
		a, err = act(tx, r)
		return err
	}); err != nil {
		return err
	}
	if a.etag != "" && r.Header.Get("If-None-Match") == a.etag {
		s.write(w, r, reply{status: http.StatusNotModified, etag: a.etag})
		return nil
	}
	body, err := encode(a.value)
	if err != nil {
		return err
	}
	s.write(w, r, reply{status: r.route.Status, contentType: "application/json", etag: a.etag, body: body})
	return nil
}

// commit answers with a mutation, see perform. finish runs before a stored or new
// answer is written; nil when there is nothing to do.
func (s *Server) commit(w http.ResponseWriter, r *request, act action, finish func(context.Context, reply) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.opt.Timeouts.Command)
	defer cancel()
	out, err := s.perform(ctx, r, act)
	if err == nil && finish != nil {
		err = finish(ctx, out)
	}
	if err != nil {
		return err
	}
	s.write(w, r, out)
	return nil
}

// write sends a reply.
func (s *Server) write(w http.ResponseWriter, r *request, a reply) {
	h := w.Header()
	if a.contentType != "" {
		h.Set("Content-Type", a.contentType)
	}
	if a.etag != "" {
		h.Set("ETag", a.etag)
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.replayed {
		h.Set(api.HeaderReplayed, "true")
	}
	switch a.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="remit"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if h.Get("Retry-After") == "" {
			h.Set("Retry-After", strconv.Itoa(retrySeconds))
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	if _, err := w.Write(a.body); err != nil {
		s.opt.Log.Debug("the caller is gone", "request_id", r.id, "error", err)
	}
}
