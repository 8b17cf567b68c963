package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Intervals of the hints between replicas.
const (
	pollInterval  = time.Second          // what a lost hint costs at most
	listenRetry   = 2 * time.Second      // after a lost LISTEN connection
	notifyGather  = 2 * time.Millisecond // so that a burst is one NOTIFY
	notifyTime    = 5 * time.Second
	notifyBacklog = 1024 // streams; beyond it the poll does it
)

// notifier tells the other replicas which streams have grown. It sends after
// the commit and on its own: inside the transaction a NOTIFY would cost the
// commands a tenth to a third of their throughput, and it is only a hint.
type notifier struct {
	s       *postgresDB
	channel string
	queue   chan string
}

// newNotifier names the channel after the schema, as channels belong to the
// whole database.
func newNotifier(s *postgresDB, schema string) *notifier {
	sum := sha256.Sum256([]byte(schema))
	return &notifier{s: s, channel: fmt.Sprintf("remit_%x", sum[:8]), queue: make(chan string, notifyBacklog)}
}

func (s *postgresDB) announce(streams []string) {
	for _, stream := range streams {
		select {
		case s.hint.queue <- stream:
		default: // the poll finds it
		}
	}
}

// poll sends and receives hints until ctx ends.
func (s *postgresDB) poll(ctx context.Context, h *hints) {
	listening, sending := make(chan struct{}), make(chan struct{})
	go func() { defer close(listening); s.hint.listen(ctx, h) }()
	go func() { defer close(sending); s.hint.send(ctx) }()
	s.hint.watch(ctx, h)
	<-listening
	<-sending
	h.wake(h.streams())
}

// send gathers streams and notifies. Its commits are not waited for on disk.
func (n *notifier) send(ctx context.Context) {
	for {
		var batch []string
		select {
		case <-ctx.Done():
			return
		case stream := <-n.queue:
			batch = append(batch, stream)
		}
		gather := time.NewTimer(notifyGather)
		for open := true; open && len(batch) < 100; {
			select {
			case stream := <-n.queue:
				if !slices.Contains(batch, stream) {
					batch = append(batch, stream)
				}
			case <-gather.C:
				open = false
			}
		}
		gather.Stop()
		limited, stop := context.WithTimeout(ctx, notifyTime)
		// A lost hint is found by the poll.
		_, _ = n.s.pool.Exec(limited, `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, name)
			FROM unnest($2::text[]) AS name`, n.channel, batch)
		stop()
	}
}

// listen wakes readers as other replicas commit.
func (n *notifier) listen(ctx context.Context, h *hints) {
	for ctx.Err() == nil {
		// Its error is a lost connection: the poll goes on, and so does this.
		_ = n.listenOnce(ctx, h)
		select {
		case <-ctx.Done():
		case <-time.After(listenRetry):
		}
	}
}

func (n *notifier) listenOnce(ctx context.Context, h *hints) error {
	conn, err := pgx.ConnectConfig(ctx, n.s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer stop()
		_ = conn.Close(last) // it is lost, or no longer needed
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+n.channel); err != nil {
		return err
	}
	for {
		note, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if _, own := n.s.own.Load(note.PID); !own { // whose commit has woken them already
			h.wake([]string{note.Payload})
		}
	}
}

// watch compares the heads of the streams with waiting readers with those of the
// last look.
func (n *notifier) watch(ctx context.Context, h *hints) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	seen := map[string]int64{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		waiting := h.streams()
		if len(waiting) == 0 {
			clear(seen)
			continue
		}
		heads, err := n.heads(ctx, waiting)
		if err != nil {
			continue // the database is away: it shows no change
		}
		h.wake(grown(seen, heads))
		seen = heads
	}
}

// grown lists what has a head that was not seen before. A stream that is new to
// the watch counts: it may have grown before its reader came.
func grown(seen, heads map[string]int64) []string {
	var out []string
	for stream, head := range heads {
		if last, known := seen[stream]; !known || last != head {
			out = append(out, stream)
		}
	}
	return out
}

func (n *notifier) heads(ctx context.Context, streams []string) (map[string]int64, error) {
	heads := map[string]int64{}
	rows, err := n.s.pool.Query(ctx, "SELECT name, head FROM stream WHERE name = ANY ($1)", streams)
	if err != nil {
		return nil, err
	}
	var name string
	var head int64
	_, err = pgx.ForEachRow(rows, []any{&name, &head}, func() error {
		heads[name] = head
		return nil
	})
	return heads, err
}

// hints wakes readers of streams. A hint may come without a change and, on
// PostgreSQL, up to a poll interval after it: never is it the truth.
type hints struct {
	mu      sync.Mutex
	waiting map[string]chan struct{}
}

func newHints() *hints { return &hints{waiting: map[string]chan struct{}{}} }

// Changed returns a channel that is closed when the stream may have new events.
// Ask first, read then, wait last: an event that comes in between is not missed.
func (s *Store) Changed(stream string) <-chan struct{} { return s.hints.next(stream) }

func (h *hints) next(stream string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch, ok := h.waiting[stream]
	if !ok {
		ch = make(chan struct{})
		h.waiting[stream] = ch
	}
	return ch
}

func (h *hints) wake(streams []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, stream := range streams {
		if ch, ok := h.waiting[stream]; ok {
			close(ch)
			delete(h.waiting, stream)
		}
	}
}

// streams lists the streams with waiting readers.
func (h *hints) streams() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.waiting))
}
