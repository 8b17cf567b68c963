package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"remit/proof/atomicfile"
	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/journal"
)

// Set is the projected artifacts of a session: file name to bytes.
type Set map[string][]byte

// Names returns the file names, sorted.
func (s Set) Names() []string { return slices.Sorted(maps.Keys(s)) }

// proofName is what a proof may be called: it becomes a file name.
var proofName = form.Lazy(`^[a-z0-9][a-z0-9-]{0,63}$`)

// Project computes every projection of a journal. It needs nothing but the
// entries: same entries, same bytes.
func Project(entries []journal.Entry) (Set, error) {
	r, err := fold(entries)
	if err != nil {
		return nil, err
	}
	head, err := journal.HeadOf(entries)
	if err != nil {
		return nil, fmt.Errorf("computing the journal head: %w", err)
	}
	events := r.normalized()
	trajectory, err := trajectoryHash(events)
	if err != nil {
		return nil, fmt.Errorf("hashing the trajectory: %w", err)
	}
	set := Set{}
	set.document(ContractFile, orEmpty(r.contract.Contract))
	set.document(EligibilityFile, orEmpty(r.eligibility))
	set.document(ContextFile, r.context())
	for _, p := range r.proofs {
		if !proofName().MatchString(p.name) {
			return nil, fmt.Errorf("proof name %q is not a plain word", p.name)
		}
		set.document(ProofsDir+"/"+p.name+".json", p.body)
	}
	set.lines(EventsFile, slices.Values(toAny(events)))
	set.lines(TraceFile, slices.Values(toAny(r.trace())))
	receipt, err := r.receipt(head, trajectory)
	if err != nil {
		return nil, fmt.Errorf("making the receipt: %w", err)
	}
	set.document(ReceiptFile, receipt)
	set.lines(ReplayFile, slices.Values(r.replay(trajectory)))
	set[SummaryFile] = r.summary(receipt)
	set[ReportMDFile] = r.reportMarkdown()
	if err := set.failed(); err != nil {
		return nil, err
	}
	report, err := r.report(set)
	if err != nil {
		return nil, fmt.Errorf("making the report: %w", err)
	}
	set[ReportFile] = report
	return set, nil
}

// errorKey collects the first encoding error of a Set under construction; a
// NUL cannot be part of a file name.
const errorKey = "\x00error"

func (s Set) document(name string, v any) {
	b, err := canon.Marshal(v)
	if err != nil {
		s.fail(name, err)
		return
	}
	s[name] = append(b, '\n')
}

func (s Set) lines(name string, values func(func(any) bool)) {
	var out bytes.Buffer
	for v := range values {
		b, err := canon.Marshal(v)
		if err != nil {
			s.fail(name, err)
			return
		}
		out.Write(b)
		out.WriteByte('\n')
	}
	s[name] = out.Bytes()
}

func (s Set) fail(name string, err error) {
	if _, already := s[errorKey]; !already {
		s[errorKey] = []byte(fmt.Sprintf("encoding %s: %v", name, err))
	}
}

func (s Set) failed() error {
	if text, bad := s[errorKey]; bad {
		return fmt.Errorf("%s", text)
	}
	return nil
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(`{}`)
	}
	return raw
}

func toAny[T any](in []T) []any {
	out := make([]any, len(in))
	for i, v := range in {
		out[i] = v
	}
	return out
}

// context is the ExecutionContext (context.json).
func (r *run) context() any {
	return struct {
		Schema         string         `json:"schema"`
		RepoRoot       string         `json:"repo_root"`
		BaselineCommit ObjectID       `json:"baseline_commit"`
		BaselineTree   ObjectID       `json:"baseline_tree"`
		RunID          string         `json:"run_id"`
		RunIDAudit     string         `json:"run_id_audit"`
		StartedAt      string         `json:"started_at"`
		Engine         EngineIdentity `json:"engine"`
		Host           Host           `json:"host"`
		Remit          Build          `json:"remit"`
	}{ContextSchema, r.opened.RepoRoot, r.opened.BaselineCommit, r.opened.BaselineTree, r.opened.RunID, r.opened.RunIDAudit,
		r.entries[0].StartedAt, r.opened.Engine, r.opened.Host, r.opened.Remit}
}

// span is one line of trace.jsonl: a step with its two ends.
type span struct {
	SpanID     string          `json:"span_id"`
	Name       string          `json:"name"`
	Status     string          `json:"status"`
	StartedAt  string          `json:"started_at"`
	EndedAt    *string         `json:"ended_at"` // null: the run stopped inside this step
	DurationMS int64           `json:"duration_ms"`
	Seqs       []int64         `json:"seqs"`
	Attributes json.RawMessage `json:"attributes"`
}

// trace pairs the entries of each step into spans, in order of their start.
func (r *run) trace() []span {
	var out []span
	open := map[string]int{}
	for i := range r.entries {
		e := &r.entries[i]
		key := e.StepID + "\x00" + e.Name
		if at, ok := open[key]; ok && e.Status != journal.Started {
			s := &out[at]
			end := entryTime(e)
			s.Status, s.EndedAt, s.Attributes = string(e.Status), &end, e.Outputs
			s.DurationMS = between(s.StartedAt, end)
			s.Seqs = append(s.Seqs, e.Seq)
			delete(open, key)
			continue
		}
		s := span{SpanID: e.StepID, Name: e.Name, Status: string(e.Status), StartedAt: e.StartedAt, Seqs: []int64{e.Seq}, Attributes: e.Outputs}
		if e.Status == journal.Started {
			s.Attributes = e.Inputs
			open[key] = len(out)
		} else {
			end := entryTime(e)
			s.EndedAt, s.DurationMS = &end, between(e.StartedAt, end)
		}
		out = append(out, s)
	}
	return out
}

// Write puts the projections into a session directory, each through a
// temporary file and a rename, so that a reader never sees half a document.
// The first failure is returned with the name of the file.
func Write(dir string, set Set) error {
	for _, name := range set.Names() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		if err := atomicfile.Replace(path, set[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}
