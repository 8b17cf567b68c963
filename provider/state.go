package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remit/nexus/api"
	"remit/proof/atomicfile"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// Identity is what a provider remembers of its registration.
type Identity struct {
	Nexus      string `json:"nexus"`       // URL of the authority
	ProviderID string `json:"provider_id"` // prv_…
	Name       string `json:"name"`
}

// State is the directory of a provider: provider.json, the credential and the
// spool. It belongs to one user (0700).
type State struct{ Dir string }

const (
	identityFile   = "provider.json"
	credentialFile = "credential"
	spoolDir       = "spool"
)

// maxRegistration is more than a registration and its credential take, in bytes.
const maxRegistration = 16 << 10

// Load reads the registration and the credential.
func (s State) Load() (Identity, string, error) {
	var id Identity
	b, err := os.ReadFile(filepath.Join(s.Dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return id, "", reason.Errorf(reason.NotFound, "%s: this machine is not registered as a provider", s.Dir).
			WithHint("`remit provider join --nexus URL --token-file FILE`, where FILE has a registration token of the nexus")
	}
	if err != nil {
		return id, "", fmt.Errorf("reading the provider's registration: %w", err)
	}
	if err := json.Unmarshal(b, &id); err != nil || id.Nexus == "" || id.ProviderID == "" {
		return id, "", reason.Errorf(reason.RequestInvalid, "%s: not a provider's registration", filepath.Join(s.Dir, identityFile))
	}
	path := filepath.Join(s.Dir, credentialFile)
	info, err := os.Stat(path)
	if err != nil {
		return id, "", fmt.Errorf("reading the provider's credential: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return id, "", reason.Errorf(reason.Forbidden, "%s can be read by others (mode %o)", path, info.Mode().Perm()).
			WithHint("chmod 600, and register again if others may have read it")
	}
	token, err := os.ReadFile(path)
	if err != nil {
		return id, "", fmt.Errorf("reading the provider's credential: %w", err)
	}
	return id, strings.TrimSpace(string(token)), nil
}

// Save keeps a registration. The credential is written first: a registration
// without one is never seen.
func (s State) Save(id Identity, token string) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("making the provider's directory: %w", err)
	}
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the provider's registration: %w", err)
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{credentialFile, []byte(token + "\n")}, {identityFile, append(b, '\n')}} {
		if err := atomicfile.ReplaceDurably(filepath.Join(s.Dir, f.name), f.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writable reports whether a registration could be saved.
func (s State) writable() error {
	probe := filepath.Join(s.Dir, ".probe")
	err := os.MkdirAll(s.Dir, 0o700)
	if err == nil {
		err = atomicfile.ReplaceDurably(probe, make([]byte, maxRegistration), 0o600)
	}
	if err == nil {
		err = os.Remove(probe)
	}
	if err != nil {
		return reason.Errorf(reason.FileUnusable, "the registration could not be kept in %s: %w", s.Dir, err).
			WithHint("nothing was asked of the nexus, and the registration token is still good")
	}
	return nil
}

// Config is what the operator of a daemon decides.
type Config struct {
	State   State
	Driver  sandbox.Driver // never nil
	Version string         // of this build
	Commit  string         // that this build was made of
	// Sources are the directories below which repositories may be read.
	Sources []string
	// Engines are the programs that engine runs may name, each with the words of
	// its command. Requesters choose among the names and nothing else; without
	// one no engine run is done.
	Engines map[string][]string
	// Agents are the engines that ask a model; nil: none. No name is in both.
	Agents *Agents
	// Home has the records and the proofs of this machine.
	Home string
	// Environments say what is got for the environments of jobs.
	Environments Environments
	// CacheDir keeps checked out trees; Scratch is for work that is removed.
	CacheDir, Scratch string
	// KeyDir holds the key that the bundles of engine runs are signed with; ""
	// gives each run one of its own, which ends with it.
	KeyDir string
	// Caps are the limits of this machine, beside those that the nexus keeps;
	// a zero field is no statement.
	Caps api.Caps
	// Unenforced has the daemon work although the sandbox cannot hold every cap
	// here. The answers name them, for the judge.
	Unenforced bool
	// LeaseTTL is how long a lease lasts without renewal; 0: 30 seconds.
	LeaseTTL time.Duration
	// Heartbeat is the pause between signs of life; 0: 30 seconds.
	Heartbeat time.Duration
	// Grace is how long jobs may go on when the daemon is asked to stop. What has
	// not ended then is killed and handed back; 0: at once.
	Grace  time.Duration
	Log    *slog.Logger // nil: none
	Clock  func() time.Time
	Client api.Options
}
