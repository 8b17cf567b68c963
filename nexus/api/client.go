package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Client calls one nexus with one credential.
type Client struct {
	http  *http.Client
	lanes *http.Client // opens WebSockets
	base  *url.URL     // of the nexus
	token string
	retry Retry
	agent string
	most  int64 // bytes of a JSON answer
}

// Connect makes a client. The token may be empty for what needs none.
func Connect(server, token string, opt Options) (*Client, error) {
	u, err := ParseAddress(server, opt.AllowPlaintext)
	if err != nil {
		return nil, err
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
	base := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return &Client{http: &client, lanes: lanes, base: base, token: token, retry: opt.Retry.withDefaults(), agent: opt.UserAgent,
		most: maxAnswer}, nil
}

// ParseAddress reads the URL of a nexus. http:// to other machines has to be
// allowed. What is not such a URL may be a credential in the wrong place, and is
// repeated only if it is the address of a machine by its digits.
func ParseAddress(server string, plaintext bool) (*url.URL, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https":
		if bare := withoutScheme(server); bare != "" {
			return nil, reason.Errorf(reason.RequestInvalid, "%q is not the URL of a nexus", bare).
				WithHint("it lacks the scheme: write https://%[1]s, or http://%[1]s for a nexus on this machine", bare)
		}
		return nil, reason.Errorf(reason.RequestInvalid,
			"what was given is not the URL of a nexus, and is not repeated: it may hold a credential").
			WithHint("want https://host[:port], or http://localhost:port on this machine, without user or password")
	case u.Scheme == "http" && !plaintext && !loopback(u.Hostname()):
		return nil, reason.Errorf(reason.RequestInvalid, "refusing to send a credential to %q without TLS", u.Host).
			WithHint("use https, or say with --plaintext that a proxy or the network protects it")
	}
	return u, nil
}

// NewKey returns a new Idempotency-Key: one for each intent, not for each attempt.
func NewKey() string { return rand.Text() }

// withoutScheme is the address that a server without a scheme names, if that is
// localhost or of digits; "" for anything else.
func withoutScheme(server string) string {
	u, err := url.Parse("https://" + server)
	if err != nil || u.Host != server || u.Hostname() != "localhost" && net.ParseIP(u.Hostname()) == nil {
		return ""
	}
	return u.Host
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
		r.Pause = Pause
	}
	return r
}

// Pause waits, or returns the cause of the context's end.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
func (c *Client) refusal(resp *http.Response) error {
	defer resp.Body.Close()
	status := c.statusOf(resp)
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil || mediaOf(resp) != ProblemType || json.Unmarshal(body, &status.Problem) != nil {
		what := ""
		if to, err := resp.Location(); err == nil {
			what = fmt.Sprintf("which redirects to %.200q", to.Host)
		}
		return c.notOurs(resp, what)
	}
	p := &status.Problem
	for _, text := range []*string{&p.Type, &p.Title, &p.Detail, &p.Code, &p.Instance, &p.RequestID, p.Field, p.Hint} {
		if text != nil {
			*text = c.hide(*text)
		}
	}
	return &reason.Error{Code: reason.Code(p.Code), Message: strings.TrimSpace(p.Detail),
		Field: Value(p.Field), Hint: Value(p.Hint), Err: status}
}
