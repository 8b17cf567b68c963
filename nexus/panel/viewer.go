package panel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/proof/reason"
)

// viewer is who looks at a page, and asks the API as they would.
type viewer struct {
	Owner, Principal string
	scopes           []string
	CSRF             string // "" without a session: then no form is offered
	Expires          api.Time
	Here             bool // at the machine of the nexus, which no other machine reaches
	client           *api.Client
	home             bool
}

// May reports whether the viewer has a scope. The API decides; this is for what is
// offered.
func (v *viewer) May(scope string) bool {
	return slices.Contains(v.scopes, scope) || slices.Contains(v.scopes, authority.ScopeAdmin)
}

// MayDo is May for what needs a form, and thus a session.
func (v *viewer) MayDo(scope string) bool { return v.CSRF != "" && v.May(scope) }

// viewer finds out who sends a request, by asking the API.
func (p *Panel) viewer(r *http.Request) (*viewer, error) {
	client, err := p.client(r, "")
	if err != nil {
		return nil, err
	}
	v := &viewer{client: client}
	if r.Header.Get("Authorization") != "" {
		who, err := api.GetWhoami.Get(r.Context(), client, api.None{})
		if err != nil {
			return nil, err
		}
		v.Owner, v.Principal, v.scopes = who.Owner, who.Principal, who.Scopes
	} else {
		s, err := api.GetSession.Get(r.Context(), client, api.None{})
		if err != nil {
			return nil, err
		}
		v.Owner, v.Principal, v.scopes, v.CSRF, v.Expires = s.Owner, s.Principal, s.Scopes, s.CsrfToken, s.ExpiresAt
	}
	// A session of the home belongs to who runs the program: a login alone shows it
	// only on their own machine. There no scope makes up for a name that a page of
	// elsewhere may have made lead here.
	v.Here = p.opt.Loopback && v.May(authority.ScopeRead) && api.FromHere(r)
	reached := !p.opt.Loopback || p.opt.ShowHome || api.FromHere(r)
	v.home = p.opt.Home != nil && (v.Here || v.May(authority.ScopeHome) && reached)
	return v, nil
}

// errNoHome is how sessions of the home look to who may not see them.
func errNoHome() error {
	return reason.Errorf(reason.NotFound, "there is no such session here").
		WithHint("sessions of a machine are shown on its own loopback address, or to the scope home:read")
}

// client asks the API as the sender of a request does. csrf is what the page said
// with it, "" for reading.
func (p *Panel) client(r *http.Request, csrf string) (*api.Client, error) {
	return api.Connect("http://localhost", "", api.Options{
		HTTP: &http.Client{Transport: relay{p.opt.API, r, csrf}}, Retry: api.Retry{Attempts: 1}, UserAgent: "remit-panel",
	})
}

// relay hands requests to the API without a connection, with the credentials and
// the address of the request that they are made for, and what proxies said of it.
type relay struct {
	api  http.Handler
	from *http.Request
	csrf string
}

// RoundTrip implements http.RoundTripper.
func (t relay) RoundTrip(out *http.Request) (*http.Response, error) {
	in := out.Clone(out.Context())
	in.Host, in.RemoteAddr, in.TLS, in.RequestURI = t.from.Host, t.from.RemoteAddr, t.from.TLS, in.URL.RequestURI()
	for _, name := range append([]string{"Authorization", "Cookie"}, api.Forwarding...) {
		if in.Header.Del(name); t.from.Header.Values(name) != nil {
			in.Header[name] = t.from.Header.Values(name)
		}
	}
	if t.csrf != "" {
		in.Header.Set(api.HeaderCSRF, t.csrf)
	}
	if in.Method != http.MethodGet && t.from.Header.Values("Origin") != nil {
		in.Header["Origin"] = t.from.Header.Values("Origin")
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &answer{header: http.Header{}}
	t.api.ServeHTTP(w, in)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: out}, nil
}

// answer collects what the API answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// maxForm bounds what a form sends.
const maxForm = 64 << 10

// form reads a form, and refuses one that a page of another origin has sent before
// anything else looks at it. The API checks the origin again, and the token.
func form(w http.ResponseWriter, r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return reason.Errorf(reason.OriginRefused, "the form was not sent by a page of this server")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return reason.Errorf(reason.RequestInvalid, "the form could not be read")
	}
	return nil
}

// act serves a form of a person who is logged in: one request of the API, with the
// token that the form had, and then the page that shows what came of it.
func (p *Panel) act(do func(ctx context.Context, c *api.Client, r *http.Request) error, back func(*http.Request) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		protect(w)
		if err := form(w, r); err != nil {
			p.fail(w, r, nil, err)
			return
		}
		v, err := p.viewer(r)
		if err != nil {
			p.fail(w, r, nil, err)
			return
		}
		client, err := p.client(r, r.PostForm.Get("csrf"))
		if err == nil {
			err = do(r.Context(), client, r)
		}
		if err != nil {
			p.fail(w, r, v, err)
			return
		}
		http.Redirect(w, r, back(r), http.StatusSeeOther)
	}
}

// keyOf is the idempotency key of a form. It was made with the page, so a double
// click is one request.
func keyOf(r *http.Request) string {
	if key := r.PostForm.Get("key"); key != "" {
		return key
	}
	return rand.Text()
}

// loginForm is what the page of the login shows.
type loginForm struct {
	Next, Message, Hint string
}

// Sessions is how many one person may have open.
func (loginForm) Sessions() int { return identity.MaxSessions }

func (p *Panel) loginPage(w http.ResponseWriter, r *http.Request) {
	protect(w)
	p.render(w, r, &page{name: "login", Title: "Log in", Data: loginForm{Next: localPath(r.URL.Query().Get("next"))}})
}

// toLogin sends a browser to the login, and from there back to what it asked for.
func toLogin(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/login?"+url.Values{"next": {localPath(r.URL.RequestURI())}}.Encode(), http.StatusSeeOther)
}

// localPath is a path of this server, or "/": a login leads nowhere else.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.ContainsAny(next, "\\\r\n\t") || strings.HasPrefix(u.Path, "/login") {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}

// login opens a session by a request of the API, which checks origin and token and
// sets the cookie.
func (p *Panel) login(w http.ResponseWriter, r *http.Request) {
	protect(w)
	if err := form(w, r); err != nil {
		p.fail(w, r, nil, err)
		return
	}
	// Whatever session the browser has counts for nothing here.
	bare := r.Clone(r.Context())
	bare.Header.Del("Cookie")
	bare.Header.Del("Authorization")
	cookies := &cookieJar{next: relay{p.opt.API, bare, ""}}
	client, err := api.Connect("http://localhost", "", api.Options{HTTP: &http.Client{Transport: cookies}, Retry: api.Retry{Attempts: 1}})
	if err == nil {
		_, err = api.CreateSession.Do(r.Context(), client, rand.Text(), api.None{},
			api.SessionRequest{Token: strings.TrimSpace(r.PostForm.Get("token"))})
	}
	next := localPath(r.PostForm.Get("next"))
	var refused *api.StatusError
	switch {
	case err == nil:
		w.Header()["Set-Cookie"] = cookies.set
		http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // localPath has made it a path of this server
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
		message := refused.Problem.Detail
		if refused.Status == http.StatusUnauthorized {
			message = "This token is not good, or is good no more."
		}
		p.render(w, r, &page{name: "login", status: refused.Status, Title: "Log in",
			Data: loginForm{next, message, api.Value(refused.Problem.Hint)}})
	default:
		p.fail(w, r, nil, err)
	}
}

// cookieJar keeps the cookies that an answer sets.
type cookieJar struct {
	next http.RoundTripper
	set  []string
}

func (j *cookieJar) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := j.next.RoundTrip(r)
	if err == nil {
		j.set = resp.Header.Values("Set-Cookie")
	}
	return resp, err
}

// logout ends the session by a request of the API.
func (p *Panel) logout(w http.ResponseWriter, r *http.Request) {
	protect(w)
	if err := form(w, r); err != nil {
		p.fail(w, r, nil, err)
		return
	}
	cookies := &cookieJar{next: relay{p.opt.API, r, r.PostForm.Get("csrf")}}
	client, err := api.Connect("http://localhost", "", api.Options{HTTP: &http.Client{Transport: cookies}, Retry: api.Retry{Attempts: 1}})
	if err == nil {
		_, err = api.EndSession.Do(r.Context(), client, rand.Text(), api.None{}, api.None{})
	}
	if err != nil {
		p.fail(w, r, nil, fmt.Errorf("log out: %w", err))
		return
	}
	w.Header()["Set-Cookie"] = cookies.set
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
