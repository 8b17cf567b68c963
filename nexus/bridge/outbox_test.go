package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"remit/nexus/store"
)

// TestLatestAdWins: relays keep the ad with the greatest created_at, in
// seconds, so ads of one second must differ in it.
func TestLatestAdWins(t *testing.T) {
	eachPost(t, func(p post) {
		_, url := relay(p.T)
		pub := p.publisher(url)
		ad := aProvider()
		for price := range int64(5) {
			ad.PriceMsats = 1000 + price
			p.advertise(ad)
			ad.Available = !ad.Available
			p.advertise(ad) // the one before it was not published
			p.round(pub)
			got := fetch(p.T, url, Filter{})
			if len(got) != 1 || got[0].Tag("price") != fmt.Sprint(ad.PriceMsats) || got[0].CreatedAt != p.clock.Now().Unix()+price {
				p.Fatalf("price %d: %+v", ad.PriceMsats, got)
			}
		}
		rows := p.rows()
		if len(rows) != 5 || rows[0].Superseded || !rows[1].Superseded {
			p.Errorf("%d rows, %+v", len(rows), rows[0])
		}
		// A provider that goes up and down is no chatter.
		for range 25 {
			ad.Available = !ad.Available
			ad.PriceMsats++
			p.advertise(ad)
			p.round(pub)
		}
		if n := len(p.rows()); n > maxAds {
			p.Errorf("%d ads in a minute", n)
		}
		p.clock.Advance(2 * time.Minute)
		said := true
		p.do(func(tx *store.Tx) (err error) { said, err = Advertised(tx, ad); return err })
		if said {
			p.Error("the last change was published")
		}
		p.advertise(ad)
		p.round(pub)
		if got := fetch(p.T, url, Filter{}); got[0].Tag("price") != fmt.Sprint(ad.PriceMsats) {
			p.Errorf("the relay has %+v", got)
		}
		p.do(func(tx *store.Tx) error {
			n, err := tx.PruneBridgeEvents(tx.Now()+1, 1000)
			if err == nil && n < 5 {
				err = fmt.Errorf("%d forgotten", n)
			}
			return err
		})
		if rows := p.rows(); len(rows) != 1 || rows[0].Superseded {
			p.Errorf("left %+v", rows)
		}
	})
}

// TestOldAdsAreNotSent: what waited while a later ad came is never sent.
func TestOldAdsAreNotSent(t *testing.T) {
	eachPost(t, func(p post) {
		heard := newListener(p.T, nil)
		pub := p.publisher(heard.url)
		ad := aProvider()
		p.advertise(ad)
		if err := pub.sign(p.Context()); err != nil {
			p.Fatal(err)
		}
		ad.Available = false
		p.advertise(ad)
		p.round(pub)
		p.wantStates(heard.url, "sent 0", "superseded 0")
		if got := heard.events(); len(got) != 1 || got[0].Tag("oa_availability") != "unavailable" {
			p.Errorf("sent %+v", got)
		}
	})
}

// TestNothingElseIsPublished plants rows as an administrator of the database
// could: job chatter, prose in the tags, an event of another kind.
func TestNothingElseIsPublished(t *testing.T) {
	eachPost(t, func(p post) {
		heard := newListener(p.T, nil)
		pub := p.publisher(heard.url)
		good := pointerTo(1)
		e, err := good.event(p.clock.Now().Unix())
		if err != nil {
			p.Fatal(err)
		}
		base, err := rowOf(e)
		if err != nil {
			p.Fatal(err)
		}
		base.Owner, base.Class, base.ProviderID = "admin", ClassPointer, "prv_1"
		plant := func(change func(*store.BridgeRow)) error {
			row := base
			row.D += fmt.Sprint(len(p.rows()))
			change(&row)
			return p.s.Update(p.Context(), func(tx *store.Tx) error { return tx.AddBridgeEvent(row) })
		}
		for _, kind := range []int64{1, 4, 5930, 6930, 7000, 20001, 30023, 1617} {
			if err := plant(func(r *store.BridgeRow) { r.Kind = kind }); err == nil {
				p.Errorf("the outbox took kind %d", kind)
			}
		}
		if err := plant(func(r *store.BridgeRow) { r.Class = "job_feedback" }); err == nil {
			p.Error("the outbox took another class")
		}
		planted := []func(*store.BridgeRow){
			func(r *store.BridgeRow) { r.Tags = json.RawMessage(`[["d","x"],["status","processing"]]`) },
			func(r *store.BridgeRow) { r.Tags = json.RawMessage(`{"progress":50}`) },
			func(r *store.BridgeRow) {
				r.Tags = json.RawMessage(strings.Replace(string(r.Tags), "released", "50% done", 1))
			},
			func(r *store.BridgeRow) { r.Content = `{"stdout":"hello"}` },
			func(r *store.BridgeRow) { r.Class, r.Kind = ClassAd, KindProviderAd },
			func(r *store.BridgeRow) { r.Tags = json.RawMessage(`[["d","\u0001"]]`) },
		}
		for i, change := range planted {
			if err := plant(change); err != nil {
				p.Errorf("%d: %v", i, err)
			}
		}
		p.round(pub)
		reports, err := pub.Publish(p.Context(), "", true)
		if err != nil || reports[0].Took+reports[0].Waiting != 0 {
			p.Errorf("%+v %v", reports, err)
		}
		if f := pub.Figures(); f.Refused != int64(len(planted)) || f.Taken != 0 || len(heard.events()) != 0 {
			p.Errorf("%+v, sent %+v", f, heard.events())
		}
		for _, row := range p.rows() {
			if row.State != store.BridgeRefused || row.Reason == "" || row.EventID != "" {
				p.Errorf("%+v", row)
			}
		}
		p.point(2) // nothing of this is in the way of what may leave
		p.round(pub)
		if got := heard.events(); len(got) != 1 {
			p.Errorf("sent %+v", got)
		}
	})
}
