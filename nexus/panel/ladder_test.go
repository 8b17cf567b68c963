//go:build !race

package panel

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"remit/law/ladder"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/proof/reason"
)

// ladderStatus is a control summary with a stage in every state, and an engine that is
// not there.
func ladderStatus() ladder.Status {
	status := ladder.Summarize([]ladder.Records{{Engine: hostile}, {Engine: "codex", Matrix: &ladder.MatrixRecord{Record: ladder.Record{Path: "matrix/evil<b>"}, Status: "fail", Held: 17, Total: 19, Cases: []ladder.MatrixCase{
		{Row: "timeout", Case: "engine", ExpectedStatus: reason.Blocked, ExpectedCode: reason.Timeout, GotStatus: "blocked", GotCode: reason.Timeout, Verdict: "held"},
		{Row: "no-diff", Case: hostile, ExpectedStatus: reason.Fail, ExpectedCode: reason.NoDiff, GotStatus: "pass", GotCode: hostile, Verdict: "broken"},
		{Row: "dirty-ending-tree", Case: "fifo", ExpectedStatus: reason.Fail, ExpectedCode: reason.DirtyEndingTree, Verdict: "not tried"}}}}})
	lane := func(engine, next string, states ...ladder.State) ladder.Lane {
		l := ladder.Lane{Engine: engine, Provider: hostile, Model: hostile, NextAction: next, Version: hostile}
		for i, s := range states {
			l.Stages = append(l.Stages, ladder.LaneStage{Stage: i + 1, Name: status.Stages[i].Name, State: s, Why: hostile, Proof: new("proofs/evil<b>")})
		}
		return l
	}
	first := lane("codex", "remit prove --engine codex --stage 2", ladder.Proven, ladder.Stale, ladder.Blocked, ladder.NotYet)
	first.ProvenStage, first.TargetReadOnly, first.Replay.Stage5Report = 1, "pass", new("proofs/evil<b>/report.json")
	second := lane("claude", "remit agent setup claude")
	second.Rationale = &ladder.LaneBlock{Code: reason.ProviderUnavailable, Detail: hostile}
	control := ladder.ControlOf([]ladder.Lane{first, second})
	status.Attach(control)
	return status
}

// TestLadder: every engine has a cell for each stage that says how it stands, and one
// command to type next. Only a user at the machine sees the page.
func TestLadder(t *testing.T) {
	t.Parallel()
	status := ladderStatus()
	show := func(context.Context) (json.RawMessage, error) { return json.Marshal(status) }
	w := newWorldWith(t, nil, true, show)
	token := w.token("alice", authority.ScopeRead)
	b := w.login(token)
	out := b.get("/ladder")
	for _, part := range []string{`class="proven"`, `class="stale"`, `class="blocked"`, `class="open"`, "Not proven", "remit prove --engine codex --stage 2", "remit agent setup claude", "stage 5 report", "17", "19", "another build", "not tried", "candidate_default_eligible: false",
		string(reason.ProviderUnavailable), "proven: stage 1", "runtime_default_activation: false", `href="/health"`, "evil&#34;"} {
		if !strings.Contains(out.body, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	for _, row := range []string{`timeout</code></td><td>engine</td><td class="nowrap">blocked <code>timeout</code></td><td class="nowrap">blocked <code>timeout</code>`,
		`<td class="nowrap">fail <code>no_diff</code></td><td class="nowrap">pass <code>evil`, `dirty_ending_tree</code></td><td class="nowrap"><span title="no session is there">–`} {
		if !strings.Contains(out.body, row) {
			t.Errorf("the failure matrix lacks %q", row)
		}
	}
	if got := faults(t, out.body); len(got) != 0 {
		t.Errorf("the page has %q", got)
	}
	if !strings.Contains(b.get("/fleet").body, `href="/ladder"`) {
		t.Error("no page leads to the ladder")
	}
	refused := func(who string, b *browser) {
		if out := b.get("/ladder"); out.status != http.StatusNotFound || strings.Contains(out.body, "codex") {
			t.Errorf("%s: %d", who, out.status)
		}
		if strings.Contains(b.get("/fleet").body, `href="/ladder"`) {
			t.Errorf("%s: a page leads to the ladder", who)
		}
	}
	for _, h := range api.Forwarding {
		refused("through a proxy that says "+h, &browser{w: w, cookie: b.cookie, header: http.Header{h: {"203.0.113.9"}}})
	}
	refused("by another name", &browser{w: w, cookie: b.cookie, host: "evil.example"})
	refused("without the scope", w.login(w.token("bob", authority.ScopeRuns)))
	far := newWorldWith(t, nil, false, show)
	refused("from another machine", far.login(far.token("alice", authority.ScopeRead, authority.ScopeHome)))
	if out := (&browser{w: w}).get("/ladder"); out.status != http.StatusSeeOther {
		t.Errorf("without a login: %d", out.status)
	}
	team := newWorld(t, nil, true)
	if out := team.login(team.token("alice", authority.ScopeRead)).get("/ladder"); out.status != http.StatusNotFound {
		t.Errorf("without a summary: %d", out.status)
	}
	none := newWorldWith(t, nil, true, func(context.Context) (json.RawMessage, error) { return json.Marshal(ladder.Summarize(nil)) })
	if out := none.login(none.token("alice", authority.ScopeRead)).get("/ladder"); out.status != http.StatusOK || !strings.Contains(out.body, "remit ladder status") {
		t.Errorf("with nothing recorded: %d", out.status)
	}
}
