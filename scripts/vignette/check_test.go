//test:plain-package It starts programs as processes, and meets them in files and over sockets; what they are made of has tests with the detector.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// logOf builds a log whose digests are right.
func logOf(t *testing.T, entries ...object) []event {
	t.Helper()
	var events []event
	for i, payload := range entries {
		key := fmt.Sprintf("key-%d", i+1)
		e := event{Stream: "run:r:events", Seq: int64(i) + 1, ID: fmt.Sprint("evt_", i), Type: "note", Key: key, RecordedAt: fmt.Sprintf("2026-03-01T12:00:%02d.000Z", i), Principal: "user:a"}
		if kind, ok := payload["receipt_type"]; ok {
			e.Type = "receipt"
			payload["principal"], payload["idempotency_key"] = "user:a", key
			payload["receipt_sha256"] = digestOf(object{"receipt_type": kind, "payload": payload["payload"], "principal": "user:a", "idempotency_key": key})
		}
		e.Payload = canonical(nil, payload)
		e.PayloadSHA256 = digest(e.Payload)
		events = append(events, e)
	}
	return events
}

func receiptOf(kind string, payload object) object {
	return object{"receipt_type": kind, "payload": payload}
}

// TestIntegrityCanFail plants one defect in a log each time, and expects it to
// be found: a check that cannot fail proves nothing.
func TestIntegrityCanFail(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		damage func([]event) []event
		want   string
	}{
		{"nothing wrong", func(l []event) []event { return l }, ""},
		{"an event is missing", func(l []event) []event { return append(l[:1:1], l[2]) }, "gap"},
		{"two events changed places", func(l []event) []event { return []event{l[1], l[0], l[2]} }, "gap"},
		{"another payload", func(l []event) []event { l[0].Payload = json.RawMessage(`{"text":"other"}`); return l }, "payload_sha256"},
		{"an unreadable payload", func(l []event) []event { l[0].Payload = json.RawMessage(`{`); return l }, "payload_sha256"},
		{"a forged receipt", func(l []event) []event {
			l[1].Payload = bytes.Replace(l[1].Payload, []byte("1000"), []byte("9000"), 1)
			l[1].PayloadSHA256 = digest(l[1].Payload)
			return l
		}, "receipt_sha256"},
		{"a key twice", func(l []event) []event { l[2].Key = l[0].Key; return l }, "key of its own"},
		{"no key", func(l []event) []event { l[2].Key = ""; return l }, "key of its own"},
		{"another key than the receipt's", func(l []event) []event { l[1].Key = "other"; return l }, "another key"},
		{"no time", func(l []event) []event { l[2].RecordedAt = "yesterday"; return l }, "without time"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			log := logOf(t, object{"text": "first"}, receiptOf("BudgetReserved", object{"amount_msats": json.Number("1000")}), object{"text": "last"})
			got := strings.Join(integrity(test.damage(log)), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestReceiptsCanFail(t *testing.T) {
	t.Parallel()
	want := []shape{{"JobCompleted", []field{{"job_hash", is("h")}, {"runs", items(1)}, {"environment.provider.id", begins("prv_")}, {"sum", isDigest},
		{"amount", atLeast(5)}, {"name", some}, {"roles", holds("provider")}}}}
	good := func() object {
		return object{"job_hash": "h", "runs": []any{json.Number("0")}, "environment": object{"provider": object{"id": "prv_1"}}, "sum": digest(nil),
			"amount": json.Number("5"), "name": "n", "roles": []any{"client", "provider"}}
	}
	tests := []struct {
		name   string
		change func(object) []object
		holds  bool
	}{
		{"as it should be", func(o object) []object { return []object{o} }, true},
		{"missing", func(object) []object { return nil }, false},
		{"twice", func(o object) []object { return []object{o, o} }, false},
		{"another value", func(o object) []object { o["job_hash"] = "g"; return []object{o} }, false},
		{"a member is missing", func(o object) []object { delete(o, "job_hash"); return []object{o} }, false},
		{"too few items", func(o object) []object { o["runs"] = []any{}; return []object{o} }, false},
		{"nothing below", func(o object) []object { o["environment"] = object{}; return []object{o} }, false},
		{"no digest", func(o object) []object { o["sum"] = "sha256:abc"; return []object{o} }, false},
		{"too small", func(o object) []object { o["amount"] = json.Number("4"); return []object{o} }, false},
		{"no number", func(o object) []object { o["amount"] = "5"; return []object{o} }, false},
		{"an empty text", func(o object) []object { o["name"] = ""; return []object{o} }, false},
		{"without the role", func(o object) []object { o["roles"] = []any{"client"}; return []object{o} }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var entries []object
			for _, payload := range test.change(good()) {
				entries = append(entries, receiptOf("JobCompleted", payload))
			}
			var out bytes.Buffer
			s := &step{ID: "1", out: &out}
			s.receipts(logOf(t, entries...), want)
			if len(s.Checks) != 1 || s.Checks[0].OK != test.holds {
				t.Errorf("%s", out.String())
			}
		})
	}
}

func TestStepThatBreaksIsNotGreen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := record{out: &out}
	r.run("1", "breaks", nil, func(s *step) { s.ok(true, "fine so far"); must(errors.New("gone")) })
	r.run("2", "needs it", []string{"1"}, func(s *step) { s.ok(true, "never looked at") })
	r.run("3", "needs that", []string{"2"}, func(s *step) { s.ok(true, "never looked at") })
	r.run("4", "stands alone", nil, func(s *step) { s.equal("equal", 1, 1) })
	if passed, failed := r.counts(); passed != 2 || failed != 3 || strings.Contains(out.String(), "never looked at") {
		t.Errorf("%d held, %d did not:\n%s", passed, failed, out.String())
	}
	if !strings.Contains(out.String(), "FAIL 1.2   the step could be done to its end: gone") {
		t.Errorf("the reason is not printed:\n%s", out.String())
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		got, want []string
		same      bool
	}{
		{"equal", []string{"a", "b"}, []string{"b", "a"}, true},
		{"one more", []string{"a", "b", "c"}, []string{"a", "b"}, false},
		{"one less", []string{"a"}, []string{"a", "b"}, false},
		{"one for another", []string{"a", "c"}, []string{"a", "b"}, false},
		{"twice", []string{"a", "b", "b"}, []string{"a", "b"}, false},
		{"twice instead of another", []string{"a", "b", "b"}, []string{"a", "b", "c"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := difference(test.got, test.want); (got == "") != test.same {
				t.Error(got)
			}
		})
	}
}

func TestUnresolvedCanFail(t *testing.T) {
	t.Parallel()
	type money = map[string]int64
	for _, test := range []struct {
		name                         string
		reserved, released, withheld money
		odd                          int
	}{
		{"released and withheld", money{"a": 5, "b": 7}, money{"a": 5}, money{"b": 7}, 0},
		{"never resolved", money{"a": 5}, money{}, money{}, 1},
		{"both", money{"a": 5}, money{"a": 5}, money{"a": 5}, 1},
		{"released twice", money{"a": 5}, money{"a": 10}, money{}, 1},
		{"in part", money{"a": 5}, money{"a": 3}, money{"a": 2}, 1},
		{"out of nothing", money{}, money{"a": 5}, money{}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := unresolved(test.reserved, test.released, test.withheld); len(got) != test.odd {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestCanonical holds the canonical form against lines that the house has
// published: each line of a journal is its own canonical bytes.
func TestCanonical(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../vectors/evidence/valid/approved/journal.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range bytes.Lines(b) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		v, err := parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if got := canonical(nil, v); !bytes.Equal(got, line) {
			t.Errorf("line %d:\n got %s\nwant %s", lines+1, got, line)
		}
		lines++
	}
	if lines == 0 {
		t.Fatal("no lines: the test would prove nothing")
	}
	text := canonical(nil, object{"b": "\u2028<&>\x01\n\"\\ü", "a": []any{nil, true, json.Number("1")}})
	if want := "{\"a\":[null,true,1],\"b\":\"\u2028<&>\\u0001\\n\\\"\\\\ü\"}"; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}
