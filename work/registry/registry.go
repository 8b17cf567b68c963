package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"remit/proof/reason"
)

// Ecosystem is a kind of registry, and the first part of its paths at the front.
type Ecosystem string

// The ecosystems that have a front.
const (
	NPM    Ecosystem = "npm"    // npm, pnpm, yarn
	PyPI   Ecosystem = "pypi"   // the simple index: pip, uv
	Go     Ecosystem = "go"     // GOPROXY, with the checksum database
	Crates Ecosystem = "crates" // cargo's sparse index
	Debian Ecosystem = "debian" // files in the pools of archives of Debian's form
	// RubyGems has the files of gems and the compact index, without the dependency API.
	RubyGems Ecosystem = "rubygems"
)

// Ecosystems are all of them, sorted.
func Ecosystems() []Ecosystem { return []Ecosystem{Crates, Debian, Go, NPM, PyPI, RubyGems} }

// Package is what a request is about.
type Package struct {
	Ecosystem Ecosystem `json:"ecosystem"`
	// Name is the package's name: of npm with its scope ("@scope/name"), of PyPI
	// normalised (PEP 503), of Go the module path, of crates as the client wrote
	// it, for an index in lower case.
	Name string `json:"name"`
	// Version is empty for an index, which tells of all versions. Go's have their
	// "v"; those of PyPI are as they stand in the name of the file.
	Version string `json:"version,omitempty"`
}

// Options are what a front is made of.
type Options struct {
	// Upstreams are the registries that can be reached; [Defaults] has the public
	// ones. What is not named is refused.
	Upstreams map[Ecosystem]Upstream
	// Allow says whether a package may be fetched: what the lock file of the base
	// names, an index (Version "") when it names any version. It is called by several
	// goroutines. The client gets its error, and the delivery records it.
	Allow func(Package) error
	// Other says which of [Upstream].Others has a package, by its URL; "" is the
	// upstream itself, and so is nil.
	Other func(Package) string
	// Unlocked says of which files of npm no lock file has a digest. They are compared with
	// the SHA-512 that the registry's own packument has of the version.
	Unlocked func(Package) bool
	// Placed says of which files of npm the registry's own packument has to say where they
	// are, as a lock file says that they are not in the usual place.
	Placed func(Package) bool
	Limits Limits // zero fields are those of [DefaultLimits]

	// Resolve and Dial take the place of the machine's resolver and network in
	// tests; the check of addresses lies between the two.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// Limits bound what a fetch may take.
type Limits struct {
	Connections int           // of clients at a time; more wait
	Exchanges   int           // with registries at a time; more wait
	Requests    int           // of clients, in all; each is recorded
	IndexBytes  int64         // of an index, as it comes and unpacked
	FileBytes   int64         // of a file
	TotalBytes  int64         // of everything that registries send
	AnswerTime  time.Duration // for one answer, to its end
	StallTime   time.Duration // without a byte, before and within an answer
}

// DefaultLimits hold what large projects need: indexes of npm have some 20 MB, and
// the wheels of machine learning nearly 1 GB.
var DefaultLimits = Limits{
	Connections: 128,
	Exchanges:   32,
	Requests:    50_000,
	IndexBytes:  64 << 20,
	FileBytes:   2 << 30,
	TotalBytes:  16 << 30,
	AnswerTime:  15 * time.Minute,
	StallTime:   time.Minute,
}

// indexesAtOnce bounds how many large indexes are in memory.
const indexesAtOnce = 2

// Front is a way out. It serves until [Front.Close].
type Front struct {
	sites     map[Ecosystem]*site
	others    map[Ecosystem]map[string]*site // by URL
	other     func(Package) string
	unlocked  func(Package) bool
	placed    func(Package) bool
	allow     func(Package) error
	limits    Limits
	exchanges chan struct{}
	indexes   chan struct{}
	received  atomic.Int64 // bytes of registries so far
	record    record
	service
}

// New makes a front. It reads CA files, and connects to nothing.
func New(o Options) (*Front, error) {
	if o.Allow == nil {
		return nil, errors.New("registry: Options.Allow is not set: what may be fetched has to be said")
	}
	f := &Front{allow: o.Allow, other: o.Other, unlocked: o.Unlocked, placed: o.Placed, limits: o.Limits.orDefault(),
		sites: map[Ecosystem]*site{}, others: map[Ecosystem]map[string]*site{}}
	for _, e := range slices.Sorted(maps.Keys(o.Upstreams)) {
		if grammars[e] == nil {
			return nil, fmt.Errorf("registry: there is no front for the ecosystem %q", plain(string(e), 40))
		}
		up, err := newUpstream(e, o.Upstreams[e], o, f.limits)
		if err != nil {
			return nil, err
		}
		f.sites[e], f.others[e] = &site{ecosystem: e, up: up, front: f}, map[string]*site{}
		for _, u := range o.Upstreams[e].Others {
			if o.Other == nil {
				break
			}
			if up, err = newUpstream(e, u, o, f.limits); err != nil {
				return nil, err
			}
			f.others[e][u.URL] = &site{ecosystem: e, up: up, front: f}
		}
	}
	f.exchanges = make(chan struct{}, f.limits.Exchanges)
	f.indexes = make(chan struct{}, indexesAtOnce)
	f.record.most = f.limits.Requests
	f.service.init(f, f.limits.Connections)
	f.server.WriteTimeout, f.server.IdleTimeout = f.limits.AnswerTime+f.limits.StallTime, time.Minute
	return f, nil
}

// Close ends every connection and exchange, waits for them, and returns what was
// delivered and what was refused, sorted. It can be called again, with the same
// answer.
func (f *Front) Close() []Delivery {
	f.end()
	for e, s := range f.sites {
		s.up.transport.CloseIdleConnections()
		for _, s := range f.others[e] {
			s.up.transport.CloseIdleConnections()
		}
	}
	return f.record.list()
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits
	set(&d.Connections, l.Connections)
	set(&d.Exchanges, l.Exchanges)
	set(&d.Requests, l.Requests)
	set(&d.IndexBytes, l.IndexBytes)
	set(&d.FileBytes, l.FileBytes)
	set(&d.TotalBytes, l.TotalBytes)
	set(&d.AnswerTime, l.AnswerTime)
	set(&d.StallTime, l.StallTime)
	return d
}

func set[T int | int64 | time.Duration](to *T, value T) {
	if value > 0 {
		*to = value
	}
}

// refused is an error with the code of a delivery that did not take place.
func refused(code reason.Code, format string, args ...any) *reason.Error {
	return reason.Errorf(code, format, args...)
}
