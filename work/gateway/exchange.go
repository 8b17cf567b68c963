package gateway

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"
)

// exchange is one request and its answer.
type exchange struct {
	g   *Gateway
	w   http.ResponseWriter
	ctl *http.ResponseController
	rec record.ModelRequest

	sides

	meter  meter
	answer *sink
	digest chan string // of the request's body, while it is computed
	read   bool        // the body came whole
	begun  bool        // the engine got a status
	broken bool        // the connection to the engine must not end cleanly
}

// ServeHTTP answers one request of the engine.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	over := taken(r.Context())
	defer over()
	if g.serve(w, r, nil) {
		panic(http.ErrAbortHandler) // net/http's way to break a connection
	}
}

// serve answers a request and records it, for a probe also in the place given.
// It returns true if the connection must be broken.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, probe *record.ModelRequest) (broken bool) {
	seq, ok := g.enter()
	if !ok {
		http.Error(w, "the gateway is closed", http.StatusServiceUnavailable)
		if probe != nil {
			probe.Refused = reason.Cancelled
		}
		return true
	}
	defer g.underway.Done()
	if probe == nil && g.ledger.full(g.bounds.requests) {
		return true
	}
	x := &exchange{g: g, w: w, ctl: http.NewResponseController(w),
		rec: record.ModelRequest{Seq: seq, At: g.now(), Path: g.shown(r.RequestURI), Probe: probe != nil,
			UsageKnown: true, CostKnown: true}}
	x.watch(r.Context(), g)
	defer x.over()
	if bad := x.run(r); bad != nil {
		x.refuse(bad)
		g.ledger.refused()
	}
	x.finish()
	if probe != nil {
		*probe = x.rec
	}
	return x.broken
}

// run takes the request from the engine to the provider and the answer back.
// It returns why the request does not leave, nil if it did.
func (x *exchange) run(r *http.Request) *refusal {
	var bad *refusal
	if x.rec.Protocol, bad = route(r); bad != nil {
		return bad
	}
	if bad = x.g.authorize(r.Header); bad != nil && !x.rec.Probe {
		return bad
	}
	if bad = readable(r, x.g.bounds.request); bad != nil {
		return bad
	}
	body, release, bad := x.take(r)
	done := func() { x.digested(); release() }
	defer done()
	if bad != nil {
		return bad
	}
	sent, limit, bad := x.admit(body)
	if bad != nil {
		// A request that stays is evidence of what was asked; why it stays
		// matters more than that it could not be kept.
		if err := x.keepRequest(x.g.secrets.redact(body)); err != nil {
			x.rec.Failed = reason.ArtifactWriteFailure
		}
		return bad
	}
	defer func() { x.g.ledger.end(limit, &x.rec, x.suggested()) }()
	if err := x.keepRequest(sent); err != nil {
		x.rec.Failed = reason.ArtifactWriteFailure
		x.fail(artifactFailure())
		return nil
	}
	x.forward(sent, r.Header, done)
	return nil
}

// admit decides whether a body may leave, as what, and how much it may use.
func (x *exchange) admit(body []byte) ([]byte, most, *refusal) {
	q, bad := inspect(x.rec.Protocol, body, x.g.stored)
	x.rec.ModelAsked, x.rec.Stream, x.rec.Agent = x.g.shown(q.model), q.stream, x.g.agentOf(x.rec.Protocol, q)
	if bad != nil {
		return nil, most{}, bad
	}
	if !x.g.asked[q.model] {
		return nil, most{}, refuse(reason.ModelMismatch, statusRefused, "the model asked for is not the one that this run is admitted to")
	}
	sent := x.g.secrets.redact(x.g.compose(x.rec.Protocol, q))
	limit := x.g.ledger.most(int64(len(sent)), q.out)
	if bad = x.g.ledger.admit(x.client, limit, x.rec.Probe); bad != nil {
		return nil, most{}, bad
	}
	x.meter = meter{protocol: x.rec.Protocol, admitted: x.g.model, hideUsage: x.rec.Protocol == Chat && q.stream && !q.usage}
	return sent, limit, nil
}

// take reads the body from the engine, within the memory that all bodies share.
// release gives that memory back; it may be called again.
func (x *exchange) take(r *http.Request) (body []byte, release func(), bad *refusal) {
	limit := x.g.bounds.request
	size := r.ContentLength
	if size < 0 {
		size = limit
	}
	need := 2*size + 4096 // as it came, and as it leaves
	if err := x.g.bodies.take(x.client, need); err != nil {
		return nil, func() {}, refuse(reason.Cancelled, statusCancelled, "the request was given up before it was read")
	}
	release = sync.OnceFunc(func() { x.g.bodies.put(need) })
	// A server that cannot limit time, as in a test without a network, reads on.
	_ = x.ctl.SetReadDeadline(time.Now().Add(x.g.bounds.body))
	defer func() { _ = x.ctl.SetReadDeadline(time.Time{}) }() // as above
	buf := bytes.NewBuffer(make([]byte, 0, min(size, 1<<20)+bytes.MinRead))
	n, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1))
	if n > limit {
		return nil, release, tooLarge(limit)
	}
	if err != nil {
		return nil, release, refuse(reason.RequestInvalid, statusRefused, "the body did not arrive whole and in time")
	}
	x.read = true
	return buf.Bytes(), release, nil
}

// refuse answers a request that does not leave.
func (x *exchange) refuse(bad *refusal) {
	x.rec.Refused = bad.code
	x.fail(bad)
}

// fail answers with an error of the gateway's own, before or inside an answer.
func (x *exchange) fail(bad *refusal) {
	x.rec.Detail = x.g.shown(bad.message)
	if bad.status == statusCancelled { // the engine is gone
		x.broken = true
		if !x.begun {
			x.rec.Status = bad.status
		}
		return
	}
	x.open("error.json")
	if x.begun {
		x.send(bad.event(x.rec.Protocol), true)
		x.broken = true
		return
	}
	h := x.w.Header()
	h.Set("X-Should-Retry", "false")
	if !x.read {
		// What is left of the body is not waited for.
		h.Set("Connection", "close")
		_ = x.ctl.SetReadDeadline(time.Now().Add(time.Second)) // as in take
	}
	x.g.answerHeader(h, http.Header{}, "application/json")
	x.begin(bad.status)
	x.send(bad.body(x.rec.Protocol), true)
}

// begin sends the status.
func (x *exchange) begin(status int) {
	x.begun = true
	x.rec.Status = status
	x.w.WriteHeader(status)
}

// send passes a piece of the answer to the engine, at once. end says that no
// more follows.
func (x *exchange) send(p []byte, end bool) {
	p = x.answer.pass(p, end)
	// A body that comes too slowly looks like an engine that is gone, which
	// may still read why it is refused.
	if len(p) == 0 || x.gone.Load() && x.read {
		return
	}
	if x.rec.FirstByteMS < 0 {
		x.rec.FirstByteMS = x.since()
	}
	// What cannot limit time or flush, as in a test without a network, does without.
	_ = x.ctl.SetWriteDeadline(time.Now().Add(x.g.bounds.write))
	_, err := x.w.Write(p)
	if err == nil {
		err = x.ctl.Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.broken = true
		x.hangUp()
	}
}

func (x *exchange) since() int64 { return x.g.now().Sub(x.rec.At).Milliseconds() }

// finish completes the record and hands it over.
func (x *exchange) finish() {
	x.rec.LatencyMS = x.since()
	x.rec.FirstByteMS = max(x.rec.FirstByteMS, 0)
	if x.answer != nil {
		var err error
		if x.rec.ResponseSHA256, x.rec.ResponseBytes, err = x.answer.close(); err != nil && x.rec.Failed == "" {
			x.rec.Failed = reason.ArtifactWriteFailure
		}
	}
	if x.g.record == nil {
		return
	}
	x.g.recordMu.Lock()
	defer x.g.recordMu.Unlock()
	x.g.record(x.rec)
}

// suggested is the usage that an answer without one seems to have had: four
// bytes of a prompt, or one piece of a stream, are about a token.
func (x *exchange) suggested() Usage {
	return Usage{InUncached: x.rec.RequestBytes / 4, Out: x.meter.pieces}
}

// keepRequest records the digest of the request's body, from which secrets were
// taken out, and the body itself if the policy says so. A digest alone is
// computed while the provider works.
func (x *exchange) keepRequest(body []byte) error {
	if x.g.keep == nil {
		x.rec.RequestBytes = int64(len(body))
		x.digest = make(chan string, 1)
		go func() { x.digest <- canon.Digest(body) }()
		return nil
	}
	s, err := x.g.newSink(x.rec.Seq, "request.json")
	s.take(body)
	var closeErr error
	x.rec.RequestSHA256, x.rec.RequestBytes, closeErr = s.close()
	return errors.Join(err, closeErr)
}

// digested waits for the digest: nothing holds the body after that.
func (x *exchange) digested() {
	if x.digest != nil {
		x.rec.RequestSHA256 = <-x.digest
		x.digest = nil
	}
}

// open begins the answer's sink, unless it is open.
func (x *exchange) open(kind string) {
	if x.answer != nil {
		return
	}
	x.rec.FirstByteMS = -1
	var err error
	if x.answer, err = x.g.newSink(x.rec.Seq, kind); err != nil {
		x.rec.Failed = reason.ArtifactWriteFailure
	}
}

func artifactFailure() *refusal {
	return refuse(reason.ArtifactWriteFailure, http.StatusInternalServerError, "the body cannot be kept as the policy asks")
}

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
