// Package pull keeps a pull request at a forge in step with a session: one branch,
// one draft, one status, one comment, however often an export is repeated or cut off.
//
// Each operation looks for what it would make before it makes it, so an answer that
// was lost costs a question and makes nothing twice. The token is sent to the host of
// the address alone: redirects are not followed. What the forge answers is data: it is
// bounded, and nothing in it decides about a verdict.
//
// The interfaces are those of GitHub's REST API of version 2022-11-28 and of Gitea's
// of version 1, which have the same documents for what is used here.
package pull

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"remit/proof/reason"
)

// Limits of a conversation.
const (
	maxAnswer   = 8 << 20 // bytes
	maxPages    = 20      // of a list
	pageSize    = 50      // the most that Gitea gives by default
	maxTries    = 5
	maxWait     = 60 * time.Second // for one try
	maxWaiting  = 3 * time.Minute  // of a whole export
	firstWait   = time.Second
	apiVersion  = "2022-11-28"
	acceptedAPI = "application/vnd.github+json"
)

// Client asks one forge about one repository.
type Client struct {
	Address
	Token string
	HTTP  *http.Client
	// Wait lets time pass between tries, and ends with the context.
	Wait func(context.Context, time.Duration) error

	waited time.Duration
}

// Capabilities says what a forge can do.
type Capabilities struct {
	Operations []string `json:"operations"`
	Drafts     string   `json:"drafts"` // how a draft is marked
	Checks     string   `json:"checks"` // what a verdict beside a commit is
	MaxBody    int      `json:"max_body"`
}

// Capabilities are those of the kind of forge.
func (c *Client) Capabilities() Capabilities {
	drafts, checks := "draft", "check-runs for a token of an App, else a commit status"
	if c.Kind == Gitea {
		drafts, checks = "title prefix "+workInProgress, "commit status"
	}
	return Capabilities{Operations: []string{"create_pr", "push_branch", "post_comment", "update_pr_status", "capabilities"}, Drafts: drafts,
		Checks: checks, MaxBody: MaxBody}
}

// answer is what came back of a request that the forge understood.
type answer struct {
	status int
	body   []byte
}

// get asks a question, as often as it takes.
func (c *Client) get(ctx context.Context, url string, into any) error {
	return c.again(ctx, func() error { return c.once(ctx, http.MethodGet, url, nil, into) })
}

// set changes what can be changed twice with the same effect.
func (c *Client) set(ctx context.Context, url string, doc, into any) error {
	return c.again(ctx, func() error { return c.once(ctx, http.MethodPatch, url, doc, into) })
}

// create makes something that must not be made twice. find looks for it, and is asked
// before each try.
func (c *Client) create(ctx context.Context, url string, doc, into any, find func() (bool, error)) error {
	return c.again(ctx, func() error {
		found, err := find()
		if err != nil || found {
			return err
		}
		return c.once(ctx, http.MethodPost, url, doc, into)
	})
}

// again repeats what may go well another time.
func (c *Client) again(ctx context.Context, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		var later *laterError
		if !errors.As(err, &later) {
			return err
		}
		wait := max(later.after, firstWait<<n)
		if n+1 >= maxTries || wait > maxWait || c.waited+wait > maxWaiting {
			return later.final
		}
		c.waited += wait
		if err := c.Wait(ctx, wait); err != nil {
			return errors.Join(later.final, err)
		}
	}
}

// Again repeats what is asked of the forge another way, such as git's, as the client
// repeats its own requests: where it ended with forge_unreachable. An error in it may say
// how long the forge wants to be left alone.
func (c *Client) Again(ctx context.Context, try func() error) error {
	return c.again(ctx, func() error {
		err := try()
		if reason.CodeOf(err) != reason.ForgeUnreachable {
			return err
		}
		later := &laterError{final: err}
		var asked interface{ RetryAfter() time.Duration }
		if errors.As(err, &asked) {
			later.after = asked.RetryAfter()
		}
		return later
	})
}

// laterError is a failure that another try may mend.
type laterError struct {
	after time.Duration // as the forge wants it
	final error         // what is said when no try is left
}

func (e *laterError) Error() string { return e.final.Error() }
func (e *laterError) Unwrap() error { return e.final }

func (c *Client) once(ctx context.Context, method, url string, doc, into any) error {
	var body io.Reader
	if doc != nil {
		text, err := json.Marshal(doc)
		if err != nil {
			return fmt.Errorf("writing a request to the forge: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return unreachable("its address is no URL")
	}
	c.sign(req, doc != nil)
	got, err := c.send(req)
	if err != nil {
		return err
	}
	if into == nil {
		return nil
	}
	if len(got.body) == 0 {
		return &laterError{final: unreachable("its answer to %s %s is empty", method, req.URL.Path)}
	}
	if err := json.Unmarshal(got.body, into); err != nil {
		return &laterError{final: unreachable("its answer to %s %s is cut off, or is no JSON", method, req.URL.Path)}
	}
	return nil
}

func (c *Client) sign(req *http.Request, body bool) {
	req.Header.Set("User-Agent", "remit")
	req.Header.Set("Accept", "application/json")
	scheme := "token "
	if c.Kind == GitHub {
		req.Header.Set("Accept", acceptedAPI)
		req.Header.Set("X-GitHub-Api-Version", apiVersion)
		scheme = "Bearer "
	}
	if body {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" { // what is public needs none
		req.Header.Set("Authorization", scheme+c.Token)
	}
}

func (c *Client) send(req *http.Request) (answer, error) {
	client := *c.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		if cause := context.Cause(req.Context()); cause != nil {
			return answer{}, cause
		}
		return answer{}, &laterError{final: unreachable("the connection to %s failed", req.URL.Host)}
	}
	defer resp.Body.Close()
	if err := Elsewhere(resp, c.Token); err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return answer{}, &laterError{final: unreachable("the answer of %s was cut off", req.URL.Host)}
	}
	if len(body) > maxAnswer {
		return answer{}, unreachable("the answer of %s is longer than %d bytes", req.URL.Host, maxAnswer)
	}
	got := answer{status: resp.StatusCode, body: body}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return got, nil
	}
	return got, c.failure(req, resp, body)
}

// failure says what an answer that is no success means.
func (c *Client) failure(req *http.Request, resp *http.Response, body []byte) error {
	what := fmt.Sprintf("%s answers %s %s with status %d%s", req.URL.Host, req.Method, req.URL.Path, resp.StatusCode, said(body))
	if c.Token != "" { // which some forges repeat
		what = strings.ReplaceAll(what, c.Token, "[the token]")
	}
	switch after, limited := limitOf(resp, body); {
	case limited:
		return &laterError{after: after, final: unreachable("it has had enough requests for now: %s", what)}
	case resp.StatusCode >= 500:
		return &laterError{final: unreachable("%s", what)}
	case resp.StatusCode == http.StatusUnprocessableEntity, resp.StatusCode == http.StatusConflict:
		return &refusedError{status: resp.StatusCode, err: unreachable("it does not take what was asked: %s", what)}
	}
	return reason.Errorf(reason.ForgeDenied, "%s", what).
		WithHint("the repository's name is wrong, or the token may not: it needs to write contents, pull requests and commit statuses")
}

// refusedError is a request that the forge understood and did not do.
type refusedError struct {
	status int
	err    error
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// said quotes the message of an answer.
func said(body []byte) string {
	var doc struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &doc) != nil || doc.Message == "" {
		return ""
	}
	return fmt.Sprintf(" (%.200q)", doc.Message)
}

// limitOf reports whether an answer asks the client to wait, and how long. GitHub has two
// limits. x-ratelimit-remaining shows the first. A 403 or 429 shows the second, with
// retry-after or only with a message; with only a message the client waits a minute.
func limitOf(resp *http.Response, body []byte) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusForbidden {
		return 0, false
	}
	if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && after >= 0 {
		return time.Duration(after) * time.Second, true
	}
	if resp.Header.Get("X-Ratelimit-Remaining") == "0" {
		reset, err := strconv.ParseInt(resp.Header.Get("X-Ratelimit-Reset"), 10, 64)
		now, dateErr := http.ParseTime(resp.Header.Get("Date"))
		if err != nil || dateErr != nil {
			return firstWait, true
		}
		return max(firstWait, time.Unix(reset, 0).Sub(now)), true
	}
	if strings.Contains(said(body), "secondary rate limit") {
		return time.Minute, true
	}
	return firstWait, resp.StatusCode == http.StatusTooManyRequests
}

func unreachable(format string, args ...any) error {
	return reason.Errorf(reason.ForgeUnreachable, "the forge: "+format, args...).
		WithHint("give the same command again: what is done already is found, and not done twice")
}
