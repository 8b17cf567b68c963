package ladder

import (
	"strings"
	"testing"

	"remit/law/task"
)

// TestJudge: a stage counts only with every stage below it, with the very proofs
// that it was built on, for the very key, until its review.
func TestJudge(t *testing.T) {
	t.Parallel()
	other := func(change func(*Key)) func(*Key, []Recorded) []Recorded {
		return func(k *Key, all []Recorded) []Recorded { change(k); return all }
	}
	tests := []struct {
		name   string
		key    Key
		change func(*Key, []Recorded) []Recorded
		stage  int
		at     int // the stage that State and Why are of
		state  State
		why    string
	}{
		{"all", agentKey(), func(_ *Key, all []Recorded) []Recorded { return all }, 6, 6, Proven, ""},
		{"built in", fakeKey(), func(_ *Key, all []Recorded) []Recorded { return all[:3] }, 3, 4, NotYet, "no proof is recorded"},
		{"nothing", agentKey(), func(*Key, []Recorded) []Recorded { return nil }, 0, 1, NotYet, "no proof is recorded"},
		{"a stage is missing", agentKey(), func(_ *Key, all []Recorded) []Recorded { return append(all[:2:2], all[3]) }, 2, 4, Stale, "the proof of stage 3, which it builds on"},
		{"engine binary", agentKey(), other(func(k *Key) { k.EngineSHA256 = digestOf("other") }), 0, 1, Stale, "engine binary"},
		{"engine version", agentKey(), other(func(k *Key) { k.EngineVersion = "2" }), 0, 1, Stale, "engine version"},
		{"adapter version", agentKey(), other(func(k *Key) { k.AdapterVersion = "2" }), 0, 1, Stale, "adapter version (2 now, 1 in the proof)"},
		{"provider", agentKey(), other(func(k *Key) { k.Provider = "acme" }), 0, 1, Stale, "model pair"},
		{"model", agentKey(), other(func(k *Key) { k.Model = "gpt-6" }), 0, 1, Stale, "model pair"},
		{"verifier", agentKey(), other(func(k *Key) { k.VerifierSHA256 = digestOf("other") }), 0, 1, Stale, "verifier digest"},
		{"driver", agentKey(), other(func(k *Key) { k.SandboxDriver = "none" }), 0, 1, Stale, "sandbox driver (none now, bwrap in the proof)"},
		{"another engine", agentKey(), other(func(k *Key) { k.Engine = "pi" }), 0, 1, Stale, "engine (pi now"},
		{"a fault", agentKey(), func(_ *Key, all []Recorded) []Recorded {
			all[1].Fault = "it was edited"
			return all
		}, 1, 2, NotYet, "it was edited"},
		{"a trigger", agentKey(), func(_ *Key, all []Recorded) []Recorded {
			all[1].Stale = "trigger engine_digest has fired"
			return all
		}, 1, 2, Stale, "trigger engine_digest"},
		{"what builds on a stale stage", agentKey(), func(_ *Key, all []Recorded) []Recorded {
			all[0].Stale = "a trigger has fired"
			return all
		}, 0, 3, Stale, "the proof of stage 1, which it builds on"},
		{"an earlier proof made anew", agentKey(), func(_ *Key, all []Recorded) []Recorded {
			p := *all[0].Proof
			p.MadeAt = "2026-02-01T13:00:00.000Z"
			p.Errors = nil
			if err := p.Seal(false); err != nil {
				panic(err)
			}
			all[0].Proof = &p
			return all
		}, 1, 2, Stale, "an earlier proof was made anew since: stage 1"},
		{"a failed proof", agentKey(), func(_ *Key, all []Recorded) []Recorded {
			p := *all[2].Proof
			p.Checks = append([]Check{{Name: "source_head_equal", Detail: "HEAD moved"}}, p.Checks...)
			if err := p.Seal(false); err != nil {
				panic(err)
			}
			all[2].Proof = &p
			return all[:3]
		}, 2, 3, NotYet, "source_head_equal: HEAD moved"},
		{"a blocked proof", agentKey(), func(_ *Key, all []Recorded) []Recorded {
			p := *all[2].Proof
			p.Errors = []string{"no repository was named"}
			if err := p.Seal(true); err != nil {
				panic(err)
			}
			all[2].Proof = &p
			return all[:3]
		}, 2, 3, Blocked, "no repository was named"},
		{"a file of another stage", agentKey(), func(_ *Key, all []Recorded) []Recorded {
			all[0].Stage, all[0].Proof = 1, all[1].Proof
			return all[:1]
		}, 0, 1, NotYet, "of stage 2"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			key, proofs := tc.key, ladderOf(t, tc.key, 6)
			proofs = tc.change(&key, proofs)
			s := Judge(key, proofs, madeAt)
			if s.Stage != tc.stage || s.Mode != modeOf(tc.stage) || len(s.Stages) != 6 {
				t.Fatalf("stage %d, mode %s, want %d", s.Stage, s.Mode, tc.stage)
			}
			got := s.Stages[tc.at-1]
			if got.State != tc.state || !strings.Contains(got.Why, tc.why) || (got.Next == "") != (tc.state == Proven) {
				t.Errorf("stage %d is %+v, want %s %q", tc.at, got, tc.state, tc.why)
			}
		})
	}
	if s := Judge(agentKey(), ladderOf(t, agentKey(), 6), madeAt.AddDate(0, 6, 0)); s.Stage != 0 || s.Stages[0].State != Stale || !strings.Contains(s.Stages[0].Why, "review") {
		t.Errorf("after its review: %+v", s.Stages[0])
	}
	again := ladderOf(t, agentKey(), 1)
	again[0].Proof.Build.Version = "another build"
	if err := again[0].Proof.Seal(false); err != nil {
		t.Fatal(err)
	}
	if s := Judge(agentKey(), again, madeAt); s.Stage != 1 {
		t.Errorf("another build of Remit with the same verifier ages a proof: %+v", s.Stages[0])
	}
}

func modeOf(stage int) task.MutationMode {
	if stage == 0 {
		return task.ModeNone
	}
	return stages[stage-1].Mode
}
