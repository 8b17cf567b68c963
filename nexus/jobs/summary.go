package jobs

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// Where a summary comes from.
const (
	SummaryTold   = "told"   // by the client that runs it
	SummaryBundle = "bundle" // made from the sealed bundle by the authority
)

// Finding is a difference between what the client said of a run and its bundle.
type Finding struct {
	Code    reason.Code `json:"code"`
	Message string      `json:"message"`
}

// SummedRun is a run with its summary.
type SummedRun = store.SummedRun

// RunFilter says which runs are listed.
type RunFilter struct {
	store.RunFilter
	Owner string // "" is the principal's
	Text  string // each of its words begins a word of the run
}

// Bounds of a search.
const (
	maxSearchWords = 4
	maxRunWords    = 64
	maxWord        = 64 // bytes
)

// ListRuns returns runs with their summaries, the newest first.
func ListRuns(tx *store.Tx, p authority.Principal, f RunFilter) ([]SummedRun, error) {
	owner := cmp.Or(f.Owner, p.Owner)
	if !p.Owns(owner) {
		return nil, reason.Errorf(reason.Forbidden, "only an administrator looks at the runs of others")
	}
	if f.Words = wordsOf(f.Text); len(f.Words) > maxSearchWords {
		return nil, invalid("text", "has %d words, may have %d", len(f.Words), maxSearchWords)
	}
	if f.Text != "" && len(f.Words) == 0 {
		return nil, invalid("text", "has no letter and no digit")
	}
	if err := findRepository(tx, owner, &f); err != nil {
		return nil, err
	}
	return tx.ListRuns(owner, f.RunFilter)
}

// wordsOf cuts texts into words of letters and digits, in lower case, each once.
func wordsOf(texts ...string) (words []string) {
	seen := map[string]bool{}
	for _, text := range texts {
		for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
			if word = strings.TrimSuffix(evidence.CutText(word, maxWord), "…"); !seen[word] {
				seen[word] = true
				words = append(words, word)
			}
		}
	}
	return words
}

// putSummary writes the summary of a locked run.
func putSummary(tx *store.Tx, run *Run, s *evidence.RunSummary, source string, findings []Finding) error {
	body, err := canon.Marshal(s)
	if err != nil {
		return invalid("summary", "is outside the hashed subset of JSON: %w", err)
	}
	if findings == nil {
		findings = []Finding{}
	}
	list, err := json.Marshal(findings)
	if err != nil {
		return err
	}
	run.RunFacts = store.RunFacts{Engine: evidence.CutText(EngineAsked(metadataOf(*run), s.Engine.Name), maxValue)}
	if s.Status != nil {
		run.Verdict = *s.Status
	}
	if s.Model != nil {
		run.Model = evidence.CutText(*s.Model, maxValue)
	}
	if s.Blocker != nil {
		run.Blocker = evidence.CutText(string(s.Blocker.Code), maxRef)
	}
	words := wordsOf(strings.TrimPrefix(run.ID, "run_"), run.Engine, run.Model, run.Blocker, run.RepoRef, run.IssueRef, s.TaskID,
		s.Title, s.SessionID)
	return tx.PutRunSummary(*run, store.RunSummaryRow{Body: string(body), Source: source, Findings: string(list)},
		words[:min(len(words), maxRunWords)])
}

// tellSummary takes over what a client says of its run. What a bundle has said
// stays: it is later, and proved. An older word than the last one changes nothing.
func tellSummary(tx *store.Tx, run *Run, raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	s, err := evidence.ReadRunSummary(raw)
	if err != nil {
		return err
	}
	if session := sessionOf(*run); session != "" && s.SessionID != session {
		return invalid("summary.session_id", "is %.80q, and the run is that of session %.80q", s.SessionID, session)
	}
	was, err := tx.SummedRun(run.ID)
	if err != nil {
		return err
	}
	if was.Summary.Source == SummaryBundle {
		return nil
	}
	if was.Summary.Body != "" {
		if old, err := evidence.ReadRunSummary([]byte(was.Summary.Body)); err == nil && old.JournalEntries > s.JournalEntries {
			return nil
		}
	}
	return putSummary(tx, run, s, SummaryTold, nil)
}

// metadataOf is what the maker of a run has said of it, nil where that cannot be read.
func metadataOf(run Run) map[string]string {
	var said map[string]string
	if json.Unmarshal(run.Metadata, &said) != nil {
		return nil
	}
	return said
}

// EngineAsked is what an engine that the evidence calls recorded is called in lists of
// runs, by the metadata of its run. A program that a machine offers by a name of its own
// is recorded as "command"; the name that the page for new runs asked for, which is that
// of its jobs, says more. So it does where nothing is recorded yet.
func EngineAsked(metadata map[string]string, recorded string) string {
	if asked := metadata["engine"]; (recorded == "command" || recorded == "") && metadata[MetadataForm] != "" && asked != "" {
		return asked
	}
	return recorded
}

// sessionOf is the session that the run's client has named, "" for none.
func sessionOf(run Run) string {
	return metadataOf(run)["session_id"]
}

// Derived is what the authority has found in the sealed bundle of a run.
type Derived struct {
	Summary  *evidence.RunSummary // nil when the bundle cannot be read; Findings say why
	Findings []Finding
	// JournalHead is that of the run's log when the entries were compared.
	JournalHead string
}

// Derive takes over what the authority has found in the bundle of a run that is
// not older than the one of before.
func Derive(tx *store.Tx, p authority.Principal, runID string, d Derived) error {
	run, err := lockRun(tx, p, runID)
	if err != nil {
		return err
	}
	was, err := tx.SummedRun(runID)
	if err != nil {
		return err
	}
	var old *evidence.RunSummary
	if was.Summary.Body != "" {
		if old, err = evidence.ReadRunSummary([]byte(was.Summary.Body)); err != nil {
			return err
		}
	}
	switch {
	case d.Summary == nil && old == nil:
		return nil // nothing is known, and nothing is said
	case d.Summary == nil:
		return putSummary(tx, &run, old, was.Summary.Source, d.Findings)
	case old != nil && was.Summary.Source == SummaryBundle && old.JournalEntries > d.Summary.JournalEntries:
		return nil
	}
	if old != nil && was.Summary.Source == SummaryTold && old.JournalEntries == d.Summary.JournalEntries {
		if differ := d.Summary.Differences(old); len(differ) > 0 {
			d.Findings = append(d.Findings, Finding{reason.ProjectionMismatch,
				"the summary that the client sent differs from the bundle: " + strings.Join(differ, ", ")})
		}
	}
	if session := sessionOf(run); session != "" && session != d.Summary.SessionID {
		d.Findings = append(d.Findings, Finding{reason.JournalChain, "the bundle is that of another session"})
	}
	if run.JournalHead != d.JournalHead {
		d.Findings = append(d.Findings, Finding{reason.JournalChain, "entries of the journal were sent while the bundle was handed over"})
	}
	return putSummary(tx, &run, d.Summary, SummaryBundle, slices.Compact(d.Findings))
}
