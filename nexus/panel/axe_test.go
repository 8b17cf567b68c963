//go:build !race

package panel

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"remit/proof/canon"
)

// axe is axe-core, which finds what keeps people from using a page. It is what its
// package has, byte for byte.
func axe(t testing.TB) string {
	t.Helper()
	script, err := os.ReadFile("testdata/axe/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("testdata/axe/VENDORED.md")
	if err != nil || !strings.Contains(string(table), strings.TrimPrefix(canon.Digest(script), "sha256:")) {
		t.Fatalf("axe.min.js has the digest %s, which VENDORED.md does not: %v", canon.Digest(script), err)
	}
	return string(script)
}

// theme shows a page light or dark, whatever the browser prefers.
func theme(dark bool) string {
	media := "not all"
	if dark {
		media = "all"
	}
	return fmt.Sprintf(`[...document.styleSheets].flatMap(s => [...s.cssRules]).filter(r => r instanceof CSSMediaRule).forEach(r => {
		window.dark ??= new Map();
		if (r.conditionText.includes("color-scheme")) dark.set(r, true);
		if (dark.has(r)) r.media.mediaText = %q;
	}), true`, media)
}

// accessible has axe look at the page that is open, light or dark: nothing that it
// finds may be serious.
func accessible(ctx context.Context, t testing.TB, script, what string, themes ...bool) {
	t.Helper()
	evaluate(ctx, t, script+"; true")
	for _, dark := range themes {
		evaluate(ctx, t, theme(dark))
		if found := serious(ctx, t); found != "" {
			t.Errorf("%s, dark %t: %s", what, dark, found)
		}
	}
}

func evaluate(ctx context.Context, t testing.TB, text string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](text)); err != nil {
		t.Fatal(err)
	}
}

// serious is what axe finds on the page that is open.
func serious(ctx context.Context, t testing.TB) string {
	t.Helper()
	evaluate(ctx, t, `window.found = null; axe.run(document, {resultTypes: ["violations"]}).then(
		r => { window.found = r.violations.filter(v => ["serious", "critical"].includes(v.impact)).map(
			v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | ")).join("; ") },
		e => { window.found = "axe: " + e }), true`)
	until(ctx, t, `window.found !== null`, slow)
	found, err := chromedp.Run(ctx, chromedp.Evaluate[string](`window.found`))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
