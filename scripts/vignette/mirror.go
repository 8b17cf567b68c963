package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coder/websocket"
)

// The two classes of events that may leave: the ad of a provider and the pointer
// to a receipt.
const (
	kindAd      = 31990
	kindPointer = 30078
	prefixAd    = "openagents:compute_provider:"
	prefixPtr   = "openagents:receipt_ptr:"
)

// nostr is an event of a relay (NIP-01).
type nostr struct {
	ID        string     `json:"id"`
	PubKey    string     `json:"pubkey"`
	CreatedAt int64      `json:"created_at"`
	Kind      int        `json:"kind"`
	Tags      [][]string `json:"tags"`
	Content   string     `json:"content"`
	Sig       string     `json:"sig"`
}

func (e nostr) tag(name string) string {
	for _, t := range e.Tags {
		if len(t) > 1 && t[0] == name {
			return t[1]
		}
	}
	return ""
}

// mirrored is step 8: the relay has the ads and the receipt pointers, and
// nothing else.
func (v *vignette) mirrored(ctx context.Context, s *step, logs map[string][]event) {
	// The publisher works by itself; asked, it says what is left.
	v.command(ctx, "bridge", "publish", "--json", "--nexus", v.nexus.url, "--token-file", v.adminToken)
	events := v.stored(ctx)
	var ads, pointers, other []string
	for _, e := range events {
		switch {
		case e.Kind == kindAd && e.tag("d") == prefixAd+e.tag("oa_provider_id"):
			ads = append(ads, e.tag("oa_provider_id"))
		case e.Kind == kindPointer && e.tag("d") == prefixPtr+e.tag("oa_receipt_sha256"):
			pointers = append(pointers, e.tag("oa_receipt_sha256"))
		default:
			other = append(other, fmt.Sprintf("%+v", e))
		}
	}
	s.none("the relay has provider ads and receipt pointers, and no event of another class", other)
	s.exactly("one ad for each provider", ads, []string{v.a.id, v.b.id})
	s.exactly("the pointers are those of the settlements in the logs, and no other", pointers, pointed(logs))
	var forged []string
	for _, e := range events {
		if id := e.id(); id != e.ID || e.PubKey != events[0].PubKey {
			forged = append(forged, e.ID)
		}
	}
	s.none("each id is the digest of its event, and all are of one key", forged)
	for _, p := range []*provider{v.a, v.b} {
		i := slices.IndexFunc(events, func(e nostr) bool { return e.Kind == kindAd && e.tag("oa_provider_id") == p.id })
		s.ok(i >= 0 && events[i].tag("price") == fmt.Sprint(p.price) && events[i].tag("capability") == jobType &&
			events[i].tag("handler") == "compute_provider",
			"the ad of "+p.name+" tells its capability and its price", i, events)
	}
	s.none("no event holds a command, an output or a source: no job chatter", v.chatter(events, logs))
	v.stable(ctx, s, events)
	done := v.procs.run(ctx, v.path("alice"), []string{"bridge", "verify", "--relay", v.relay, "--nexus", v.nexus.url, "--token-file",
		v.adminToken, "--json"})
	s.ok(done.exit == 0, "remit bridge verify accepts ids, signatures, classes and receipt digests", done.exit, string(done.stdout),
		string(done.stderr))
}

// pointed lists the receipts of settlements in the logs: of each verdict, and of
// the payment that follows it. What ended without a verdict is not published.
func pointed(logs map[string][]event) (sums []string) {
	for _, events := range logs {
		for _, e := range events {
			r, _ := e.receipt()
			if e.is("VerificationPassed", "VerificationFailed") || e.is("PaymentReleased", "PaymentWithheld") &&
				text(r.Payload, "verification_receipt_sha256") != "" {
				sums = append(sums, strings.TrimPrefix(r.SHA256, "sha256:"))
			}
		}
	}
	return sums
}

// stored asks the relay for everything that it has.
func (v *vignette) stored(ctx context.Context) []nostr {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, v.relay, nil) //nolint:bodyclose // Dial has closed it
	if err != nil {
		giveUp("the relay: %w", err)
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(1 << 20)
	must(ws.Write(ctx, websocket.MessageText, []byte(`["REQ","all",{}]`)))
	var events []nostr
	for {
		_, msg, err := ws.Read(ctx)
		must(err)
		var parts []json.RawMessage
		var verb string
		must(json.Unmarshal(msg, &parts))
		switch {
		case len(parts) > 0 && json.Unmarshal(parts[0], &verb) == nil && verb == "EOSE":
			return events
		case verb != "EVENT" || len(parts) != 3:
			giveUp("the relay said %s", msg)
		}
		var e nostr
		must(json.Unmarshal(parts[2], &e))
		events = append(events, e)
	}
}

// id recomputes the id: the digest of a list that has a canonical form.
func (e nostr) id() string {
	tags := []any{}
	for _, t := range e.Tags {
		tag := []any{}
		for _, text := range t {
			tag = append(tag, text)
		}
		tags = append(tags, tag)
	}
	return bareDigest(canonical(nil, []any{json.Number("0"), e.PubKey, e.CreatedAt, e.Kind, tags, e.Content}))
}

// chatter looks in the mirror for what belongs to jobs and to no outsider.
func (v *vignette) chatter(events []nostr, logs map[string][]event) (found []string) {
	secret := map[string]bool{v.verify: true, v.repo: true, v.alice.token: true, v.admin.token: true, "stdout": true, "job.leased": true}
	for _, log := range logs {
		for _, e := range log {
			if e.is("JobCompleted", "JobDispatched") {
				r, _ := e.receipt()
				secret[text(r.Payload, "job_id")] = true
			}
		}
	}
	delete(secret, "")
	for _, e := range events {
		b, err := json.Marshal(e)
		for _, word := range slices.Sorted(maps.Keys(secret)) {
			if err != nil || strings.Contains(string(b), word) {
				found = append(found, e.ID+": "+word)
			}
		}
	}
	return found
}

// stable publishes once more: the relay has the same events afterwards.
func (v *vignette) stable(ctx context.Context, s *step, before []nostr) {
	v.command(ctx, "bridge", "publish", "--json", "--nexus", v.nexus.url, "--token-file", v.adminToken)
	after := v.stored(ctx)
	ids := func(events []nostr) (list []string) {
		for _, e := range events {
			list = append(list, e.ID)
		}
		return list
	}
	s.exactly("publishing again changes nothing", ids(after), ids(before))
}
