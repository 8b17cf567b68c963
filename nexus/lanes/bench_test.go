package lanes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/nexus/lanes"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// heartbeat is an event of the size that presence has.
var heartbeat = fmt.Sprintf(`{"provider_id":"prv_0123456789abcdef","observed":{"note":%q}}`, strings.Repeat("x", 600))

// BenchmarkFanOut commits one event and waits until each of so many lanes has
// it. The clock starts before COMMIT is sent: the figure contains what it costs
// to be durable, which is the raw figure beside it. Readers and server are one
// process here; BenchmarkPresence in remit/nexus/server has them apart.
func BenchmarkFanOut(b *testing.B) {
	for _, kind := range []struct {
		name string
		dsn  func(testing.TB) string
	}{{"sqlite", storetest.SQLite}, {"postgres", storetest.Postgres}} {
		b.Run(kind.name, func(b *testing.B) {
			r := newReplica(b, storetest.Open(b, kind.dsn(b), store.Options{}), lanes.Options{PerPrincipal: 2000})
			for _, sockets := range []int{1, 1000} {
				topic := fmt.Sprintf("fleet:user:alice%d:workers", sockets)
				a := r.gather(b, topic, sockets)
				b.Run(fmt.Sprint(sockets), func(b *testing.B) { a.fanOut(b, topic) })
			}
		})
	}
}

// audience is who waits for the next event.
type audience struct {
	*replica
	heard atomic.Int64
	all   chan time.Time
}

// gather opens lanes and reads them until they close. Every frame must be the
// next event.
func (r *replica) gather(b *testing.B, topic string, sockets int) *audience {
	b.Helper()
	a := &audience{replica: r, all: make(chan time.Time, 1)}
	var readers sync.WaitGroup
	b.Cleanup(readers.Wait) // after those of the connections
	for range sockets {
		lane := r.open(topic, "")
		lane.want(api.LaneFrameTypeHello)
		lane.want(api.LaneFrameTypeSnapshot)
		readers.Go(func() {
			for seq := int64(1); ; seq++ {
				_, text, err := lane.conn.Read(context.Background())
				if err != nil {
					return
				}
				if !bytes.Contains(text, fmt.Appendf(nil, `"seq":%d,`, seq)) {
					b.Errorf("event %d is %.200s", seq, text)
				}
				if a.heard.Add(1) == seq*int64(sockets) {
					a.all <- time.Now()
				}
			}
		})
	}
	return a
}

func (a *audience) fanOut(b *testing.B, topic string) {
	var spread, raw []time.Duration
	b.ResetTimer()
	for range b.N {
		took, _ := a.commit(b, "quiet:stream") // it has no follower
		raw = append(raw, took)
		_, begin := a.commit(b, topic)
		select {
		case at := <-a.all:
			spread = append(spread, at.Sub(begin))
		case <-time.After(30 * time.Second):
			b.Fatalf("%d frames arrived", a.heard.Load())
		}
	}
	b.StopTimer()
	for name, took := range map[string][]time.Duration{"": spread, "raw-": raw} {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, name+"p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, name+"p99-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// commit appends a heartbeat and says when its COMMIT began and how long it took.
func (r *replica) commit(b *testing.B, stream string) (took time.Duration, begin time.Time) {
	b.Helper()
	err := r.store.Update(b.Context(), func(tx *store.Tx) error {
		_, err := tx.Append(store.Event{Stream: stream, Type: "worker.running", Payload: json.RawMessage(heartbeat), Principal: "test"})
		begin = time.Now()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(begin), begin
}
