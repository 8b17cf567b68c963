//go:build !race

package panel

import (
	"strings"
	"testing"

	"remit/law/job"
	"remit/law/task"
	"remit/nexus/api"
	"remit/nexus/authority"
)

// TestApprovalPacket: who decides reads why a word is needed, which run asks, with
// which engine and model, what the policy lowers, and what is agreed to.
func TestApprovalPacket(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, true)
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns, authority.ScopeApprove)
	c, err := task.Parse("task", []byte(newTask+"approval_required: true\nrisk_class: high\n"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(key string, a *job.Asker) (api.Approval, error) {
		made, err := api.RequestApproval.Do(t.Context(), w.client(token), key, api.None{}, api.ApprovalRequest{Contract: string(text), RepoRef: "acme/links", Asker: api.AskerOf(a)})
		return made.Value, err
	}
	evil := job.Asker{SessionID: "20261123T100000Z-a-1", Engine: "codex<script>alert(1)</script>", EngineVersion: "1", ModelProvider: "openai", Model: "gpt<b>",
		Lowered: []task.Lowered{{Limit: "max_tokens", Asked: 5000, Allowed: 1000}}}
	for name, change := range map[string]func(*job.Asker){"a line": func(a *job.Asker) { a.Model = "a\nb" }, "too long": func(a *job.Asker) { a.Engine = strings.Repeat("a", 201) },
		"turned text": func(a *job.Asker) { a.SessionID = "a\u202eb" }, "too many": func(a *job.Asker) { a.Lowered = make([]task.Lowered, 17) }} {
		bad := evil
		change(&bad)
		if _, err := ask(name, &bad); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	asked, err := ask("k", &evil)
	if err != nil {
		t.Fatal(err)
	}
	b := w.login(token)
	page := b.get("/approvals/" + asked.ApprovalID).body
	for _, want := range []string{"the contract says approval_required, its risk_class is high", "codex&lt;script&gt;", "openai/gpt&lt;b&gt;", "from 5,000 to 1,000", "as its client says",
		"I approve evil under the contract sha256:", "<code>approve</code>", "<code>run_without_approval</code>", "<code>RECEIPT.json</code>", "reject the run",
		`href="/?from=nexus&amp;q=20261123T100000Z-a-1"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if got := faults(t, page); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if list := b.get("/approvals").body; !strings.Contains(list, "codex&lt;script&gt;") || !strings.Contains(list, "<b>evil &lt;script&gt;") ||
		!strings.Contains(list, "task <code>evil</code>") || !strings.Contains(list, "risk high") || !strings.Contains(list, "<code>src/**</code>") || len(faults(t, list)) > 0 {
		t.Error("the list does not name the engine")
	}
	// A page for a user who may not decide does not say that it waits for that user.
	reader := w.login(w.token("alice", authority.ScopeRead))
	for who, by := range map[bool]*browser{true: b, false: reader} {
		for path, words := range map[string]string{"/approvals": "Read and decide", "/?from=nexus": "Needs you", "/approvals/" + asked.ApprovalID: "Waits for you"} {
			if page := by.get(path).body; strings.Contains(page, words) != who {
				t.Errorf("%s, may decide %t: says %q: %t", path, who, words, !who)
			}
		}
	}
	if page := reader.get("/approvals").body; !strings.Contains(page, ">Read</a>") || !strings.Contains(page, "approvals:decide") {
		t.Error("a page for a user who may not decide does not name the missing scope")
	}
	// A second run that asks finds the approval, with the word of the first.
	again, err := ask("k2", &job.Asker{SessionID: "another", Engine: "pi"})
	if err != nil || again.ApprovalID != asked.ApprovalID || again.Asker == nil || again.Asker.SessionID != evil.SessionID {
		t.Errorf("%+v, %v", again.Asker, err)
	}
}
