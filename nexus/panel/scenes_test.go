//go:build !race

package panel

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// steps runs steps in a browser; what it is called stands in the failure.
type steps = func(what string, actions ...chromedp.Action[chromedp.Void])

// shows waits until a page says something.
func shows(ctx context.Context, t testing.TB, text string) {
	t.Helper()
	until(ctx, t, `document.body.textContent.includes("`+text+`")`, slow)
}

// searchesMany lists and searches very many runs.
func (w *world) searchesMany(ctx context.Context, do steps) {
	w.t.Helper()
	do("list many runs", chromedp.EmulateViewport(1280, 900), chromedp.Navigate(w.url+"/"), chromedp.WaitVisible(".runs"))
	until(ctx, w.t, `[...document.querySelectorAll(".chip")].some(c => /^All 100\d\d$/.test(c.textContent.trim()))`, slow)
	do("search them", chromedp.SendKeys(".find input[name=q]", "run-990123\r"))
	until(ctx, w.t, `location.search.includes("q=run-990123") && document.querySelectorAll("tr.at").length === 1 && document.querySelector(".grp .ti").textContent === "Run 9876"`, slow)
	do("page on", chromedp.Navigate(w.url+"/?status=fail"), chromedp.WaitVisible("main .mt .btn"), chromedp.Click("main .mt .btn"))
	until(ctx, w.t, `location.search.includes("before=") && document.querySelectorAll("tr.at").length === 50`, slow)
}

// watchesWhole watches a run from its first entry to its bundle. Each step is on the
// page half a second after its line of the journal; a machine that does other things is
// given what a page takes there to load.
func (w *world) watchesWhole(ctx context.Context, home *growingRun, do steps) {
	w.t.Helper()
	before, whole := home.entries.Load(), int64(len(home.sessions[0].Journal))
	home.entries.Store(1)
	begin := time.Now()
	do("watch from the first entry", chromedp.Navigate(w.url+home.sessions[0].Href()), chromedp.WaitVisible(".verdict"))
	loads := time.Since(begin)
	until(ctx, w.t, `document.getElementById("live").textContent === "live" && (window.same = true)`, slow)
	var took []time.Duration
	for n := int64(2); n <= whole; n++ {
		begin := time.Now()
		home.entries.Store(n)
		until(ctx, w.t, fmt.Sprintf(`document.querySelector("#timeline header").textContent.includes("%d journal entries")`, n), slow)
		took = append(took, time.Since(begin))
	}
	begin = time.Now()
	home.sealed.Store(true)
	until(ctx, w.t, `window.same === true && document.title.startsWith("Fail") && document.querySelector("#audit a") !== null`, slow)
	// The replay is there without loading the page anew, and works.
	until(ctx, w.t, `document.querySelector(".replay")?.hidden === false`, slow)
	do("play what was watched", chromedp.Click(".replay button"))
	until(ctx, w.t, `document.querySelector(".replay output").value !== "" && document.querySelector(".replay button").textContent === "Pause"`, slow)
	do("stop it", chromedp.Click(".replay button"))
	slices.Sort(took)
	middle, most := took[len(took)/2], 500*time.Millisecond+loads
	w.t.Logf("%d steps were on the page after %s, at most %s, the bundle after %s; the page loads in %s", len(took), middle, took[len(took)-1], time.Since(begin), loads)
	if middle > most {
		w.t.Errorf("half of the steps were on the page later than %s", most)
	}
	home.entries.Store(before)
	home.sealed.Store(false)
}

// comparesTwo looks at two sessions side by side.
func (w *world) comparesTwo(ctx context.Context, do steps) {
	w.t.Helper()
	do("compare", chromedp.Navigate(w.url+"/compare?run=20261123T100000Z-b-2&run=20261123T100000Z-a-1"), chromedp.WaitVisible("main table"))
	until(ctx, w.t, `["b-2", "a-1"].every(id => document.querySelector("main table a[href$='" + id + "']"))`, slow)
}

// concludes accepts a run; the word then stands in the bundle of the authority too.
func (w *world) concludes(ctx context.Context, token, run string, do steps) {
	w.t.Helper()
	do("accept", chromedp.Navigate(w.url+"/nexus/runs/"+run), chromedp.SendKeys("#reason", "read it all"), chromedp.Click(`button[value="accepted"]`))
	until(ctx, w.t, `document.querySelector("#outcome").textContent.includes("accepted by user:alice") && !document.querySelector("#reason")`, slow)
	got, err := api.GetRun.Get(w.t.Context(), w.client(token), run)
	if given := api.Value(got.Outcomes); err != nil || len(given) != 1 || given[0].Note != "read it all" {
		w.t.Errorf("%+v, %v", given, err)
	}
	shows(ctx, w.t, "from its sealed bundle")
	if kept := w.bundledJournal(token, run); !strings.Contains(kept, `"name":"operator.outcome"`) || !strings.Contains(kept, "read it all") {
		w.t.Error("the bundle that the authority keeps does not have the outcome")
	}
}

// bundledJournal is the journal in the bundle that the authority keeps of a run.
func (w *world) bundledJournal(token, run string) string {
	w.t.Helper()
	out := (&browser{w: w, header: http.Header{"Authorization": {"Bearer " + token}}}).get("/v1/runs/" + run + "/bundle")
	files, err := zip.NewReader(strings.NewReader(out.body), int64(len(out.body)))
	if err != nil {
		w.t.Fatalf("%d: %v", out.status, err)
	}
	text, err := fs.ReadFile(files, evidence.JournalFile)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// leased has a machine work on a job.
func (w *world) leased(token, name string) (machine, run string) {
	w.t.Helper()
	ctx, owner := w.t.Context(), w.client(token)
	machine, credential := w.machineWith(token, name, 1000)
	w.fund(token, 10_000)
	request, _, err := requestOf(url.Values{"task": {newTask}, "repo_ref": {"acme/links"}, "source": {"/srv/links"}, "commit": {strings.Repeat("a", 40)},
		"tree": {strings.Repeat("b", 40)}, "engine": {"fixer"}, "wall_secs": {"100"}})
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := canon.Marshal(request)
	if err != nil {
		w.t.Fatal(err)
	}
	made, err := api.CreateRun.Do(ctx, owner, name, api.None{}, api.RunRequest{RepoRef: "acme/links"})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err = api.DispatchJob.Do(ctx, owner, name, made.RunID, api.DispatchRequest{JobType: job.EngineRun, Request: text}); err != nil {
		w.t.Fatal(err)
	}
	got, err := api.LeaseJobs.Do(ctx, w.client(credential), name, api.None{}, api.LeaseRequest{})
	if err != nil || len(got.Leases) != 1 {
		w.t.Fatalf("%+v, %v", got, err)
	}
	return machine, made.RunID
}

// switchesOff takes a machine away in the middle of a run: its job ends at once, and
// the page of the run says so.
func (w *world) switchesOff(ctx context.Context, token string, do steps) {
	w.t.Helper()
	machine, run := w.leased(token, "workshop")
	form := `form[action="/fleet/` + machine + `/switch"] `
	do("switch off", chromedp.Navigate(w.url+"/fleet"), chromedp.SendKeys(form+"input[name=reason]", "it is loud"), chromedp.Click(form+"button"))
	until(ctx, w.t, `document.querySelector('`+form+`input[name=to]')?.value === "on"`, slow)
	got, err := api.ListJobs.Get(w.t.Context(), w.client(token), api.ListJobsParams{RunID: run})
	if err != nil || len(got.Items) != 1 || api.Value(got.Items[0].Outcome) == "" && got.Items[0].ClosedAt == nil {
		w.t.Errorf("the job of a machine that is off: %+v, %v", got.Items, err)
	}
	do("look at its run", chromedp.Navigate(w.url+"/nexus/runs/"+run), chromedp.WaitVisible(".verdict"))
	shows(ctx, w.t, "provider_disabled")
}

// decidesLate denies one approval; of a second, another person is faster; a third ends
// while it is looked at.
func (w *world) decidesLate(ctx context.Context, token string, later *atomic.Int64, do steps) {
	w.t.Helper()
	open := func(key string, ttl *int64) api.Approval {
		got := w.approvalOf(token, key, ttl)
		do("read "+key, chromedp.Navigate(w.url+"/approvals/"+got.ApprovalID), chromedp.SendKeys("#reason", "because of "+key))
		return got
	}
	say := func(word string) { do("say "+word, chromedp.Click(`button[value="`+word+`"]`)) }
	denied := open("denied", nil)
	say("denied")
	shows(ctx, w.t, "because of denied")
	if got := w.status(token, denied.ApprovalID); got.Status != api.ApprovalStatusDenied {
		w.t.Errorf("%+v", got)
	}
	raced := open("raced", nil)
	carol := w.login(w.mint(identity.Grant{Kind: authority.User, Principal: "user:carol", Owner: "alice", Scopes: []string{authority.ScopeRead, authority.ScopeApprove}, TTL: time.Hour}))
	form := url.Values{"csrf": {carol.csrf}, "key": {"carol"}, "decision": {"denied"}, "reason": {"not on a Friday"}}
	if out := carol.do(http.MethodPost, "/approvals/"+raced.ApprovalID+"/decision", form); out.status != http.StatusSeeOther {
		w.t.Fatalf("carol: %d %s", out.status, out.body)
	}
	say("granted")
	shows(ctx, w.t, "denied by user:carol")
	if got := w.status(token, raced.ApprovalID); got.Status != api.ApprovalStatusDenied {
		w.t.Errorf("%+v", got)
	}
	late := open("late", new(int64(60)))
	later.Add(int64(61 * time.Second))
	say("granted")
	shows(ctx, w.t, "expired")
	if got := w.status(token, late.ApprovalID); got.Status != api.ApprovalStatusExpired && got.Status != api.ApprovalStatusRequested {
		w.t.Errorf("%+v", got)
	}
}

// activeContent counts what a page has that acts, and that none of our templates has.
const activeContent = `[...document.querySelectorAll("main *")].filter(e => ["SCRIPT", "IMG", "IFRAME", "OBJECT", "EMBED", "BASE", "STYLE"].includes(e.tagName) ||
	[...e.attributes].some(a => a.name.startsWith("on") || a.value.trim().toLowerCase().startsWith("javascript:"))).length`

// runsNothingInline holds the policy of every page against a page that has what a
// fault in a template would let through. The control is the same page without it.
func runsNothingInline(ctx context.Context, t *testing.T, do steps) {
	t.Helper()
	planted := `<!doctype html><title>x</title><main>x</main><script>window.ran = "inline"</script><script src="data:text/javascript,window.ran='data'"></script>` +
		`<img src="/none" onerror="window.ran = 'handler'"><a id="a" href="javascript:void(window.ran = 'link')">x</a>`
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if protect(w); r.URL.Path == "/bare" {
			clear(w.Header())
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, planted)
	}))
	t.Cleanup(h.Close)
	for path, want := range map[string]bool{"/protected": false, "/bare": true} {
		do(path, chromedp.Navigate(h.URL+path), chromedp.WaitVisible("main"), chromedp.Click("#a"))
		until(ctx, t, `document.readyState === "complete"`, slow)
		if ran, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`window.ran !== undefined`)); err != nil || ran != want {
			t.Errorf("%s: a planted script ran: %v, want %v: %v", path, ran, want, err)
		}
	}
}

// framesNothing puts the page of an approval into a frame of a page of another site, where
// a click on that page would grant the approval. Two headers forbid the frame, and each
// is enough alone; the control is the page without both, which has the button.
func (w *world) framesNothing(ctx context.Context, token string, do steps) {
	w.t.Helper()
	panel, err := url.Parse(w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	path := "/approvals/" + w.approvalOf(token, "framed", nil).ApprovalID
	const options, policy = "X-Frame-Options", "Content-Security-Policy"
	for _, c := range []struct {
		name    string
		without []string
		shown   bool
	}{{name: "as it is"}, {name: "by its policy", without: []string{options}}, {name: "by its options", without: []string{policy}}, {"bare", []string{options, policy}, true}} {
		evil := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/prize" {
				out.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(out, `<!doctype html><main>Win a prize</main>`)
				return
			}
			(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(panel) }, ModifyResponse: func(r *http.Response) error {
				for _, name := range c.without {
					r.Header.Del(name)
				}
				return nil
			}}).ServeHTTP(out, r)
		}))
		do("come to the prize", chromedp.Navigate(evil.URL+"/prize"), chromedp.WaitVisible("main"))
		evaluate(ctx, w.t, fmt.Sprintf(`const f = document.createElement("iframe"); f.onload = () => { window.came = true }; f.src = %q; document.body.append(f), true`, path))
		until(ctx, w.t, `window.came === true`, slow)
		const framed = `document.querySelector("iframe").contentDocument?.querySelector("button[value=granted]")`
		if c.shown {
			until(ctx, w.t, "!!"+framed, slow)
		} else if shown, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!"+framed)); err != nil || shown {
			w.t.Errorf("%s: another page has the button in a frame: %v", c.name, err)
		}
		evil.Close()
	}
}

// staysSmooth follows a run that sends 200 entries a second. The page has every entry in
// order, and its script seldom blocks the page: a person notices a task of more than 50 ms.
func (w *world) staysSmooth(ctx context.Context, token string, do steps) smooth {
	w.t.Helper()
	const second, seconds, felt = 200, 3, 20
	entries := busyJournal(w.t, second*seconds)
	at := len(entries) - second*seconds
	id := w.tell(token, "busy", "acme/links", entries[:at], nil)
	do("follow a busy run", chromedp.Navigate(w.url+"/nexus/runs/"+id), chromedp.WaitVisible(".verdict"))
	until(ctx, w.t, `document.getElementById("live").textContent === "live"`, slow)
	evaluate(ctx, w.t, `window.drawn = [], window.tasks = [], (function draw(at) { drawn.push(at); requestAnimationFrame(draw) })(performance.now()),
		new PerformanceObserver(l => tasks.push(...l.getEntries().map(e => e.duration))).observe({type: "longtask"}), true`)
	begin := time.Now()
	for i, part := range slices.Collect(slices.Chunk(entries[at:], second/10)) {
		w.tellMore(token, "busy", id, part, nil, 16<<10)
		if err := api.Pause(ctx, time.Until(begin.Add(time.Duration(i+1)*100*time.Millisecond))); err != nil {
			w.t.Fatal(err)
		}
	}
	told := time.Since(begin)
	until(ctx, w.t, fmt.Sprintf(`document.querySelector("#timeline header").textContent.includes("%d journal entries")`, len(entries)), slow)
	late := time.Since(begin) - told
	got, err := chromedp.Run(ctx, chromedp.Evaluate[struct {
		smooth
		Rows []string
		More string
	}](`({Gap: Math.max(...drawn.slice(1).map((at, i) => at - drawn[i])), Longest: Math.max(0, ...tasks), Tasks: tasks.length,
		Rows: [...document.querySelectorAll("#timeline .sub .row.q .t")].map(r => r.textContent.trim()), More: document.querySelector("#timeline .sub p").textContent})`))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("%d entries were sent in %s; the page had the last %s later, and drew nothing for %.0f ms at most; %d tasks of more than 50 ms, the longest %.0f ms",
		second*seconds, told, late, got.Gap, got.Tasks, got.Longest)
	for i, text := range got.Rows {
		if want := fmt.Sprintf("“message %d”", i); text != want {
			w.t.Fatalf("row %d of the page is %q, want %q", i, text, want)
		}
	}
	if want := count(second*seconds-shownParts, "part") + " more in the journal"; len(got.Rows) != shownParts || got.More != want {
		w.t.Errorf("%d rows and %q, want %d and %q", len(got.Rows), got.More, shownParts, want)
	}
	if got.Tasks > felt {
		w.t.Errorf("%d tasks of more than 50 ms in %s, want %d at most", got.Tasks, told, felt)
	}
	got.Late = float64(late.Milliseconds())
	return got.smooth
}

// smooth is how a page was while it did much: milliseconds without a drawn frame, of
// the longest task, and how many tasks took more than 50.
type smooth struct {
	Gap, Longest float64
	Tasks        int
	Late         float64 // until the last was on the page
}

// busyJournal is a journal whose engine makes so many entries.
func busyJournal(t testing.TB, n int) []journal.Entry {
	t.Helper()
	w, err := journal.Create(filepath.Join(t.TempDir(), evidence.JournalFile), "20261123T100000Z-busy-000001")
	if err != nil {
		t.Fatal(err)
	}
	add := func(s journal.Step) {
		if _, err := w.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	var last time.Time
	for _, e := range sealedJournal(t, "pass") {
		step := journal.Step{StepID: e.StepID, Name: e.Name, Status: e.Status, StartedAt: instant(e.StartedAt), Inputs: e.Inputs, Outputs: e.Outputs}
		if e.CompletedAt != nil {
			step.CompletedAt = instant(*e.CompletedAt)
		}
		if last = step.StartedAt; e.Name != evidence.StepEngine || e.Status == journal.Started {
			add(step)
		}
		if e.Name == evidence.StepEngine {
			break
		}
	}
	for i := range n {
		add(journal.Step{StepID: fmt.Sprint("message", i), Name: evidence.StepMessage, Status: journal.Completed, StartedAt: last, CompletedAt: last,
			Outputs: evidence.Message{Role: "assistant", Text: fmt.Sprint("message ", i)}})
	}
	entries := w.Entries()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return entries
}
