package panel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
)

// nexusRunPage is a run as the nexus knows it: what its client has sent, or its
// bundle says, and what the nexus itself has written.
type nexusRunPage struct {
	*runPage
	Run      api.Run
	Source   string
	Events   []api.Event // but entries of the journal, which the timeline has
	Jobs     []api.Job
	Receipts []receipt
	Form     bool   // the page for new runs has made it
	Later    string // where the log goes on, which is too long for one page
	Gone     string // why there is no log
	Given    []api.GivenOutcome
	MayDo    bool // the viewer may say what becomes of the result
	MayTake  bool // it may be accepted
}

// receipt is one of the authority, as the log has it.
type receipt struct {
	record.Receipt
	At string
}

// Bounds of what one page reads of a log.
const (
	maxLogEvents = 6000
	maxLogBytes  = 16 << 20
	logPart      = 250
	maxLogShown  = 250 // entries that are no part of the journal
)

func (p *Panel) nexusRun(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	id := r.PathValue("id")
	got, err := api.GetRun.Get(r.Context(), v.client, id)
	if err != nil {
		return nil, err
	}
	s := &Session{Summary: OfRun(got)}
	d := &nexusRunPage{runPage: &runPage{Session: s, Now: p.opt.Clock()}, Run: got}
	switch {
	case got.Summary == nil:
		d.Source = "no client has reported what this run does"
	case s.Nexus.Told:
		d.Source = "as its client reported; no bundle confirms it"
	default:
		d.Source = "from its sealed bundle"
	}
	if got.ForgottenAt != nil {
		d.Gone = "The log was kept until " + *got.ForgottenAt + ". What the summary says stays."
	} else if err := d.log(r.Context(), v.client, r.URL.Query().Get("cursor")); err != nil {
		return nil, err
	}
	if d.FromBundle = len(d.Journal) == 0 && got.Summary != nil && !s.Nexus.Told; d.FromBundle {
		if d.Journal, err = sealedEntries(r.Context(), v.client, id); err != nil {
			return nil, err
		}
	}
	dispatched, err := api.ListJobs.Get(r.Context(), v.client, api.ListJobsParams{RunID: id})
	if err != nil {
		return nil, err
	}
	d.Jobs, d.Form = dispatched.Items, got.Metadata[jobs.MetadataForm] != ""
	d.Given = api.Value(got.Outcomes)
	d.MayDo = v.MayDo(authority.ScopeRuns) && s.Phase == Sealed && got.FinishedAt != nil && api.Value(got.Outcome) == ""
	d.MayTake = d.MayDo && s.Status == evidence.StatusPass && !s.Nexus.Told
	d.read()
	d.Commands = []command{{Line: "remit runs show " + id}, {Line: "remit runs receipts " + id}}
	d.summarised()
	d.Timeline = timelineOf(s, d.Now)
	d.Sentence = d.sentence()
	live := ""
	if v.CSRF != "" && got.FinishedAt == nil {
		live = "lane:" + authority.RunStream(id)
	}
	return &page{name: "nexusrun", Live: live, Seq: got.LastSeq, Title: s.Word() + ": " + s.Title, Nav: "runs", Replay: true, Data: d}, nil
}

// log reads the log from a cursor on: entries of the journal, receipts, and the rest.
func (d *nexusRunPage) log(ctx context.Context, c *api.Client, cursor string) error {
	limit, events, size := logPart, 0, 0
	for {
		got, err := api.ListEvents.Get(ctx, c, api.ListEventsParams{RunID: d.Run.RunID, Cursor: api.Optional(cursor), Limit: &limit})
		if err != nil {
			return err
		}
		for _, e := range got.Items {
			events, size = events+1, size+len(e.Payload)
			d.event(e)
		}
		if got.NextCursor == nil {
			return nil
		}
		cursor = *got.NextCursor
		if events >= maxLogEvents || size >= maxLogBytes || len(d.Events) >= maxLogShown {
			d.Later = withQuery("/nexus/runs/"+url.PathEscape(d.Run.RunID), "cursor", cursor)
			return nil
		}
	}
}

// maxSealedJournal bounds the journal of a bundle that a page reads.
const maxSealedJournal = 16 << 20

// sealedEntries are those of the journal in a run's bundle; none where that cannot be
// read, or is too long for a page.
func sealedEntries(ctx context.Context, c *api.Client, run string) ([]journal.Entry, error) {
	body, err := api.GetRunBundleJournal.Open(ctx, c, run)
	if code := reason.CodeOf(err); code == reason.NotFound || code == reason.Conflict {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(body, maxSealedJournal+1))
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, fmt.Errorf("read the journal of the bundle: %w", err)
	}
	if len(text) > maxSealedJournal {
		return nil, nil
	}
	log, err := journal.Read(bytes.NewReader(text))
	return log.Entries, err
}

// event takes one event to where the page shows it.
func (d *nexusRunPage) event(e api.Event) {
	switch e.EventType {
	case jobs.EventJournal:
		var t jobs.ToldEntry
		decode(e.Payload, &t)
		d.Journal = append(d.Journal, journal.Entry{V: journal.Version, Seq: t.Seq, SessionID: t.SessionID, StepID: t.StepID, Name: t.Name,
			Status: t.Status, StartedAt: t.StartedAt, CompletedAt: t.CompletedAt, Inputs: t.Inputs, Outputs: t.Outputs, PrevHash: t.PrevHash,
			EntryHash: t.EntryHash})
		return
	case authority.EventReceipt:
		one := receipt{At: e.RecordedAt}
		decode(e.Payload, &one.Receipt)
		d.Receipts = append(d.Receipts, one)
	}
	d.Events = append(d.Events, e)
}

// summarised adds what a summary says and the journal that was sent does not.
func (d *nexusRunPage) summarised() {
	for _, e := range d.Journal {
		switch e.Name {
		case evidence.StepRunOpened:
			var o evidence.RunOpened
			decode(e.Inputs, &o)
			d.Summary.Contract = o.ContractSHA256
		case evidence.StepRunCompleted:
			var end evidence.RunCompleted
			decode(e.Outputs, &end)
			for _, b := range end.Blockers {
				d.Blockers = append(d.Blockers, shownBlocker(b))
			}
		}
	}
	var told evidence.RunSummary
	if d.Run.Summary != nil {
		decode(*d.Run.Summary, &told)
	}
	if told.Blocker != nil && len(d.Blockers) == 0 {
		d.Blockers = []blocker{shownBlocker(*told.Blocker)}
	}
	if d.Run.Summary == nil {
		d.Blockers = append(d.Blockers, d.refusedJobs()...)
	}
	if told.Changed == nil {
		return
	}
	for i, f := range told.Changed.List {
		op := map[string]string{"modify": "changed"}[f.Op]
		if op == "" {
			op = f.Op
		}
		d.Files = append(d.Files, diffFile{Index: i, Path: f.Path, Op: op, Added: f.Added, Removed: f.Removed, Binary: f.Binary})
	}
	d.annotate(d.Files)
	d.FilesMore = d.ChangedMore
}

// refusedJobs say why jobs of a run ended that has no bundle: what a machine refused, or
// the nexus itself.
func (d *nexusRunPage) refusedJobs() (out []blocker) {
	for _, r := range d.Receipts {
		var said struct {
			Reason reason.Code `json:"reason"`
			JobID  string      `json:"job_id"`
		}
		if r.Type != record.JobFailed && r.Type != record.JobRejected {
			continue
		}
		if decode(r.Payload, &said); said.Reason == "" {
			continue
		}
		info, _ := reason.Lookup(said.Reason)
		out = append(out, shownBlocker(evidence.Blocker{Code: said.Reason,
			Message: cmp.Or(info.Description, "the job ended without a bundle"), Evidence: r.Type + " of job " + said.JobID}))
	}
	return out
}

// shownBlocker has the hint of the registry where the run gave none.
func shownBlocker(b evidence.Blocker) blocker {
	info, _ := reason.Lookup(b.Code)
	hint := b.Hint
	if hint == "" {
		hint = info.Hint
	}
	return blocker{string(b.Code), b.Message, b.Evidence, hint}
}
