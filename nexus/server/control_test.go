package server

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

// TestControlSummaryStaysHere shows the ladder of this machine to those who read on
// this machine, made once in a while, and to nobody else.
func TestControlSummaryStaysHere(t *testing.T) {
	clock := &hand{now: time.Unix(1_700_000_000, 0)}
	made := 0
	w := one(t, Options{Clock: clock.Now, Control: func(context.Context) (json.RawMessage, error) {
		made++
		return json.RawMessage(`{"schema":"here"}`), nil
	}})
	const path = "/v1/control-summary"
	for range 3 {
		if got := w.do(get(path, w.alice)).want(t, 200, ""); got.body != `{"schema":"here"}` {
			t.Error(got.body)
		}
	}
	if made != 1 {
		t.Errorf("it was made %d times in a moment", made)
	}
	clock.move(controlFor)
	w.do(get(path, w.alice)).want(t, 200, "")
	if made != 2 {
		t.Errorf("it was made %d times after a while", made)
	}
	w.do(get(path, "")).want(t, 401, "unauthenticated")
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via", "Origin"} {
		forwarded := get(path, w.admin)
		forwarded.header = http.Header{header: {"http://elsewhere.example"}}
		if got := w.do(forwarded); got.status == 200 {
			t.Errorf("%s: shown through a proxy", header)
		}
	}
}

// TestTeamsHaveNoControlSummary: it is off unless the nexus was told to show it.
func TestTeamsHaveNoControlSummary(t *testing.T) {
	w := one(t, Options{})
	w.do(get("/v1/control-summary", w.admin)).want(t, 404, "not_found")
}
