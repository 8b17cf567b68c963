//go:build !race

package panel

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"remit/nexus/authority"
)

// loaded is how a page came to a browser: milliseconds from the click to the end of
// its loading, and what was sent.
type loaded struct{ Ms, KB float64 }

// large is what a person sees of a very large run.
type large struct {
	Page, Search, Diff loaded
	DiffLongest        float64 // milliseconds of the longest task while the change was opened and read on
	Scroll             struct {
		Frames, Blank int // frames of scrolling from end to end, and those with nothing in them
		Gap           float64
	}
}

// enters logs a browser in.
func (w *world) enters(do steps, token string) {
	w.t.Helper()
	do("log in", chromedp.Navigate(w.url+"/login?next=/health"), chromedp.SendKeys("#token", token), chromedp.Click(".decide button"), chromedp.WaitVisible(".who form"))
}

// navigated says how the page that is open was loaded.
const navigated = `(() => { const n = performance.getEntriesByType("navigation")[0]; return {Ms: n.loadEventEnd, KB: n.transferSize / 1000} })()`

// scrolls goes through a page, a screen a frame.
const scrolls = `window.went = null, (async () => {
	const went = {Frames: 0, Blank: 0, Gap: 0};
	let last = await new Promise(requestAnimationFrame);
	for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight) {
		scrollTo({top: y, behavior: "instant"});
		const now = await new Promise(requestAnimationFrame);
		went.Frames++, went.Gap = Math.max(went.Gap, now - last), last = now;
		const seen = [.2, .5, .8].some(part => { const e = document.elementFromPoint(innerWidth / 2, innerHeight * part); return e?.closest("main section, main > *")?.textContent.trim() });
		if (!seen) went.Blank++;
	}
	window.went = went;
})(), true`

// opensTheLarge opens the page of a run with 2,000 calls, 300 changed files and a log
// of so many bytes, scrolls through it, searches the log, and reads its file of 5 MB.
func opensTheLarge(t testing.TB, logBytes int) (out large) {
	t.Helper()
	w := newWorld(t, longRun(2000, logBytes).onDisk(t), true)
	ctx := browse(t)
	do := doing(ctx, t)
	w.enters(do, w.token("alice", authority.ScopeRead))
	const run = "/runs/20261123T100000Z-b-2"
	open := func(path string) loaded {
		t.Helper()
		do("open "+path, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(w.url+run+path), chromedp.WaitVisible("main"))
		until(ctx, t, `performance.getEntriesByType("navigation")[0].loadEventEnd > 0`, slow)
		got, err := chromedp.Run(ctx, chromedp.Evaluate[loaded](navigated))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	out.Page = open("")
	evaluate(ctx, t, scrolls)
	until(ctx, t, `window.went !== null`, slow)
	var err error
	if out.Scroll, err = chromedp.Run(ctx, chromedp.Evaluate[struct {
		Frames, Blank int
		Gap           float64
	}](`window.went`)); err != nil {
		t.Fatal(err)
	}
	out.Search = open("/log/test.log?q=NEEDLE")
	until(ctx, t, `document.querySelector("main").textContent.includes("1 line")`, slow)
	out.Diff = open("/changes?file=299")
	evaluate(ctx, t, `window.longest = 0, new PerformanceObserver(l => longest = Math.max(longest, ...l.getEntries().map(e => e.duration))).observe({type: "longtask", buffered: true}), true`)
	const rows = `document.querySelectorAll(".diff tr.add, .diff tr.del").length`
	for range 3 {
		evaluate(ctx, t, `window.had = `+rows+`, document.querySelector("a[data-more]").click(), true`)
		until(ctx, t, rows+` > had`, slow)
	}
	if out.DiffLongest, err = chromedp.Run(ctx, chromedp.Evaluate[float64](`longest`)); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBrowserOpensALargeRun: nothing of a very large run is sent whole, and no screen of
// its page is blank. How long it takes is printed, and measured by make bench.
func TestBrowserOpensALargeRun(t *testing.T) {
	t.Parallel()
	if os.Getenv("REMIT_SOAK") == "" {
		t.Skip("a large run is opened in a browser by make soak and make bench")
	}
	got := opensTheLarge(t, 50<<20)
	t.Logf("%+v", got)
	if got.Page.KB > 150 || got.Diff.KB > 500 || got.Scroll.Blank > 0 || got.Scroll.Frames < 5 {
		t.Errorf("%+v", got)
	}
}
