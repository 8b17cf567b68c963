package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// event is one entry of a log, as the API and the lanes show it.
type event struct {
	Stream        string          `json:"stream_id"`
	Seq           int64           `json:"seq"`
	ID            string          `json:"event_id"`
	Type          string          `json:"event_type"`
	Key           string          `json:"idempotency_key"`
	Payload       json.RawMessage `json:"payload"`
	PayloadSHA256 string          `json:"payload_sha256"`
	RecordedAt    string          `json:"recorded_at"`
	Principal     string          `json:"principal"`
}

// receipt is what an event of type receipt holds.
type receipt struct {
	Type      string
	Payload   object
	Principal string
	Key       string
	SHA256    string
	At        time.Time
}

// receipt reads the receipt of an event; false when it holds none.
func (e event) receipt() (receipt, bool) {
	v, err := parse(e.Payload)
	if err != nil || e.Type != "receipt" {
		return receipt{}, false
	}
	payload, _ := at(v, "payload").(object)
	return receipt{Type: text(v, "receipt_type"), Payload: payload, Principal: text(v, "principal"), Key: text(v, "idempotency_key"),
		SHA256: text(v, "receipt_sha256"), At: e.at()}, payload != nil
}

// is reports whether the event is a receipt of one of these types.
func (e event) is(types ...string) bool {
	r, ok := e.receipt()
	return ok && slices.Contains(types, r.Type)
}

func (e event) at() time.Time {
	t, _ := time.Parse(time.RFC3339, e.RecordedAt) // integrity looks at the text
	return t
}

// text is a text in a parsed value, "" when there is none.
func text(v any, path ...string) string {
	s, _ := at(v, path...).(string)
	return s
}

// number is a whole number in a parsed value, 0 when there is none.
func number(v any, path ...string) int64 {
	n, _ := at(v, path...).(json.Number)
	i, _ := n.Int64() // "" and decimals are none
	return i
}

// sealed recomputes the digest of a receipt from what it says.
func (r receipt) sealed() bool {
	return r.SHA256 == digestOf(object{"receipt_type": r.Type, "payload": r.Payload, "principal": r.Principal, "idempotency_key": r.Key})
}

// log reads the whole log of a run.
func (n *nexus) log(ctx context.Context, as caller, runID string) []event {
	var all []event
	for cursor := ""; ; {
		var page struct {
			Items []event `json:"items"`
			Next  string  `json:"next_cursor"`
		}
		n.get(ctx, as, "/v1/runs/"+runID+"/events?limit=500&cursor="+url.QueryEscape(cursor), &page)
		all = append(all, page.Items...)
		if page.Next == "" {
			return all
		}
		cursor = page.Next
	}
}

// integrity lists what is wrong with a log: numbers with gaps, digests that are
// not those of the content, keys that stand there twice, unreadable times.
func integrity(events []event) []string {
	var wrong []string
	keys := map[string]bool{}
	for i, e := range events {
		add := func(what string) { wrong = append(wrong, fmt.Sprintf("event %d (%s): %s", e.Seq, e.Type, what)) }
		if e.Seq != int64(i)+1 {
			add("a gap before it")
		}
		v, err := parse(e.Payload)
		if err != nil || digestOf(v) != e.PayloadSHA256 {
			add("payload_sha256 is not the digest of its payload")
		}
		if e.Type == "receipt" {
			if r, ok := e.receipt(); !ok || !r.sealed() {
				add("receipt_sha256 is not the digest of its content")
			} else if r.Key != e.Key {
				add("the receipt has another key than its event")
			}
		}
		if e.Key == "" || keys[e.Key] {
			add("without a key of its own")
		}
		keys[e.Key] = true
		if e.at().IsZero() || e.ID == "" || e.Principal == "" {
			add("without time, id or principal")
		}
	}
	return wrong
}

// receiptsOf returns the receipts of a log by type.
func receiptsOf(events []event) map[string][]receipt {
	out := map[string][]receipt{}
	for _, e := range events {
		if r, ok := e.receipt(); ok {
			out[r.Type] = append(out[r.Type], r)
		}
	}
	return out
}

// keysOf is the set of keys in a log.
func keysOf(events []event) []string {
	var keys []string
	for _, e := range events {
		keys = append(keys, e.Key)
	}
	slices.Sort(keys)
	return keys
}

// difference tells what two sets of texts do not share, "" when they are equal.
func difference(got, want []string) string {
	extra, lacking := map[string]bool{}, map[string]bool{}
	for _, k := range got {
		extra[k] = !slices.Contains(want, k)
	}
	for _, k := range want {
		lacking[k] = !slices.Contains(got, k)
	}
	keep := func(m map[string]bool) []string {
		maps.DeleteFunc(m, func(_ string, yes bool) bool { return !yes })
		return slices.Sorted(maps.Keys(m))
	}
	unexpected, missing := keep(extra), keep(lacking)
	if len(unexpected)+len(missing) == 0 && len(got) == len(want) {
		return ""
	}
	return fmt.Sprintf("unexpected %q, missing %q (%d of %d)", unexpected, missing, len(got), len(want))
}

// exactly records that a set of texts is this one.
func (s *step) exactly(text string, got, want []string) bool {
	why := difference(got, want)
	return s.ok(why == "", text, why)
}

// newKey is an Idempotency-Key for something that is asked once.
func newKey() string { return rand.Text() }

// A rule says what is wrong with a value, "" when nothing is.
type rule func(v any) string

// field is one member of a receipt's payload and what it has to be. A dot
// separates levels.
type field struct {
	name string
	rule rule
}

// members pairs names of members with what each has to be: a rule, or a value.
func members(pairs ...any) (list []field) {
	for pair := range slices.Chunk(pairs, 2) {
		demand := is(pair[1])
		switch r := pair[1].(type) {
		case rule:
			demand = r
		case func(any) string:
			demand = r
		}
		list = append(list, field{fmt.Sprint(pair[0]), demand})
	}
	return list
}

// is demands one value.
func is(want any) rule {
	return func(v any) string {
		if fmt.Sprint(v) != fmt.Sprint(want) || v == nil {
			return fmt.Sprintf("is %v, not %v", v, want)
		}
		return ""
	}
}

// some demands a text that is not empty.
func some(v any) string {
	if s, ok := v.(string); !ok || s == "" {
		return fmt.Sprintf("is %v, not a text", v)
	}
	return ""
}

// begins demands a text with a beginning.
func begins(prefix string) rule {
	return func(v any) string {
		if s, ok := v.(string); !ok || !strings.HasPrefix(s, prefix) || s == prefix {
			return fmt.Sprintf("is %v, not %s…", v, prefix)
		}
		return ""
	}
}

// isDigest demands the text of a SHA-256.
func isDigest(v any) string {
	s, _ := v.(string)
	if hex, ok := strings.CutPrefix(s, "sha256:"); !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return fmt.Sprintf("is %v, not a digest", v)
	}
	return ""
}

// atLeast demands a whole number.
func atLeast(least int64) rule {
	return func(v any) string {
		n, ok := v.(json.Number)
		i, err := n.Int64()
		if !ok || err != nil || i < least {
			return fmt.Sprintf("is %v, not a number from %d", v, least)
		}
		return ""
	}
}

// items demands a list of a length.
func items(count int) rule {
	return func(v any) string {
		if list, ok := v.([]any); !ok || len(list) != count {
			return fmt.Sprintf("is %v, not %d items", v, count)
		}
		return ""
	}
}

// holds demands a list with a text in it.
func holds(want string) rule {
	return func(v any) string {
		if list, _ := v.([]any); slices.Contains(list, any(want)) {
			return ""
		}
		return fmt.Sprintf("is %v, without %s", v, want)
	}
}

// wrong lists the members that break their rule.
func wrong(payload any, fields []field) []string {
	var list []string
	for _, f := range fields {
		if why := f.rule(at(payload, strings.Split(f.name, ".")...)); why != "" {
			list = append(list, f.name+" "+why)
		}
	}
	return list
}

// shape is a receipt that has to be there exactly once, and its members.
type shape struct {
	receipt string
	fields  []field
}

// one is a receipt whose members are these pairs.
func one(receipt string, pairs ...any) shape { return shape{receipt, members(pairs...)} }

// receipts records, for each shape, that a log has that receipt once and that
// its members are right. It returns the receipts.
func (s *step) receipts(events []event, shapes []shape) map[string]receipt {
	have := receiptsOf(events)
	found := map[string]receipt{}
	for _, want := range shapes {
		var names []string
		for _, f := range want.fields {
			names = append(names, f.name)
		}
		text := "one " + want.receipt + ": " + strings.Join(names, ", ")
		list := have[want.receipt]
		if len(list) != 1 {
			s.ok(false, text, fmt.Sprintf("there are %d", len(list)))
			continue
		}
		s.none(text, wrong(list[0].Payload, want.fields))
		found[want.receipt] = list[0]
	}
	return found
}
