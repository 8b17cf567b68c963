//go:build !race

package panel

import (
	"strings"
	"testing"
	"time"

	"remit/nexus/authority"
	"remit/proof/evidence"
)

// TestSpending: what a verified change cost has the runs in it that did not pass,
// and what is not known is no figure.
func TestSpending(t *testing.T) {
	t.Parallel()
	run := func(status string, cost int64, known *bool) Summary {
		return Summary{Status: status, MicroUSD: cost, CostKnown: known}
	}
	for name, c := range map[string]struct {
		runs            []Summary
		cost, each, why string
	}{
		"two runs, one passed": {[]Summary{run("pass", 200_000, new(true)), run("fail", 100_000, new(true))}, "$0.30", "$0.30", ""},
		"two passed":           {[]Summary{run("pass", 200_000, new(true)), run("pass", 100_000, new(true))}, "$0.30", "$0.15", ""},
		"none passed":          {[]Summary{run("fail", 200_000, new(true))}, "$0.20", "–", "no run passed"},
		"part is not known":    {[]Summary{run("pass", 200_000, new(true)), run("pass", 0, new(false))}, "≥ $0.20", "≥ $0.10", "part of the cost is not known"},
		"nothing is known":     {[]Summary{run("pass", 0, new(false))}, "–", "–", "what the model cost is not known"},
		"no model":             {[]Summary{run("pass", 0, nil)}, "–", "–", "no model was asked"},
		"free":                 {[]Summary{run("pass", 0, new(true))}, "$0.00", "$0.00", ""},
	} {
		var s spent
		for _, r := range c.runs {
			s.add(r)
		}
		if s.Cost() != c.cost || s.PerVerified() != c.each || s.Why() != c.why {
			t.Errorf("%s: %s, %s each, %q", name, s.Cost(), s.PerVerified(), s.Why())
		}
	}
	d := spending{Days: []spent{{MicroUSD: 50}, {MicroUSD: 100}, {}}}
	if d.scale(); d.Days[0].H != chartHeight/2 || d.Days[1].Y != 0 || d.Days[2].Y != chartHeight || d.Width() != 3*dayWidth {
		t.Errorf("%+v", d.Days)
	}
}

// TestSpendingPage: the page has the runs of the user who looks, and no others.
func TestSpendingPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	alice := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	for key, cost := range map[string]int64{"a": 120_000, "b": 80_000} {
		w.tell(alice, key, "acme/links", sealedJournal(t, "pass"), func(s *evidence.RunSummary) {
			s.Engine.Name, s.Model, s.CostMicroUSD, s.CostKnown = "evil<script>alert(1)</script>", new("m\u202e1"), &cost, new(true)
			s.StartedAt = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
		})
	}
	page := w.login(alice).get("/treasury").body
	if !strings.Contains(page, "evil&lt;script&gt;alert(1)&lt;/script&gt; × m⟨U+202E⟩1") || !strings.Contains(page, `<td class="num">$0.20</td><td class="num">$0.10</td>`) ||
		!strings.Contains(page, "$0.20 in 2 runs, 2 verified") ||
		!strings.Contains(page, "models for a verified change") || !strings.Contains(page, "What machines were paid is not in it") || len(faults(t, page)) > 0 {
		t.Errorf("%q\n%s", faults(t, page), page[strings.Index(page, "<main"):])
	}
	if page := w.login(w.token("bob", authority.ScopeRead)).get("/treasury").body; strings.Contains(page, "evil") || !strings.Contains(page, "Nothing measured") {
		t.Error("another user sees what alice's runs cost")
	}
}
