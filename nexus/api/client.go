package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"remit/proof/reason"
)

// Options of a client. The zero value is right for production.
type Options struct {
	// HTTP sends the requests; nil is a client with sane timeouts. Redirects
	// are never followed: the credential is for the named host.
	HTTP *http.Client
	// Retry says how often to repeat; the zero value is DefaultRetry.
	Retry Retry
	// AllowPlaintext permits http:// to other machines. Loopback is always allowed.
	AllowPlaintext bool
	// TLS names the files of a nexus whose certificate is not of a public
	// authority, or that demands one of its clients. Not used with HTTP.
	TLS TLSFiles
	// UserAgent names the caller, for the server's log.
	UserAgent string
}

// Retry bounds the repetition of one request.
type Retry struct {
	Attempts  int           // in all; 1 never repeats
	Base, Max time.Duration // of the pause, which doubles; Retry-After counts up to Max
	// Pause waits, or returns the cause of the context's end. nil: the clock.
	Pause func(ctx context.Context, d time.Duration) error
}

// DefaultRetry rides out a restart of the authority.
var DefaultRetry = Retry{Attempts: 6, Base: 100 * time.Millisecond, Max: 5 * time.Second}

// connectTimeout bounds all but the body of a request of DefaultHTTP.
const connectTimeout = 15 * time.Second

// Connect makes a client. The token may be empty for what needs none.
func Connect(server, token string, opt Options) (*ClientWithResponses, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
		e := reason.Errorf(reason.RequestInvalid, "%q is not the URL of a nexus", redact(server))
		if !strings.Contains(server, "://") && server != "" {
			return nil, e.WithHint("it lacks the scheme: write https://%[1]s, or http://%[1]s for a nexus on this machine", redact(server))
		}
		return nil, e.WithHint("want https://host[:port], without user or password")
	}
	if u.Scheme == "http" && !opt.AllowPlaintext && !loopback(u.Hostname()) {
		return nil, reason.Errorf(reason.RequestInvalid, "refusing to send a credential to %q without TLS", u.Host).
			WithHint("use https, or say with --plaintext that a proxy or the network protects it")
	}
	client, lanes := http.Client{}, http.DefaultClient
	if opt.HTTP != nil {
		client = *opt.HTTP
	} else {
		files, err := opt.TLS.config()
		if err != nil {
			return nil, err
		}
		if files != nil {
			lanes = laneClient(files.Clone())
		}
		client.Transport = &http.Transport{
			TLSClientConfig: files,
			Proxy:           http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSHandshakeTimeout: connectTimeout, ResponseHeaderTimeout: 2 * connectTimeout,
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
		}
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	d := &doer{client: &client, lanes: lanes, base: u.Path, token: token, retry: opt.Retry.withDefaults(), agent: opt.UserAgent}
	return NewClientWithResponses(server, WithHTTPClient(d))
}

// NewKey returns a new Idempotency-Key: one for each intent, not for each attempt.
func NewKey() string { return rand.Text() }

// redact leaves out what may be a password.
func redact(server string) string {
	if u, err := url.Parse(server); err == nil {
		return u.Redacted()
	}
	return "(unreadable)"
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (r Retry) withDefaults() Retry {
	if r.Attempts <= 0 {
		r.Attempts = DefaultRetry.Attempts
	}
	if r.Base <= 0 {
		r.Base = DefaultRetry.Base
	}
	if r.Max <= 0 {
		r.Max = DefaultRetry.Max
	}
	if r.Pause == nil {
		r.Pause = pause
	}
	return r
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// doer sends a request with the credential, repeats it where that is safe, and
// turns refusals, and answers that are none of the contract, into errors.
type doer struct {
	client *http.Client
	lanes  *http.Client // for what WebSocket asks
	base   string       // path of the nexus's URL
	token  string
	retry  Retry
	agent  string
}

// Do implements HttpRequestDoer.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	if d.agent != "" {
		req.Header.Set("User-Agent", d.agent)
	}
	for attempt := 1; ; attempt++ {
		resp, err := d.client.Do(req)
		if err == nil && resp.StatusCode < 300 {
			resp.Body = limited{io.LimitReader(resp.Body, MaxArtifact+1), resp.Body}
			if resp, err = d.accept(resp); err == nil {
				return resp, nil
			}
		}
		wait := d.retry.backoff(attempt)
		if err == nil {
			err, wait = refusal(resp), max(wait, retryAfter(resp.Header, d.retry.Max))
		} else if _, odd := errors.AsType[*StatusError](err); odd {
			return nil, err
		} else if cause := context.Cause(req.Context()); cause != nil {
			return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, cause)
		} else {
			err = &reason.Error{Code: reason.StoreUnavailable, Message: "the authority cannot be reached: " + plainCause(err), Err: err,
				Hint: cmp.Or(handshakeHint(err), "check that `remit serve` runs and that its URL is right")}
		}
		if attempt >= d.retry.Attempts || !repeatable(req, err) || !rewind(req) {
			return nil, err
		}
		if cause := d.retry.Pause(req.Context(), wait); cause != nil {
			return nil, fmt.Errorf("%w (gave up: %w)", err, cause)
		}
	}
}

type limited struct {
	io.Reader
	io.Closer
}

// plainCause leaves out the URL, which *url.Error repeats.
func plainCause(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}

func (r Retry) backoff(attempt int) time.Duration {
	return min(r.Max, r.Base<<min(attempt-1, 16))
}

func retryAfter(h http.Header, most time.Duration) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(most, time.Duration(min(seconds, 3600))*time.Second)
}

// repeatable reports whether the same request may be sent again: it reads, or
// has a key, and was not answered for good.
func repeatable(req *http.Request, err error) bool {
	if req.Method != http.MethodGet && req.Header.Get(HeaderKey) == "" {
		return false
	}
	status, ok := errors.AsType[*StatusError](err)
	if !ok {
		return handshakeHint(err) == "" // no answer at all
	}
	switch status.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return reason.CodeOf(err) == reason.IdempotencyInFlight
}

// rewind makes the body of a request readable again.
func rewind(req *http.Request) bool {
	if req.Body == nil || req.Body == http.NoBody {
		return true
	}
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	req.Body = body
	return err == nil
}

// StatusError is how the authority refused a request. It is in the chain of the
// *reason.Error that a call returns.
type StatusError struct {
	Status    int
	RequestID string
	Problem   Problem
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("HTTP status %d, request %s", e.Status, e.RequestID)
}

// maxProblem bounds what is read of a refusal.
const maxProblem = 64 << 10

// refusal reads a response that is no success, and closes it.
func refusal(resp *http.Response) error {
	defer resp.Body.Close()
	status := &StatusError{Status: resp.StatusCode, RequestID: resp.Header.Get(HeaderRequestID)}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != ProblemType || json.NewDecoder(bytes.NewReader(body)).Decode(&status.Problem) != nil {
		return &reason.Error{Code: reason.StoreUnavailable, Err: status,
			Message: unexpected(resp, ""), Hint: strangerHint}
	}
	p := status.Problem
	return &reason.Error{Code: reason.Code(p.Code), Message: strings.TrimSpace(p.Detail),
		Field: Value(p.Field), Hint: Value(p.Hint), Err: status}
}
