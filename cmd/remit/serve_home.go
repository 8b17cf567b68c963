package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"remit/nexus/api"
	"remit/nexus/jobs"
	"remit/nexus/panel"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/session"
)

// homeSessions are the sessions of a home as the panel reads them. Nothing is
// written: what was read is kept in memory until its journal changes.
type homeSessions struct {
	home  session.Home
	audit func() (bundle.Options, error)

	mu     sync.Mutex
	known  map[string]knownSession
	open   map[string]openSession
	looked time.Time
	list   []panel.Summary
	all    int
	turn   int
}

// stamp tells whether a journal is the one that was read.
type stamp struct {
	size  int64
	mod   time.Time
	phase string
}

type knownSession struct {
	stamp
	summary panel.Summary
}

type openSession struct {
	stamp
	session *panel.Session
}

const (
	// lookPause is how old a list may be.
	lookPause = 300 * time.Millisecond
	// lookBudget is how long one look reads journals; the rest is read by the next.
	lookBudget = 50 * time.Millisecond
	// lookIdle is of how many sessions that no process writes one look asks whether
	// they changed.
	lookIdle = 1000
	// keptOpen is how many whole sessions are kept in memory.
	keptOpen = 8
)

func newHomeSessions(home session.Home, audit func() (bundle.Options, error)) *homeSessions {
	return &homeSessions{home: home, audit: audit, known: map[string]knownSession{}, open: map[string]openSession{}}
}

// warm reads all sessions, so that the first page does not wait for them.
func (h *homeSessions) warm(ctx context.Context) error {
	for ctx.Err() == nil {
		h.mu.Lock()
		err := h.look(lookBudget)
		done := len(h.list) >= h.all
		h.mu.Unlock()
		if err != nil || done {
			return err
		}
	}
	return nil
}

// List implements panel.Home.
func (h *homeSessions) List(context.Context) ([]panel.Summary, int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.looked) < lookPause {
		return h.list, h.all, nil
	}
	err := h.look(lookBudget)
	return h.list, h.all, err
}

// look brings the list up to date, as far as there is time. What was never read comes
// first, so that each look comes further however long the rest takes. What no process
// writes changes seldom: each look asks for a part of it only.
func (h *homeSessions) look(budget time.Duration) error {
	entries, err := os.ReadDir(h.home.Sessions())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	begin, unread := time.Now(), 0
	for _, e := range slices.Backward(entries) { // the newest first
		if _, ok := h.known[e.Name()]; ok {
			continue
		}
		if unread > 0 || time.Since(begin) > budget {
			unread++
			continue
		}
		if s, now, err := h.find(e.Name()); err == nil { // else it is none, or its first entry is not written yet
			h.known[s.ID] = knownSession{now, h.summary(s)}
		}
	}
	list, parts := make([]panel.Summary, 0, len(entries)), 1+len(entries)/lookIdle
	h.turn = (h.turn + 1) % parts
	for i, e := range slices.Backward(entries) {
		known, ok := h.known[e.Name()]
		if !ok {
			continue
		}
		if due := known.phase == session.Running || i%parts == h.turn; due && time.Since(begin) <= budget {
			s, now, err := h.find(e.Name())
			if err != nil {
				continue
			}
			if known.stamp != now {
				known = knownSession{now, h.summary(s)}
				h.known[s.ID] = known
			}
		}
		list = append(list, known.summary)
	}
	h.list, h.all, h.looked = list, len(list)+unread, time.Now()
	return nil
}

// find is a session by its whole id, with what its journal is now.
func (h *homeSessions) find(id string) (session.Session, stamp, error) {
	missing := reason.Errorf(reason.NotFound, "there is no session %.100q", id).WithHint("see `remit list`")
	if id == "" || id != filepath.Base(id) || strings.HasPrefix(id, ".") {
		return session.Session{}, stamp{}, missing
	}
	s := h.home.New(id)
	if dir, err := os.Lstat(s.Dir); err != nil || !dir.IsDir() {
		return s, stamp{}, missing
	}
	info, err := os.Lstat(s.Journal())
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return s, stamp{}, missing
	}
	now := stamp{size: info.Size(), mod: info.ModTime(), phase: session.Sealed}
	if known, ok := h.known[id]; ok && known.stamp == now {
		return s, now, nil // what is sealed stays so while its journal does
	}
	if busy, err := journal.Busy(s.Journal()); err == nil && busy {
		now.phase = session.Running
	} else if _, err := os.Lstat(filepath.Join(s.Dir, evidence.ManifestFile)); err != nil {
		now.phase = session.Interrupted // or unsealed, as the journal says
	}
	return s, now, nil
}

// summary reads a session for the list. One that cannot be read is listed with the
// reason.
func (h *homeSessions) summary(s session.Session) panel.Summary {
	read, err := h.read(s)
	if err != nil {
		return damaged(s.ID, err).Summary
	}
	return read.Summary
}

// damaged is a session that cannot be read.
func damaged(id string, err error) *panel.Session {
	why, ok := errors.AsType[*reason.Error](err)
	if !ok {
		why = reason.Errorf(reason.FileUnusable, "it cannot be read")
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			why = reason.Errorf(reason.FileUnusable, "it cannot be read: %w", at.Err)
			why.File = at.Path
		}
	}
	return panel.DamagedSession(id, why)
}

func (h *homeSessions) read(s session.Session) (*panel.Session, error) {
	st, err := s.Inspect()
	if err != nil {
		return nil, err
	}
	local, err := h.home.LoadLocal(s.ID)
	if err != nil {
		return nil, err
	}
	repository := jobs.RepositoryName(cmp.Or(local.RepoRef, filepath.Base(cmp.Or(local.Repo, "unknown"))))
	return &panel.Session{Summary: panel.Summarize(s.ID, st.Phase, repository, st.Log.Entries), Journal: st.Log.Entries,
		Report: st.Report, Torn: st.Log.TornBytes}, nil
}

// Session implements panel.Home.
func (h *homeSessions) Session(_ context.Context, id string) (*panel.Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, now, err := h.find(id)
	if err != nil {
		return nil, err
	}
	if kept, ok := h.open[id]; ok && kept.stamp == now {
		return kept.session, nil
	}
	read, err := h.read(s)
	if err != nil {
		return damaged(s.ID, err), nil
	}
	if len(h.open) >= keptOpen {
		clear(h.open)
	}
	h.open[id] = openSession{now, read}
	return read, nil
}

// Version implements panel.Home: the length of the journal and whether a process
// writes it.
func (h *homeSessions) Version(_ context.Context, id string) (int64, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, now, err := h.find(id)
	return now.size, now.phase == session.Running, err
}

// Open implements panel.Home. A name is one that the manifest or the journal
// lists; links are not followed.
func (h *homeSessions) Open(ctx context.Context, id, name string) (io.ReadSeekCloser, int64, error) {
	read, err := h.Session(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	missing := reason.Errorf(reason.NotFound, "the session has no file %.200q", name)
	root, err := os.OpenRoot(h.home.New(id).Dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	if !lists(root, read, name) {
		return nil, 0, missing
	}
	// Before it is opened: a pipe would wait for who writes it.
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil, 0, missing
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, 0, missing
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// lists reports whether a session has a file of that name, by its own documents.
func lists(root *os.Root, s *panel.Session, name string) bool {
	if name == evidence.JournalFile || name == evidence.ManifestFile {
		return true
	}
	for _, e := range s.Journal {
		if e.Name == evidence.StepArtifact && e.StepID == "artifact-"+name {
			return true
		}
	}
	src, err := root.ReadFile(evidence.ManifestFile)
	if err != nil {
		return false
	}
	listed, _ := bundle.ParseManifest(bundle.ProfileBundle, src)
	return slices.ContainsFunc(listed, func(l bundle.Line) bool { return l.Path == name })
}

// Audit implements panel.Home.
func (h *homeSessions) Audit(ctx context.Context, id string) (*bundle.Report, error) {
	h.mu.Lock()
	s, _, err := h.find(id)
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	opt, err := h.audit()
	if err != nil {
		return nil, err
	}
	opt.Profile = bundle.ProfileBundle
	return bundle.Audit(ctx, s.Dir, opt)
}

// panel puts the pages in front of an API. The sessions of the home are there for
// this machine, and for others only where --show-home asked for it. With an --origin
// of another name they come through something that need not say so.
func (a *app) panel(ctx context.Context, f serveFlags, apiHandler http.Handler, local bool,
	log *slog.Logger) (http.Handler, func(), error) {
	local = local && !slices.ContainsFunc(f.origins, func(origin string) bool { return !api.LoopbackHost(origin) })
	opt := panel.Options{API: apiHandler, Log: log, Version: version, Loopback: local, ShowHome: f.showHome}
	wait := func() {}
	if local || f.showHome {
		home := newHomeSessions(a.home, func() (bundle.Options, error) {
			trust, err := a.trust(new(auditFlags), "")
			return auditOptions(trust), err
		})
		opt.Home = home
		ctx, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := home.warm(ctx); err != nil {
				log.Warn("the sessions of the home cannot be read", "error", err)
			}
		}()
		wait = func() { stop(); <-done }
	}
	p, err := panel.New(opt)
	return p, wait, err
}
