package server

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"remit/nexus/api"
)

// TestCallerWhoLeftIsNoFailure has a caller break off, as a daemon does with a
// renewal when its work has ended: nothing of the authority failed, so its log
// does not say so. A failure is in it while the caller waits.
func TestCallerWhoLeftIsNoFailure(t *testing.T) {
	w := one(t, Options{})
	var log bytes.Buffer
	w.server.opt.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ask := func(ctx context.Context) int {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/runs", strings.NewReader(`{"repo_ref":"r"}`))
		r.Header.Set("Authorization", "Bearer "+w.alice)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(api.HeaderKey, api.NewKey())
		answer := httptest.NewRecorder()
		w.server.Handler().ServeHTTP(answer, r)
		return answer.Code
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if status := ask(gone); status != http.StatusServiceUnavailable || log.Len() > 0 {
		t.Errorf("status %d, and the log says %s", status, log.String())
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	if status := ask(t.Context()); status != http.StatusServiceUnavailable || !strings.Contains(log.String(), "request failed") {
		t.Errorf("status %d, and the log says %s", status, log.String())
	}
}
