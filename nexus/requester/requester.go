// Package requester is the client of an authority for one run: it registers the
// run, asks for approvals, has a change proved by a provider, settles, and
// collects the receipts.
//
// There are two ways to connect. A [Connection] to a server has
// providers elsewhere: the patched tree travels as a git pack, a job of type
// oa.sandbox_run.v1 runs the verification commands over it, and the requester
// waits on the run's lane. A connection to the authority that is part of this
// process has its provider here, too: it leases the very same job and hands in
// what the verifier has just seen.
//
// Every call is idempotent. Keys are derived from the session id, so that a
// requester that was killed finds the run, the job and the settlement that it
// had, and pays for nothing twice.
package requester

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"
)

// Connection is the way to an authority.
type Connection struct {
	Client *api.Client
	// Worker speaks for the provider in this process, nil when there is none.
	Worker *api.Client
	// Provider is that provider.
	Provider job.ProviderInfo
	// Operator speaks for the person at this terminal, who decides about
	// approvals; nil when Client does, as far as its credential goes.
	Operator *api.Client
	Close    func() error
}

// Person is the client that decides about approvals.
func (c *Connection) Person() *api.Client {
	if c.Operator != nil {
		return c.Operator
	}
	return c.Client
}

// Requester asks one authority about one run.
type Requester struct {
	// Patience is how long an authority elsewhere may be out of reach while a
	// change is being proved, which has cost something by then.
	Patience time.Duration
	// Wait is how long the run, and the proof of its change, wait for a provider
	// when none could take it; Waiting hears of it.
	Wait    time.Duration
	Waiting func(most time.Duration, err error)

	connect func(context.Context) (*Connection, error)
	claim   job.Claim
	run     string // id of the run, once it is known
	ready   ready

	heard      int64 // entries of the journal that the authority has
	heardKnown bool
}

// New makes a requester. It connects for each call anew, or shortly before: what
// is connected to may be a file that others want to open as well.
func New(connect func(context.Context) (*Connection, error)) *Requester {
	return &Requester{connect: connect, Patience: Patience}
}

// Open registers a run at the authority together with what its proof needs, so
// that a run without a provider or a budget is refused here. It returns the
// receipts of the run's log. A known run is only looked up: the authority forgets
// the keys of requests after some time.
func (q *Requester) Open(ctx context.Context, c job.Claim) ([]record.Recorded, error) {
	q.claim, q.run = c, c.RunID
	var receipts []record.Recorded
	err := q.with(ctx, func(conn *Connection) (err error) {
		if q.run != "" {
			receipts, err = q.receipts(ctx, conn)
			return err
		}
		body := api.RunRequest{RepoRef: c.RepoRef, PolicyBundleID: &c.PolicyBundleID, Metadata: &c.Metadata, Proof: needsOf(c),
			SilenceSecs: api.Optional(int64(c.Silence / time.Second))}
		if c.IssueRef != "" {
			body.IssueRef = &c.IssueRef
		}
		if c.Summary != nil {
			body.Summary = new(api.RunSummary(c.Summary))
		}
		if err := awaitProvider(ctx, q.Wait, q.Waiting, func(time.Duration) error {
			made, err := api.CreateRun.Do(ctx, conn.Client, q.key("run"), api.None{}, body)
			if reason.CodeOf(err) == reason.RequestInvalid && body.Summary != nil { // an authority of before takes none
				body.Summary = nil
				made, err = api.CreateRun.Do(ctx, conn.Client, q.key("run"), api.None{}, body)
			}
			q.run = made.RunID
			return err
		}); err != nil {
			return err
		}
		receipts, err = q.receipts(ctx, conn)
		return err
	})
	return receipts, err
}

// Find returns the run that an earlier life of this session has made, "" when
// there is none. It asks by the key of the request, which is all that a process
// knows that was killed before the answer came.
func (q *Requester) Find(ctx context.Context, session string) (run string, err error) {
	key := derive(session, "run")
	err = q.with(ctx, func(conn *Connection) error {
		page, err := api.ListRuns.Get(ctx, conn.Client, api.ListRunsParams{RequestKey: &key})
		if err != nil {
			return fmt.Errorf("looking for the run of the session: %w", err)
		}
		for _, found := range page.Items {
			if found.Metadata["session_id"] == session { // an authority of before lists all runs
				run = found.RunID
			}
		}
		return nil
	})
	return run, err
}

// needsOf is nil for a run that is never proved.
func needsOf(c job.Claim) *api.ProofNeeds {
	n := c.Proof
	if n.Capability == "" {
		return nil
	}
	return &api.ProofNeeds{CPUMillis: api.Optional(n.CPUMillis), MemoryMb: api.Optional(n.MemoryMB), DiskMb: api.Optional(n.DiskMB),
		TimeoutSecs: api.Optional(n.TimeoutSecs), MaxPriceMsats: api.Optional(c.MaxPriceMsats)}
}

// Close ends the run. Its bundle is handed over unless the authority is here.
func (q *Requester) Close(ctx context.Context, passed bool, bundle func(io.Writer) error) error {
	status := api.FinishRequestStatusFailed
	if passed {
		status = api.FinishRequestStatusSucceeded
	}
	return q.with(ctx, func(conn *Connection) error {
		if conn.Worker == nil {
			if err := q.upload(ctx, conn, job.BundleZip, bundle); err != nil {
				return fmt.Errorf("handing over the bundle: %w", err)
			}
		}
		_, err := api.FinishRun.Do(ctx, conn.Client, q.key("finish"), api.FinishRunParams{RunID: q.run}, api.FinishRequest{Status: status})
		if reason.CodeOf(err) == reason.RunClosed {
			return nil // another client has ended it
		}
		return err
	})
}

// Tell writes a receipt that only the requester can give, such as ForgeUpdated,
// into the log of a run, and returns the receipts of the log.
func (q *Requester) Tell(ctx context.Context, run, key string, receiptType string, payload any) ([]record.Recorded, error) {
	q.run = run
	body, err := canon.Marshal(map[string]any{"receipt_type": receiptType, "payload": payload})
	if err != nil {
		return nil, fmt.Errorf("encoding receipt %s: %w", receiptType, err)
	}
	var receipts []record.Recorded
	err = q.with(ctx, func(conn *Connection) error {
		if _, err := api.AppendEvent.Do(ctx, conn.Client, derive(run, key), run,
			api.EventRequest{EventType: "receipt", EventKey: &key, Payload: body}); err != nil {
			return err
		}
		receipts, err = q.receipts(ctx, conn)
		return err
	})
	return receipts, err
}

// key is the Idempotency-Key of one step of the run.
func (q *Requester) key(step string) string { return derive(q.claim.Key, step) }

func derive(of, step string) string { return canon.Digest([]byte(of + "\n" + step)) }

func unexpected(what string) error {
	return reason.Errorf(reason.StoreUnavailable, "the nexus did not say %s", what)
}

// receipts reads all receipts of the run's log.
func (q *Requester) receipts(ctx context.Context, conn *Connection) ([]record.Recorded, error) {
	var out []record.Recorded
	limit := 200
	for cursor := (*string)(nil); ; {
		page, err := api.ListReceipts.Get(ctx, conn.Client, api.ListReceiptsParams{RunID: q.run, Cursor: cursor, Limit: &limit})
		if err != nil {
			return out, fmt.Errorf("reading the receipts: %w", err)
		}
		for _, r := range page.Items {
			read, err := receiptOf(r)
			if err != nil {
				return out, err
			}
			out = append(out, read)
		}
		if cursor = page.NextCursor; cursor == nil {
			return out, nil
		}
	}
}

// receiptOf takes a receipt only with the digest of its content.
func receiptOf(r api.Receipt) (record.Recorded, error) {
	payload, err := canon.Canonicalize(r.Payload)
	if err != nil {
		return record.Recorded{}, fmt.Errorf("reading receipt %d: %w", r.Seq, err)
	}
	at, err := time.Parse(api.TimeLayout, r.RecordedAt)
	if err != nil {
		return record.Recorded{}, reason.Errorf(reason.RequestInvalid, "receipt %d: recorded_at: %w", r.Seq, err)
	}
	out := record.Recorded{Seq: r.Seq, RecordedAt: at, Receipt: record.Receipt{
		Type: r.ReceiptType, Payload: payload, Principal: r.Principal, Key: r.IdempotencyKey, SHA256: r.ReceiptSha256}}
	if !out.Sealed() {
		return record.Recorded{}, reason.Errorf(reason.DigestMismatch, "receipt %d (%.40q) does not have the digest that it names",
			r.Seq, r.ReceiptType)
	}
	return out, nil
}

// readyFor is how long a connection may be open between two calls. A connection to the
// authority of this machine opens its file, and other runs wait for that file. A
// connection to a server keeps no other run waiting, and each new one costs the
// handshakes of TCP and TLS.
const (
	readyFor       = 100 * time.Millisecond
	readyElsewhere = 2 * time.Second
)

// ready is a connection that is open, or being opened, for the next call.
type ready struct {
	sync.Mutex
	next       chan connected // nil for none
	expiry     *time.Timer
	connecting sync.Mutex // one connection is opened at a time
}

type connected struct {
	conn *Connection
	err  error
}

// Ready connects beside the caller, so that the next call need not. A connection
// that no call has taken after a moment is closed again.
func (q *Requester) Ready(ctx context.Context) {
	next := make(chan connected, 1)
	go func() {
		conn, err := q.open(ctx)
		next <- connected{conn, err}
	}()
	q.keep(next, readyFor)
}

// Release closes the connection that no call has taken.
func (q *Requester) Release() error {
	next := q.take(nil)
	if next == nil {
		return nil
	}
	if c := <-next; c.conn != nil {
		return c.conn.Close()
	}
	return nil // that it could not be opened is said by the call that needs it
}

// with connects for one call.
func (q *Requester) with(ctx context.Context, call func(*Connection) error) error {
	conn, err := q.connection(ctx)
	if err != nil {
		return err
	}
	return errors.Join(call(conn), conn.Close())
}

// withNext is with for a call that another one follows at once: its connection
// stays open for that.
func (q *Requester) withNext(ctx context.Context, call func(*Connection) error) error {
	conn, err := q.connection(ctx)
	if err != nil {
		return err
	}
	if err := call(conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	next := make(chan connected, 1)
	next <- connected{conn: conn}
	if conn.Worker == nil {
		q.keep(next, readyElsewhere)
	} else {
		q.keep(next, readyFor)
	}
	return nil
}

// connection is the one that is ready, or a new one.
func (q *Requester) connection(ctx context.Context) (*Connection, error) {
	if next := q.take(nil); next != nil {
		if c := <-next; c.err == nil {
			return c.conn, nil
		}
	}
	return q.open(ctx)
}

func (q *Requester) open(ctx context.Context) (*Connection, error) {
	q.ready.connecting.Lock()
	defer q.ready.connecting.Unlock()
	return q.connect(ctx)
}

// keep has a connection wait so long for the next call, and closes it when none comes.
func (q *Requester) keep(next chan connected, most time.Duration) {
	_ = q.Release() // two calls in a row: the later connection counts
	q.ready.Lock()
	defer q.ready.Unlock()
	q.ready.next = next
	q.ready.expiry = time.AfterFunc(most, func() {
		if q.take(next) != nil {
			if c := <-next; c.conn != nil {
				_ = c.conn.Close() // what was asked over it was answered
			}
		}
	})
}

// take takes the connection that waits, if it is the one meant; nil means any.
func (q *Requester) take(meant chan connected) chan connected {
	q.ready.Lock()
	defer q.ready.Unlock()
	next := q.ready.next
	if next == nil || meant != nil && next != meant {
		return nil
	}
	q.ready.next = nil
	q.ready.expiry.Stop()
	return next
}
