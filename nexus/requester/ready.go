package requester

import (
	"context"
	"errors"
	"sync"
	"time"
)

// readyFor is how long a connection may be open between two calls. To connect to
// the authority of this machine is to open its file, for which other runs wait.
const readyFor = 100 * time.Millisecond

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
	q.keep(next)
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
	q.keep(next)
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

// keep has a connection wait for the next call, and closes it when none comes.
func (q *Requester) keep(next chan connected) {
	_ = q.Release() // two calls in a row: the later connection counts
	q.ready.Lock()
	defer q.ready.Unlock()
	q.ready.next = next
	q.ready.expiry = time.AfterFunc(readyFor, func() {
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
