package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"remit/law/secret"
	"remit/proof/reason"
	"remit/proof/record"
	"remit/work/edge"
)

// Protocol is a wire protocol that engines speak.
type Protocol = record.Protocol

// The three protocols.
const (
	Chat      Protocol = "chat"      // POST …/chat/completions
	Responses Protocol = "responses" // POST …/responses
	Messages  Protocol = "messages"  // POST …/v1/messages
)

// Options say what one gateway lets through.
type Options struct {
	Upstream Upstream
	// Model is the one admitted model, by the name that is sent to the provider.
	Model  string
	Limits Limits
	// Prices override the built-in table; the key is "provider/model".
	Prices map[string]Price
	// Token is what the engine must present; "" lets any engine in.
	Token string
	// Record gets each request once, when it is over, also the refused ones.
	// Calls do not overlap. They come in the order of ends, not of [Record.Seq].
	Record func(record.ModelRequest)
	// KeepBodies opens the file for a body, by a name such as
	// "000001-request.json"; nil keeps none. What is written has credentials
	// taken out. It may be called from several goroutines. A request whose body
	// cannot be kept does not leave.
	KeepBodies func(name string) (io.WriteCloser, error)
	// StoredState lets requests use what is stored at the provider under the
	// credential: files, containers, earlier answers, "store".
	StoredState bool
	// AgentIn names the agent that gets a system text, for an engine that has
	// several; nil, or "": it is not known.
	AgentIn func(system string) string
	// Clock is the time of records; nil is the system's.
	Clock func() time.Time

	// LookupEnv reads a variable for [Credential.Env]; nil is the process's own.
	LookupEnv func(name string) (string, bool)
	// RunCommand starts the program of [Credential.Command] and returns what it
	// printed. This package starts no processes: without it, such a credential
	// is auth_unavailable.
	RunCommand func(ctx context.Context, argv []string) ([]byte, error)
}

// Gateway serves one run.
type Gateway struct {
	model    string
	provider string
	asked    map[string]bool // the names by which an engine may ask for model
	upstream *upstream
	cloud    *cloud // of upstream, nil for none
	ledger   *ledger
	secrets  *secrets
	token    [sha256.Size]byte
	guarded  bool // a token is asked for
	salt     [16]byte
	bounds   bounds
	bodies   *pool

	keep func(name string) (io.WriteCloser, error)
	now  func() time.Time
	wait func(ctx context.Context, d time.Duration) error // between attempts

	stored bool // requests may use what is stored over there

	names atomic.Bool // the provider names the model that answers: its answer to a probe did

	recordMu sync.Mutex // keeps calls of record apart
	record   func(record.ModelRequest)
	agentIn  func(system string) string

	server *http.Server
	base   context.Context // of everything that is under way
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	seq      int64
	closed   bool
	underway sync.WaitGroup
}

var errClosed = errors.New("the gateway is closed")

// Open reads the credential and checks the configuration. Errors are
// [*reason.Error]: local_config_missing (an address, proxy or CA file that is
// missing or cannot be used), auth_unavailable (no usable credential),
// model_not_admitted (no model given), price_unknown (a limit in money that
// nothing could keep). None shows the credential or the provider's address.
func Open(ctx context.Context, o Options) (*Gateway, error) {
	if o.Model == "" {
		return nil, reason.Errorf(reason.ModelNotAdmitted, "the gateway was given no model")
	}
	price, err := priceOf(o)
	if err != nil {
		return nil, err
	}
	credential, err := o.Upstream.Credential.read(ctx, o)
	if err != nil {
		return nil, err
	}
	g := &Gateway{model: o.Model, provider: o.Upstream.Provider, asked: map[string]bool{o.Model: true}, guarded: o.Token != "",
		bounds: defaultBounds, bodies: newPool(defaultBounds.allBodies), keep: o.KeepBodies, now: o.Clock, wait: pause, record: o.Record,
		agentIn: o.AgentIn, stored: o.StoredState}
	for name, sent := range o.Upstream.Models {
		g.asked[name] = sent == o.Model
	}
	if g.upstream, err = newUpstream(o.Upstream, credential, o); err != nil {
		return nil, err
	}
	g.cloud = g.upstream.cloud
	g.ledger = newLedger(o.Limits, price)
	g.token = sha256.Sum256([]byte(o.Token))
	g.secrets = newSecrets(append(values(credential),
		secret.Value{Name: "proxy", Value: g.upstream.proxyPassword},
		secret.Value{Name: "gateway-token", Value: o.Token})...)
	if _, err := rand.Read(g.salt[:]); err != nil {
		return nil, reason.Errorf(reason.InfrastructureFault, "reading random bytes: %w", err)
	}
	if g.now == nil {
		g.now = time.Now
	}
	g.base, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	g.server = g.newServer()
	return g, nil
}

// newServer makes the server for the engine's side. Its time limits are
// against an agent that opens connections and says nothing.
func (g *Gateway) newServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      g,
		Protocols:                    protocols,
		ReadHeaderTimeout:            10 * time.Second,
		IdleTimeout:                  2 * time.Minute,
		MaxHeaderBytes:               32 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0), // it would print what the agent chose to send
		BaseContext:                  func(net.Listener) context.Context { return g.base },
		ConnContext:                  withConn,
	}
}

// Serve answers on a listener until it or the gateway is closed. It takes
// [MaxConnections] connections at a time; more wait.
func (g *Gateway) Serve(l net.Listener) error {
	err := g.server.Serve(watchedListener{edge.Limit(l, MaxConnections), g.unread})
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Handler is what Serve serves, for callers that have a server of their own.
func (g *Gateway) Handler() http.Handler { return g }

// Totals are what the gateway has counted so far.
func (g *Gateway) Totals() Totals { return g.ledger.sum() }

// Close ends everything that is under way and waits for it, so that every
// record is written when it returns.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel(errClosed)
	err := g.server.Close()
	g.underway.Wait()
	g.upstream.transport.CloseIdleConnections()
	return err
}

// enter counts a request that begins; false if the gateway is closed.
func (g *Gateway) enter() (seq int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0, false
	}
	g.seq++
	g.underway.Add(1)
	return g.seq, true
}

// knows reports whether a token is the engine's, in constant time.
func (g *Gateway) knows(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// pause waits between two attempts.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// What net/http does not take for a request, it answers by itself: two hosts, a
// header that is too large, HTTP/2, an expectation that cannot be met. Nothing
// of it gets here, and yet it was a request. Such a request is known by its
// answer: a status of failure on a connection for which the gateway has none to
// give. It is recorded and counted like every other that is refused.

// watchedListener accepts connections whose answers are looked at.
type watchedListener struct {
	net.Listener
	unread func(status int)
}

func (l watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: c, unread: l.unread}, nil
}

type watchedConn struct {
	net.Conn
	unread  func(status int)
	serving atomic.Bool // the gateway has a request of this connection
	owing   atomic.Bool // and has not begun to answer it
}

// Write looks at the beginning of what goes to the engine: net/http writes a
// status line at the beginning of a write.
func (c *watchedConn) Write(p []byte) (int, error) {
	if status := statusOf(p); status >= http.StatusOK {
		if owed := c.owing.Swap(false); !owed && !c.serving.Load() && status >= http.StatusBadRequest {
			c.unread(status)
		}
	}
	return c.Conn.Write(p)
}

// statusOf reads a status line, 0 if there is none.
func statusOf(p []byte) int {
	line, ok := bytes.CutPrefix(p, []byte("HTTP/1."))
	if !ok || len(line) < 5 {
		return 0
	}
	status, err := strconv.Atoi(string(line[2:5]))
	if err != nil {
		return 0
	}
	return status
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// taken notes that the gateway has a request, until over is called.
func taken(ctx context.Context) (over func()) {
	c, ok := ctx.Value(connKey{}).(*watchedConn)
	if !ok { // served by another server
		return func() {}
	}
	c.serving.Store(true)
	c.owing.Store(true)
	return func() { c.serving.Store(false) }
}

// unread records a request that was answered before it got here.
func (g *Gateway) unread(status int) {
	seq, ok := g.enter()
	if !ok {
		return
	}
	defer g.underway.Done()
	if g.ledger.full(g.bounds.requests) {
		return
	}
	g.ledger.refused()
	if g.record == nil {
		return
	}
	g.recordMu.Lock()
	defer g.recordMu.Unlock()
	g.record(record.ModelRequest{Seq: seq, At: g.now(), Status: status, Refused: reason.RequestInvalid,
		Detail: "it is no HTTP request that could be read", UsageKnown: true, CostKnown: true})
}
