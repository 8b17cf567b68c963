package server

import (
	"net/http"
	"slices"
	"strings"

	"remit/nexus/api"
	"remit/nexus/store"
	"remit/proof/reason"
)

// Scopes of operations beside those of authority.
const (
	scopeNone = ""    // no credential
	scopeAny  = "any" // any credential; the handler decides
)

// route is an operation of openapi.yaml with what serves it.
type route struct {
	api.Operation
	always  bool // a mutation that is taken in read-only mode too
	brief   bool // a mutation that does no harm when it is repeated: its answer is kept for a minute
	act     action
	special special
}

// special serves an operation in place of an action: its answer is not one value of JSON.
type special func(s *Server, w http.ResponseWriter, r *request) error

func query[P, R any](op api.Query[P, R], act action) route {
	return route{Operation: op.Operation, act: act}
}

func mutation[P, B, R any](op api.Mutation[P, B, R], act func(*store.Tx, *request, B) (answer, error)) route {
	return route{Operation: op.Operation, act: withBody(act)}
}

func ensure[P, B, R any](op api.Ensure[P, B, R], act func(*store.Tx, *request, B) (answer, error)) route {
	return route{Operation: op.Operation, act: withBody(act)}
}

// withBody reads the body of a mutation.
func withBody[B any](act func(*store.Tx, *request, B) (answer, error)) action {
	return func(tx *store.Tx, r *request) (answer, error) {
		var body B
		if _, none := any(body).(api.None); !none {
			if err := r.json(&body); err != nil {
				return answer{}, err
			}
		}
		return act(tx, r, body)
	}
}

// briefly is for mutations that a caller repeats when it has nothing else to do.
func briefly(rt route) route {
	rt.brief = true
	return rt
}

// table lists every route; each file of handlers has its part.
func (s *Server) table() []route {
	return slices.Concat(s.observeRoutes(), controlRoutes(), tokenRoutes(), sessionRoutes(), fleetRoutes(), runRoutes(), documentRoutes(),
		artifactRoutes(), jobRoutes(), approvalRoutes(), treasuryRoutes(), bridgeRoutes(), s.laneRoutes())
}

// methods are those that a caller may try.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// routes builds the handler. What no route takes is a problem too, not the text
// of net/http.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range s.table() {
		mux.HandleFunc(rt.Method+" "+rt.Path, s.serve(&rt))
		allowed[rt.Path] = append(allowed[rt.Path], rt.Method)
	}
	for path, some := range allowed {
		refusal := s.serve(&route{Operation: api.Operation{ID: "wrongMethod", Path: path}, special: wrongMethod(strings.Join(some, ", "))})
		for _, method := range methods {
			if !slices.Contains(some, method) {
				mux.HandleFunc(method+" "+path, refusal)
			}
		}
	}
	mux.HandleFunc("/", s.serve(&route{Operation: api.Operation{ID: "noRoute"}, special: noRoute}))
	return mux
}

func noRoute(_ *Server, _ http.ResponseWriter, r *request) error {
	return reason.Errorf(reason.NotFound, "there is nothing at %.200q", r.URL.Path)
}

func wrongMethod(allowed string) special {
	return func(_ *Server, w http.ResponseWriter, r *request) error {
		w.Header().Set("Allow", allowed)
		return notAllowed{reason.Errorf(reason.RequestInvalid, "%s is not possible here, only %s", r.Method, allowed)}
	}
}

// notAllowed is a request_invalid whose status is 405.
type notAllowed struct{ error }

func (n notAllowed) Unwrap() error { return n.error }
