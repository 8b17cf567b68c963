package registry

import (
	"context"
	"net/http"
	"net/url"
	"sync"

	"remit/proof/reason"
)

// site is one registry as the inside sees it: its grammar, and what its
// indexes have named so far.
type site struct {
	ecosystem Ecosystem
	up        *upstream
	front     *Front

	mu    sync.Mutex
	named map[string]*url.URL // a file, by a key of its ecosystem
	told  map[string]string   // of npm: the digests of unlocked files, by NAME@VERSION
	dl    string              // of crates: where they are, as cargo's index configuration says
}

// question is what one path asks for.
type question struct {
	pkg  Package
	path string // as it is recorded: in one form, whatever the client wrote
	at   string // below the registry's base, escaped; "" when find has the place
	// open says that it is about no package, so that the caller is not asked.
	open    bool
	accept  string
	rewrite func(answer) (answer, error) // of an index; nil: passed on byte for byte
	// find is the place of a file that an index named; nil without an error means
	// the usual one.
	find func(context.Context, context.CancelCauseFunc) (*url.URL, error)
	// digest is what the file has to have, in the form of npm (sha512-…); nil for a
	// file that the client compares.
	digest func() string
}

// answer is an index.
type answer struct {
	body  []byte
	kind  string   // its content type
	url   *url.URL // where it came from, after redirects
	front string   // the base of this front, as the client sees it
}

// grammars read the path below the prefix of their ecosystem. There is at least
// one segment.
var grammars = map[Ecosystem]func(s *site, parts []string, accept string) (*question, error){
	NPM:      readNPM,
	PyPI:     readPyPI,
	Go:       readGo,
	Crates:   readCrates,
	Debian:   readDebian,
	RubyGems: readRubyGems,
}

// maxNamed bounds what is remembered of indexes. The usual places are asked beyond
// it.
const maxNamed = 500_000

// remember keeps where an index says that a file is.
func (s *site) remember(key string, at *url.URL) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named == nil {
		s.named = map[string]*url.URL{}
	}
	if len(s.named) < maxNamed {
		s.named[key] = at
	}
}

// recalled is what remember kept.
func (s *site) recalled(key string) *url.URL {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named[key]
}

// index asks for an index and writes it again.
func (s *site) index(ctx context.Context, cancel context.CancelCauseFunc, q *question, front string) (answer, error) {
	f := s.front
	resp, err := s.get(ctx, http.MethodGet, s.up.at(q.at), q.accept, "gzip")
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if err := status(resp.StatusCode); err != nil {
		return answer{}, err
	}
	most := f.limits.IndexBytes
	body := s.inflow(ctx, cancel, resp.Body, most)
	defer body.stop()
	held := false
	defer func() {
		if held {
			<-f.indexes
		}
	}()
	text, err := whole(body, resp.Header.Get("Content-Encoding"), most, func() error {
		select {
		case f.indexes <- struct{}{}:
			held = true
			return nil
		case <-ctx.Done():
			return unreachable(ctx, ctx.Err())
		}
	})
	if err != nil {
		return answer{}, err
	}
	if s.up.auth.in(string(text)) {
		return answer{}, refused(reason.RegistryAnswer, "the answer of the registry repeats the credential that it was asked with")
	}
	return q.rewrite(answer{body: text, kind: resp.Header.Get("Content-Type"), url: resp.Request.URL, front: front})
}
