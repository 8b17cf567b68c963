//test:both-package In most tests one person asks for one page after another; many at once are few tests.

package panel

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/api"
	"remit/nexus/authority"
)

// growing is a home whose one run goes on, and which counts who asks.
type growing struct {
	*memoryHome
	length, asked atomic.Int64
}

func (g *growing) Version(ctx context.Context, id string) (int64, bool, error) {
	g.asked.Add(1)
	_, err := g.memoryHome.Session(ctx, id)
	return g.length.Load(), true, err
}

func (w *world) dial(ctx context.Context, topic string, header http.Header) (*websocket.Conn, int, error) {
	conn, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(w.url, "http")+"/live?topic="+url.QueryEscape(topic), &websocket.DialOptions{HTTPHeader: header})
	if resp == nil {
		return conn, 0, err
	}
	return conn, resp.StatusCode, err
}

// TestLive: a page gets a message when its run has changed, but only a page of this server
// that belongs to a user who may see the run.
func TestLive(t *testing.T) {
	t.Parallel()
	home := &growing{memoryHome: hostileHome()}
	home.length.Store(10)
	w := newWorld(t, home, true)
	b := w.login(w.token("alice", authority.ScopeRead))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cookie := http.Header{"Cookie": {b.cookie.Name + "=" + b.cookie.Value}, "Origin": {w.url}}
	topic := liveTopic("home", "20261123T100000Z-b-2")
	for name, header := range map[string]http.Header{
		"no login":       {"Origin": {w.url}},
		"another origin": {"Cookie": cookie["Cookie"], "Origin": {"https://evil.example"}},
		"a proxy":        {"Cookie": cookie["Cookie"], "Origin": {w.url}, "X-Forwarded-For": {"203.0.113.9"}},
	} {
		if conn, status, err := w.dial(ctx, topic, header); err == nil {
			t.Errorf("%s: followed, status %d", name, status)
			_ = conn.CloseNow()
		}
	}
	for _, other := range []string{"", "home:none", "nexus", "home:../../etc"} {
		if conn, _, err := w.dial(ctx, other, cookie); err == nil {
			t.Errorf("topic %q: followed", other)
			_ = conn.CloseNow()
		}
	}
	conn, _, err := w.dial(ctx, topic, cookie)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	read := func() int64 {
		_, text, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var n news
		if err := json.Unmarshal(text, &n); err != nil {
			t.Fatal(err)
		}
		return n.Seq
	}
	if got := read(); got != 10 {
		t.Errorf("first %d", got)
	}
	begin := time.Now()
	home.length.Store(11)
	if got := read(); got != 11 {
		t.Errorf("then %d", got)
	}
	if late := time.Since(begin); late > 5*time.Second {
		t.Errorf("the message came after %s", late)
	}
}

// TestOneLookForAll: however many pages follow a run, one goroutine looks at it, and
// it ends with the last of them.
func TestOneLookForAll(t *testing.T) {
	t.Parallel()
	home := &growing{memoryHome: hostileHome()}
	p, err := New(Options{API: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler), Home: home})
	if err != nil {
		t.Fatal(err)
	}
	topic := liveTopic("home", "20261123T100000Z-b-2")
	begin := time.Now()
	const pages = 50
	var leave [pages]func()
	var one *followed
	for i := range leave {
		var f *followed
		if f, leave[i] = p.follow(topic); one != nil && f != one {
			t.Fatal("two pages follow apart")
		}
		one = f
	}
	for want := range int64(3) {
		_, changed, _ := one.now()
		home.length.Store(want + 1)
		<-changed
		if seq, _, err := one.now(); seq != -want-1 && seq != want+1 || err != nil {
			t.Errorf("the state is %d, %v", seq, err)
		}
	}
	if asked, most := home.asked.Load(), 2+int64(time.Since(begin)/livePause); asked > most {
		t.Errorf("%d pages made %d looks, want at most %d", pages, asked, most)
	}
	for _, f := range leave {
		f()
	}
	asked := home.asked.Load()
	if <-one.done; len(p.following) != 0 || home.asked.Load() != asked {
		t.Error("the panel reads the home although no page follows")
	}
}

// TestManyAtOnce: many people look at every page while a run goes on and is followed,
// and two decide about one approval at the same time. One of them decides, and the
// other reads what. It is what the race detector sees of the handlers.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	home := &growing{memoryHome: hostileHome()}
	home.length.Store(10)
	w := newWorld(t, home, true)
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns, authority.ScopeApprove)
	a := w.approval(token, "one")
	run := w.tell(token, "told", "acme/links", sealedJournal(t, "pass"), nil)
	paths := pagesOf(t, home.sessions[0].ID, home.sessions[1].ID, a.ApprovalID, run)
	topic := liveTopic("home", home.sessions[0].ID)
	words := []string{"granted", "denied"}
	said := make([]got, len(words))
	var seen atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		b := w.login(token)
		cookie := http.Header{"Cookie": {b.cookie.Name + "=" + b.cookie.Value}, "Origin": {w.url}}
		wg.Go(func() {
			conn, _, err := w.dial(t.Context(), topic, cookie)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			if _, _, err := conn.Read(t.Context()); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for k := range paths {
				path := paths[(k+i*len(paths)/4)%len(paths)] // each begins elsewhere
				switch out := b.get(path); out.status {
				case http.StatusOK:
					seen.Add(1)
				case http.StatusNotFound, http.StatusSeeOther: // of what this machine does not show
				default:
					t.Errorf("%s: status %d", path, out.status)
				}
				home.length.Add(1)
			}
		})
		if i < len(words) {
			wg.Go(func() {
				said[i] = b.do(http.MethodPost, "/approvals/"+a.ApprovalID+"/decision",
					url.Values{"csrf": {b.csrf}, "key": {words[i]}, "decision": {words[i]}, "reason": {"read it"}})
			})
		}
	}
	wg.Wait()
	if n := seen.Load(); n < 4*15 {
		t.Errorf("%d pages were seen", n)
	}
	// A grant that comes first may be taken back; a denial stands.
	if now := w.status(token, a.ApprovalID); now.Status != api.ApprovalStatusDenied {
		t.Errorf("%+v", now)
	}
	if said[1].status != http.StatusSeeOther {
		t.Errorf("the denial: %d %s", said[1].status, said[1].body)
	}
	if s := said[0]; s.status != http.StatusSeeOther && (s.status != http.StatusForbidden || !strings.Contains(s.body, "denied by user:alice")) {
		t.Errorf("the grant: %d %s", s.status, s.body)
	}
}
