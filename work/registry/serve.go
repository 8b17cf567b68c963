package registry

import (
	"context"
	"crypto/sha1" //nolint:gosec // see where it is used
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"remit/proof/reason"
)

// ServeHTTP answers one request of a client.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.enter() {
		panic(http.ErrAbortHandler)
	}
	defer f.underway.Done()
	if !f.record.room() {
		w.Header().Set("Connection", "close")
		http.Error(w, "remit: more requests than a fetch may make", http.StatusForbidden)
		return
	}
	x := &exchange{front: f, w: w, head: r.Method == http.MethodHead}
	x.told.Path = plain(r.RequestURI, recordedPath)
	err := x.run(r)
	x.end(err)
	if err == nil {
		return
	}
	if x.begun {
		panic(http.ErrAbortHandler) // what was sent must not look whole
	}
	if x.status == 0 {
		x.status = statusFor(err)
	}
	w.Header().Set("Connection", "close") // whatever else came on it is not read as a request
	http.Error(w, fmt.Sprintf("remit: %s (%s)", x.told.Why, x.told.Refused), x.status)
}

// Fetch writes what a path of the front has, as a client would get it, and records it the
// same way: it is for what Remit fetches itself, without a client and its sandbox.
func (f *Front) Fetch(ctx context.Context, path string, to io.Writer) error {
	if !f.enter() {
		return refused(reason.RegistryIncomplete, "the fetch is over")
	}
	defer f.underway.Done()
	if !f.record.room() {
		return refused(reason.RegistryTooLarge, "more requests than a fetch may make")
	}
	x := &exchange{front: f, w: &written{Writer: to, header: http.Header{}}}
	x.told.Path = plain(path, recordedPath)
	err := x.ask(ctx, path, "*/*", "")
	x.end(err)
	return err
}

// written is an answer that goes to no client.
type written struct {
	io.Writer
	header http.Header
}

func (w *written) Header() http.Header { return w.header }
func (w *written) WriteHeader(int)     {}

// end records how a request ended.
func (x *exchange) end(err error) {
	if err != nil {
		x.told.SHA256 = ""
		x.told.Refused, x.told.Why = reason.CodeOf(err), plain(messageOf(err), 300)
	}
	x.front.record.add(x.told)
}

// messageOf is an error without its code, which stands beside it.
func messageOf(err error) string {
	if e, ok := errors.AsType[*reason.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// statusFor is how a client learns of a refusal. One that asking again would not
// change is no 5xx, which clients repeat.
func statusFor(err error) int {
	switch reason.CodeOf(err) {
	case reason.RegistryMissing:
		return http.StatusNotFound
	case reason.RegistryUnreachable, reason.RegistryIncomplete:
		return http.StatusBadGateway
	}
	return http.StatusForbidden
}

// exchange is one request under way.
type exchange struct {
	front  *Front
	w      http.ResponseWriter
	head   bool
	told   Delivery
	status int // of a refusal, when it is not that of its code
	begun  bool
}

// run reads the request of a client.
func (x *exchange) run(r *http.Request) error {
	base, err := x.form(r)
	if err != nil {
		return err
	}
	return x.ask(r.Context(), r.RequestURI, r.Header.Get("Accept"), base)
}

// ask holds a path against the rules, and passes the answer on.
func (x *exchange) ask(ctx context.Context, target, accept, base string) error {
	parts, err := segments(target)
	if err != nil {
		return err
	}
	e := Ecosystem(parts[0])
	s, ok := x.front.sites[e]
	if !ok || len(parts) < 2 {
		return refused(reason.RegistryRefused, "the path is that of no registry which can be reached from here")
	}
	x.told.Ecosystem = e
	q, err := grammars[e](s, parts[1:], accept)
	if err == nil && x.front.other != nil {
		if other := x.front.others[e][x.front.other(q.pkg)]; other != nil {
			s = other
			q, err = grammars[e](s, parts[1:], accept)
		}
	}
	if err != nil {
		return err
	}
	x.told.Name, x.told.Version, x.told.Path = q.pkg.Name, q.pkg.Version, "/"+parts[0]+"/"+q.path
	if !q.open {
		if err := x.front.allow(q.pkg); err != nil {
			return refused(reason.RegistryRefused, "%s is not allowed: %s", nameOf(q.pkg), plain(messageOf(err), 200))
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, x.front.limits.AnswerTime, errSlow)
	defer stop()
	select {
	case x.front.exchanges <- struct{}{}:
		defer func() { <-x.front.exchanges }()
	case <-ctx.Done():
		return unreachable(ctx, ctx.Err())
	}
	if q.rewrite != nil {
		a, err := s.index(ctx, cancel, q, base)
		if err != nil {
			return err
		}
		return x.send(a)
	}
	return x.file(ctx, cancel, s, q)
}

// form refuses what no client needs, before the path is read. It returns the
// base of the front as the client sees it: the address that the connection came to.
func (x *exchange) form(r *http.Request) (string, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		x.status = http.StatusMethodNotAllowed
		return "", refused(reason.RegistryRefused, "the method is %s: only GET and HEAD lead to a registry", plain(r.Method, 20))
	}
	if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
		return "", refused(reason.RegistryRefused, "the request has a body")
	}
	address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return "", refused(reason.RegistryRefused, "the request came by no connection")
	}
	own := address.String()
	_, port, _ := net.SplitHostPort(own)
	if r.Host != own && r.Host != net.JoinHostPort("localhost", port) {
		return "", refused(reason.RegistryRefused, "the request is for another server")
	}
	return "http://" + own, nil
}

func nameOf(p Package) string {
	if p.Version == "" {
		return string(p.Ecosystem) + " " + p.Name
	}
	return string(p.Ecosystem) + " " + p.Name + "@" + p.Version
}

// send delivers an answer that is in memory.
func (x *exchange) send(a answer) error {
	h := x.w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	x.begun = true
	x.w.WriteHeader(http.StatusOK)
	if x.head {
		return nil
	}
	n, err := x.w.Write(a.body)
	x.told.Bytes = int64(n)
	if err != nil {
		return errGone
	}
	sum := sha256.Sum256(a.body)
	x.told.SHA256 = hex.EncodeToString(sum[:])
	return nil
}

var errGone = refused(reason.RegistryIncomplete, "the client went away before the end")

// file passes a file on as it comes.
func (x *exchange) file(ctx context.Context, cancel context.CancelCauseFunc, s *site, q *question) error {
	var target *url.URL
	var err error
	if q.find != nil {
		if target, err = q.find(ctx, cancel); err != nil {
			return err
		}
	}
	if target == nil {
		target = s.up.at(q.at)
	}
	method := http.MethodGet
	if x.head {
		method = http.MethodHead
	}
	resp, err := s.get(ctx, method, target, "*/*", "identity")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	most := x.front.limits.FileBytes
	switch err := status(resp.StatusCode); {
	case err != nil:
		return err
	case resp.Header.Get("Content-Encoding") != "" && resp.Header.Get("Content-Encoding") != "identity":
		return refused(reason.RegistryAnswer, "the answer of the registry is packed in a way that was not asked for")
	case resp.ContentLength > most:
		return tooLarge(most)
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	if resp.ContentLength >= 0 {
		h.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	x.begun = true
	x.w.WriteHeader(http.StatusOK)
	if x.head {
		return nil
	}
	body := s.inflow(ctx, cancel, resp.Body, most)
	defer body.stop()
	sum, weak, strong := sha256.New(), sha1.New(), sha512.New() //nolint:gosec // old lock files name files by SHA-1, and are held to that
	out := &outflow{w: x.w}
	all := io.MultiWriter(out, sum, weak)
	if q.digest != nil {
		all = io.MultiWriter(all, strong)
	}
	x.told.Bytes, err = io.Copy(all, body)
	switch {
	case out.gone:
		return errGone
	case err != nil:
		return err
	case q.digest != nil && "sha512-"+base64.StdEncoding.EncodeToString(strong.Sum(nil)) != q.digest():
		return refused(reason.RegistryAnswer, "the file of %s is another one than the registry's own index says", nameOf(q.pkg))
	}
	x.told.SHA256, x.told.SHA1 = hex.EncodeToString(sum.Sum(nil)), hex.EncodeToString(weak.Sum(nil))
	return nil
}

// outflow tells an error of the client from one of the registry.
type outflow struct {
	w    io.Writer
	gone bool
}

func (o *outflow) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	o.gone = o.gone || err != nil
	return n, err
}
