package metrics

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/record"
)

// Types of events besides receipts.
const (
	runFinished     = "run.finished"
	ReplayServed    = "replay.served"    // a repetition got the stored answer
	ConflictRefused = "conflict.refused" // a repetition was another request
)

// facts are the members of all payloads that are read.
type facts struct {
	JobHash     string           `json:"job_hash"`
	ProviderID  string           `json:"provider_id"`
	Eligible    *int64           `json:"eligible_providers"`
	Engine      string           `json:"engine"`
	Model       string           `json:"model"`
	Response    string           `json:"response_sha256"`
	Was         string           `json:"was"`
	AmountMsats int64            `json:"amount_msats"`
	Caps        *job.CapsApplied `json:"caps"`
	Observed    *job.Usage       `json:"observed"`
	Within      *bool            `json:"within"`
	RunID       string           `json:"run_id"`
	Kind        string           `json:"kind"`
}

// A jobFold is what a run's journal says about one job.
type jobFold struct {
	open              int64 // when the present dispatch was recorded; 0 without one
	provider          string
	engine, model     string
	answered          bool
	verified, passed  bool
	released          int64
	isReleased        bool
	caps              *job.CapsApplied
	observed          *job.Usage
	within            bool // as far as the authority could tell
	attempted, filled int64
}

// A runFold is one journal.
type runFold struct {
	id                string
	created, finished int64 // 0 when not recorded
	jobs              map[string]*jobFold
}

// fold is the state that events are folded into.
type fold struct {
	runs       []*runFold
	reworked   map[string]bool // runs with a bad outcome
	unreadable int64
	latencies  []int64
	breadth    int64 // most providers that were eligible at once
	counted    bool  // some dispatch said how many were
	silent     bool  // some dispatch did not
	replays    int64
	conflicts  int64
	repeats    bool
}

// Compute folds the events of any number of runs, in any order. An event that
// is there twice counts once.
func Compute(events []store.Event) Report {
	f := fold{reworked: map[string]bool{}}
	sorted := slices.SortedFunc(slices.Values(events), func(a, b store.Event) int {
		return cmp.Or(strings.Compare(a.Stream, b.Stream), cmp.Compare(a.Seq, b.Seq))
	})
	sorted = slices.CompactFunc(sorted, func(a, b store.Event) bool { return a.Stream == b.Stream && a.Seq == b.Seq })
	var run *runFold
	for _, e := range sorted {
		id, ok := runOf(e.Stream)
		if !ok {
			f.outcome(e)
			continue
		}
		if run == nil || run.id != id {
			run = &runFold{id: id, jobs: map[string]*jobFold{}}
			f.runs = append(f.runs, run)
		}
		f.add(run, e)
	}
	return f.report()
}

// runOf reads the id of the run from the name of its journal.
func runOf(stream string) (string, bool) {
	rest, ok := strings.CutPrefix(stream, "run:")
	id, isJournal := strings.CutSuffix(rest, ":events")
	return id, ok && isJournal && id != ""
}

// outcome reads what became of a run after it was sealed, from the journal of
// the account that owns it.
func (f *fold) outcome(e store.Event) {
	owner, ok := strings.CutPrefix(e.Stream, "user:")
	if _, isJournal := strings.CutSuffix(owner, ":receipts"); !ok || !isJournal {
		return
	}
	r, ok := authority.ReadReceipt(e)
	if !ok || r.Type != record.OutcomeRecorded {
		return
	}
	var is facts
	if json.Unmarshal(r.Payload, &is) != nil || is.RunID == "" {
		f.unreadable++
		return
	}
	if is.Kind == "reverted" || is.Kind == "failing" {
		f.reworked[is.RunID] = true
	}
}

func (f *fold) add(run *runFold, e store.Event) {
	switch e.Type {
	case runFinished:
		run.finished = e.RecordedAt
	case ReplayServed:
		f.replays, f.repeats = f.replays+1, true
	case ConflictRefused:
		f.conflicts, f.repeats = f.conflicts+1, true
	case authority.EventReceipt:
		r, ok := authority.ReadReceipt(e)
		var is facts
		if !ok || json.Unmarshal(r.Payload, &is) != nil {
			f.unreadable++
			return
		}
		f.receipt(run, r.Type, is, e.RecordedAt)
	}
}

func (f *fold) receipt(run *runFold, kind string, is facts, at int64) {
	switch kind {
	case record.RunCreated:
		run.created = at
		return
	case record.JobDispatched, record.JobRejected, record.JobCompleted, record.JobFailed,
		record.VerificationPassed, record.VerificationFailed, record.PaymentReleased, record.CapsEnforced:
	default:
		return
	}
	if is.JobHash == "" || is.AmountMsats < 0 || is.AmountMsats > store.MaxAmount {
		f.unreadable++
		return
	}
	j := run.jobs[is.JobHash]
	if j == nil {
		j = &jobFold{}
		run.jobs[is.JobHash] = j
	}
	j.engine, j.model = cmp.Or(is.Engine, j.engine), cmp.Or(is.Model, j.model)
	switch kind {
	case record.JobDispatched:
		f.dispatched(j, is, at)
	case record.JobRejected:
		if j.open == 0 { // otherwise its dispatch is counted
			j.attempted++
		}
		j.open = 0
	case record.JobCompleted:
		f.answered(j, at)
	case record.JobFailed:
		if is.Response == "" || is.Was != "" { // the authority ended it
			j.open = 0
			return
		}
		f.answered(j, at)
	case record.VerificationPassed, record.VerificationFailed:
		j.verified, j.passed = true, kind == record.VerificationPassed
		j.provider = cmp.Or(is.ProviderID, j.provider)
	case record.PaymentReleased:
		j.isReleased, j.released = true, is.AmountMsats
	case record.CapsEnforced:
		j.caps, j.observed, j.within = is.Caps, is.Observed, is.Within == nil || *is.Within
	}
}

func (f *fold) dispatched(j *jobFold, is facts, at int64) {
	j.attempted++
	j.open, j.provider = at, is.ProviderID
	if is.Eligible == nil {
		f.silent = true
		return
	}
	f.counted, f.breadth = true, max(f.breadth, *is.Eligible)
}

// answered closes the present dispatch. A result without a dispatch before it
// is no answer to anything.
func (f *fold) answered(j *jobFold, at int64) {
	if j.open == 0 {
		return
	}
	j.filled++
	j.answered = true
	f.latencies = append(f.latencies, max(0, at-j.open))
	j.open = 0
}
