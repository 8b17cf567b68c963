package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// Home is where Remit keeps what outlives a command: sessions and caches. It
// never lies in a target repository.
type Home struct{ Dir string }

// HomeFromEnv is $REMIT_HOME, else $XDG_STATE_HOME/remit, else
// ~/.local/state/remit.
func HomeFromEnv() (Home, error) {
	if dir := os.Getenv("REMIT_HOME"); dir != "" {
		abs, err := filepath.Abs(dir)
		return Home{abs}, err
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return Home{filepath.Join(dir, "remit")}, nil
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return Home{}, fmt.Errorf("finding a place for sessions: %w (set REMIT_HOME)", err)
	}
	return Home{filepath.Join(user, ".local", "state", "remit")}, nil
}

// Sessions is the directory of all sessions.
func (h Home) Sessions() string { return filepath.Join(h.Dir, ".autopilot", "sessions") }

// CacheDir holds base trees by git tree id.
func (h Home) CacheDir() string { return filepath.Join(h.Dir, "cache") }

// SandboxDir is the sandbox driver's state.
func (h Home) SandboxDir() string { return filepath.Join(h.Dir, "sandbox") }

func (h Home) workDir() string { return filepath.Join(h.Dir, "work") }

// Session is one session directory.
type Session struct {
	ID  string
	Dir string
}

// Journal is the path of the session's journal.
func (s Session) Journal() string { return filepath.Join(s.Dir, evidence.JournalFile) }

// Find returns the session of an id, of an unambiguous beginning or end of one,
// of "latest", or of a session directory's path.
func (h Home) Find(name string) (Session, error) {
	if strings.ContainsRune(name, os.PathSeparator) || name == "." {
		if _, err := os.Stat(filepath.Join(name, evidence.JournalFile)); err == nil {
			abs, err := filepath.Abs(name)
			return Session{filepath.Base(abs), abs}, err
		}
	}
	ids, err := h.List()
	if err != nil {
		return Session{}, err
	}
	if name == "latest" && len(ids) > 0 {
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
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	var out []Session
	for _, e := range entries {
		s := Session{e.Name(), filepath.Join(h.Sessions(), e.Name())}
		if _, err := os.Lstat(s.Journal()); e.IsDir() && err == nil {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Session) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// State is what a session looks like from outside.
type State struct {
	Session
	Phase  string // running, interrupted, unsealed or sealed
	Report *evidence.Report
	Log    *journal.Log
	At     string // the last journal step, where an interrupted run stopped
}

// The phases of a session. Only a sealed session has a complete bundle.
const (
	Running     = "running"
	Interrupted = "interrupted"
	Unsealed    = "unsealed"
	Sealed      = "sealed"
)

// Inspect reads a session without changing it.
func (s Session) Inspect() (*State, error) {
	log, err := journal.ReadFile(s.Journal())
	if err != nil {
		return nil, err
	}
	st := &State{Session: s, Log: log, Phase: Interrupted}
	if n := len(log.Entries); n > 0 {
		last := log.Entries[n-1]
		st.At = fmt.Sprintf("%s (%s)", last.Name, last.Status)
		if st.Report, err = evidence.ReportOf(log.Entries); err != nil {
			return nil, err
		}
	}
	busy, err := journal.Busy(s.Journal())
	if err != nil {
		return nil, err
	}
	ended := slices.ContainsFunc(log.Entries, func(e journal.Entry) bool { return e.Name == evidence.StepRunCompleted })
	switch {
	case busy:
		st.Phase = Running
	case ended:
		st.Phase = Unsealed
		if _, err := os.Lstat(filepath.Join(s.Dir, evidence.ManifestFile)); err == nil {
			st.Phase = Sealed
			st.Report, err = s.Report()
			return st, err
		}
	}
	return st, nil
}

// Sweep removes the temporary trees of runs that no longer live. What a killed
// run left goes at the next command; its session stays.
func (h Home) Sweep() error {
	entries, err := os.ReadDir(h.workDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for left-over work trees: %w", err)
	}
	for _, e := range entries {
		s := Session{e.Name(), filepath.Join(h.Sessions(), e.Name())}
		if busy, err := journal.Busy(s.Journal()); err == nil && busy {
			continue
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			continue // not ours to judge: leave it
		}
		if err := os.RemoveAll(filepath.Join(h.workDir(), e.Name())); err != nil {
			return fmt.Errorf("removing a left-over work tree: %w", err)
		}
	}
	return nil
}
