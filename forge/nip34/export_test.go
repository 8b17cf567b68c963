//test:plain-package It only computes: there is one goroutine.

package nip34

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"remit/forge/pull"
	"remit/proof/nostr"
	"remit/proof/reason"
)

var errCut = errors.New("cut")

// memory is a relay in memory. Its nth call is cut: before it has an effect, or after.
type memory struct {
	events     map[string]nostr.Event
	calls, cut int
	after      bool
	lies       []string // sent before what it has
}

func (m *memory) fault() bool { m.calls++; return m.calls == m.cut }

func (m *memory) Query(_ context.Context, f nostr.Filter, each func(raw json.RawMessage)) error {
	if m.fault() {
		return errCut
	}
	for _, lie := range m.lies {
		each(json.RawMessage(lie))
	}
	for _, e := range m.events {
		if f.Match(&e) {
			text, err := json.Marshal(e)
			if err != nil {
				return err
			}
			each(text)
		}
	}
	return nil
}

func (m *memory) Publish(_ context.Context, e *nostr.Event) error {
	cut := m.fault()
	if !cut || m.after {
		if m.events == nil {
			m.events = map[string]nostr.Event{}
		}
		m.events[e.ID] = *e
	}
	if cut {
		return errCut
	}
	return errors.Join(Check(e), e.Verify())
}

func (m *memory) kinds() (kinds []int) {
	for _, e := range m.events {
		kinds = append(kinds, e.Kind)
	}
	slices.Sort(kinds)
	return kinds
}

const first = "1111111111111111111111111111111111111111"

func key(t *testing.T, digits string) nostr.Key {
	t.Helper()
	k, err := nostr.ParseKey(strings.Repeat(digits, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ours(t *testing.T) Repository {
	return Repository{Owner: key(t, "17").PubKey(), ID: "thing", Name: "thing", First: first, Clone: []string{"https://a.example/thing", "https://b.example/thing"}}
}

func aChange(session string, outcome int) *Change {
	return &Change{Title: "Fix it", Summary: "# Changes Made\n", Patch: "From 2\nSubject: [PATCH] Fix it\n", Branch: "remit/" + session,
		Commit: strings.Repeat("2", 40), Parent: strings.Repeat("3", 40), Committer: []string{"remit", "remit@localhost", "1700000000", "0"}, At: 1_700_000_000,
		Tip: func() (string, error) { return strings.Repeat("4", 40), nil }, Clone: []string{"https://a.example/thing"},
		Meta:    pull.Metadata{SessionID: session, PolicyBundleID: "pb-1", TrajectoryHash: "sha256:" + strings.Repeat("a", 64), VerificationPassed: true, ReceiptDigest: "sha256:" + strings.Repeat("b", 64)},
		Outcome: outcome, OutcomeAt: 1_700_000_100}
}

func export(t *testing.T, c *Change, relays ...*memory) (Result, error) {
	t.Helper()
	list, urls := make([]Relay, len(relays)), make([]string, len(relays))
	for i, r := range relays {
		list[i], urls[i] = r, "ws://relay.example"
	}
	return Export(t.Context(), urls, list, key(t, "17"), ours(t), c)
}

// TestExportOnce: what a change becomes at a relay, step by step; a repetition sends
// nothing.
func TestExportOnce(t *testing.T) {
	t.Parallel()
	r := new(memory)
	large := strings.Repeat("+line\n", MaxEvent)
	for i, step := range []struct {
		session string
		outcome int
		patch   string
		earlier []string
		sent    int
		kinds   []int
	}{
		{"s0", KindClosed, "", nil, 0, nil}, // there is nothing to close
		{"s1", KindDraft, "", nil, 3, []int{KindPatch, KindDraft, KindRepository}},
		{"s1", KindOpen, "", nil, 1, []int{KindPatch, KindOpen, KindDraft, KindRepository}},
		{"s1", KindDraft, "", nil, 0, []int{KindPatch, KindOpen, KindDraft, KindRepository}}, // open stays open
		{"s2", KindDraft, "", []string{"s1"}, 1, []int{KindPatch, KindPatch, KindOpen, KindDraft, KindRepository}},
		{"s2", KindApplied, "", []string{"s1"}, 1, []int{KindPatch, KindPatch, KindOpen, KindApplied, KindDraft, KindRepository}},
		{"s2", KindClosed, "", []string{"s1"}, 0, []int{KindPatch, KindPatch, KindOpen, KindApplied, KindDraft, KindRepository}},
		{"s3", KindDraft, large, nil, 2, []int{KindPatch, KindPatch, KindPull, KindOpen, KindApplied, KindDraft, KindDraft, KindRepository}},
		{"s4", KindClosed, large, []string{"s3"}, 0, []int{KindPatch, KindPatch, KindPull, KindOpen, KindApplied, KindDraft, KindDraft, KindRepository}},
		{"s4", KindDraft, "", []string{"s3"}, 1, []int{KindPatch, KindPatch, KindPull, KindUpdate, KindOpen, KindApplied, KindDraft, KindDraft, KindRepository}},
		{"s4", KindClosed, "", []string{"s3"}, 1, []int{KindPatch, KindPatch, KindPull, KindUpdate, KindOpen, KindApplied, KindClosed, KindDraft, KindDraft, KindRepository}},
	} {
		c := aChange(step.session, step.outcome)
		if step.patch != "" {
			c.Patch = step.patch
		}
		c.Earlier = step.earlier
		out, err := export(t, c, r)
		if err != nil || len(out.Done) != step.sent || !slices.Equal(r.kinds(), step.kinds) {
			t.Fatalf("step %d: %+v %v: %v", i, out, err, r.kinds())
		}
		if again, err := export(t, c, r); err != nil || len(again.Done) > 0 || again.Event != out.Event {
			t.Errorf("step %d again: %+v %v", i, again, err)
		}
		// Another relay gets what it lacks, and from then on has it.
		if out.Event != "" {
			second := new(memory)
			if both, err := export(t, c, r, second); err != nil || len(both.Done) < 3 || both.Event != out.Event {
				t.Errorf("step %d, a second relay: %+v %v", i, both, err)
			}
			if both, err := export(t, c, r, second); err != nil || len(both.Done) > 0 {
				t.Errorf("step %d, a second relay again: %+v %v", i, both, err)
			}
		}
	}
	for _, e := range r.events {
		if e.Size() > MaxEvent {
			t.Errorf("an event of %d bytes", e.Size())
		}
		if e.Kind == KindRepository {
			if got := e.Values("clone"); !slices.Equal(got, ours(t).Clone) || len(e.Tags) != 6 {
				t.Errorf("%v: %v", got, e.Tags)
			}
			continue
		}
		for name, want := range map[string]string{"a": ours(t).Address(), "r": first, "p": key(t, "17").PubKey(), "trajectory_hash": "sha256:" + strings.Repeat("a", 64),
			"policy_bundle_id": "pb-1", "verification_passed": "true", "x": strings.Repeat("b", 64)} {
			if got := e.Tag(name); got != want {
				t.Errorf("kind %d: %s is %q", e.Kind, name, got)
			}
		}
	}
}

// TestExportCutAtEachCall: whichever call is cut, before or after its effect, the next
// export ends with one repository, one patch and one status of each kind.
func TestExportCutAtEachCall(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		cuts := 0
		for n := 1; ; n++ {
			r := &memory{cut: n, after: after}
			for _, outcome := range []int{KindDraft, KindOpen} {
				if _, err := export(t, aChange("s1", outcome), r); err != nil {
					cuts++
					if !errors.Is(err, errCut) {
						t.Errorf("call %d: %v", n, err)
					}
					if _, err := export(t, aChange("s1", outcome), r); err != nil {
						t.Errorf("call %d, again: %v", n, err)
					}
				}
			}
			if got := r.kinds(); !slices.Equal(got, []int{KindPatch, KindOpen, KindDraft, KindRepository}) {
				t.Errorf("call %d cut (after: %v): %v", n, after, got)
			}
			if r.calls < n {
				break
			}
		}
		if cuts < 7 {
			t.Errorf("only %d calls were cut", cuts)
		}
	}
}

// TestOthersDecide: a status of the owner or of a maintainer counts, in either form of the
// tag; that of a stranger does not.
func TestOthersDecide(t *testing.T) {
	t.Parallel()
	owner, maintainer, stranger := key(t, "21"), key(t, "22"), key(t, "23")
	repo := Repository{Owner: owner.PubKey(), ID: "theirs", Name: "theirs", First: first}
	for name, maintainers := range map[string][][]string{
		"one tag":  {{"maintainers", strings.Repeat("9", 64), maintainer.PubKey()}},
		"repeated": {{"maintainers", strings.Repeat("9", 64)}, {"maintainers", maintainer.PubKey()}},
	} {
		for by, k := range map[string]nostr.Key{"owner": owner, "maintainer": maintainer, "stranger": stranger} {
			r := &memory{events: map[string]nostr.Event{}}
			with := func(k nostr.Key, e nostr.Event) {
				e, err := k.Sign(e)
				if err != nil {
					t.Fatal(err)
				}
				r.events[e.ID] = e
			}
			send := func() Result {
				out, err := Export(t.Context(), []string{"ws://x"}, []Relay{r}, key(t, "17"), repo, aChange("s1", KindOpen))
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			c := aChange("s1", KindDraft)
			if _, err := Export(t.Context(), []string{"ws://x"}, []Relay{r}, key(t, "17"), repo, c); reason.CodeOf(err) != reason.ForgeUnknown || len(r.events) > 0 {
				t.Fatalf("without an announcement: %v", err)
			}
			with(owner, nostr.Event{Kind: KindRepository, CreatedAt: 1, Tags: append([][]string{{"d", "theirs"}, {"r", first, "euc"}}, maintainers...)})
			out, err := Export(t.Context(), []string{"ws://x"}, []Relay{r}, key(t, "17"), repo, c)
			if err != nil || len(out.Done) != 2 {
				t.Fatalf("%+v %v", out, err)
			}
			with(k, nostr.Event{Kind: KindClosed, CreatedAt: c.OutcomeAt + 1, Tags: [][]string{{"e", out.Root, "", "root"}}})
			want := KindClosed
			if by == "stranger" {
				want = KindOpen
			}
			if out := send(); out.Status != want {
				t.Errorf("%s, closed by the %s: %+v", name, by, out)
			}
		}
	}
	other := &memory{events: map[string]nostr.Event{}}
	e, err := owner.Sign(nostr.Event{Kind: KindRepository, CreatedAt: 1, Tags: [][]string{{"d", "theirs"}, {"r", strings.Repeat("5", 40), "euc"}}})
	if err != nil {
		t.Fatal(err)
	}
	other.events[e.ID] = e
	if _, err := Export(t.Context(), []string{"ws://x"}, []Relay{other}, key(t, "17"), repo, aChange("s1", KindOpen)); reason.CodeOf(err) != reason.ForgeUnknown || len(other.events) != 1 {
		t.Errorf("a repository with another history: %v", err)
	}
}

// TestRelaysLie: events that do not verify, are by others or were not asked for change
// nothing of what is published.
func TestRelaysLie(t *testing.T) {
	t.Parallel()
	honest, liar := new(memory), new(memory)
	if _, err := export(t, aChange("s1", KindOpen), honest); err != nil {
		t.Fatal(err)
	}
	for _, e := range honest.events {
		forged := e
		forged.Tags = append(slices.Clone(e.Tags), []string{"e", e.ID})
		stolen := e
		stolen.PubKey = key(t, "23").PubKey()
		theirs, err := key(t, "23").Sign(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, lie := range []nostr.Event{forged, stolen, theirs} {
			text, err := json.Marshal(lie)
			if err != nil {
				t.Fatal(err)
			}
			liar.lies = append(liar.lies, string(text), string(text[:len(text)/2]), "null", `{"tags":null}`)
		}
	}
	out, err := export(t, aChange("s1", KindOpen), liar)
	if err != nil || len(out.Done) != 3 || !slices.Equal(slices.Sorted(maps.Keys(liar.events)), slices.Sorted(maps.Keys(honest.events))) {
		t.Errorf("%+v %v: %v", out, err, liar.kinds())
	}
}

// TestAddresses reads what names a repository.
func TestAddresses(t *testing.T) {
	t.Parallel()
	good := ours(t).Address()
	if r, err := ParseAddress(good); err != nil || r.Address() != good {
		t.Errorf("%+v %v", r, err)
	}
	for _, bad := range []string{"", "thing", "30618:" + strings.TrimPrefix(good, "30617:"), "30617:abc:thing", good[:71], good + "\n", strings.ToUpper(good)} {
		if _, err := ParseAddress(bad); reason.CodeOf(err) != reason.ForgeUnknown {
			t.Errorf("%q: %v", bad, err)
		}
	}
	c := aChange("s1", KindDraft)
	c.Patch, c.Clone = strings.Repeat("x", MaxEvent), nil
	if _, err := export(t, c, new(memory)); reason.CodeOf(err) != reason.ForgeUnknown || !strings.Contains(err.Error(), "fetched") {
		t.Errorf("a large change that cannot be fetched: %v", err)
	}
}
