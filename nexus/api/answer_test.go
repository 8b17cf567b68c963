//test:plain-package It compares documents.

package api_test

import (
	"net/http"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/proof/reason"
)

// TestAnswerOfAStranger: what is no answer of the contract is an error that
// names who gave it, and no success without a value.
func TestAnswerOfAStranger(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status      int
		media, body string
		want        string // "" is a success
	}{
		"a run":                    {201, "application/json", run, ""},
		"with a charset":           {201, "application/json; charset=utf-8", run, ""},
		"with more than is known":  {201, "application/json", `{"new":1,` + run[1:], ""},
		"a login page":             {200, "text/html", "<html>", "status 200, text/html"},
		"a login page, the status": {201, "text/html", "<html>", "status 201, text/html"},
		"nothing":                  {204, "", "", "status 204, no content type"},
		"another success":          {200, "application/json", run, "status 200, application/json"},
		"an empty object":          {201, "application/json", `{}`, `which lacks "`},
		"a member too few":         {201, "application/json", strings.Replace(run, `"owner":"o",`, "", 1), `lacks "owner"`},
		"an array":                 {201, "application/json", `[]`, "cannot be read"},
		"null":                     {201, "application/json", `null`, `lacks "{}"`},
		"no JSON":                  {201, "application/json", `{"run_id":`, "cannot be read"},
		"a member of another kind": {201, "application/json", strings.Replace(run, `"o"`, "7", 1), "cannot be read"},
		"no body":                  {201, "application/json", "", "cannot be read"},
		"a problem with a success": {201, api.ProblemType, `{"code":"conflict"}`, "status 201, application/problem+json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, count := answers(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if test.media != "" {
					w.Header().Set("Content-Type", test.media)
				}
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			})
			for _, prefix := range []string{"", "/behind/a/proxy/"} {
				got, err := createRun(t, connect(t, url+prefix, 3))
				if test.want == "" {
					if err != nil || got.RunID != "run_1" {
						t.Errorf("%+v %v", got, err)
					}
					continue
				}
				if reason.CodeOf(err) != reason.StoreUnavailable || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), url) {
					t.Errorf("%v, want %s", err, test.want)
				}
			}
			if count.Load() != 2 {
				t.Errorf("%d requests: an answer is no reason to ask again", count.Load())
			}
		})
	}
}

// TestAnswerLacksInside looks into lists and nested values.
func TestAnswerLacksInside(t *testing.T) {
	t.Parallel()
	serve := func(body string) *api.Client {
		url, _ := answers(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
		})
		return connect(t, url, 1)
	}
	ask := func(body string) (api.ReceiptPage, error) {
		return api.ListReceipts.Get(t.Context(), serve(body), api.ListReceiptsParams{RunID: "run_1"})
	}
	_, err := ask(`{"items":[{"seq":1}]}`)
	if err == nil || !strings.Contains(err.Error(), `lacks "items[0].`) {
		t.Error(err)
	}
	for _, empty := range []string{`{"items":[]}`, `{"items":null}`} {
		if page, err := ask(empty); err != nil || len(page.Items) > 0 {
			t.Errorf("%s: %v", empty, err)
		}
	}
}
