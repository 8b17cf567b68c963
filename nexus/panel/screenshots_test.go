//go:build !race

package panel

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/chromedp/chromedp"

	"remit/proof/canon"
)

// Where pictures go: those that the README shows, and all others.
const (
	keptPictures  = "../../docs/screens"
	otherPictures = "../../bench/screens"
)

// kept are the pictures that the README shows. They are as high as a screen.
var kept = map[string]bool{"runs-light": true, "run-fail-light": true, "approval-phone-dark": true, "ladder-dark": true}

// stillScript makes a page show the same at any time: the clock of the story stands.
const stillScript = `{ const real = Date, at = %d;
globalThis.Date = class extends real { constructor(...a) { a.length ? super(...a) : super(at) } static now() { return at } } }
`

// stillStyle has the one font that Chromium's package brings, and nothing that moves.
const stillStyle = `
:root { --sans: "DejaVu Sans", sans-serif; --mono: "DejaVu Sans Mono", monospace; }
*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important; scrollbar-width: none !important; }
`

// sameIDs shows ids of the nexus, which have the time in them, and digests of what has
// such an id as others of the same length, by their order on the page.
const sameIDs = `(() => {
  const seen = new Map(), walk = document.createTreeWalker(document.getElementById("main"), NodeFilter.SHOW_TEXT);
  const other = (text, n) => {
    if (!seen.has(text)) seen.set(text, seen.size + 1);
    let x = seen.get(text) * 2654435761 %% 4294967296, out = "";
    while (out.length < n) out += (x = (x * 1664525 + 1013904223) %% 4294967296).toString(16).padStart(8, "0");
    return out.slice(0, n);
  };
  while (walk.nextNode()) {
    const node = walk.currentNode;
    let text = node.data.replace(/\b([a-z]{2,4}_)([0-9a-f]{32})\b/g, (all, kind, id) => kind + other(id, 32));
    if (%t) text = text.replace(/sha256:([0-9a-f]{4})…([0-9a-f]{2})/g, all => "sha256:" + other(all, 4) + "…" + other(all + "!", 2))
      .replace(/sha256:([0-9a-f]{64})/g, all => "sha256:" + other(all, 64));
    if (text !== node.data) node.data = text;
  }
  return true;
})()`

// still changes what pages load, so that their pictures are the same each time.
func still(p *Panel) {
	for name, change := range map[string]func([]byte) []byte{
		"panel.js":  func(b []byte) []byte { return append(fmt.Appendf(nil, stillScript, storyNow.UnixMilli()), b...) },
		"panel.css": func(b []byte) []byte { return append(slices.Clone(b), stillStyle...) },
	} {
		a := p.assets[name]
		a.content = change(a.content)
		a.tag = canon.Digest(a.content)
		p.assets[name] = a
	}
}

// pictures are all pages in both themes, as a wide screen and, of some, a phone shows
// them. What is random is the same each time: ids are on the pages.
func pictures(t *testing.T) map[string][]byte {
	t.Helper()
	cryptotest.SetGlobalRandom(t, 1)
	w, token, pages := storyWorld(t, still)
	ctx := browse(t)
	do := func(what string, steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, steps...); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	out := map[string][]byte{}
	take := func(name, path string, width int64) {
		for _, dark := range []bool{false, true} {
			cryptotest.SetGlobalRandom(t, 2)
			do(path, chromedp.EmulateViewport(width, 860), chromedp.Navigate(w.url+path), chromedp.WaitVisible("main"))
			evaluate(ctx, t, theme(dark))
			until(ctx, t, `document.fonts.status === "loaded" && (!document.body.dataset.live || document.getElementById("live").textContent === "live")`, slow)
			full := name + "-" + map[bool]string{false: "light", true: "dark"}[dark]
			if !kept[full] {
				high, err := chromedp.Run(ctx, chromedp.Evaluate[int64](`Math.min(4000, Math.max(200, document.documentElement.scrollHeight))`))
				if err != nil {
					t.Fatal(err)
				}
				do(path, chromedp.EmulateViewport(width, high))
			}
			evaluate(ctx, t, `document.activeElement?.blur(), scrollTo(0, 0), true`)
			evaluate(ctx, t, fmt.Sprintf(sameIDs, strings.HasPrefix(path, "/nexus/")))
			shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			out[full] = shot
		}
	}
	take("login", "/login", 1280)
	do("log in", chromedp.Navigate(w.url+"/login?next=/health"), chromedp.SendKeys("#token", token), chromedp.Click(".decide button"), chromedp.WaitVisible(".who form"))
	until(ctx, t, `location.pathname === "/health"`, slow)
	delete(pages, "login")
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		take(name, pages[name], 1280)
	}
	for _, name := range []string{"runs", "run-fail", "approval"} {
		take(name+"-phone", pages[name], 390)
	}
	return out
}

// pixels is what a picture shows, whatever the file says besides.
func pixels(t *testing.T, picture []byte) *image.RGBA {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	out := image.NewRGBA(img.Bounds())
	draw.Draw(out, out.Bounds(), img, img.Bounds().Min, draw.Src)
	return out
}

// differ says where two pictures first differ, "" for nowhere.
func differ(t *testing.T, a, b []byte) string {
	t.Helper()
	one, two := pixels(t, a), pixels(t, b)
	if one.Rect != two.Rect {
		return fmt.Sprintf("%v and %v", one.Rect.Max, two.Rect.Max)
	}
	count, first := 0, -1
	for i := 0; i < len(one.Pix); i += 4 {
		if !bytes.Equal(one.Pix[i:i+4], two.Pix[i:i+4]) {
			if count++; first < 0 {
				first = i / 4
			}
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d pixels, the first at %d,%d", count, first%one.Rect.Dx(), first/one.Rect.Dx())
}

// TestScreenshots makes the pictures of all pages twice, and they are the same
// pixels. REMIT_SCREENSHOTS=write keeps them, and check says which of the README's
// are stale.
func TestScreenshots(t *testing.T) {
	mode := os.Getenv("REMIT_SCREENSHOTS")
	if mode == "" {
		t.Skip("pictures are made by make screenshots")
	}
	once := pictures(t)
	again := pictures(t)
	for _, name := range slices.Sorted(maps.Keys(once)) {
		if where := differ(t, once[name], again[name]); where != "" {
			t.Errorf("%s differs when it is made again: %s", name, where)
			if err := os.WriteFile(filepath.Join(os.TempDir(), name+"-again.png"), again[name], 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	for name := range kept {
		if once[name] == nil {
			t.Errorf("there is no picture %s", name)
		}
	}
	browser, err := exec.CommandContext(context.WithoutCancel(t.Context()), chromium(t), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(keptPictures, "made-with.txt")
	if mode != "write" {
		was, err := os.ReadFile(made)
		if err != nil || string(was) != version(browser) {
			t.Fatalf("the pictures were made with %q and this is %q: only the same browser makes the same pixels; make screenshots makes all anew, %v", was, version(browser), err)
		}
		for name := range kept {
			was, err := os.ReadFile(filepath.Join(keptPictures, name+".png"))
			if err != nil {
				t.Fatal(err)
			}
			if where := differ(t, was, once[name]); where != "" {
				t.Errorf("docs/screens/%s.png is stale: %s; make screenshots makes it anew", name, where)
			}
		}
		return
	}
	for _, dir := range []string{keptPictures, otherPictures} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(made, []byte(version(browser)), 0o600); err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, picture := range once {
		dir := otherPictures
		if kept[name] {
			dir, total = keptPictures, total+len(picture)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d pictures; those of the README have %d bytes", len(once), total)
	if total > 1_500_000 {
		t.Errorf("the pictures of the README have %d bytes, more than a clone should carry", total)
	}
}

// version is the first line of what a browser says of itself.
func version(said []byte) string {
	for line := range strings.Lines(string(said)) {
		if strings.HasPrefix(line, "Chrom") || strings.HasPrefix(line, "Google") {
			return strings.TrimSpace(line) + "\n"
		}
	}
	return string(said)
}

// TestDiffer is the control of the comparison: one pixel is enough.
func TestDiffer(t *testing.T) {
	t.Parallel()
	picture := func(change bool) []byte {
		img := image.NewRGBA(image.Rect(0, 0, 30, 20))
		if change {
			img.Set(5, 7, color.White)
		}
		var out bytes.Buffer
		if err := png.Encode(&out, img); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	if got := differ(t, picture(false), picture(true)); got != "1 pixels, the first at 5,7" {
		t.Errorf("%q", got)
	}
	if got := differ(t, picture(false), picture(false)); got != "" {
		t.Errorf("%q", got)
	}
}
