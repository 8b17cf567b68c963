package scripted

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options change how a server plays a script.
type Options struct {
	// Key is what a request must present, as a bearer token or as x-api-key;
	// "" lets every client ask.
	Key string
	// Seen, if set, gets every request that arrives, on whatever path, before
	// it is answered. Calls do not overlap.
	Seen func(Seen)
}

// Seen is a request as it arrived.
type Seen struct {
	Seq      int64 // from 1
	Method   string
	Host     string
	Path     string
	Query    string
	Header   http.Header
	Body     []byte
	Protocol Protocol // "" on a path that is none of a model
	Model    string   // that was asked for
	Stream   bool
	Turn     int    // of the model, from 1
	Answer   string // the field of the script that answers, "" if none does
}

// Counts are what a server has done so far. The usage is what clients were
// reported: an answer that breaks off before it says so does not count.
type Counts struct {
	Usage      `json:"usage"`
	Requests   int64    `json:"requests"`   // on the path of a protocol
	Completed  int64    `json:"completed"`  // answered to the end
	Refused    int64    `json:"refused"`    // answered with an error that the script wants
	Broken     int64    `json:"broken"`     // broken off, by the script or by the client
	Unscripted int64    `json:"unscripted"` // not understood, not let in, or not in the script
	Elsewhere  int64    `json:"elsewhere"`  // on any other path
	Models     []string `json:"models"`     // that were asked for
}

// Server is a model that says what its script says. It is an http.Handler for
// any path that ends as one of a protocol does, so that a base URL may have any
// prefix.
type Server struct {
	script *Script
	o      Options
	wait   func(ctx context.Context, d time.Duration) error

	hung atomic.Int64 // answers that have begun to wait for their client to leave

	mu     sync.Mutex
	seq    int64
	given  []int64 // how often each answer was
	counts Counts
}

// New returns a server at the beginning of the script.
func New(s *Script, o Options) *Server {
	return &Server{script: s, o: o, wait: pause, given: make([]int64, s.answers)}
}

// Count returns the counts so far.
func (s *Server) Count() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Models = append([]string{}, c.Models...)
	return c
}

// count changes the counts.
func (s *Server) count(change func(c *Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
}

// pause waits, but not for longer than the client does.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxBody bounds a request. Engines send some ten kilobytes and what files
// they read.
const maxBody = 64 << 20

// protocolOf tells the protocol by the end of the path.
func protocolOf(path string) Protocol {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat
	case strings.HasSuffix(path, "/responses"):
		return Responses
	case strings.HasSuffix(path, "/messages"):
		return Messages
	}
	return ""
}

// ServeHTTP answers a request out of the script.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	seen := Seen{Method: r.Method, Host: r.Host, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body,
		Protocol: protocolOf(r.URL.Path)}
	if seen.Protocol == "" || r.Method == http.MethodConnect {
		s.elsewhere(w, seen)
		return
	}
	switch {
	case err != nil:
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			s.unscripted(w, seen, nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody))
			return
		}
		s.unscripted(w, seen, nil, http.StatusBadRequest, fmt.Errorf("the body cannot be read: %w", err))
	case r.Method != http.MethodPost:
		s.unscripted(w, seen, nil, http.StatusMethodNotAllowed, errors.New("a model is asked with POST"))
	case !s.admitted(r.Header):
		s.unscripted(w, seen, nil, http.StatusUnauthorized, errors.New("the key is missing or wrong"))
	default:
		s.model(w, r, seen)
	}
}

// model answers a request that is one.
func (s *Server) model(w http.ResponseWriter, r *http.Request, seen Seen) {
	q, err := understand(seen.Protocol, seen.Body)
	if err != nil {
		s.unscripted(w, seen, nil, http.StatusBadRequest, err)
		return
	}
	a, seq, err := s.take(seen, q)
	if err != nil {
		s.unscripted(w, seen, q, http.StatusBadRequest, fmt.Errorf("script_no_answer: %w", err))
		return
	}
	l, err := a.fill(q)
	if err != nil {
		s.count(func(c *Counts) { c.Unscripted++ })
		writeError(w, seen.Protocol, http.StatusBadRequest, problem{code: "script_no_capture", message: "script_no_capture: " + err.Error()})
		return
	}
	p := &player{server: s, w: w, flusher: http.NewResponseController(w), ctx: r.Context(), writes: a.writes, limit: -1,
		reply: &reply{line: l, asked: q, id: responseID(q.protocol, seq)}}
	p.play()
}

// take chooses the answer and counts it in the same moment, so that two
// requests at once never get one that may be given once.
func (s *Server) take(seen Seen, q *asked) (*answer, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.script.choose(q, func(a *answer) int64 { return s.given[a.number] })
	if err != nil {
		return nil, 0, err
	}
	s.given[a.number]++
	seen.Answer = a.field
	s.arrived(seen, q)
	return a, s.seq, nil
}

// arrived notes a request; the caller holds the lock.
func (s *Server) arrived(seen Seen, q *asked) {
	s.seq++
	seen.Seq = s.seq
	if seen.Protocol != "" {
		s.counts.Requests++
	} else {
		s.counts.Elsewhere++
	}
	if q != nil {
		seen.Model, seen.Stream, seen.Turn = q.model, q.stream, q.turn
		if at, known := slices.BinarySearch(s.counts.Models, q.model); !known {
			s.counts.Models = slices.Insert(s.counts.Models, at, q.model)
		}
	}
	if s.o.Seen != nil {
		s.o.Seen(seen)
	}
}

// unscripted refuses a request for which the script says nothing.
func (s *Server) unscripted(w http.ResponseWriter, seen Seen, q *asked, status int, err error) {
	s.mu.Lock()
	s.counts.Unscripted++
	s.arrived(seen, q)
	s.mu.Unlock()
	code, _, _ := strings.Cut(err.Error(), ":")
	if !strings.HasPrefix(code, "script_") {
		code = ""
	}
	writeError(w, seen.Protocol, status, problem{code: code, message: err.Error()})
}

// elsewhere answers what is not on the path of a protocol: the few things that
// clients may ask besides, the counts, and nothing else.
func (s *Server) elsewhere(w http.ResponseWriter, seen Seen) {
	seen.Protocol = ""
	s.mu.Lock()
	own := seen.Method == http.MethodGet && strings.HasSuffix(seen.Path, "/scripted/counts")
	if !own {
		s.arrived(seen, nil)
	}
	s.mu.Unlock()
	switch {
	case own:
		writeJSON(w, http.StatusOK, s.Count())
	case seen.Method == http.MethodConnect:
		writeError(w, Chat, http.StatusBadGateway, problem{message: "this model makes no connections"})
	case seen.Method == http.MethodPost && strings.HasSuffix(seen.Path, "/messages/count_tokens"):
		writeJSON(w, http.StatusOK, object{"input_tokens", len(seen.Body)/4 + 1})
	case seen.Method == http.MethodGet && strings.HasSuffix(seen.Path, "/models"):
		model := object{"id", "scripted", "object", "model", "created", created, "owned_by", "scripted"}
		writeJSON(w, http.StatusOK, object{"object", "list", "data", list{model}})
	default:
		writeError(w, Chat, http.StatusNotFound, problem{message: "nothing is here: the paths end with /chat/completions, /responses or /messages"})
	}
}

func (s *Server) admitted(h http.Header) bool {
	if s.o.Key == "" {
		return true
	}
	given, bearer := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !bearer {
		given = h.Get("X-Api-Key")
	}
	return subtle.ConstantTimeCompare([]byte(given), []byte(s.o.Key)) == 1
}
