package server

import (
	"encoding/json"
	"net/url"
	"slices"
	"testing"
	"time"

	"remit/law/task"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/proof/canon"
)

func contractCalled(t *testing.T, id string) string {
	t.Helper()
	c, err := task.FromIssue([]byte("# "+id+"\n"), "test", nil)
	if err == nil {
		c, err = task.Narrow(c, task.Flags{Allow: []string{"src/**"}, Verify: []string{"true"}, ApprovalRequired: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestListOfApprovals: by contract, by what they are now, and of others only for
// an administrator.
func TestListOfApprovals(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		lead := w.mint(identity.Grant{Kind: authority.User, Principal: "user:lead", Owner: "alice", TTL: time.Hour,
			Scopes: []string{authority.ScopeApprove, authority.ScopeRead}})
		one, two := contractCalled(t, "one"), contractCalled(t, "two")
		ask := func(text string) string {
			body, err := json.Marshal(api.ApprovalRequest{Contract: text, RepoRef: "r"})
			if err != nil {
				t.Fatal(err)
			}
			return w.do(post("/v1/approvals", w.alice, api.NewKey(), string(body))).want(t, 201, "").field(t, "approval_id")
		}
		first, second := ask(one), ask(two)
		w.do(post("/v1/approvals/"+first+"/decision", lead, "yes", `{"decision":"granted"}`)).want(t, 200, "")
		for query, want := range map[string][]string{
			"":                 {second, first},
			"limit=1":          {second},
			"status=granted":   {first},
			"status=requested": {second},
			"status=expired":   {},
			"contract_sha256=" + url.QueryEscape(canon.Digest([]byte(one))):             {first},
			"status=denied&contract_sha256=" + canon.Digest([]byte(one)):                {},
			"status=granted&owner=alice&contract_sha256=" + canon.Digest([]byte(one)):   {first},
			"status=requested&owner=alice&contract_sha256=" + canon.Digest([]byte(one)): {},
		} {
			var page api.ApprovalPage
			if err := json.Unmarshal([]byte(w.do(get("/v1/approvals?"+query, w.alice)).want(t, 200, "").body), &page); err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, a := range page.Items {
				got = append(got, a.ApprovalID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
		w.do(get("/v1/approvals?status=maybe", w.alice)).want(t, 400, "request_invalid")
		w.do(get("/v1/approvals?owner=alice", w.bob)).want(t, 403, "forbidden")
		if body := w.do(get("/v1/approvals?owner=alice", w.admin)).want(t, 200, "").body; !json.Valid([]byte(body)) || len(body) < 100 {
			t.Errorf("an administrator sees %s", body)
		}
	})
}

// TestLaneOfAnAccount shows a decision to a requester that waits, and to no other owner.
func TestLaneOfAnAccount(t *testing.T) {
	w := one(t, Options{})
	lead := w.mint(identity.Grant{Kind: authority.User, Principal: "user:lead", Owner: "alice", TTL: time.Hour, Scopes: []string{authority.ScopeApprove, authority.ScopeRead}})
	worker := w.mint(identity.Grant{Kind: authority.Provider, Principal: "provider:prv_1", Owner: "alice", TTL: time.Hour, Scopes: []string{authority.ScopeWork, authority.ScopeRead}})
	for name, token := range map[string]string{"another owner": w.bob, "a machine of the owner's": worker} {
		if got := w.do(post("/v1/lanes/tickets", token, api.NewKey(), `{"topic":"user:alice:receipts"}`)); got.problem.Code != "lane_unknown" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	body, err := json.Marshal(api.ApprovalRequest{Contract: contractCalled(t, "one"), RepoRef: "r"})
	if err != nil {
		t.Fatal(err)
	}
	id := w.do(post("/v1/approvals", w.alice, "ask", string(body))).want(t, 201, "").field(t, "approval_id")
	lane := w.watch(w.alice, "user:alice:receipts")
	for nextFrame(t, lane).Snapshot == nil { // later events follow it
	}
	w.do(post("/v1/approvals/"+id+"/decision", lead, "no", `{"decision":"denied"}`)).want(t, 200, "")
	e := until(t, lane, authority.EventReceipt)
	var r struct {
		Type    string `json:"receipt_type"`
		Payload struct {
			ApprovalID string `json:"approval_id"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(e.Payload, &r); err != nil || r.Type != "ApprovalDenied" || r.Payload.ApprovalID != id {
		t.Errorf("%v: %s", err, e.Payload)
	}
}
