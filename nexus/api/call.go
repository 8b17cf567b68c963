package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"remit/proof/reason"
)

// Get reads the value.
func (q Query[P, R]) Get(ctx context.Context, c *Client, params P) (R, error) {
	value, _, err := call[R](ctx, c, request{Operation: q.Operation, params: params})
	return value, err
}

// Do sends the request under a key, see [NewKey].
func (m Mutation[P, B, R]) Do(ctx context.Context, c *Client, key string, params P, body B) (R, error) {
	value, _, err := call[R](ctx, c, request{Operation: m.Operation, params: params, key: key, body: body})
	return value, err
}

// Ensured is the answer of an [Ensure].
type Ensured[R any] struct {
	Value   R
	Created bool // false: it existed already
}

// Do sends the request under a key.
func (m Ensure[P, B, R]) Do(ctx context.Context, c *Client, key string, params P, body B) (Ensured[R], error) {
	value, status, err := call[R](ctx, c, request{Operation: m.Operation, params: params, key: key, body: body, other: http.StatusOK})
	return Ensured[R]{value, status == m.Status}, err
}

// Put uploads the content under a key.
func (u Upload[P, R]) Put(ctx context.Context, c *Client, key string, params P, content Content) (R, error) {
	value, _, err := call[R](ctx, c, request{Operation: u.Operation, params: params, key: key, body: content})
	return value, err
}

// Open begins a download, which ends with an error behind MaxArtifact bytes. The
// caller closes it.
func (d Download[P]) Open(ctx context.Context, c *Client, params P) (body io.ReadCloser, err error) {
	err = c.send(ctx, request{Operation: d.Operation, params: params}, func(resp *http.Response) error {
		if !isAnswer(resp, d.Media, d.Status) {
			return c.notOurs(resp, wrongAnswer)
		}
		body = resp.Body
		return nil
	})
	return body, err
}

// Read is Open for what fits into memory.
func (d Download[P]) Read(ctx context.Context, c *Client, params P) ([]byte, error) {
	body, err := d.Open(ctx, c, params)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// request is one call, however often it is sent.
type request struct {
	Operation
	params any
	key    string
	body   any // nil and None: without
	other  int // another status of a success
}

// maxAnswer bounds a JSON answer, in bytes: a page of the largest items.
const maxAnswer = 64 << 20

// call sends a request and reads its JSON answer. It is a success only if the
// contract has it: with the status, the media type and the members that it
// promises. What listens at a URL may be a proxy's login page, another service
// or a nexus of another version, and each can answer with 200.
func call[R any](ctx context.Context, c *Client, r request) (value R, status int, err error) {
	err = c.send(ctx, r, func(resp *http.Response) error {
		defer resp.Body.Close()
		if !isAnswer(resp, jsonType, r.Status, r.other) {
			return c.notOurs(resp, wrongAnswer)
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, c.most+1))
		switch {
		case err != nil:
			return fmt.Errorf("reading the answer: %w", err)
		case int64(len(body)) > c.most:
			return c.notOurs(resp, fmt.Sprintf("of more than %d bytes", c.most))
		}
		var answer R // of this attempt only
		if what := decode(body, &answer); what != "" {
			return c.notOurs(resp, what)
		}
		value, status = answer, resp.StatusCode
		return nil
	})
	return value, status, err
}

// attempt makes the HTTP request of one attempt.
func (r request) attempt(ctx context.Context, c *Client) (*http.Request, error) {
	header := http.Header{}
	u, err := r.address(c.base, r.params, header)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.URL, req.Header = u, header
	switch body := r.body.(type) {
	case nil, None:
	case Content:
		header.Set("Content-Type", "application/octet-stream")
		req.GetBody, req.ContentLength = body.Open, body.Size
	default:
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		header.Set("Content-Type", jsonType)
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
		req.ContentLength = int64(len(text))
	}
	if req.GetBody != nil {
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	if r.key != "" {
		header.Set(HeaderKey, r.key)
	}
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
	if c.agent != "" {
		header.Set("User-Agent", c.agent)
	}
	return req, nil
}

// send sends a request with the credential, repeats it where that is safe, and
// turns a refusal into an error. accept takes a success; when it fails with a
// *StatusError, something else than a nexus has answered, and the body is closed.
func (c *Client) send(ctx context.Context, r request, accept func(*http.Response) error) error {
	for attempt := 1; ; attempt++ {
		req, err := r.attempt(ctx, c)
		if err != nil {
			return err
		}
		wait := c.retry.backoff(attempt)
		resp, err := c.http.Do(req)
		if err == nil && resp.StatusCode >= 300 {
			err, wait = c.refusal(resp), max(wait, retryAfter(resp.Header, c.retry.Max))
		} else {
			if err == nil {
				resp.Body = http.MaxBytesReader(nil, resp.Body, MaxArtifact)
				if err = accept(resp); err == nil {
					return nil
				}
				_ = resp.Body.Close() // its answer is not used
				if _, odd := errors.AsType[*StatusError](err); odd {
					return err
				}
			}
			if cause := context.Cause(ctx); cause != nil {
				return fmt.Errorf("%s %s: %w", r.Method, req.URL.Path, cause)
			}
			err = &reason.Error{Code: reason.StoreUnavailable,
				Message: "the nexus at " + c.base.Scheme + "://" + c.base.Host + " cannot be reached: " + c.hide(plainCause(err)), Err: err,
				Hint: cmp.Or(handshakeHint(err), "check that `remit serve` runs and that its URL is right")}
		}
		if attempt >= c.retry.Attempts || !r.repeatable(err) {
			return err
		}
		if cause := c.retry.Pause(ctx, wait); cause != nil {
			return fmt.Errorf("%w (gave up: %w)", err, cause)
		}
	}
}

// repeatable reports whether a request may be sent again after an error: it
// reads, or has a key, and was not answered for good.
func (r request) repeatable(err error) bool {
	if r.Mutates() && r.key == "" {
		return false
	}
	status, ok := errors.AsType[*StatusError](err)
	if !ok {
		return handshakeHint(err) == "" // no answer at all
	}
	return reason.CodeOf(err) == reason.IdempotencyInFlight || slices.Contains([]int{http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, status.Status)
}
