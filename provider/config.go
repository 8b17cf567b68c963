package provider

import (
	"log/slog"
	"time"

	"remit/nexus/api"
	"remit/work/sandbox"
)

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
