package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/canon"
)

// Every figure of the API stands beside the raw one of the same run: the same
// statements in the same store, without HTTP, JSON or rules. Both take turns, so
// that what else the machine does meets both alike.
//
// Client and server share the machine, so the client is as small as it can be:
// a connection, a request that is ready, and the status of the answer.

// wire is one connection of a client that lives.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	host string
}

func (w *world) dial(b *testing.B) *wire {
	b.Helper()
	host := strings.TrimPrefix(w.url, "http://")
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", host)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return &wire{conn, bufio.NewReader(conn), host}
}

// post sends a mutation and takes the answer with that status.
func (c *wire) post(path, token, key, body string, want int) error {
	_, err := fmt.Fprintf(c.conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, c.host, token, api.HeaderKey, key, len(body), body)
	if err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %d %s", path, resp.StatusCode, text)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// load is what some clients did at once, over several turns.
type load struct {
	next atomic.Int64
	all  time.Duration
	took []time.Duration
}

// turn has the clients do n commands.
func (l *load) turn(b *testing.B, clients, n int, command func(client int, n int64) error) {
	b.Helper()
	last := l.next.Load() + int64(n)
	took := make([][]time.Duration, clients)
	var wg sync.WaitGroup
	begin := time.Now()
	for c := range clients {
		wg.Go(func() {
			for {
				i := l.next.Add(1)
				if i > last {
					return
				}
				start := time.Now()
				if err := command(c, i); err != nil {
					b.Error(err)
					return
				}
				took[c] = append(took[c], time.Since(start))
			}
		})
	}
	wg.Wait()
	l.all += time.Since(begin)
	l.next.Store(last)
	l.took = append(l.took, slices.Concat(took...)...)
}

func (l *load) perSecond() float64 { return float64(len(l.took)) / l.all.Seconds() }

// quantile is in microseconds.
func quantile(took []time.Duration, part float64) float64 {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return float64(took[min(len(took)-1, int(float64(len(took))*part))].Microseconds())
}

// sideBySide lets both loads take turns and reports them side by side.
func sideBySide(b *testing.B, clients int, what string, command, raw func(client int, n int64) error) {
	b.Helper()
	var one, other load
	b.ResetTimer()
	for left := b.N; left > 0 && !b.Failed(); {
		n := min(left, max(b.N/8, 4*clients))
		one.turn(b, clients, n, command)
		other.turn(b, clients, n, raw)
		left -= n
	}
	b.StopTimer()
	b.ReportMetric(one.perSecond(), what+"/s")
	b.ReportMetric(quantile(one.took, 0.5), "p50-µs")
	b.ReportMetric(quantile(one.took, 0.99), "p99-µs")
	b.ReportMetric(other.perSecond(), "raw/s")
	b.ReportMetric(quantile(other.took, 0.5), "raw-p50-µs")
	b.ReportMetric(100*one.perSecond()/other.perSecond(), "%-of-raw")
	b.ReportMetric(0, "ns/op")
}

// eachStore runs a benchmark on a world of each kind.
func eachStore(b *testing.B, fn func(b *testing.B, w *world)) {
	b.Helper()
	for _, kind := range []struct {
		name string
		dsn  func(testing.TB) string
	}{{"sqlite", storetest.SQLite}, {"postgres", storetest.Postgres}} {
		b.Run(kind.name, func(b *testing.B) {
			fn(b, newWorld(b, storetest.Open(b, kind.dsn(b), store.Options{}), Options{}))
		})
	}
}

// BenchmarkMutation creates runs: a lookup of the token and of the key, a row,
// two events, the stored answer; durable before it is answered.
func BenchmarkMutation(b *testing.B) {
	eachStore(b, func(b *testing.B, w *world) {
		raw := w.rawRun(b)
		var round atomic.Int64
		for _, clients := range []int{1, 16, 128} {
			b.Run(fmt.Sprint(clients), func(b *testing.B) {
				turn := round.Add(1)
				wires := make([]*wire, clients)
				for i := range wires {
					wires[i] = w.dial(b)
				}
				sideBySide(b, clients, "mutations", func(c int, n int64) error {
					return wires[c].post("/v1/runs", w.alice, fmt.Sprintf("bench-%d-%d", turn, n), benchRun, http.StatusCreated)
				}, func(_ int, n int64) error { return raw.write(b, w, turn<<32|n) })
			})
		}
	})
}

const benchRun = `{"repo_ref":"git@example.com:team/project","metadata":{"branch":"fix"}}`

// rawRun repeats what one request has left in the store.
type rawRun struct {
	run    store.RunRow
	events []store.Event
	answer store.Response
}

// rawRun makes one run over the API and reads back what it wrote.
func (w *world) rawRun(b *testing.B) rawRun {
	b.Helper()
	id := w.do(post("/v1/runs", w.alice, "sample", benchRun)).want(b, http.StatusCreated, "").field(b, "run_id")
	var raw rawRun
	err := w.store.View(b.Context(), func(tx *store.Tx) (err error) {
		if raw.run, err = tx.Run(id); err != nil {
			return err
		}
		if raw.events, err = tx.Events(authority.RunStream(id), 0, store.MaxEvents); err != nil {
			return err
		}
		claim, err := tx.Idempotency(store.Key{Principal: "user:alice", Method: "POST", Route: "/v1/runs", Key: "sample"})
		if err == nil {
			raw.answer = *claim.Response
		}
		return err
	})
	if err != nil || len(raw.events) == 0 || raw.answer.Status != http.StatusCreated {
		b.Fatalf("%d events, answer %d: %v", len(raw.events), raw.answer.Status, err)
	}
	return raw
}

// write does the statements of one request.
func (r rawRun) write(b *testing.B, w *world, n int64) error {
	run := r.run
	run.ID, run.State = fmt.Sprintf("run_%032x", n), string(jobs.RunCreated)
	stream := authority.RunStream(run.ID)
	return w.direct(b, "/v1/runs", run.ID, r.answer, func(tx *store.Tx) error {
		_, err := tx.InsertRun(run)
		for _, e := range r.events {
			e.Stream, e.ID = stream, ""
			err = errors.Join(err, tx.Post(e, 0))
		}
		err = errors.Join(err, tx.SetRunState(run.ID, r.run.State, tx.Now(), 0))
		_, _, head := tx.Head(stream)
		return errors.Join(err, head)
	})
}

// direct does what the store does for every mutation, around its effect: the
// token is read, the key is looked up, the answer is stored.
func (w *world) direct(b *testing.B, route, key string, answer store.Response, effect func(tx *store.Tx) error) error {
	if err := w.store.Look(b.Context(), func(tx *store.Tx) error {
		_, err := tx.Token(strings.Split(w.alice, "_")[2])
		return err
	}); err != nil {
		return err
	}
	k := store.Key{Principal: "direct", Method: http.MethodPost, Route: route, Key: key}
	return w.store.Update(b.Context(), func(tx *store.Tx) error {
		claim, err := tx.Idempotency(k)
		_, freeze := tx.LedgerFreeze()
		if err != nil || claim != nil {
			return fmt.Errorf("key %s: %v, %w", key, claim, err)
		}
		return errors.Join(freeze, effect(tx), tx.SaveIdempotency(k, canon.Digest(nil), answer))
	})
}

// BenchmarkSettle judges and pays jobs whose responses are in: one command of
// some forty statements. The raw figure is that of the same rules, called in
// the process.
func BenchmarkSettle(b *testing.B) {
	eachStore(b, func(b *testing.B, w *world) {
		f := newFleet(b, w)
		answer := store.Response{Status: http.StatusOK, ContentType: "application/json", Body: make([]byte, 600)}
		alice := authority.Principal{ID: "user:alice", Owner: "alice", Kind: authority.User, Scopes: personScopes}
		b.Run("1", func(b *testing.B) {
			over, direct := f.submitted(b, b.N), f.submitted(b, b.N)
			line := w.dial(b)
			sideBySide(b, 1, "settlements", func(_ int, n int64) error {
				return line.post("/v1/jobs/"+over[n-1]+"/settle", w.alice, over[n-1], "", http.StatusOK)
			}, func(_ int, n int64) error {
				return w.direct(b, "/settle", direct[n-1], answer, func(tx *store.Tx) error {
					s, changed, err := jobs.Settle(tx, alice, direct[n-1])
					if err == nil && (!changed || !s.Passed) {
						return fmt.Errorf("settled %+v", s)
					}
					return err
				})
			})
		})
	})
}

// fleet is one provider and an owner who can pay it for long.
type fleet struct {
	*world
	provider, token string
	made            int
}

func newFleet(b testing.TB, w *world) *fleet {
	b.Helper()
	f := &fleet{world: w}
	account := f.say(post("/v1/treasury/accounts", w.alice, "", `{"limit":1000000000000}`)).field(b, "account_id")
	f.say(post("/v1/treasury/fund", w.admin, "", fund(account, 1_000_000_000_000)))
	registration := f.say(post("/v1/tokens", w.alice, "", `{"kind":"registration"}`)).field(b, "token")
	var joined api.ProviderRegistered
	got := f.say(post("/v1/providers", registration, "", `{"name":"box","version":"1.0","capabilities":["oa.sandbox_run.v1"],"price_msats":1}`))
	if err := json.Unmarshal([]byte(got.body), &joined); err != nil {
		b.Fatal(err)
	}
	f.provider, f.token = joined.Provider.ProviderID, joined.Token
	f.say(call{method: "PUT", path: "/v1/providers/" + f.provider + "/caps", token: w.alice, contentType: "application/json", body: caps})
	f.say(post("/v1/providers/"+f.provider+"/enable", w.alice, "", ""))
	f.beat()
	return f
}

// say sends a mutation under a key of its own, which must succeed.
func (f *fleet) say(c call) seen {
	f.t.Helper()
	f.made++
	c.key = fmt.Sprintf("fleet-%d", f.made)
	got := f.do(c)
	if got.status >= 300 {
		f.t.Fatalf("%s %s: %d %s", c.method, c.path, got.status, got.body)
	}
	return got
}

func (f *fleet) beat() {
	f.t.Helper()
	f.say(post("/v1/providers/"+f.provider+"/heartbeat", f.token, "", `{"version":"1.0"}`))
}

// submitted makes n jobs whose responses wait to be judged.
func (f *fleet) submitted(b *testing.B, n int) []string {
	b.Helper()
	f.beat() // a long benchmark must not let it go stale
	list := make([]string, n)
	for i := range list {
		run := f.say(post("/v1/runs", f.alice, "", benchRun)).field(b, "run_id")
		list[i] = f.say(post("/v1/runs/"+run+"/jobs", f.alice, "", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`)).field(b, "job_id")
		var leases api.LeaseList
		got := f.say(post("/v1/jobs/lease", f.token, "", `{}`))
		if err := json.Unmarshal([]byte(got.body), &leases); err != nil || len(leases.Leases) != 1 {
			b.Fatalf("%v: %s", err, got.body)
		}
		f.say(post("/v1/jobs/"+list[i]+"/complete", f.token, "", handedIn(leases.Leases[0].Fence)))
	}
	return list
}
