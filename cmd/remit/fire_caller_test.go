//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"remit/nexus/api"
	"remit/proof/reason"
)

// acknowledged is a mutation that was answered for good. Whatever is killed
// after that, the same request gets the same bytes.
type acknowledged struct {
	by                      *caller
	method, path, key, body string
	status                  int
	answer                  string
}

// ledgerOfAnswers keeps everything that was acknowledged, and how hard it was.
type ledgerOfAnswers struct {
	mu       sync.Mutex
	list     []acknowledged
	broken   int      // attempts without an answer
	replayed int      // answers to an attempt after the one that had the effect
	faults   []string // answers that must not be
}

func (l *ledgerOfAnswers) note(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// caller sends requests of one principal as a careful client does: one key for
// one intent, and again until there is an answer.
type caller struct {
	url, token string
	http       *http.Client
	answers    *ledgerOfAnswers
}

// again is the pause before a request is repeated.
const again = 20 * time.Millisecond

// errAnswer is an answer that the caller did not expect.
type errAnswer struct {
	status int
	code   string
	text   string
}

func (e *errAnswer) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }

// post sends a mutation with a key, remembers its answer and decodes it.
func (c *caller) post(ctx context.Context, path, key string, body, into any) error {
	return c.mutate(ctx, http.MethodPost, path, key, body, into)
}

func (c *caller) mutate(ctx context.Context, method, path, key string, body, into any) error {
	text := []byte{}
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	status, answer, replayed, err := c.persist(ctx, method, path, key, text)
	if err != nil {
		return err
	}
	c.answers.note(func() {
		c.answers.list = append(c.answers.list, acknowledged{c, method, path, key, string(text), status, string(answer)})
		if replayed {
			c.answers.replayed++
		}
	})
	return read(method+" "+path, status, answer, into)
}

// get reads until there is an answer.
func (c *caller) get(ctx context.Context, path string, into any) error {
	status, answer, _, err := c.persist(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	return read("GET "+path, status, answer, into)
}

func read(what string, status int, answer []byte, into any) error {
	if status >= 300 {
		var p api.Problem
		_ = json.Unmarshal(answer, &p) // the text is in the error
		return fmt.Errorf("%s: %w", what, &errAnswer{status, p.Code, string(answer)})
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, answer)
	}
	return nil
}

// persist repeats a request until it is answered for good. Only what a careful
// client may repeat is repeated silently: no answer, 429, a gateway's words, 503
// and a key that is being worked on. Any other 5xx is a fault.
func (c *caller) persist(ctx context.Context, method, path, key string, body []byte) (status int, answer []byte, replayed bool, err error) {
	for {
		status, answer, replayed, err = c.once(ctx, method, path, key, body)
		switch {
		case ctx.Err() != nil:
			return 0, nil, false, fmt.Errorf("%s %s: %w (last: %d %.300s)", method, path, errors.Join(context.Cause(ctx), err), status, answer)
		case err != nil:
			c.answers.note(func() { c.answers.broken++ })
		case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable && !bytes.Contains(answer, []byte(reason.ReadOnlyMode)):
		case status == http.StatusConflict && bytes.Contains(answer, []byte(reason.IdempotencyInFlight)):
		case status >= 500:
			c.answers.note(func() {
				c.answers.faults = append(c.answers.faults, fmt.Sprintf("%s %s: %d %s", method, path, status, answer))
			})
			if status == http.StatusServiceUnavailable {
				return status, answer, replayed, nil // read-only does not pass
			}
		default:
			return status, answer, replayed, nil
		}
		wait(ctx, again)
	}
}

func (c *caller) once(ctx context.Context, method, path, key string, body []byte) (status int, answer []byte, replayed bool, err error) {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, false, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if key != "" {
		req.Header.Set(api.HeaderKey, key)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, false, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, resp.Header.Get(api.HeaderReplayed) == "true", err
}

// repeat sends an acknowledged request again and says what is wrong with the
// answer, "" when it is the one that was acknowledged.
func (a acknowledged) repeat(ctx context.Context) string {
	status, answer, replayed, err := a.by.persist(ctx, a.method, a.path, a.key, []byte(a.body))
	switch {
	case err != nil:
		return err.Error()
	case status != a.status || string(answer) != a.answer:
		return fmt.Sprintf("%s %s (%s) was acknowledged with %d %s, and is answered with %d %s", a.method, a.path, a.key, a.status, a.answer, status, answer)
	case !replayed:
		return fmt.Sprintf("%s %s (%s): the answer is the same, but made again", a.method, a.path, a.key)
	}
	return ""
}

// pages reads a list to its end.
func pages[T any](ctx context.Context, c *caller, path string) ([]T, error) {
	var all []T
	cursor := ""
	for {
		var page struct {
			Items []T    `json:"items"`
			Next  string `json:"next_cursor"`
		}
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		if err := c.get(ctx, path+sep+"limit=500"+cursor, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		cursor = "&cursor=" + page.Next
	}
}

// each runs f for every item, a few at a time, and returns what they complain of.
func each[T any](items []T, f func(T) []string) (complaints []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	todo := make(chan T)
	for range 8 {
		all.Go(func() {
			for item := range todo {
				if said := slices.DeleteFunc(f(item), func(s string) bool { return s == "" }); len(said) > 0 {
					mu.Lock()
					complaints = append(complaints, said...)
					mu.Unlock()
				}
			}
		})
	}
	for _, item := range items {
		todo <- item
	}
	close(todo)
	all.Wait()
	return complaints
}

func asAnswer(err error) (*errAnswer, bool) { return errors.AsType[*errAnswer](err) }
