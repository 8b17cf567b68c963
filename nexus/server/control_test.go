package server

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

// machineDocuments are the resources that show what is on this machine.
var machineDocuments = map[string]time.Duration{"/v1/control-summary": controlFor, "/v1/admissions": controlFor, "/v1/machine-health": healthFor}

// TestMachineDocumentsStayHere: the server shows what is on this machine only to readers
// on this machine, and makes each document once in a while.
func TestMachineDocumentsStayHere(t *testing.T) {
	clock := &hand{now: time.Unix(1_700_000_000, 0)}
	made := 0
	show := func(context.Context) (json.RawMessage, error) {
		made++
		return json.RawMessage(`{"schema":"here"}`), nil
	}
	w := one(t, Options{Clock: clock.Now, Control: show, Admissions: show, MachineHealth: show})
	for path, keep := range machineDocuments {
		made = 0
		for range 3 {
			if got := w.do(get(path, w.alice)).want(t, 200, ""); got.body != `{"schema":"here"}` {
				t.Error(path, got.body)
			}
		}
		if made != 1 {
			t.Errorf("%s: made %d times in a moment", path, made)
		}
		clock.move(keep)
		w.do(get(path, w.alice)).want(t, 200, "")
		if made != 2 {
			t.Errorf("%s: made %d times after a while", path, made)
		}
		w.do(get(path, "")).want(t, 401, "unauthenticated")
		for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via", "Origin"} {
			forwarded := get(path, w.admin)
			forwarded.header = http.Header{header: {"http://elsewhere.example"}}
			if got := w.do(forwarded); got.status == 200 {
				t.Errorf("%s, %s: shown through a proxy", path, header)
			}
		}
	}
}

// TestTeamsHaveNoMachineDocuments: they are off unless the options of the nexus turn them
// on.
func TestTeamsHaveNoMachineDocuments(t *testing.T) {
	w := one(t, Options{})
	for path := range machineDocuments {
		w.do(get(path, w.admin)).want(t, 404, "not_found")
	}
}
