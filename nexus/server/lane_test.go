package server

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"remit/nexus/api"
)

// watch opens a lane as a client does: a ticket by POST, then the handshake.
func (w *world) watch(token, topic string) *websocket.Conn {
	w.t.Helper()
	got, err := api.CreateLaneTicket.Do(w.t.Context(), w.client(token), api.NewKey(), api.None{}, api.TicketRequest{Topic: topic})
	if err != nil {
		w.t.Fatal(err)
	}
	conn, resp, err := websocket.Dial(w.t.Context(), w.url+"/v1/lanes/"+topic, &websocket.DialOptions{Subprotocols: got.Subprotocols})
	if err != nil {
		w.t.Fatalf("%v %v", resp, err)
	}
	w.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

func nextFrame(t *testing.T, conn *websocket.Conn) api.LaneFrame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, text, err := conn.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var f api.LaneFrame
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// until reads events up to one of a type.
func until(t *testing.T, conn *websocket.Conn, eventType string) api.Event {
	t.Helper()
	for {
		if f := nextFrame(t, conn); f.Event != nil && f.Event.EventType == eventType {
			return *f.Event
		}
	}
}

// TestLanesOfARun watches presence, offers and the log while a run happens.
func TestLanesOfARun(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f := &flow{world: w}
		f.join()
		fleet := w.watch(w.alice, "fleet:user:alice:workers")
		nextFrame(t, fleet)
		var workers struct {
			Workers []struct {
				ProviderID string `json:"provider_id"`
				Enabled    bool   `json:"enabled"`
			} `json:"workers"`
		}
		snapshot := nextFrame(t, fleet)
		if err := json.Unmarshal(api.Value(snapshot.Snapshot), &workers); err != nil || len(workers.Workers) != 1 || workers.Workers[0].ProviderID != f.provider || !workers.Workers[0].Enabled {
			t.Fatalf("%v: %s", err, api.Value(snapshot.Snapshot))
		}
		offers := w.watch(f.token, "jobs:"+f.provider)
		f.work()
		until(t, offers, "job.offer")
		until(t, fleet, "worker.stopped")

		log := w.watch(w.alice, "run:"+f.run+":events")
		nextFrame(t, log)
		var run api.Run
		if err := json.Unmarshal(api.Value(nextFrame(t, log).Snapshot), &run); err != nil || run.Status != api.RunStatusSucceeded {
			t.Errorf("%v: run is %s", err, run.Status)
		}
		for _, lane := range []*websocket.Conn{fleet, offers, log} {
			lane.CloseRead(t.Context()) // answers the close, for which a drain waits
		}
		w.server.Drain()
		w.do(get("/readyz", "")).want(t, 503, "store_unavailable")
		if got := w.do(get("/healthz", "")); got.status != 200 || got.field(t, "status") != "draining" {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// TestTheTokenOfAUserIsNoTicket opens a lane with the wrong kind of credential,
// and calls the API with a ticket.
func TestTheTokenOfAUserIsNoTicket(t *testing.T) {
	w := one(t, Options{})
	_, resp, err := websocket.Dial(t.Context(), w.url+"/v1/lanes/fleet:user:alice:workers",
		&websocket.DialOptions{Subprotocols: []string{api.LaneProtocol, api.TicketPrefix + w.alice}})
	if err == nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("%v %v", resp, err)
	}
	ticket := w.do(post("/v1/lanes/tickets", w.alice, "t", `{"topic":"fleet:user:alice:workers"}`)).want(t, 201, "").field(t, "ticket")
	w.do(get("/v1/whoami", ticket)).want(t, 401, "unauthenticated")
}
