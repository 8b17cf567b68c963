//go:build !race

package panel

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"remit/nexus/api"
)

// keyboard is a person without a pointer: keys go to the element that has the focus, and
// the person leaves a page by a link or a button on it.
type keyboard struct {
	ctx   context.Context
	t     testing.TB
	do    steps
	stops int // of the focus, each of which was looked at
}

// unseen says why a person could not see where the focus is, "" where they can: it has
// no outline, is outside of the window, or lies behind the head of the page.
const unseen = `(() => {
	const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
	const at = (low, high) => (Math.max(low, 0) + high) / 2;
	const top = document.elementFromPoint(at(box.left, Math.min(box.right, innerWidth)), at(box.top, Math.min(box.bottom, innerHeight)));
	const name = e.outerHTML.slice(0, 100);
	if (e === document.body) return "nothing has the focus";
	if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) return "no outline: " + name;
	if (!box.width || !box.height || box.bottom <= 0 || box.top >= innerHeight) return "outside of the window: " + name;
	if (!top || !(e.contains(top) || top.contains(e))) return "hidden by " + top?.outerHTML.slice(0, 60) + ": " + name;
	return "";
})()`

// outOfReach names what acts on the page that is open and no key comes to: a control
// or a link that Tab passes over, and anything else that looks as if one could press it.
func outOfReach(ctx context.Context, t testing.TB) string {
	t.Helper()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(() => {
		const acts = "a, button, input:not([type=hidden]), select, textarea, summary";
		return [...document.body.querySelectorAll("*")].filter(e => e.checkVisibility() && !e.disabled && (e.matches(acts) ? e.tabIndex < 0 || e.matches("a:not([href])") :
			(e.hasAttribute("onclick") || e.getAttribute("role") === "button" || getComputedStyle(e).cursor === "pointer") && !e.closest(acts + ", label")))
			.slice(0, 3).map(e => e.outerHTML.slice(0, 120)).join(" ");
	})()`))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// press presses keys.
func (k *keyboard) press(keys string, options ...chromedp.KeyOption) {
	k.t.Helper()
	k.do("press "+fmt.Sprintf("%.20q", keys), chromedp.KeyEvent(keys, options...))
}

// to goes on with Tab until the focus is where it is wanted; it is seen all the way.
func (k *keyboard) to(selector string, options ...chromedp.KeyOption) {
	k.t.Helper()
	const most = 150
	for range most {
		k.press(kb.Tab, options...)
		at, err := chromedp.Run(k.ctx, chromedp.Evaluate[struct {
			There  bool
			Unseen string
		}](fmt.Sprintf(`({There: document.activeElement.matches(%q), Unseen: %s})`, selector, unseen)))
		if err != nil {
			k.t.Fatal(err)
		}
		if k.stops++; at.Unseen != "" {
			k.t.Errorf("on the way to %s the focus is not seen: %s", selector, at.Unseen)
		}
		if at.There {
			return
		}
	}
	k.t.Fatalf("%d times Tab do not lead to %s", most, selector)
}

// back goes the other way.
func (k *keyboard) back(selector string) {
	k.t.Helper()
	k.to(selector, chromedp.KeyModifiers(chromedp.ModifierShift))
}

// follow goes somewhere and presses Enter there.
func (k *keyboard) follow(selector string) {
	k.t.Helper()
	k.to(selector)
	k.press(kb.Enter)
}

// skip goes to the content of a page, past its head.
func (k *keyboard) skip() {
	k.t.Helper()
	k.follow(".skip")
	k.until(`document.activeElement.id === "main"`)
}

func (k *keyboard) until(expression string) {
	k.t.Helper()
	until(k.ctx, k.t, `document.readyState === "complete" && `+expression, slow)
}

// byKeyboard does what one does in the panel with Tab, Enter and the arrows alone, from
// the login to the logout.
func (w *world) byKeyboard(ctx context.Context, token string, do steps) {
	w.t.Helper()
	k := &keyboard{ctx: ctx, t: w.t, do: do}
	waits := w.approvalOf(token, "keys", nil)
	machine := w.machine(token, "attic", 1000)

	do("come to the login", chromedp.EmulateViewport(1280, 900), chromedp.Navigate(w.url+"/login"))
	k.until(`document.activeElement.id === "token"`)
	k.press(token + kb.Enter)
	k.until(`location.pathname === "/" && document.querySelector(".runs") !== null`)

	// Filters: a chip, and a menu.
	k.skip()
	k.follow(`.chip[href="/?from=nexus"]`)
	k.until(`location.search === "?from=nexus"`)
	k.skip()
	k.follow(`.menu summary`)
	k.until(`document.activeElement.parentElement.open`)
	k.follow(`.menu a[href*="state=succeeded"]`)
	k.until(`location.search.includes("state=succeeded")`)
	k.follow(`nav a[href="/"]`)
	k.until(`location.search === "" && document.querySelector(".runs") !== null`)
	k.skip()
	k.follow(`.chip[href*="status=fail"]`)
	k.until(`location.search.includes("status=fail")`)

	// A run: it is opened, a file is folded and unfolded and read on, and it is replayed.
	k.skip()
	k.follow(`tr.at td a[href$="-a-1"]`)
	k.until(`location.pathname.endsWith("-a-1")`)
	k.skip()
	k.follow(`#f1 > summary`)
	k.until(`!document.querySelector("#f1").open`)
	k.press(kb.Enter)
	k.until(`document.querySelector("#f1").open`)
	k.follow(`#f1 a[data-more]`)
	k.until(`document.querySelectorAll("#f1 .diff tr.add").length === 1659 && document.activeElement.closest("#f1") !== null`)
	k.to(`.replay input`)
	k.press(strings.Repeat(kb.ArrowLeft, 3))
	k.until(`Number(document.activeElement.value) < Number(document.activeElement.max) && /^\?at=\d+$/.test(location.search) && document.querySelector(".tl .now, .tl .later") !== null`)
	k.back(`.replay button`)
	k.press(kb.Enter)
	k.until(`document.querySelector(".replay button").textContent === "Play" && location.search === ""`)

	// What it made is taken away as a file.
	k.back(`.skip`)
	k.press(kb.Enter)
	k.until(`document.activeElement.id === "main"`)
	k.to(`a[href$="/export/zip"]`)
	evaluate(ctx, w.t, `window.fetched = null, document.activeElement.addEventListener("click", e => window.fetched = e.currentTarget.href), true`)
	k.press(kb.Enter)
	k.until(`window.fetched?.endsWith("/export/zip")`)

	// Two approvals, each with a reason: one is granted, one is denied.
	decides := func(a api.Approval, word string, want api.ApprovalStatus) {
		k.back(`nav a[href="/approvals"]`)
		k.press(kb.Enter)
		k.until(`location.pathname === "/approvals"`)
		k.skip()
		k.follow(`a[href="/approvals/` + a.ApprovalID + `"]`)
		k.until(`document.querySelector("#reason") !== null`)
		k.skip()
		k.to(`#reason`)
		k.press(word + " by keys")
		k.follow(`button[value="` + word + `"]`)
		k.until(`document.body.textContent.includes("` + word + ` by keys") && document.body.textContent.includes("by user:alice")`)
		if got := w.status(token, a.ApprovalID); got.Status != want {
			w.t.Errorf("%s by keys: %+v", word, got)
		}
	}
	decides(waits, "granted", api.ApprovalStatusGranted)
	decides(w.approvalOf(token, "nokeys", nil), "denied", api.ApprovalStatusDenied)

	// A run of the nexus is found and rejected.
	run := w.ended(token, "keys", "pass")
	do("list the runs of the nexus", chromedp.Navigate(w.url+"/?from=nexus"), chromedp.WaitVisible("main"))
	k.skip()
	k.follow(`a[href="/nexus/runs/` + run + `"]`)
	k.until(`location.pathname === "/nexus/runs/` + run + `"`)
	k.skip()
	k.to(`#reason`)
	k.press("not what was asked")
	k.follow(`button[value="rejected"]`)
	k.until(`document.querySelector("#outcome").textContent.includes("rejected by user:alice") && !document.querySelector("#reason")`)

	// Attempts at one task are laid side by side.
	k.follow(`nav a[href="/"]`)
	k.until(`document.querySelector(".runs") !== null`)
	k.skip()
	k.follow(`main a[href^="/compare?"]`)
	k.until(`location.pathname === "/compare" && document.querySelectorAll("main table a[href^='/runs/']").length > 1`)

	// A new run, described by a saved link and a task that is typed.
	do("open a kept link", chromedp.Navigate(w.url+"/new?"+url.Values{"repo_ref": {"keys"}, "source": {"/srv/links"}, "commit": {strings.Repeat("a", 40)},
		"tree": {strings.Repeat("b", 40)}, "engine": {"fixer"}, "wall_secs": {"100"}}.Encode()))
	k.until(`document.querySelector("#task") !== null`)
	k.skip()
	k.to(`#task`)
	k.press(newTask)
	k.follow(`form[action="/new"] button`)
	k.until(`document.querySelector("#checked") !== null`)
	k.skip()
	k.follow(`form[action="/new/run"] button`)
	k.until(`location.pathname.startsWith("/nexus/runs/") && document.body.textContent.includes("remit.engine_run.v1")`)

	// A machine is switched off.
	k.follow(`nav a[href="/fleet"]`)
	k.until(`location.pathname === "/fleet"`)
	form := `form[action="/fleet/` + machine + `/switch"] `
	k.skip()
	k.to(form + `input[name=reason]`)
	k.press("by keys" + kb.Enter)
	k.until(`document.querySelector('` + form + `input[name=to]')?.value === "on"`)

	// The control: a focus that is not seen is found.
	k.skip()
	k.to(form + `button`)
	evaluate(ctx, w.t, `document.activeElement.style.outline = "none", true`)
	if why, err := chromedp.Run(ctx, chromedp.Evaluate[string](unseen)); err != nil || !strings.HasPrefix(why, "no outline") {
		w.t.Errorf("a focus without an outline: %q, %v", why, err)
	}
	if evaluate(ctx, w.t, `document.activeElement.tabIndex = -1, true`); !strings.Contains(outOfReach(ctx, w.t), "<button") {
		w.t.Error("a button that no key reaches is not found")
	}
	k.back(`.who button`)
	k.press(kb.Enter)
	k.until(`location.pathname === "/login"`)
	w.t.Logf("the keyboard went over %d places", k.stops)
}
