// Package session is what this machine keeps of its runs when none goes on: the
// home with its sessions and caches, what a session looks like from outside,
// what was done with it since its end (the operator's outcome, receipts of an
// authority, signatures), and how two of them differ.
//
// A session is a directory whose journal has the facts; every other document in
// it follows from the journal. Whatever is added is appended there, and the
// bundle is sealed anew with [Session.Seal].
package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// Home is where Remit keeps what outlives a command: sessions and caches. It
// never lies in a target repository.
type Home struct {
	Dir string
	// CacheBytes is what cached base trees may take on disk, see [Home.Trim]; 0
	// is the default.
	CacheBytes int64
	// KeyDir is where the signing key lies, "" for keys below Dir. A home that is
	// made for one run has the key of the machine, which outlives it.
	KeyDir string
	// GoCache is the directory of a Go build cache that several homes share, ""
	// for one of its own below Dir.
	GoCache string
	// Images and Layers are the stores of system images and of dependency layers, ""
	// for those below Dir. A home that is made for one run has those of its machine.
	Images, Layers string
}

// HomeFromEnv is $REMIT_HOME, else $XDG_STATE_HOME/remit, else
// ~/.local/state/remit; $REMIT_CACHE_MB is what its cache may take, and
// $REMIT_GOCACHE a Go build cache that it shares with other homes.
func HomeFromEnv() (h Home, err error) {
	if h.CacheBytes, err = cacheFromEnv(); err != nil {
		return h, err
	}
	if dir := os.Getenv(sandbox.EnvBuildCache); dir != "" {
		if h.GoCache, err = filepath.Abs(dir); err != nil {
			return h, err
		}
	}
	if dir := os.Getenv("REMIT_HOME"); dir != "" {
		h.Dir, err = filepath.Abs(dir)
		return h, err
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		h.Dir = filepath.Join(dir, "remit")
		return h, nil
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return h, reason.Errorf(reason.HomeUnusable, "finding a place for sessions: %w", err)
	}
	h.Dir = filepath.Join(user, ".local", "state", "remit")
	return h, nil
}

// Sessions is the directory of all sessions.
func (h Home) Sessions() string { return filepath.Join(h.Dir, ".autopilot", "sessions") }

// CacheDir holds base trees by git tree id.
func (h Home) CacheDir() string { return filepath.Join(h.Dir, "cache") }

// SandboxDir is the sandbox driver's state.
func (h Home) SandboxDir() string { return filepath.Join(h.Dir, "sandbox") }

// SandboxOptions are those of every sandbox of this home: no command sees the
// signing key or the books of the authority, whatever else it is shown.
func (h Home) SandboxOptions() sandbox.Options {
	return sandbox.Options{StateDir: h.SandboxDir(), Hidden: []string{h.Keys().Dir, h.AuthorityDir()}, Cache: h.BuildCache()}
}

// QuarantineDir holds the originals of artifacts in which a secret was found,
// by session. It is no part of any session or bundle.
func (h Home) QuarantineDir() string { return filepath.Join(h.Dir, "quarantine") }

// DisposableDir is the repository that a run has made to deliver its change to.
func (h Home) DisposableDir(id string) string { return filepath.Join(h.disposables(), id) }

func (h Home) disposables() string { return filepath.Join(h.Dir, "disposable") }

// DisposableName is how evidence calls that directory.
func DisposableName(id string) string { return "$REMIT_HOME/disposable/" + id }

// DisposableKept is how long such a repository is kept for its operator's word.
const DisposableKept = 14 * 24 * time.Hour

// BuildCache is the Go build cache that sandboxes of this home are lent.
func (h Home) BuildCache() sandbox.BuildCache {
	return sandbox.BuildCache{Dir: cmp.Or(h.GoCache, filepath.Join(h.Dir, "gocache"))}
}

// AuthorityDir holds the books of the authority that is a part of this machine.
func (h Home) AuthorityDir() string { return filepath.Join(h.Dir, "authority") }

// Prepare makes the directories that a run writes to. That it cannot is reported
// before anything is started.
func (h Home) Prepare() error {
	for _, dir := range []string{h.Sessions(), h.WorkDir(), h.CacheDir(), h.SandboxDir()} {
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = writable(dir)
		}
		if err != nil {
			return h.unusable(err)
		}
	}
	return nil
}

// writable asks the system itself: modes do not tell of a read-only mount.
func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &fs.PathError{Op: "write to", Path: dir, Err: err}
	}
	return nil
}

// unusable is the error of a home that cannot be read or written.
func (h Home) unusable(err error) error {
	e := reason.Errorf(reason.HomeUnusable, "the place for sessions cannot be used: %w", err)
	e.File = h.Dir
	return e.WithHint("set REMIT_HOME to a directory that you can write, or repair this one's permissions")
}

// WorkDir holds what runs need for as long as they go on.
func (h Home) WorkDir() string { return filepath.Join(h.Dir, "work") }

// Session is one session directory.
type Session struct {
	ID  string
	Dir string

	home *Home // that the session is one of; nil when it came from elsewhere
}

// NewPrefix marks a session directory that has no first entry yet.
const NewPrefix = ".new-"

// New is the session of a run that begins.
func (h Home) New(id string) Session {
	return Session{ID: id, Dir: filepath.Join(h.Sessions(), id), home: &h}
}

// Journal is the path of the session's journal.
func (s Session) Journal() string { return filepath.Join(s.Dir, evidence.JournalFile) }

// Latest names the newest session of the machine, of whichever repository it is.
const Latest = "latest"

// Find returns the session of an id, of an unambiguous beginning or end of one,
// of "latest", or of a session directory's path.
func (h Home) Find(name string) (Session, error) {
	if strings.ContainsRune(name, os.PathSeparator) || name == "." {
		if _, err := os.Stat(filepath.Join(name, evidence.JournalFile)); err == nil {
			abs, err := filepath.Abs(name)
			return h.session(filepath.Base(abs), abs), err
		}
	}
	ids, err := h.List()
	if err != nil {
		return Session{}, err
	}
	if name == Latest && len(ids) > 0 {
		return ids[len(ids)-1], nil
	}
	var found []Session
	for _, s := range ids {
		if s.ID == name {
			return s, nil
		}
		if name != "" && (strings.HasPrefix(s.ID, name) || strings.HasSuffix(s.ID, name)) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Session{}, reason.Errorf(reason.SessionNotFound, "no session %q in %s", name, h.Sessions()).
			WithHint("see `remit list`")
	}
	return Session{}, reason.Errorf(reason.SessionNotFound, "%q is the beginning or end of %d sessions", name, len(found)).
		WithHint("give more of the id; see `remit list`")
}

// List returns all sessions, oldest first.
func (h Home) List() ([]Session, error) {
	entries, err := os.ReadDir(h.Sessions())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, h.unusable(fmt.Errorf("listing sessions: %w", err))
	}
	var out []Session
	for _, e := range entries {
		s := h.session(e.Name(), filepath.Join(h.Sessions(), e.Name()))
		if _, err := os.Lstat(s.Journal()); e.IsDir() && err == nil && !strings.HasPrefix(s.ID, NewPrefix) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Session) int {
		if len(a.ID) >= idSecond && len(b.ID) >= idSecond && a.ID[:idSecond] == b.ID[:idSecond] {
			return cmp.Or(strings.Compare(a.began(), b.began()), strings.Compare(a.ID, b.ID))
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// idSecond is the length of the time that an id begins with, which has no part of
// a second.
const idSecond = len("20060102T150405Z")

// began is the time of the first entry of the journal, "" where it has none.
func (s Session) began() string {
	f, err := os.Open(s.Journal())
	if err != nil {
		return ""
	}
	defer f.Close()
	var first struct {
		StartedAt string `json:"started_at"`
	}
	_ = json.NewDecoder(io.LimitReader(f, journal.MaxLine)).Decode(&first) // "" sorts first
	return first.StartedAt
}
