package panel

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/reason"
)

// Options of a panel. API and Log are required.
type Options struct {
	API     http.Handler // serves whatever is no page, and answers what pages ask
	Log     *slog.Logger
	Version string

	// Home has the sessions of this machine; nil shows none.
	Home Home
	// Loopback says that only this machine reaches the listener. Without it the home
	// is shown to the scope home:read only.
	Loopback bool
	// ShowHome shows the home to the scope home:read on a loopback listener too, by
	// whatever name and through whatever proxy a request comes.
	ShowHome bool

	Clock func() time.Time // nil is the clock
}

// Panel serves pages, and hands everything else to the API.
type Panel struct {
	opt    Options
	mux    *http.ServeMux
	pages  map[string]*template.Template
	assets map[string]asset

	digests   digests
	liveMu    sync.Mutex
	following map[string]*followed
}

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// New makes a panel.
func New(opt Options) (*Panel, error) {
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	p := &Panel{opt: opt, mux: http.NewServeMux(), digests: digests{known: map[string]hashed{}}, following: map[string]*followed{}}
	var err error
	if p.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	if p.pages, err = p.parse(); err != nil {
		return nil, err
	}
	p.routes()
	return p, nil
}

func (p *Panel) routes() {
	p.mux.HandleFunc("/", p.rest)
	p.mux.HandleFunc("GET /assets/{name}", p.asset)
	p.mux.HandleFunc("GET /live", p.live)
	p.mux.HandleFunc("GET /login", p.loginPage)
	p.mux.HandleFunc("POST /login", p.login)
	p.mux.HandleFunc("POST /logout", p.logout)
	p.mux.HandleFunc("POST /approvals/{id}/decision", p.act(decide, approvalHref))
	p.mux.HandleFunc("POST /new", p.checkNew)
	p.mux.HandleFunc("POST /new/run", p.act(dispatchNew, func(r *http.Request) string { return madeHref(r.PostForm["made"]) }))
	p.mux.HandleFunc("POST /nexus/runs/{id}/outcome", p.act(conclude, nexusRunHref))
	p.mux.HandleFunc("POST /fleet/{id}/switch", p.act(turn, func(*http.Request) string { return "/fleet" }))
	for pattern, show := range p.shown() {
		p.mux.HandleFunc("GET "+pattern, p.show(show))
	}
}

// shown are the pages, by their paths.
func (p *Panel) shown() map[string]shower {
	return map[string]shower{
		"/{$}":                          p.runs,
		"/runs/{id}":                    p.run,
		"/runs/{id}/changes":            p.changes,
		"/runs/{id}/log/{name...}":      p.log,
		"/runs/{id}/journal":            p.journal,
		"/runs/{id}/artifact/{name...}": p.artifact,
		"/runs/{id}/export/{to}":        p.export,
		"/compare":                      p.compare,
		"/new":                          p.newRun,
		"/nexus/runs/{id}":              p.nexusRun,
		"/approvals":                    p.approvals,
		"/approvals/{id}":               p.approval,
		"/fleet":                        p.fleet,
		"/treasury":                     p.treasury,
		"/figures":                      p.figures,
		"/bridge":                       p.bridge,
		"/ladder":                       p.ladder,
		"/records":                      p.records,
		"/health":                       p.health,
	}
}

// Pages are the paths of the pages that need nothing but a login, and of the login.
func Pages() []string {
	out := []string{"/login"}
	for pattern := range (&Panel{}).shown() {
		if path := strings.TrimSuffix(pattern, "{$}"); !strings.Contains(path, "{") {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// Assets are the paths of the files that pages load.
func Assets() []string {
	var out []string
	for name := range assetMedia {
		out = append(out, "/assets/"+name)
	}
	slices.Sort(out)
	return out
}

// ServeHTTP implements http.Handler.
func (p *Panel) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// contentSecurity is the policy of every page. Nothing is fetched from elsewhere,
// nothing inline runs, no other page frames it, and text becomes markup only through
// the one policy of the panel's script.
const contentSecurity = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types remit"

// protect sets the headers that every answer of the panel has.
func protect(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentSecurity)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	// Not no-referrer: with it a browser names the origin null when a form is sent.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// shower makes a page for a viewer, or answers itself and returns nil.
type shower func(w http.ResponseWriter, r *http.Request, v *viewer) (*page, error)

// page is what a template is given.
type page struct {
	name   string // of the template
	status int    // 0 is 200

	Title   string
	Nav     string // the current entry of the navigation
	Viewer  *viewer
	Home    bool   // the viewer may see the sessions of this machine
	Live    string // what the page follows
	Seq     int64  // of a lane: what the page shows already
	Replay  bool   // the page has a timeline of a run, which can be played when that has ended
	Version string
	Data    any
}

// show serves one page to who is logged in.
func (p *Panel) show(s shower) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		protect(w)
		v, err := p.viewer(r)
		if err != nil {
			if reason.CodeOf(err) == reason.Unauthenticated || reason.CodeOf(err) == reason.TokenExpired {
				toLogin(w, r)
				return
			}
			p.fail(w, r, nil, err)
			return
		}
		pg, err := s(w, r, v)
		switch {
		case err != nil:
			p.fail(w, r, v, err)
		case pg != nil:
			pg.Viewer, pg.Home = v, v.home
			p.render(w, r, pg)
		}
	}
}

// render writes a page.
func (p *Panel) render(w http.ResponseWriter, r *http.Request, pg *page) {
	pg.Version = p.opt.Version
	var out bytes.Buffer
	if err := p.pages[pg.name].ExecuteTemplate(&out, "page", pg); err != nil {
		p.opt.Log.Error("a page could not be rendered", "page", pg.name, "error", err)
		http.Error(w, "the page could not be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if pg.status != 0 {
		w.WriteHeader(pg.status)
	}
	_, _ = w.Write(inert(out.Bytes())) // who left sees nothing
}

// failure is what the page of an error shows.
type failure struct {
	Status                         int
	Code, Message, Hint, RequestID string
}

// fail shows an error as a page. Only errors with a reason code show their text.
func (p *Panel) fail(w http.ResponseWriter, r *http.Request, v *viewer, err error) {
	f := failure{Status: http.StatusInternalServerError, Code: string(reason.InfrastructureFault), Message: "the page could not be made"}
	var refused *api.StatusError
	coded, isCoded := errors.AsType[*reason.Error](err)
	switch {
	case errors.As(err, &refused):
		f = failure{Status: refused.Status, Code: refused.Problem.Code, Message: refused.Problem.Detail, Hint: api.Value(refused.Problem.Hint),
			RequestID: refused.RequestID}
		if isCoded && coded.Hint != "" && coded.Hint != f.Hint { // what the panel knows besides
			f.Message, f.Hint = coded.Message, coded.Hint
		}
	case isCoded:
		info, _ := reason.Lookup(coded.Code)
		f = failure{Status: statusOf(coded.Code), Code: string(coded.Code), Message: coded.Message, Hint: info.Hint}
		if coded.Hint != "" {
			f.Hint = coded.Hint
		}
	default:
		p.opt.Log.Error("a page failed", "path", r.URL.EscapedPath(), "error", err)
	}
	pg := &page{name: "error", status: f.Status, Title: fmt.Sprintf("Error %d", f.Status), Viewer: v, Data: f}
	if v != nil {
		pg.Home = v.home
	}
	p.render(w, r, pg)
}

// statusOf is the HTTP status of what the panel itself refuses.
func statusOf(code reason.Code) int {
	switch code {
	case reason.NotFound:
		return http.StatusNotFound
	case reason.RequestInvalid, reason.CursorInvalid:
		return http.StatusBadRequest
	case reason.ScopeMissing, reason.Forbidden, reason.OriginRefused, reason.CSRFRefused:
		return http.StatusForbidden
	case reason.NotAcceptable, reason.FileUnusable, reason.PredictionsInvalid:
		return http.StatusConflict
	}
	switch info, _ := reason.Lookup(code); info.Domain {
	case "audit", "evidence", "manifest", "path", "zip": // the bundle is not one that is handed out
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

// asset is a file that pages load.
type asset struct {
	content []byte
	media   string
	tag     string
}

var assetMedia = map[string]string{"panel.css": "text/css; charset=utf-8", "panel.js": "text/javascript; charset=utf-8",
	"replay.js": "text/javascript; charset=utf-8", "idiomorph.js": "text/javascript; charset=utf-8"}

func loadAssets() (map[string]asset, error) {
	out := map[string]asset{}
	for name, media := range assetMedia {
		content, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			return nil, fmt.Errorf("read the asset %s: %w", name, err)
		}
		out[name] = asset{content, media, canon.Digest(content)}
	}
	return out, nil
}

// asset serves a file. Its address has its digest, so a browser may keep it.
func (p *Panel) asset(w http.ResponseWriter, r *http.Request) {
	protect(w)
	a, ok := p.assets[r.PathValue("name")]
	if !ok {
		http.Error(w, "there is no such asset", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", a.media)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("ETag", `"`+a.tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
}
