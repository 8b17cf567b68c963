package requester

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/reason"
)

// liar is an authority that answers what it likes.
func liar(t *testing.T, answers map[string]any) *Requester {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for path, answer := range answers {
			if method, suffix, _ := strings.Cut(path, " "); r.Method == method && strings.HasSuffix(r.URL.Path, suffix) {
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(answer); err != nil {
					t.Error(err)
				}
				return
			}
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	c, err := api.Connect(server.URL, "rmt_user_x_y", api.Options{Retry: api.Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return New(func(context.Context) (*Connection, error) {
		return &Connection{Client: c, Close: func() error { return nil }}, nil
	})
}

func approvalSaying(change func(*api.Approval)) api.Approval {
	by := "user:lead"
	a := api.Approval{ApprovalID: "apr_1", Owner: "alice", ContractSha256: "sha256:a", RepoRef: "repo", Status: api.ApprovalStatusGranted, DecidedBy: &by,
		RequestedAt: "2026-01-01T00:00:00.000Z", ExpiresAt: "2126-01-01T00:00:00.000Z"}
	if change != nil {
		change(&a)
	}
	return a
}

// TestApprovalOfSomethingElse: an answer about another contract, another
// repository or another run is no approval of this one.
func TestApprovalOfSomethingElse(t *testing.T) {
	t.Parallel()
	p := job.Packet{Contract: []byte("{}"), ContractSHA256: "sha256:a", RepoRef: "repo"}
	for name, test := range map[string]struct {
		change func(*api.Approval)
		want   reason.Code
	}{
		"this":               {nil, ""},
		"another contract":   {func(a *api.Approval) { a.ContractSha256 = "sha256:b" }, reason.DigestMismatch},
		"another repository": {func(a *api.Approval) { a.RepoRef = "other" }, reason.Conflict},
	} {
		q := liar(t, map[string]any{"GET /approvals": api.ApprovalPage{Items: []api.Approval{approvalSaying(test.change)}}})
		a, err := q.Ask(t.Context(), p)
		if reason.CodeOf(err) != test.want || err == nil && a.Status != job.ApprovalGranted {
			t.Errorf("%s: %+v %v", name, a, err)
		}
	}
	if _, err := liar(t, nil).Ask(t.Context(), p); reason.CodeOf(err) != reason.StoreUnavailable {
		t.Errorf("an authority that fails: %v", err)
	}

	run := "run_1"
	for name, change := range map[string]func(*api.Approval){
		"not used":            nil,
		"used by another run": func(a *api.Approval) { other := "run_2"; a.Status, a.RunID = api.ApprovalStatusConsumed, &other },
	} {
		q := liar(t, map[string]any{"POST /consume": approvalSaying(change), "GET /receipts": api.ReceiptPage{Items: []api.Receipt{}}})
		q.run = run
		if _, err := q.Use(t.Context(), job.Approval{ID: "apr_1", ContractSHA256: "sha256:a"}); reason.CodeOf(err) != reason.StoreUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
