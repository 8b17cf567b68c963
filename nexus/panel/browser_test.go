//go:build !race

package panel

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"remit/fixtures/tally"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/store/storetest"
	"remit/proof/evidence"
)

// chromium finds the browser that scripts/setup.sh test installs.
func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("NOT INSTALLED: chromium, the pages are not tried in a browser: scripts/setup.sh test")
	return ""
}

// browse starts a browser of its own.
func browse(t testing.TB) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", "en-GB"), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("font-render-hinting", "none"), chromedp.Env("TZ=UTC"))
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Log("the browser did not end by itself: ", err)
		}
		cancel()
	})
	return ctx
}

// growingRun is a home whose first run goes on. The field entries sets how many entries
// it shows.
type growingRun struct {
	*memoryHome
	entries atomic.Int64
	sealed  atomic.Bool // it has ended, and has its bundle
	many    []Summary
}

func (g *growingRun) Session(ctx context.Context, id string) (*Session, error) {
	s, err := g.memoryHome.Session(ctx, id)
	if err != nil || s != g.sessions[0] {
		return s, err
	}
	if g.sealed.Load() {
		return s, nil
	}
	cut := *s
	cut.Journal = s.Journal[:g.entries.Load()]
	cut.Summary = Summarize(id, Running, "acme/links", cut.Journal)
	return &cut, nil
}

// List implements Home: besides those that have a page there are very many.
func (g *growingRun) List(ctx context.Context) ([]Summary, int, error) {
	list, _, err := g.memoryHome.List(ctx)
	list = append(list, g.many...)
	return list, len(list), err
}

func (g *growingRun) Version(ctx context.Context, id string) (int64, bool, error) {
	_, err := g.memoryHome.Session(ctx, id)
	if g.sealed.Load() {
		return g.entries.Load() + 1, false, err
	}
	return g.entries.Load(), true, err
}

// until asks a page for something until it is true.
func until(ctx context.Context, t testing.TB, expression string, most time.Duration) {
	t.Helper()
	for begin := time.Now(); ; {
		if ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)); err == nil && ok {
			return
		} else if time.Since(begin) > most {
			t.Fatalf("after %s it is not so that %s: %v", most, expression, err)
		}
		if err := api.Pause(ctx, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// slow is how long a browser may take on a machine that does other things.
const slow = 20 * time.Second

// doing runs steps in a browser, all of which must succeed.
func doing(ctx context.Context, t testing.TB) steps {
	return func(what string, actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, actions...); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// looksAtARun reads a long change in both views, and replays the run.
func looksAtARun(ctx context.Context, t *testing.T, page string, do func(string, ...chromedp.Action[chromedp.Void])) {
	t.Helper()
	for query, rows := range map[string]string{"": "#f1 .diff tr.add", "?view=split": "#f1 .diff.sides td.cd.add"} {
		lines := func(n int) string {
			return fmt.Sprintf(`document.querySelectorAll("%s").length === %d`, rows, n)
		}
		do("open a change", chromedp.Navigate(page+query), chromedp.WaitVisible("#f1"))
		until(ctx, t, lines(159), slow)
		do("read on", chromedp.Click("#f1 a[data-more]"))
		until(ctx, t, lines(1659), slow)
		do("and on", chromedp.Click("#f1 a[data-more]"))
		until(ctx, t, lines(3159)+` && document.activeElement.closest("#f1") !== null`, slow)
	}
	const engine = `[...document.querySelectorAll(".tl .row")].find(r => r.textContent.includes("Engine"))`
	do("go to the middle", chromedp.Navigate(page+"?at=2000"), chromedp.WaitVisible(".replay"))
	until(ctx, t, engine+`.classList.contains("now") && document.querySelectorAll(".tl .later").length >= 3`, slow)
	do("play", chromedp.Click(".replay button"))
	until(ctx, t, `document.querySelector(".replay button").textContent === "Play" && document.querySelectorAll(".tl .later, .tl .now").length === 0 && !location.search`, slow)
}

// followsTheNexus watches a run of the nexus grow, also over a restart of the server.
func (w *world) followsTheNexus(ctx context.Context, token string, do func(string, ...chromedp.Action[chromedp.Void])) {
	w.t.Helper()
	entries := sealedJournal(w.t, "pass")
	id := w.tell(token, "grows", "acme/links", entries[:3], nil)
	shows := func(n int) string {
		return fmt.Sprintf(`document.querySelector("#timeline header").textContent.includes("%d journal entries") && window.same === true`, n)
	}
	do("follow a run of the nexus", chromedp.Navigate(w.url+"/nexus/runs/"+id), chromedp.WaitVisible(".verdict"))
	until(ctx, w.t, `document.getElementById("live").textContent === "live" && (window.same = true)`, slow)
	w.tellMore(token, "more", id, entries[3:6], nil, 16<<10)
	begin := time.Now()
	until(ctx, w.t, shows(6), slow)
	w.t.Logf("a new entry of the nexus was on the page after %s", time.Since(begin))
	w.restart()
	w.tellMore(token, "after", id, entries[6:], nil, 16<<10)
	until(ctx, w.t, shows(len(entries))+` && document.getElementById("live").textContent === "live"`, slow)
	// What came over the lane is what a page has that is loaded anew: nothing twice, nothing left out.
	const rows = `[...document.querySelectorAll("#timeline .row:not(.hd) .t")].map(r => r.textContent).join("|")`
	grown, err := chromedp.Run(ctx, chromedp.Evaluate[string](rows))
	if err != nil {
		w.t.Fatal(err)
	}
	do("load it anew", chromedp.Navigate(w.url+"/nexus/runs/"+id), chromedp.WaitVisible("#timeline .row"))
	if anew, err := chromedp.Run(ctx, chromedp.Evaluate[string](rows)); err != nil || anew != grown || len(grown) < 50 {
		w.t.Errorf("followed, the page has %q, and loaded anew %q: %v", grown, anew, err)
	}
}

// TestBrowser drives the pages as a person does, under the policy that they have.
func TestBrowser(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 8)
	browserPass(t, place{})
}

// TestBrowserOnReplicas is the same on PostgreSQL, with one server and with two behind
// a proxy that asks them in turn.
func TestBrowserOnReplicas(t *testing.T) {
	t.Parallel()
	if os.Getenv("REMIT_SOAK") == "" {
		t.Skip("PostgreSQL and replicas are tried in a browser by make soak")
	}
	for name, replicas := range map[string]int{"postgres": 1, "two replicas": 2} {
		t.Run(name, func(t *testing.T) { browserPass(t, place{dsn: storetest.Postgres, replicas: replicas}) })
	}
}

// browserPass drives the pages of a world in one browser.
func browserPass(t *testing.T, at place) {
	t.Helper()
	ctx := browse(t)
	home := &growingRun{memoryHome: hostileHome(), many: manyRuns(10_000)}
	var later atomic.Int64 // how far the clock is ahead
	at.clock = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	home.files[evidence.PatchFile] += "diff --git a/long b/long\n--- a/long\n+++ b/long\n@@ -0,0 +1,4000 @@\n" + strings.Repeat("+line\n", 4000)
	home.entries.Store(4)
	w := newWorldAt(t, at, home, true, func(context.Context) (json.RawMessage, error) { return json.Marshal(ladderStatus()) })
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns, authority.ScopeApprove, authority.ScopeJobs, authority.ScopeProviders, authority.ScopeTreasury)
	told := w.tell(token, "told", "acme/links", sealedJournal(t, "fail"), nil)
	ended := w.ended(token, "ended", "pass")
	approval := w.approval(token, "acme/links")
	do := doing(ctx, t)
	do("open the panel", chromedp.Navigate(w.url+"/runs/20261123T100000Z-b-2"))
	var faults atomic.Int64
	go func() {
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			if (m.Type == "error" || m.Type == chromedp.ConsoleException) && !strings.Contains(m.Text, "responded with a status of 4") &&
				!strings.HasPrefix(m.Text, "WebSocket connection to") { // which a server that ends breaks off
				faults.Add(1)
				t.Log("the console says ", m.Text)
			}
		}
	}()
	do("log in", chromedp.SendKeys("#token", token), chromedp.Click(".decide button"), chromedp.WaitVisible(".verdict"))
	until(ctx, t, `location.pathname.startsWith("/runs/") && document.getElementById("live").textContent === "live"`, slow)

	// Live: a new entry is on the page without loading it, and what is open stays open.
	do("mark the page", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`window.same = true; document.querySelector(".tl details").open = true`))
		return err
	}))
	home.entries.Store(9)
	begin := time.Now()
	until(ctx, t, `[...document.querySelectorAll("#timeline .t b")].some(b => b.textContent === "Patch")`, slow)
	t.Logf("a new entry was on the page after %s", time.Since(begin))
	until(ctx, t, `window.same === true && document.querySelector(".tl details").open && document.title.startsWith("Running")`, slow)

	w.watchesWhole(ctx, home, do)
	w.followsTheNexus(ctx, token, do)
	looksAtARun(ctx, t, w.url+"/runs/20261123T100000Z-a-1", do)

	paths := append(pagesOf(t, "20261123T100000Z-b-2", "20261123T100000Z-a-1", approval.ApprovalID, told, ended), "/nothing")
	script, took := axe(t), time.Duration(0)
	for i, width := range []int64{390, 768, 1280} {
		for k, path := range paths {
			do(path, chromedp.EmulateViewport(width, 900), chromedp.Navigate(w.url+path), chromedp.WaitVisible("main"))
			wide, err := chromedp.Run(ctx, chromedp.Evaluate[int64]("document.documentElement.scrollWidth"))
			if err != nil || wide > width {
				t.Errorf("%s is %d wide on a screen of %d: %v", path, wide, width, err)
				culprits, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[...document.querySelectorAll("main *")].filter(
					e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map(e => e.tagName + "." + e.getAttribute("class")).join(" ")`))
				t.Log(culprits, err)
			}
			cut, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[...document.querySelectorAll(".chip, .gate")].filter(
				e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.trim().slice(0, 20)).join("; ")`))
			if err != nil || cut != "" && path == "/" {
				t.Errorf("%s cuts chips off on a screen of %d: %s, %v", path, width, cut, err)
			}
			narrow, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[...document.querySelectorAll(".cmd code")].filter(
				e => e.checkVisibility() && e.clientHeight > 8 * e.clientWidth).map(e => e.textContent.slice(0, 40)).join("; ")`))
			if err != nil || narrow != "" {
				t.Errorf("%s shows commands a letter a line on a screen of %d: %s, %v", path, width, narrow, err)
			}
			if out := outOfReach(ctx, t); out != "" {
				t.Errorf("%s has what no key reaches: %s", path, out)
			}
			if active, err := chromedp.Run(ctx, chromedp.Evaluate[int64](activeContent)); err != nil || active != 0 {
				t.Errorf("%s: what others wrote became %d parts of the page, %v", path, active, err)
			}
			themes := []bool{false, true}
			if os.Getenv("REMIT_SOAK") == "" { // every page at one width in one theme, and in a soak at all and in both
				if (i+k)%3 > 0 {
					continue
				}
				themes = themes[k%2 : k%2+1]
			}
			begin := time.Now()
			accessible(ctx, t, script, fmt.Sprintf("%s on a screen of %d", path, width), themes...)
			took += time.Since(begin)
		}
	}

	t.Logf("axe took %s", took)
	do("decide", chromedp.Navigate(w.url+"/approvals/"+approval.ApprovalID), chromedp.SendKeys("#reason", "read it whole"), chromedp.Click(`button[value="granted"]`))
	until(ctx, t, `document.body.textContent.includes("by user:alice")`, slow)
	if got := w.status(token, approval.ApprovalID); got.Status != api.ApprovalStatusGranted || !strings.Contains(api.Value(got.Reason), "read it whole") {
		t.Errorf("%+v", got)
	}
	if os.Getenv("REMIT_SOAK") != "" {
		w.staysSmooth(ctx, token, do)
	}
	w.searchesMany(ctx, do)
	w.comparesTwo(ctx, do)
	w.concludes(ctx, token, ended, do)
	w.switchesOff(ctx, token, do)
	w.decidesLate(ctx, token, &later, do)
	w.byKeyboard(ctx, token, do)
	do("be logged out", chromedp.WaitVisible("#token"))
	accessible(ctx, t, script, "the login", false, true)
	if evaluate(ctx, t, `document.querySelector(".decide button").textContent = "", true`); !strings.Contains(serious(ctx, t), "button-name") {
		t.Error("axe does not find a button without a name")
	}
	if n := faults.Load(); n > 0 {
		t.Errorf("%d faults on the console", n)
	}
	runsNothingInline(ctx, t, do)
	w.enters(do, token)
	w.framesNothing(ctx, token, do)
	do("back to a page", chromedp.Navigate(w.url+"/login"), chromedp.WaitVisible("#token"))
	// The control: a page cannot make markup of text, and the console says so.
	until(ctx, t, `(() => { try { document.body.insertAdjacentHTML("beforeend", "<b>x</b>"); return false } catch (e) { return e instanceof TypeError } })()`, slow)
	for begin := time.Now(); faults.Load() == 0 && time.Since(begin) < slow; {
		if err := api.Pause(ctx, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if faults.Load() == 0 {
		t.Error("the console was not listened to")
	}
}
