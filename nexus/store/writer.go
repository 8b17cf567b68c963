package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// writer gives the one writing connection of a SQLite file to one command after
// the other, and commits them in groups: an fsync costs as much as dozens of
// commands, so all that wait share it. Each command has its own savepoint, and is
// answered after COMMIT.
//
// The function of a command runs in the goroutine of its caller, so a panic or
// a t.FailNow ends that goroutine and not the writer.
type writer struct {
	conn     *sqliteConn
	clock    func() (int64, error)
	maxBatch int

	queue    chan *command
	quit     chan struct{}
	stopping sync.Once
	done     chan struct{} // closed when the goroutine has ended
	failed   error         // of closing the connection
}

// command is one call of do.
type command struct {
	state atomic.Int32    // keeps the writer and a caller who gives up from both deciding
	turn  chan error      // from the writer: nil, the connection is yours
	ran   chan commandEnd // from the caller: take it back
	end   chan error      // from the writer: nil, it is on disk
}

const (
	commandWaiting int32 = iota
	commandTaken         // its turn has come
	commandLeft          // its caller has gone
)

// commandEnd says how a command leaves the connection.
type commandEnd int

const (
	commandLost       commandEnd = iota // the transaction is gone, and all its commands
	commandRolledBack                   // it has left no trace
	commandKept                         // it waits for COMMIT
)

// errGroupLost is the answer to commands whose transaction SQLite gave up.
var errGroupLost = errors.New("the transaction was rolled back")

func startWriter(conn *sqliteConn, clock func() (int64, error), maxBatch int) *writer {
	w := &writer{
		conn: conn, clock: clock, maxBatch: maxBatch,
		queue: make(chan *command, 4*maxBatch), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go w.run()
	return w
}

// do queues a command, runs it when its turn comes and waits for its commit. A
// caller whose context ends before its turn leaves the queue.
func (w *writer) do(ctx context.Context, fn func(*Tx) error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	c := &command{turn: make(chan error, 1), ran: make(chan commandEnd, 1), end: make(chan error, 1)}
	select {
	case <-w.quit:
		return errClosed
	default:
	}
	select {
	case w.queue <- c:
	case <-ctx.Done():
		return ended(ctx)
	case <-w.done:
		return errClosed
	}
	var err error
	select {
	case err = <-c.turn:
	case <-ctx.Done():
		if c.state.CompareAndSwap(commandWaiting, commandLeft) {
			return ended(ctx)
		}
		err = <-c.turn
	case <-w.done:
		if c.state.CompareAndSwap(commandWaiting, commandLeft) {
			return errClosed
		}
		err = <-c.turn
	}
	if err != nil {
		return err
	}
	if err := w.perform(ctx, c, fn); err != nil {
		return err
	}
	return <-c.end
}

// perform runs fn in its savepoint and hands the connection back, whatever fn
// does: return, panic, or end the goroutine.
func (w *writer) perform(ctx context.Context, c *command, fn func(*Tx) error) (err error) {
	tx := &Tx{ctx: commandContext(ctx), conn: uninterrupted{w.conn}, dialect: "sqlite", writes: true, clock: w.clock}
	end, returned := commandLost, false
	defer func() {
		if !returned {
			end = w.undo()
		}
		c.ran <- end
	}()
	if err := w.statement("SAVEPOINT command"); err != nil {
		returned = true
		return unavailable("begin a command", err)
	}
	err = fn(tx)
	returned = true
	if err == nil {
		err = tx.failed
	}
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	if err != nil {
		end = w.undo()
		return err
	}
	if err := w.statement("RELEASE command"); err != nil {
		return unavailable("end a command", err)
	}
	end = commandKept
	return nil
}

// undo takes a command back and leaves the others of its group alone.
func (w *writer) undo() commandEnd {
	if w.statement("ROLLBACK TO command") != nil || w.statement("RELEASE command") != nil {
		return commandLost
	}
	return commandRolledBack
}

func (w *writer) statement(query string) error {
	return w.conn.control(context.Background(), query)
}

// run is the writer goroutine.
func (w *writer) run() {
	defer close(w.done)
	for {
		select {
		case c := <-w.queue:
			w.group(c)
			continue
		default:
		}
		select { // what is queued goes before the end
		case c := <-w.queue:
			w.group(c)
		case <-w.quit:
			w.failed = w.conn.close()
			return
		}
	}
}

// group runs one transaction: the first command, and those that come while it
// is at work.
func (w *writer) group(first *command) {
	var kept []*command
	err := w.statement("BEGIN IMMEDIATE")
	if err != nil {
		err = unavailable("begin a transaction", err)
	}
	c := first
	for n := 1; c != nil; n++ {
		switch w.runNext(c, err) {
		case commandKept:
			kept = append(kept, c)
		case commandLost:
			if err == nil {
				err = unavailable("commit", errGroupLost)
			}
		}
		c = nil
		if err == nil && n < w.maxBatch { // what comes after a loss gets a transaction of its own
			c = w.next()
		}
	}
	if err == nil {
		if err = w.statement("COMMIT"); err != nil {
			err = unavailable("commit", err)
		}
	}
	if err != nil {
		// It fails when SQLite has rolled back already, which is what it is for.
		_ = w.statement("ROLLBACK")
	}
	for _, c := range kept {
		c.end <- err
	}
}

// next returns a command that is waiting, if there is one.
func (w *writer) next() *command {
	select {
	case c := <-w.queue:
		return c
	default:
		return nil
	}
}

// runNext lets a command run, or refuses it when the transaction is lost already.
func (w *writer) runNext(c *command, err error) commandEnd {
	if !c.state.CompareAndSwap(commandWaiting, commandTaken) {
		return commandRolledBack
	}
	c.turn <- err
	if err != nil {
		return commandLost
	}
	return <-c.ran
}

// close ends the writer after the commands that are queued.
func (w *writer) close() error {
	w.stopping.Do(func() { close(w.quit) })
	<-w.done
	if w.failed != nil {
		return fmt.Errorf("close store: %w", w.failed)
	}
	return nil
}

// uninterrupted keeps a caller's context away from SQLite: interrupting one
// write rolls the whole transaction back, with the commands of other callers.
// The Tx asks the context before every statement instead.
type uninterrupted struct{ conn *sqliteConn }

func (u uninterrupted) run(_ context.Context, list []*statement) error {
	return u.conn.run(context.Background(), list)
}
