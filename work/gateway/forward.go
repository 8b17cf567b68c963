package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"remit/proof/reason"
)

// forward sends the request to the provider and passes its answer on. release
// gives the memory of the body back, as soon as it is not needed.
func (x *exchange) forward(sent []byte, from http.Header, release func()) {
	body := newOutgoing(sent)
	res, bad := x.ask(body, x.g.upstream.header(x.rec.Protocol, x.rec.Stream, from))
	if bad != nil {
		body.drop()
		release()
		x.rec.Failed = bad.code
		x.fail(bad)
		return
	}
	defer res.Body.Close()
	body.drop()
	release()
	switch {
	case res.StatusCode >= 400:
		x.passError(res)
	case res.StatusCode >= 300:
		x.misshapen("the provider answered with a redirect, which is not followed")
	case res.StatusCode != http.StatusOK:
		x.misshapen("the provider answered with status %d, which is no answer", res.StatusCode)
	case x.rec.Stream:
		x.passStream(res)
	default:
		x.passWhole(res)
	}
}

// misshapen ends an answer that is not of the protocol. What it cost is not
// known.
func (x *exchange) misshapen(format string, args ...any) {
	x.rec.UsageKnown = x.rec.UsageKnown && x.meter.known()
	x.rec.Failed = reason.ResponseShape
	x.fail(refuse(reason.ResponseShape, http.StatusBadGateway, format, args...))
}

// ask sends the request, again if that is harmless, until there is an answer
// that a repeat would not change.
func (x *exchange) ask(body *outgoing, header http.Header) (*http.Response, *refusal) {
	for try := 0; ; try++ {
		res, err := x.attempt(body, header)
		wait, again := x.again(res, err, try)
		if again && res != nil && x.outOfQuota(res) || again && !x.g.ledger.retry() {
			again = false // it would be the same, or one too many
		}
		if !again {
			if err != nil {
				return nil, x.unanswered(err)
			}
			return res, nil
		}
		if res != nil {
			_, _ = io.CopyN(io.Discard, res.Body, MaxErrorBytes) // so that the connection can be used again
			res.Body.Close()
		}
		x.idle.Stop() // a pause of ours is no silence of the provider
		if err := x.g.wait(x.client, wait); err != nil {
			return nil, refuse(reason.Cancelled, statusCancelled, "the request was given up before it was tried again")
		}
		x.rec.Retries++
	}
}

func (x *exchange) attempt(body *outgoing, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(x.ctx, http.MethodPost, x.g.upstream.target(x.rec.Protocol, x.g.model, x.rec.Stream), body.reader())
	if err != nil {
		return nil, err
	}
	req.Header = header
	if c := x.g.upstream.cloud; c != nil && c.keys != nil {
		req.Header = header.Clone()
		signV4(req, body.sum(), c.keys, c.region, c.service, x.g.now())
	}
	req.ContentLength = int64(body.length)
	req.GetBody = func() (io.ReadCloser, error) { return body.reader(), nil }
	x.heard()
	res, err := x.g.upstream.transport.RoundTrip(req) // not a Client: no redirects, no cookies
	x.heard()
	return res, err
}

// again decides whether a request is tried again, and after what pause. Only
// what the provider surely has not worked on is: a connection that was never
// made, and the statuses that say so.
func (x *exchange) again(res *http.Response, err error, try int) (time.Duration, bool) {
	b := x.g.bounds
	if try >= b.retries || x.client.Err() != nil {
		return 0, false
	}
	pause := b.backoff << try
	pause += jitter(pause)
	if err != nil {
		return pause, unconnected(err)
	}
	if res.StatusCode != http.StatusTooManyRequests && (res.StatusCode < 500 || res.StatusCode == http.StatusNotImplemented) {
		return 0, false
	}
	stated, ok := retryAfter(res.Header, x.g.now())
	if !ok {
		return pause, true
	}
	return stated, stated <= b.patience
}

// jitter is up to a quarter of a pause, so that requests that failed together do
// not return together.
func jitter(pause time.Duration) time.Duration {
	var b [1]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0
	}
	return pause * time.Duration(b[0]) / 1024
}

// retryAfter reads when a provider wants to be asked again.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond)), true
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second)), true
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}

// unconnected reports whether no connection was made, so that nothing was sent.
func unconnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// slurp reads a whole body of at most limit bytes.
func (x *exchange) slurp(r io.Reader, limit int64) ([]byte, error) {
	var out []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		x.heard()
		out = append(out, buf[:n]...)
		switch {
		case int64(len(out)) > limit:
			return nil, errAnswerTooLarge
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
	}
}

var errAnswerTooLarge = errors.New("the answer is too large")

// mediaType is the content type without its parameters, "" if there is none
// that can be read, or the content is compressed.
func mediaType(h http.Header) string {
	for _, v := range h.Values("Content-Encoding") {
		if !strings.EqualFold(v, "identity") {
			return ""
		}
	}
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// Why there was no answer is known here alone: the engine gets one status for
// all of it, and a user who mistyped an address or a port needs to know which.

// unanswered says why there is no answer, without the address that a network
// error repeats.
func (x *exchange) unanswered(err error) *refusal {
	cause := context.Cause(x.ctx)
	sent := !unconnected(err)
	x.rec.UsageKnown = !sent
	unavailable := func(message string) *refusal {
		return refuse(reason.ProviderUnavailable, http.StatusBadGateway, "%s", message)
	}
	switch {
	case errors.Is(cause, errIdle):
		return refuse(reason.Timeout, http.StatusGatewayTimeout, "the provider did not answer in time")
	case cause != nil:
		return refuse(reason.Cancelled, statusCancelled, "the request was given up before it was answered")
	case !sent:
		return unavailable("the provider could not be reached: " + unreached(err))
	}
	if why := untrusted(err); why != "" {
		x.rec.UsageKnown = true // nothing is sent before the handshake
		return unavailable(why)
	}
	return unavailable("the connection to the provider broke before it answered")
}

// unreached says why there is no connection, without the address.
func unreached(err error) string {
	op, _ := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	switch {
	case name:
		return "its name has no address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused, so that nothing listens at this address and port"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to its network"
	case errors.Is(err, os.ErrDeadlineExceeded), op != nil && op.Timeout():
		return "its address does not answer"
	case op != nil && op.Op == "proxyconnect":
		return "the proxy does not let it through"
	}
	return "the connection could not be made"
}

// untrusted says what is wrong with the provider's side of TLS, "" if nothing.
func untrusted(err error) string {
	_, verified := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case plain:
		return "the provider does not speak TLS at this address"
	case name:
		return "the provider's certificate is not trusted: it is for another name"
	case unknown:
		return "the provider's certificate is not trusted: no authority that this machine knows has signed it; --model-ca takes the certificate of the one that did"
	case ok && invalid.Reason == x509.Expired:
		return "the provider's certificate is not trusted: it has expired, or is not valid yet"
	case verified:
		return "the provider's certificate is not trusted"
	}
	return ""
}

// outgoing is a request's body. It can be read again, and dropped when it was
// read: the transport keeps its reader as long as the answer streams, and a
// body is larger than everything else that a stream needs.
type outgoing struct {
	length int

	mu      sync.Mutex
	content []byte
}

func newOutgoing(content []byte) *outgoing { return &outgoing{length: len(content), content: content} }

// sum is the digest of a body that was not dropped.
func (o *outgoing) sum() [sha256.Size]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return sha256.Sum256(o.content)
}

func (o *outgoing) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.content = nil
}

func (o *outgoing) reader() io.ReadCloser { return &outgoingReader{from: o} }

type outgoingReader struct {
	from *outgoing
	at   int
}

// Read fails when the body was dropped before its end: then the answer came
// first, and the rest is not wanted. At the end it says so in any case, since
// the transport looks for it after the last byte, which may be after the
// answer.
func (r *outgoingReader) Read(p []byte) (int, error) {
	if r.at == r.from.length {
		return 0, io.EOF
	}
	r.from.mu.Lock()
	defer r.from.mu.Unlock()
	if r.from.content == nil {
		return 0, errEnded
	}
	n := copy(p, r.from.content[r.at:])
	r.at += n
	return n, nil
}

func (r *outgoingReader) Close() error { return nil }
