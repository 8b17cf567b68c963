package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/bridge"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

func bridgeRoutes() []route {
	return []route{
		query(api.ListBridgeEvents, listBridgeEvents),
		{Operation: api.PublishBridge.Operation, special: (*Server).publishBridge},
	}
}

// mirrorOwner says whose events a caller sees and publishes: its own, or as an
// administrator those of everybody ("").
func mirrorOwner(r *request) (string, error) {
	if r.caller.Admin() && r.URL.Query().Get("owner") == "" {
		return "", nil
	}
	return ownerOf(r)
}

// listBridgeEvents lists what is mirrored.
func listBridgeEvents(tx *store.Tx, r *request) (answer, error) {
	owner, err := mirrorOwner(r)
	if err != nil {
		return answer{}, err
	}
	p, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	pubkey, err := tx.BridgeKey()
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return answer{}, err
	}
	rows, err := tx.BridgeEvents(owner, p.after, p.limit)
	if err != nil {
		return answer{}, err
	}
	out := api.BridgeEventPage{Items: []api.BridgeEvent{}, Pubkey: api.Optional(pubkey),
		NextCursor: p.next(len(rows), func() string { return rows[len(rows)-1].ID })}
	for _, row := range rows {
		relays, err := tx.Deliveries(row.ID)
		if err != nil {
			return answer{}, err
		}
		item, err := bridgeEventOf(row, relays, pubkey)
		if err != nil {
			return answer{}, err
		}
		out.Items = append(out.Items, item)
	}
	return answer{value: out}, nil
}

func bridgeEventOf(row store.BridgeRow, relays []store.DeliveryRow, pubkey string) (api.BridgeEvent, error) {
	out := api.BridgeEvent{
		OutboxID: row.ID, Class: api.BridgeEventClass(row.Class), Kind: row.Kind, D: row.D, CreatedAt: row.CreatedAt,
		ProviderID: row.ProviderID, RunID: api.Optional(row.RunID), ReceiptSha256: api.Optional(row.ReceiptSHA256),
		State: mirrorState(row, relays), Error: api.Optional(row.Reason), EventID: api.Optional(row.EventID),
		Relays: []api.BridgeRelayState{}, RecordedAt: api.TimeOf(row.RecordedAt),
	}
	for _, d := range relays {
		out.Relays = append(out.Relays, api.BridgeRelayState{Relay: d.Relay, State: api.BridgeRelayStateState(d.State), Attempts: d.Attempts,
			Error: api.Optional(d.Error), UpdatedAt: api.TimeOf(d.UpdatedAt)})
	}
	if row.State != store.BridgeSigned {
		return out, nil
	}
	e, err := bridge.EventOf(row, pubkey)
	if err != nil {
		return out, err
	}
	text, err := json.Marshal(e)
	out.Event = (*api.NostrEvent)(&text)
	return out, err
}

// mirrorState sums up how far an event has come.
func mirrorState(row store.BridgeRow, relays []store.DeliveryRow) api.BridgeEventState {
	has := func(state string) bool {
		return slices.ContainsFunc(relays, func(d store.DeliveryRow) bool { return d.State == state })
	}
	switch {
	case row.State == store.BridgeRefused:
		return api.BridgeEventStateRefused
	case row.Superseded:
		return api.BridgeEventStateSuperseded
	case row.State == store.BridgeNew, len(relays) == 0, has(store.DeliveryPending):
		return api.BridgeEventStateWaiting
	case has(store.DeliverySent):
		return api.BridgeEventStateSent
	}
	return api.BridgeEventStateRefused
}

// publishBridge hands what waits to the relays. Talking to them is no part of a
// transaction: it is done first, and may be done twice, since a relay that gets
// an event again has the same event. What it took is then the stored answer.
func (s *Server) publishBridge(w http.ResponseWriter, r *request) error {
	key, err := keyOf(r)
	if err != nil {
		return err
	}
	if !r.caller.Has(authority.ScopeJobs) && !r.caller.Has(authority.ScopeProviders) {
		return reason.Errorf(reason.ScopeMissing, "the credential lacks the scope %s or %s", authority.ScopeProviders, authority.ScopeJobs)
	}
	if err := readBody(w, r, api.MaxBody); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.opt.Timeouts.Command)
	defer cancel()
	known := false
	err = s.opt.Store.View(ctx, func(tx *store.Tx) error {
		claim, err := tx.Idempotency(key)
		if known = claim != nil; err != nil || known {
			return err
		}
		return treasury.Writable(tx)
	})
	if err != nil {
		return err
	}
	if !known && s.opt.Mirror == nil {
		// Not stored as the answer to the key: another replica may have relays.
		return reason.Errorf(reason.Conflict, "this replica has no relays").
			WithHint("start it with `remit serve --relay URL`, or ask one that was")
	}
	var value api.BridgePublished
	var refused error
	if !known {
		value, refused = s.publishNow(ctx, r)
	}
	return s.commit(w, r, func(*store.Tx, *request) (answer, error) {
		return answer{value: value}, refused
	}, nil)
}

func (s *Server) publishNow(ctx context.Context, r *request) (api.BridgePublished, error) {
	var body api.BridgePublishRequest
	if err := r.json(&body); err != nil {
		return api.BridgePublished{}, err
	}
	owner, err := mirrorOwner(r)
	if err != nil {
		return api.BridgePublished{}, err
	}
	// The answer has to be written in time too.
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timeouts.Command*2/3)
	defer cancel()
	reports, err := s.opt.Mirror.Publish(ctx, owner, api.Value(body.Again))
	if err != nil {
		return api.BridgePublished{}, err
	}
	out := api.BridgePublished{Pubkey: s.opt.Mirror.PubKey(), Relays: []api.BridgeRelayReport{}}
	for _, p := range reports {
		item := api.BridgeRelayReport{Relay: p.Relay, Took: p.Took, Refused: p.Refused, Has: p.Has, Waiting: p.Waiting}
		if p.Err != nil {
			text := p.Err.Error()
			item.Error = &text
		}
		out.Relays = append(out.Relays, item)
	}
	return out, nil
}

// adInterval is the pause between two refreshes of ads: a provider that falls
// silent sends no command that would change its ad.
const adInterval = time.Minute

// adRetention is how long an ad is kept in whose place a later one counts, and
// adPrune how many are forgotten in one transaction.
const (
	adRetention = 7 * 24 * time.Hour
	adPrune     = 500
)

// publish starts the mirror, if this replica has relays; Close waits for it.
// While the books are wrong it publishes nothing.
func (s *Server) publish(ctx context.Context) {
	if s.opt.Mirror == nil || s.opt.Sweep.Every < 0 {
		return
	}
	s.sweeping.Go(func() { s.opt.Mirror.Run(ctx, s.readOnly.Load) })
	s.sweeping.Go(func() { s.repeat(ctx, "ads", adInterval, s.RefreshAds) })
}

// RefreshAds brings the ads of providers up to date, and forgets old ones.
func (s *Server) RefreshAds(ctx context.Context) error {
	if s.readOnly.Load() {
		return nil
	}
	if _, err := registry.RefreshAds(ctx, s.opt.Store); err != nil {
		return err
	}
	return s.opt.Store.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.PruneBridgeEvents(tx.Now()-adRetention.Milliseconds(), adPrune)
		return err
	})
}
