package server

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/proof/reason"
)

// TestOutageTellsStrangersNothing asks while the store fails: who, where and
// which file the database is does not get out.
func TestOutageTellsStrangersNothing(t *testing.T) {
	w := one(t, Options{})
	cause := "connect to user=remit_owner database=books /var/run/postgresql/.s.PGSQL.5432: no such file"
	failed := &reason.Error{Code: reason.StoreUnavailable, Message: cause, Err: errors.New(cause)}
	r := &request{Request: httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil), route: &route{Operation: api.GetReady.Operation}}
	if got := w.server.refusal(r, failed); got.status != 503 || strings.Contains(string(got.body), "remit_owner") || strings.Contains(string(got.body), "postgresql") {
		t.Errorf("%d %s", got.status, got.body)
	}
	failed.Code = reason.StoreFull
	if got := w.server.refusal(r, failed); got.status != 503 || !strings.Contains(string(got.body), "the disk of the store is full") || strings.Contains(string(got.body), "remit_owner") {
		t.Errorf("%d %s", got.status, got.body)
	}
	w.server.opt.Candid = true // the embedded authority of one machine
	if got := w.server.refusal(r, failed); !strings.Contains(string(got.body), "remit_owner") {
		t.Errorf("%s", got.body)
	}
}

// TestReadyMeansThatCommitsSucceed: a replica that can only read sends its
// callers to another one, until it can write again.
func TestReadyMeansThatCommitsSucceed(t *testing.T) {
	w := one(t, Options{})
	w.do(get("/readyz", "")).want(t, 200, "")
	w.server.stuck.Store(true) // as a sweep leaves it whose commit failed
	if got := w.do(get("/readyz", "")).want(t, 503, "store_unavailable"); got.problem.Detail != "the store takes no changes" {
		t.Errorf("%s", got.body)
	}
	w.do(get("/healthz", "")).want(t, 200, "")
	if err := w.server.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.do(get("/readyz", "")).want(t, 200, "")
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Sweep(t.Context()); err == nil || !w.server.stuck.Load() {
		t.Errorf("a sweep that could not commit: %v", err)
	}
	w.do(get("/readyz", "")).want(t, 503, "store_unavailable")
}
