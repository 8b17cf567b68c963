package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"remit/proof/canon"
	"remit/proof/reason"
)

// passWhole passes on an answer that is not a stream, after all of it was seen.
func (x *exchange) passWhole(res *http.Response) {
	if mediaType(res.Header) != "application/json" {
		x.misshapen("the provider's answer is no plain application/json")
		return
	}
	body, err := x.slurp(res.Body, x.g.bounds.answer)
	if err != nil {
		x.interrupted(err)
		return
	}
	if err := x.meter.whole(body); err != nil {
		x.misshapen("the provider's answer cannot be used: %v", err)
		return
	}
	x.metered()
	x.unhappy()
	x.open("response.json")
	x.g.answerHeader(x.w.Header(), res.Header, "application/json")
	x.begin(http.StatusOK)
	x.send(body, true)
}

// metered moves what the meter knows into the record.
func (x *exchange) metered() {
	m := &x.meter
	x.rec.Usage, x.rec.UsageKnown = m.usage, m.known()
	x.rec.Stop = m.ended()
	x.rec.ModelAnswered = x.g.shown(m.model)
	// A provider that has named its model once can tell whenever it is asked.
	x.rec.Mismatch = m.model != "" && !sameModel(x.g.model, m.model) && !sameModel(x.g.cloud.answersAs(x.g.model), m.model) ||
		m.model == "" && x.rec.Stop != "" && x.g.names.Load()
}

// unhappy records that an answer is an error of the provider's own.
func (x *exchange) unhappy() {
	if x.rec.Failed = x.meter.failed; x.rec.Failed != "" {
		x.rec.Detail = "the provider reported an error inside its answer"
	}
}

// interrupted ends an answer that broke off.
func (x *exchange) interrupted(err error) {
	x.rec.UsageKnown = x.rec.UsageKnown && x.meter.known()
	var bad *refusal
	cause := context.Cause(x.ctx)
	switch {
	case errors.Is(err, errAnswerTooLarge) || errors.Is(err, errEventTooLarge):
		bad = refuse(reason.ResponseShape, http.StatusBadGateway, "%v", err)
	case errors.Is(err, errMalformed):
		bad = refuse(reason.ResponseShape, http.StatusBadGateway, "the provider's answer cannot be used: %v", err)
	case errors.Is(cause, errIdle):
		bad = refuse(reason.Timeout, http.StatusGatewayTimeout, "the provider stopped in the middle of its answer")
	case cause != nil:
		bad = refuse(reason.Cancelled, statusCancelled, "the answer was given up")
	default:
		bad = refuse(reason.ProviderUnavailable, http.StatusBadGateway, "the provider broke off in the middle of its answer")
	}
	x.rec.Failed = bad.code
	x.fail(bad)
}

// readBuffer is how much of a stream is read at a time. Each stream holds it for
// as long as it lasts, and most events fit.
const readBuffer = 2 << 10

// together are buffers for the events of one read. A stream holds none while it
// waits for the next.
var together = sync.Pool{New: func() any { return new([]byte) }}

// passStream passes a stream on event by event.
func (x *exchange) passStream(res *http.Response) {
	if mediaType(res.Header) != "text/event-stream" {
		x.misshapen("the provider's answer is no event stream")
		return
	}
	events := splitter{limit: x.g.bounds.event}
	buf := make([]byte, readBuffer)
	for {
		n, err := res.Body.Read(buf)
		x.heard()
		ready := together.Get().(*[]byte) // what goes on in one write
		end, bad := pass, error(nil)
		if feedErr := events.feed(buf[:n], func(e event) bool {
			if end, bad = x.meter.event(e); bad != nil {
				return false
			}
			if end != hide {
				*ready = append(*ready, e.raw...)
			}
			return end == pass || end == hide
		}); bad == nil {
			bad = feedErr
		}
		x.passEvents(res, *ready)
		if *ready = (*ready)[:0]; cap(*ready) <= 4*readBuffer {
			together.Put(ready)
		}
		switch {
		case bad != nil:
			x.metered()
			x.interrupted(bad)
			return
		case end == last || end == fatal:
			x.concluded(end)
			x.rest(res.Body)
			return
		case err != nil:
			x.metered()
			x.interrupted(x.meter.unended(err))
			return
		}
	}
}

// unended is the error of a stream that stopped before its end. A clean end of
// the connection makes it no better: what ends so without one event is of
// another protocol, what had some has lost the rest.
func (m *meter) unended(err error) error {
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case m.pieces == 0:
		return fmt.Errorf("%w: it has no event", errMalformed)
	}
	return io.ErrUnexpectedEOF
}

// passEvents sends complete events, before the first of them the status.
func (x *exchange) passEvents(res *http.Response, events []byte) {
	if len(events) == 0 {
		return
	}
	if !x.begun {
		x.open("response.sse")
		x.g.answerHeader(x.w.Header(), res.Header, "text/event-stream")
		x.begin(http.StatusOK)
	}
	x.send(events, false)
}

// concluded records a stream that came to its protocol's end, or to an error
// event. After the latter the connection breaks: nothing that follows may look
// like a success.
func (x *exchange) concluded(end step) {
	x.metered()
	x.unhappy()
	x.broken = x.broken || end == fatal
}

// rest reads what a provider sends after the end of a stream, which goes
// nowhere, so that the connection can be used again.
func (x *exchange) rest(body io.Reader) {
	if x.broken {
		return
	}
	x.idle.Reset(x.g.bounds.rest)
	_, _ = io.CopyN(io.Discard, body, readBuffer) // whether it ends in time decides nothing else
}

// sink takes secrets out of a body, hashes it, and keeps it if asked to.
type sink struct {
	filter filter
	sum    hash.Hash
	size   int64
	file   io.WriteCloser
	err    error
}

// newSink always returns a sink; with an error it is one that keeps nothing.
func (g *Gateway) newSink(seq int64, kind string) (*sink, error) {
	s := &sink{filter: filter{secrets: g.secrets}, sum: sha256.New()}
	if g.keep == nil {
		return s, nil
	}
	s.file, s.err = g.keep(fmt.Sprintf("%06d-%s", seq, kind))
	return s, s.err
}

// pass takes a piece of a body and returns what of it may be shown.
func (s *sink) pass(p []byte, end bool) []byte {
	p = s.filter.pass(p, end)
	s.take(p)
	return p
}

// take takes a piece that has no secrets in it.
func (s *sink) take(p []byte) {
	s.sum.Write(p)
	s.size += int64(len(p))
	if s.file != nil && s.err == nil {
		_, s.err = s.file.Write(p)
	}
}

func (s *sink) close() (digest string, size int64, err error) {
	if s.file != nil {
		s.err = errors.Join(s.err, s.file.Close())
		s.file = nil
	}
	return canon.DigestSum(s.sum), s.size, s.err
}

// sides are the two ends of an exchange, which do not end together. When the
// engine hangs up, the provider's side goes on for a while, since the usage
// stands at the end of an answer; when the provider falls silent, the engine still
// gets an error; when the gateway is closed, both end.
type sides struct {
	client context.Context // ends when the engine waits no more
	ctx    context.Context // of the provider's side
	cancel context.CancelCauseFunc
	gone   atomic.Bool // the engine takes no more
	idle   *time.Timer // ends ctx when the provider says nothing

	patience time.Duration // for the rest of an answer without a reader
	silence  time.Duration // that a provider may keep
	undo     []func() bool
	mu       sync.Mutex
	drain    *time.Timer
	ended    bool
}

// Why the provider's side ended before its answer did.
var (
	errIdle  = errors.New("the provider sent nothing for too long")
	errLeft  = errors.New("the engine hung up")
	errEnded = errors.New("the exchange is over")
)

func (s *sides) watch(engine context.Context, g *Gateway) {
	s.patience, s.silence = g.bounds.drain, g.bounds.idle
	var cancelClient context.CancelCauseFunc
	s.client, cancelClient = context.WithCancelCause(engine)
	s.ctx, s.cancel = context.WithCancelCause(g.base)
	s.undo = []func() bool{
		context.AfterFunc(g.base, func() { cancelClient(context.Cause(g.base)) }),
		context.AfterFunc(s.client, s.hangUp),
		func() bool { cancelClient(errEnded); return true },
	}
	s.idle = time.AfterFunc(s.silence, func() { s.cancel(errIdle) })
	s.idle.Stop() // no request is out yet
}

// heard notes that the provider said something.
func (s *sides) heard() { s.idle.Reset(s.silence) }

// hangUp notes that the engine reads the answer no more.
func (s *sides) hangUp() {
	s.gone.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drain == nil && !s.ended {
		s.drain = time.AfterFunc(s.patience, func() { s.cancel(errLeft) })
	}
}

// over releases everything.
func (s *sides) over() {
	for _, undo := range s.undo {
		undo()
	}
	s.cancel(errEnded)
	s.idle.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.drain != nil {
		s.drain.Stop()
	}
}
