package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/nexus/blob"
	"remit/nexus/identity"
	"remit/nexus/lanes"
	"remit/nexus/store"
)

// serveHere is the data directory of an authority that this test program is
// asked to be, instead of running tests: the memory of a server is only known
// where its clients are not in the same process.
const serveHere = "REMIT_BENCH_SERVE"

func TestMain(m *testing.M) {
	dir := os.Getenv(serveHere)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := serveAlone(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// said is what the server tells the process that started it.
type said struct{ URL, Admin string }

// serveAlone is `remit serve`, as near as this package comes to it, until
// standard input ends.
func serveAlone(dir string) error {
	ctx := context.Background()
	st, err := store.Open(ctx, filepath.Join(dir, "nexus.db"), store.Options{})
	if err != nil {
		return err
	}
	blobs, err := blob.OpenDir(filepath.Join(dir, "artifacts"))
	if err != nil {
		return err
	}
	unlimited := Rate{PerSecond: 1e6, Burst: 1e6}
	s := New(Options{Store: st, Blobs: blobs, Log: slog.New(slog.DiscardHandler), Version: "bench",
		Rate: unlimited, Failures: unlimited, Lanes: lanes.Options{PerPrincipal: benchSockets}})
	out := said{}
	if err := st.Update(ctx, func(tx *store.Tx) (err error) {
		out.Admin, _, err = identity.Mint(tx, AdminGrant())
		return err
	}); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	out.URL = "http://" + listener.Addr().String()
	h := s.HTTPServer()
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(listener) }()
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // the benchmark is over
	s.Close()
	_ = h.Close()
	<-ended
	return st.Close()
}

// alone starts an authority in a process of its own.
func alone(b *testing.B) (w *world, pid int) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), self)
	cmd.Env = append(os.Environ(), serveHere+"="+b.TempDir())
	cmd.Stderr = os.Stderr
	leash, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = leash.Close(); _ = cmd.Wait() })
	var out said
	if err := json.NewDecoder(stdout).Decode(&out); err != nil {
		b.Fatal(err)
	}
	w = &world{t: b, url: out.URL, admin: out.Admin}
	w.alice = w.do(post("/v1/tokens", w.admin, "alice", `{"kind":"user","owner":"alice"}`)).want(b, 201, "").field(b, "token")
	return w, cmd.Process.Pid
}

// resident is the memory of a process in MB, now and at its peak; 0 where the
// system does not tell.
func resident(pid int) (now, peak float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	read := func(name string) float64 {
		found := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(text)
		if found == nil {
			return 0
		}
		kb, _ := strconv.ParseFloat(string(found[1]), 64)
		return kb / 1024
	}
	return read("VmRSS"), read("VmHWM")
}

// benchSockets is how many people look at one fleet.
const benchSockets = 1000

// audience counts who has the news.
type audience struct {
	conns []*websocket.Conn
	last  [][]byte // frame of each socket
	heard atomic.Int64
	all   chan time.Time
}

// gather opens the lanes and reads them up to their snapshot.
func (w *world) gather(b *testing.B, topic string, n int) *audience {
	b.Helper()
	a := &audience{last: make([][]byte, n), all: make(chan time.Time, 1)}
	for i := range n {
		var t api.Ticket
		got := w.do(post("/v1/lanes/tickets", w.alice, fmt.Sprintf("ticket-%d", i), `{"topic":"`+topic+`"}`)).want(b, 201, "")
		if err := json.Unmarshal([]byte(got.body), &t); err != nil {
			b.Fatal(err)
		}
		conn, _, err := websocket.Dial(b.Context(), w.url+"/v1/lanes/"+topic, &websocket.DialOptions{Subprotocols: t.Subprotocols})
		if err != nil {
			b.Fatal(err)
		}
		conn.SetReadLimit(1 << 20)
		for _, kind := range []api.LaneFrameType{api.LaneFrameTypeHello, api.LaneFrameTypeSnapshot} {
			var f api.LaneFrame
			_, text, err := conn.Read(b.Context())
			if err != nil || json.Unmarshal(text, &f) != nil || f.Type != kind {
				b.Fatalf("got %s, want %s: %v", f.Type, kind, err)
			}
		}
		a.conns = append(a.conns, conn)
	}
	var readers sync.WaitGroup
	for i, conn := range a.conns {
		readers.Go(func() {
			for {
				_, text, err := conn.Read(b.Context())
				if err != nil {
					return
				}
				a.last[i] = text
				if a.heard.Add(1) == int64(n) {
					a.all <- time.Now()
				}
			}
		})
	}
	b.Cleanup(func() {
		for _, conn := range a.conns {
			_ = conn.CloseNow()
		}
		readers.Wait()
	})
	return a
}

// wait returns when the last one had the event, and checks that all had the same.
func (a *audience) wait(b *testing.B) time.Time {
	b.Helper()
	var at time.Time
	select {
	case at = <-a.all:
	case <-time.After(30 * time.Second):
		b.Fatalf("%d of %d sockets have the event", a.heard.Load(), len(a.conns))
	}
	a.heard.Store(0)
	for i, text := range a.last {
		if !bytes.Equal(text, a.last[0]) || !bytes.Contains(text, []byte(`"type":"event"`)) {
			b.Fatalf("socket %d got %s, the first one %s", i, text, a.last[0])
		}
	}
	return at
}

// BenchmarkPresence sends heartbeats over HTTP to a server of its own process
// while a thousand sockets look at the fleet: how long until the last one has
// it, counted from before the request is sent, and how much memory that takes.
// The raw figure is the heartbeat's own answer.
func BenchmarkPresence(b *testing.B) {
	w, pid := alone(b)
	f := newFleet(b, w)
	before, _ := resident(pid)
	a := w.gather(b, "fleet:user:alice:workers", benchSockets)
	b.Run(fmt.Sprint(benchSockets), func(b *testing.B) {
		var spread, answered []time.Duration
		b.ResetTimer()
		for range b.N {
			begin := time.Now()
			f.beat()
			answered = append(answered, time.Since(begin))
			spread = append(spread, a.wait(b).Sub(begin))
		}
		b.StopTimer()
		now, peak := resident(pid)
		b.ReportMetric(quantile(spread, 0.5)/1000, "p50-ms")
		b.ReportMetric(quantile(spread, 0.99)/1000, "p99-ms")
		b.ReportMetric(quantile(answered, 0.5)/1000, "answer-p50-ms")
		b.ReportMetric(before, "MB-before")
		b.ReportMetric(now, "MB")
		b.ReportMetric(peak, "MB-peak")
		b.ReportMetric(0, "ns/op")
	})
}
