//go:build !race

package panel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// validSessions are the published sessions.
func validSessions(t testing.TB) []string {
	t.Helper()
	found, err := os.ReadDir("../../vectors/evidence/valid")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range found {
		if _, err := os.Stat(filepath.Join("../../vectors/evidence/valid", d.Name(), evidence.JournalFile)); err == nil {
			out = append(out, d.Name())
		}
	}
	if len(out) < 20 {
		t.Fatalf("%d published sessions", len(out))
	}
	return out
}

// randomJournal is a published journal with tool calls and messages put in while its
// engine worked, cut off anywhere.
func randomJournal(t testing.TB, rng *rand.Rand, names []string) []journal.Entry {
	t.Helper()
	w, err := journal.Create(filepath.Join(t.TempDir(), evidence.JournalFile), "20261123T100000Z-drawn-000001")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	add := func(e journal.Entry) {
		step := journal.Step{StepID: e.StepID, Name: e.Name, Status: e.Status, StartedAt: instant(e.StartedAt), Inputs: e.Inputs, Outputs: e.Outputs}
		if e.CompletedAt != nil {
			step.CompletedAt = instant(*e.CompletedAt)
		}
		if _, err := w.Append(step); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range sealedJournal(t, names[rng.IntN(len(names))]) {
		if add(e); e.Name != evidence.StepEngine || e.Status != journal.Started {
			continue
		}
		begin, began := instant(e.StartedAt), map[string]journal.Entry{}
		at := func(ms int) string {
			return begin.Add(time.Duration(ms) * time.Millisecond).UTC().Format("2006-01-02T15:04:05.000Z")
		}
		for i := range rng.IntN(90) {
			call := e
			call.StepID, call.Name, call.StartedAt, call.Status, call.CompletedAt = fmt.Sprint("drawn", i), evidence.StepTool, at(i), journal.Started, nil
			params := fmt.Sprintf(`{"n":%d}`, rng.IntN(1000))
			in, err := json.Marshal(evidence.ToolCalled{ID: call.StepID, Tool: []string{"bash", "read", "edit"}[rng.IntN(3)], Params: json.RawMessage(params), ParamsHash: "sha256:" + strings.Repeat("0", 64)})
			if err != nil {
				t.Fatal(err)
			}
			call.Inputs, call.Outputs = in, json.RawMessage("{}")
			add(call)
			began[call.StepID] = call
			for id, b := range began { // some end later, and some never
				if rng.IntN(3) > 0 {
					continue
				}
				back, err := json.Marshal(evidence.ToolReturned{ID: id, OutputHash: "sha256:" + strings.Repeat("0", 64), ExitCode: new(rng.IntN(2)), LatencyMS: 1, OK: true, SideEffects: []evidence.SideEffect{}})
				if err != nil {
					t.Fatal(err)
				}
				b.Status, b.Inputs, b.Outputs, b.CompletedAt = journal.Completed, json.RawMessage("{}"), back, new(at(i+1))
				add(b)
				delete(began, id)
			}
		}
	}
	out := w.Entries()
	if rng.IntN(3) == 0 {
		return out
	}
	return out[:1+rng.IntN(len(out))]
}

// differences is what the timeline and the facts of a page do not have as the
// projections of a journal do.
func differences(t testing.TB, shown, projected []journal.Entry) (out []string) {
	t.Helper()
	want, err := evidence.SummaryOf(projected)
	if err != nil {
		t.Fatal(err)
	}
	phase := Running
	if want.FinishedAt != nil {
		phase = Sealed
	}
	s := Summarize("id", phase, "repository", shown)
	same := func(what string, is, should any) {
		if fmt.Sprint(is) != fmt.Sprint(should) {
			out = append(out, fmt.Sprintf("%s: the page has %v, the projection %v", what, is, should))
		}
	}
	same("title", s.Title, want.Title)
	same("engine", s.Engine, want.Engine.Name)
	same("model", s.Model, api.Value(want.Model))
	if want.Status != nil {
		same("status", s.Status, *want.Status)
	}
	if want.Blocker != nil && want.FinishedAt != nil {
		same("blocker", s.Code, want.Blocker.Code)
	}
	if want.Changed != nil {
		same("files", len(s.Changed), want.Changed.Files)
		same("lines", fmt.Sprint(s.Added, s.Removed), fmt.Sprint(want.Changed.Added, want.Changed.Removed))
	}
	if want.Tests != nil && s.Measured {
		same("tests", fmt.Sprint(s.Fixed, s.Broken, s.Kept), fmt.Sprint(want.Tests.Fixed, want.Tests.Broken+want.Tests.Missing, want.Tests.Kept))
	}
	return append(out, stepDifferences(t, timelineOf(&Session{Summary: s, Journal: shown}, instant(shown[len(shown)-1].StartedAt)), shown, projected)...)
}

// stepDifferences holds the rows of a timeline against REPLAY.jsonl, which has each
// call of a tool with both of its ends.
func stepDifferences(t testing.TB, line timeline, shown, projected []journal.Entry) (out []string) {
	t.Helper()
	set, err := evidence.Project(projected)
	if err != nil {
		t.Fatal(err)
	}
	begun, ended, engine := []string{}, 0, false
	for text := range bytes.Lines(set[evidence.ReplayFile]) {
		var e struct{ Event, T, ID, Tool string }
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		switch e.Event {
		case "ToolCall":
			begun = append(begun, e.Tool+" "+instant(e.T).String())
		case "ToolResult":
			ended++
		}
	}
	calls, open, more := []string{}, 0, 0
	for _, r := range line.Rows {
		engine = engine || strings.HasPrefix(r.Name, "Engine ")
		for _, part := range r.Sub {
			if part.Code {
				if calls = append(calls, part.Name+" "+part.begin.String()); part.end.IsZero() {
					open++
				}
			}
		}
		if strings.HasPrefix(r.Name, "Engine ") {
			more += r.More
		}
	}
	if !engine {
		begun = nil
	}
	if more == 0 && len(calls) != len(begun) || len(calls) > len(begun) {
		out = append(out, fmt.Sprintf("the page has %d calls, the replay %d", len(calls), len(begun)))
	}
	for i := range min(len(calls), len(begun)) {
		if calls[i] != begun[i] {
			out = append(out, fmt.Sprintf("call %d is %s, in the replay %s", i, calls[i], begun[i]))
		}
	}
	if more == 0 && open != len(begun)-ended && engine {
		out = append(out, fmt.Sprintf("%d calls have no end, in the replay %d", open, len(begun)-ended))
	}
	// Every step that has a row has one, with the times of its entries.
	rows := map[int64]row{}
	for _, r := range line.Rows {
		rows[r.Seq] = r
	}
	last := map[string]int64{}
	for _, e := range projected {
		if _, named := stepNames[e.Name]; !named {
			continue
		}
		seq, running := last[e.StepID]
		if !running || e.Status == journal.Started {
			seq = e.Seq
			last[e.StepID] = seq
		}
		r, ok := rows[seq]
		if !ok {
			out = append(out, fmt.Sprintf("entry %d, %s, has no row", e.Seq, e.Name))
			continue
		}
		if e.CompletedAt != nil {
			if delete(last, e.StepID); !r.end.Equal(instant(*e.CompletedAt)) {
				out = append(out, fmt.Sprintf("%s ends at %s, its entry %d at %s", r.Name, r.end, e.Seq, *e.CompletedAt))
			}
		}
	}
	return out
}

// TestPageIsTheProjection: for 200 random journals the page has the facts and the
// steps that the projections of the journal have.
func TestPageIsTheProjection(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	names := validSessions(t)
	found := 0
	for i := range 200 {
		entries := randomJournal(t, rng, names)
		if got := differences(t, entries, entries); len(got) > 0 {
			t.Fatalf("seed %d, journal %d with %d entries: %s", seed, i, len(entries), strings.Join(got, "; "))
		}
		// The control: a page of a journal that lacks its last step or call differs.
		if end := len(entries) - 1; end > 3 {
			if _, err := evidence.ReportOf(entries[:end]); err == nil && len(differences(t, entries[:end], entries)) > 0 {
				found++
			}
		}
	}
	if found < 40 {
		t.Errorf("seed %d: a page that lacks the end of its journal is found %d times of 200", seed, found)
	}
}

// bundleHome is a home with one published session, which is audited.
type bundleHome struct {
	*memoryHome
	dir string
}

func (h *bundleHome) Audit(ctx context.Context, _ string) (*bundle.Report, error) {
	opt := bundle.Options{Profile: bundle.ProfileBundle}
	for _, g := range (evidence.Trust{}).Gates() {
		opt.Gates = append(opt.Gates, bundle.Gate(g))
	}
	return bundle.Audit(ctx, h.dir, opt)
}

// TestOneByte: whatever file of a bundle has another byte, the audit on the page is
// red and names a gate and the file.
func TestOneByte(t *testing.T) {
	t.Parallel()
	const from = "../../vectors/evidence/valid/pass"
	var names []string
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, rel := filepath.Rel(from, path)
			names, err = append(names, name), rel
		}
		return err
	})
	if err != nil || len(names) < 10 {
		t.Fatalf("%q, %v", names, err)
	}
	entries := sealedJournal(t, "pass")
	report, err := evidence.ReportOf(entries)
	if err != nil {
		t.Fatal(err)
	}
	const id = "20261123T100000Z-pass-000001"
	s := &Session{Summary: Summarize(id, Sealed, "acme/links", entries), Journal: entries, Report: report}
	home := &bundleHome{memoryHome: &memoryHome{sessions: []*Session{s}}}
	w := newWorld(t, home, true)
	b := w.login(w.token("alice", authority.ScopeRead))
	page := func(changed string) string {
		home.dir = filepath.Join(t.TempDir(), "bundle")
		if err := os.CopyFS(home.dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		if changed != "" {
			path := filepath.Join(home.dir, changed)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) == 0 {
				text = []byte{' '}
			}
			text[len(text)/2] ^= 1
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out := b.get("/runs/" + id + "?audit=1").body
		return out[strings.Index(out, `id="audit"`):strings.Index(out, "receipts of the authority")]
	}
	if got := page(""); !strings.Contains(got, "complete and agrees with itself") || strings.Contains(got, `class="small mt8 fail"`) {
		t.Fatalf("the bundle as it was: %s", got)
	}
	for _, name := range names {
		got := page(name)
		if !strings.Contains(got, "The audit does not hold") || !strings.Contains(got, `<use href="#i-fail"/>`) || !strings.Contains(got, `class="small mt8 fail"`) ||
			name != evidence.ManifestFile && !strings.Contains(got, name) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
