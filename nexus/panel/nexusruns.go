package panel

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"remit/nexus/api"
	"remit/nexus/jobs"
	"remit/proof/evidence"
)

// NexusFacts are what a nexus says of a run besides its summary.
type NexusFacts struct {
	RunID    string
	Session  string            // on the machine of its client, "" where that did not say
	Told     bool              // the summary is its client's word; no bundle is there yet
	Unknown  map[string]string // why a field of the summary is null
	Program  bool              // the engine is a command, which the evidence has no name of
	Findings []api.RunFinding  // where its client and the bundle differ
}

// OfRun is a run of the nexus as a list shows it.
func OfRun(run api.Run) Summary {
	n := &NexusFacts{RunID: run.RunID, Session: run.Metadata["session_id"], Findings: api.Value(run.Findings), Unknown: map[string]string{},
		Told: run.SummarySource == nil || *run.SummarySource == api.RunSummarySourceTold}
	s := Summary{ID: run.RunID, Phase: Sealed, Status: string(run.Status), Title: cmp.Or(run.IssueRef, "Run "+run.RunID),
		Repository: jobs.RepositoryName(run.RepoRef), Started: instant(run.CreatedAt), Ended: instant(api.Value(run.FinishedAt)),
		Outcome: api.Value(run.Outcome), Nexus: n}
	switch run.Status {
	case api.RunStatusSucceeded, api.RunStatusFailed, api.RunStatusCanceled:
	default:
		s.Phase, s.Status = Running, Running
	}
	if run.Summary == nil {
		for _, name := range []string{"changed", "tests", "cost_micro_usd", "engine"} {
			n.Unknown[name] = "the client did not report it"
		}
		s.named(run.Metadata)
		return s
	}
	s.Contract = run.Metadata["contract_sha256"]
	var told evidence.RunSummary
	decode(*run.Summary, &told) // it was checked when it came
	n.Unknown = told.Unknown
	s.take(&told)
	n.Program = s.Program()
	s.Engine = jobs.EngineAsked(run.Metadata, s.Engine)
	if told.Status != nil { // the run has ended, also where its end has not come yet
		s.Phase, s.Status = Sealed, *told.Status
	}
	if s.Outcome == evidence.Pending {
		s.Outcome = ""
	}
	return s
}

// named fills in what the creator of a run said of it, until the client reports more.
func (s *Summary) named(said map[string]string) {
	s.Title, s.Task, s.Contract, s.Base = cmp.Or(said["title"], s.Title), said["task_id"], said["contract_sha256"], said["baseline_commit"]
	if s.Engine, s.Model = said["engine"], said["model"]; s.Engine != "" {
		delete(s.Nexus.Unknown, "engine")
	}
}

// nexusRuns lists the runs of the nexus that have all of the filter.
func (p *Panel) nexusRuns(r *http.Request, v *viewer, data *runsPage) error {
	f, limit := data.Filter, pageSize
	got, err := api.ListRuns.Get(r.Context(), v.client, api.ListRunsParams{Cursor: api.Optional(r.URL.Query().Get("cursor")), Limit: &limit,
		Status: api.Optional(f.State), Verdict: api.Optional(f.Status), Engine: api.Optional(f.Engine), Model: api.Optional(f.Model),
		RepoRef: api.Optional(f.Repository), Outcome: api.Optional(f.Outcome), Blocker: api.Optional(f.Code), Since: api.Optional(day(f.Since)),
		Until: api.Optional(day(f.Until)), Text: api.Optional(f.Text)})
	if err != nil {
		return fmt.Errorf("list the runs of the nexus: %w", err)
	}
	var list []Summary
	for _, run := range got.Items {
		list = append(list, OfRun(run))
	}
	data.Groups = groupsOf(list)
	data.nexusChoices(list)
	if got.NextCursor != nil {
		data.Next = withQuery(f.With("", ""), "cursor", *got.NextCursor)
	}
	return nil
}

// day makes a time of a date; a time stays what it is.
func day(text string) string {
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return at.Format(time.RFC3339)
	}
	return text
}

// nexusChoices are the filters that one can set: those of which the nexus knows all
// values, and the values that stand on this page.
func (d *runsPage) nexusChoices(list []Summary) {
	f := d.Filter
	every := f
	every.State = ""
	d.Statuses = []chip{{Name: "All", Href: every.With("status", ""), On: f.Status == "" && f.State == ""}}
	for _, c := range []chip{{Name: "Pass", Mark: "pass", Value: evidence.StatusPass}, {Name: "Fail", Mark: "fail", Value: evidence.StatusFail},
		{Name: "Blocked", Mark: "block", Value: evidence.StatusBlocked}} {
		c.Href, c.On = every.With("status", c.Value), f.Status == c.Value
		d.Statuses = append(d.Statuses, c)
	}
	fixed := func(name string, values ...string) {
		c := choice{Name: name}
		for _, value := range values {
			c.Values = append(c.Values, chip{Name: value, Href: f.With(name, value)})
		}
		d.Choices = append(d.Choices, c)
	}
	fixed("state", string(api.RunStatusRunning), string(api.RunStatusCreated), string(api.RunStatusCanceling),
		string(api.RunStatusSucceeded), string(api.RunStatusFailed), string(api.RunStatusCanceled))
	fixed("outcome", string(api.OutcomeRequestKindAccepted), string(api.OutcomeRequestKindRejected),
		string(api.OutcomeRequestKindReverted), string(api.OutcomeRequestKindFailing))
	for _, c := range []struct {
		name string
		of   func(Summary) string
	}{{"engine", func(s Summary) string { return s.Engine }}, {"model", func(s Summary) string { return s.Model }},
		{"code", func(s Summary) string { return s.Code }}, {"repository", func(s Summary) string { return s.Repository }}} {
		var values []string
		for _, s := range list {
			if value := c.of(s); value != "" {
				values = append(values, value)
			}
		}
		slices.Sort(values)
		if values = slices.Compact(values); len(values) > 1 {
			fixed(c.name, values[:min(len(values), maxChoices)]...)
		}
	}
}
