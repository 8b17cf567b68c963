package server

import (
	"fmt"
	"strings"
	"testing"

	"remit/nexus/store"
	"remit/nexus/treasury"
)

// TestLimitsChange moves the limit of a budget, and closes it.
func TestLimitsChange(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f := &flow{world: w}
		f.join() // with 500,000 of funds
		account := f.answers[0].field(t, "account_id")
		path := "/v1/treasury/accounts/" + account
		limit := func(token, key, body string) seen {
			return w.do(call{method: "PUT", path: path + "/limit", token: token, key: key, contentType: "application/json", body: body})
		}
		for _, step := range []struct {
			key, token, body, code string
			status                 int
			want                   string
		}{
			{"less", w.alice, `{"limit":4000}`, "", 200, `"remaining":4000`},
			{"an admin", w.admin, `{"limit":200}`, "", 200, `"remaining":200`},
			{"a stranger", w.bob, `{"limit":4000}`, "not_found", 404, ""},
			{"no limit", w.alice, `{}`, "request_invalid", 400, `"field":"limit"`},
			{"too small", w.alice, `{"limit":0}`, "request_invalid", 400, `"field":"limit"`},
			{"more", w.alice, `{"limit":6000}`, "", 200, `"remaining":6000`},
		} {
			if got := limit(step.token, strings.ReplaceAll(step.key, " ", "-"), step.body).want(t, step.status, step.code); !strings.Contains(got.body, step.want) {
				t.Errorf("%s: %s", step.key, got.body)
			}
		}
		run := w.do(post("/v1/runs", w.alice, "r", `{"repo_ref":"r"}`)).field(t, "run_id")
		w.do(post("/v1/runs/"+run+"/jobs", w.alice, "j", `{"job_type":"oa.sandbox_run.v1","request":`+sandboxRun+`}`)).want(t, 201, "")
		limit(w.alice, "below", `{"limit":1}`).want(t, 409, "conflict")
		w.do(post(path+"/close", w.admin, "c", "")).want(t, 409, "conflict") // something is reserved
		w.do(post("/v1/runs/"+run+"/finish", w.alice, "e", `{"status":"canceled"}`)).want(t, 200, "")
		w.do(post(path+"/close", w.alice, "c", "")).want(t, 403, "scope_missing")
		if got := w.do(post(path+"/close", w.admin, "d", "")).want(t, 200, ""); !strings.Contains(got.body, `"closed":true`) {
			t.Errorf("closed: %s", got.body)
		}
		if err := w.server.Audit(t.Context()); err != nil || w.server.readOnly.Load() {
			t.Errorf("the books: %v", err)
		}
	})
}

// TestFundingSlips types too many digits: one such slip does not use up what all
// fundings together may be, and the refusals name the members of the body.
func TestFundingSlips(t *testing.T) {
	w := one(t, Options{})
	account := w.do(post("/v1/treasury/accounts", w.alice, "a", `{"limit":9007199254740991}`)).want(t, 201, "").field(t, "account_id")
	fund := func(key string, amount int64) seen {
		return w.do(post("/v1/treasury/fund", w.admin, key, fmt.Sprintf(`{"account_id":%q,"amount":%d}`, account, amount)))
	}
	for _, amount := range []int64{0, -1, treasury.MaxFunding + 1, treasury.MaxAmount} {
		if got := fund(fmt.Sprint(amount), amount).want(t, 400, "request_invalid"); got.field(t, "field") != "amount" {
			t.Errorf("%d: %s", amount, got.body)
		}
	}
	fund("most", treasury.MaxFunding).want(t, 200, "")
	err := w.store.Update(t.Context(), func(tx *store.Tx) error {
		_, _, err := treasury.Fund(tx, treasury.Funding{TransferID: "all-but-half", Account: account, Amount: treasury.MaxAmount - treasury.MaxFunding*3/2})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got := fund("last", treasury.MaxFunding).want(t, 403, "insufficient_budget")
	if !strings.Contains(got.body, "all fundings of these books") || !strings.Contains(got.field(t, "hint"), "lower the limit") {
		t.Errorf("the end of the pool: %s", got.body)
	}
	fund("rest", treasury.MaxFunding/2).want(t, 200, "")
}
