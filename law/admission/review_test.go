package admission

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/proof/canon"
	"remit/proof/reason"
)

// TestTriggersFire: each trigger of the closed list makes a record stale when its fact is another one, is
// named, and is silent when the fact is the same or not known.
func TestTriggersFire(t *testing.T) {
	t.Parallel()
	now := below("").Now
	for _, trigger := range Triggers() {
		r := Review{Triggers: []Trigger{trigger}, Basis: map[Trigger]string{trigger: "before"}}
		if got := r.Fired(Facts{trigger: "before"}, now); len(got) != 0 {
			t.Errorf("%s fired on the same fact: %v", trigger, got)
		}
		if got := r.Fired(Facts{}, now); len(got) != 0 {
			t.Errorf("%s fired on no fact: %v", trigger, got)
		}
		got := r.Fired(Facts{trigger: "after"}, now)
		if len(got) != 1 || got[0] != (Fired{trigger, "before", "after"}) || !strings.Contains(got[0].String(), string(trigger)) {
			t.Errorf("%s: %v", trigger, got)
		}
		d := SourceDecision{Ruling: ruling(Admitted), Engine: build.Name, Version: build.Version, SHA256: build.SHA256}
		d.Review = r
		rec, err := NextSource(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		home := t.TempDir()
		put(t, home, SourceFile("codex"), text(t, rec), 0o600)
		s := below(home)
		s.Facts = Facts{trigger: "after"}
		res, _ := s.SourceResult(build)
		if res.Admitted() || !res.Stale || res.Code != reason.SourceNotAdmitted || !slices.Contains(res.Fired, trigger) || !strings.Contains(res.Detail, string(trigger)) {
			t.Errorf("%s: %+v", trigger, res)
		}
	}
}

// TestReviewBy: a record holds until its time and not from it on.
func TestReviewBy(t *testing.T) {
	t.Parallel()
	d := ModelDecision{Ruling: ruling(Admitted), Provider: "openai", Model: "gpt-5.5"}
	d.Review.By = "2026-03-01T00:00:00.000Z"
	rec, err := NextModel(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	put(t, home, ModelFile("openai", "gpt-5.5"), text(t, rec), 0o600)
	s := below(home)
	for _, test := range []struct {
		now  time.Time
		open bool
	}{{time.Date(2026, 2, 28, 23, 59, 59, 0, time.UTC), true}, {time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), false}, {time.Time{}, true}} {
		s.Now = test.now
		res, _ := s.ModelResult("openai", "gpt-5.5")
		if res.Admitted() != test.open || !test.open && (res.Code != reason.ModelMismatch || !slices.Equal(res.Fired, []Trigger{OnReviewBy})) {
			t.Errorf("%v: %+v", test.now, res)
		}
	}
}

// TestBasisIsRecorded: a trigger is watched from what the record itself says, or from what is stated.
func TestBasisIsRecorded(t *testing.T) {
	t.Parallel()
	d := SourceDecision{Ruling: ruling(Admitted), Engine: build.Name, Version: build.Version, SHA256: build.SHA256}
	d.Triggers = []Trigger{OnEngineDigest, OnPolicy}
	if _, err := NextSource(nil, d); err == nil || !strings.Contains(err.Error(), "policy") {
		t.Errorf("a trigger without a fact: %v", err)
	}
	d.Basis = map[Trigger]string{OnPolicy: canon.Digest(nil)}
	rec, err := NextSource(nil, d)
	if err != nil || !maps.Equal(rec.Basis, map[Trigger]string{OnEngineDigest: build.SHA256, OnPolicy: canon.Digest(nil)}) {
		t.Fatalf("%+v, %v", rec, err)
	}
	if len(d.Basis) != 1 {
		t.Error("the caller's facts are changed")
	}
	for name, change := range map[string]func(*Review){
		"unknown":   func(r *Review) { r.Triggers = []Trigger{"weather"}; r.Basis = map[Trigger]string{"weather": "rain"} },
		"twice":     func(r *Review) { r.Triggers = append(r.Triggers, OnPolicy) },
		"no list":   func(r *Review) { r.Triggers = nil },
		"a bad day": func(r *Review) { r.By = "tomorrow" },
	} {
		d := d
		d.Review = Review{Triggers: []Trigger{OnPolicy}, Basis: map[Trigger]string{OnPolicy: "x"}}
		change(&d.Review)
		if _, err := NextSource(nil, d); reason.CodeOf(err) != reason.InvalidAdmission {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnsignedCountsAsNone: where signatures are asked for, a record whose signature does not count admits
// nothing, and says why; where they are not, nothing changes.
func TestUnsignedCountsAsNone(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	put(t, home, SourceFile("codex"), text(t, source(t, nil, Admitted)), 0o600)
	s := below(home)
	s.Verify = func(text, signature []byte) error {
		if string(signature) != "good" || len(text) == 0 {
			return errors.New("it is not signed")
		}
		return nil
	}
	if res, rec := s.SourceResult(build); res.Status != StatusMissing || res.Code != reason.SourceNotAdmitted || rec != nil || !strings.Contains(res.Detail, "it is not signed") {
		t.Errorf("%+v", res)
	}
	put(t, home, SignatureFile(SourceFile("codex")), "forged", 0o600)
	if res, _ := s.SourceResult(build); res.Admitted() {
		t.Errorf("%+v", res)
	}
	put(t, home, SignatureFile(SourceFile("codex")), "good", 0o600)
	if res, _ := s.SourceResult(build); !res.Admitted() {
		t.Errorf("%+v", res)
	}
	if all, err := s.Load(); err != nil || len(all.Sources) != 1 || len(all.Damaged) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
