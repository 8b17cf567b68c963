package server

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/lanes"
	"remit/nexus/store"
	"remit/proof/reason"
)

func runRoutes() []route {
	return []route{
		mutation(api.ClaimIssue, claimIssue),
		query(api.ListRuns, listRuns),
		mutation(api.CreateRun, createRun),
		query(api.GetRun, getRun),
		query(api.ListEvents, listEvents),
		ensure(api.AppendEvent, appendEvent),
		briefly(mutation(api.TellJournal, tellJournal)),
		query(api.ListReceipts, listReceipts),
		mutation(api.FinishRun, finishRun),
		mutation(api.CancelRun, cancelRun),
		{Operation: api.RecordOutcome.Operation, special: (*Server).recordOutcome},
	}
}

func claimIssue(tx *store.Tx, r *request, body api.ClaimRequest) (answer, error) {
	if err := agree(r, body.Owner); err != nil {
		return answer{}, err
	}
	c, err := jobs.ClaimIssue(tx, r.caller.Principal, jobs.ClaimRequest{RepoRef: body.RepoRef, IssueRef: body.IssueRef})
	if err != nil {
		return answer{}, err
	}
	return answer{value: api.Claim{ClaimID: c.ID, IssueRef: c.IssueID, RepoRef: c.RepoRef, ClaimIdentity: c.Identity,
		CreatedAt: api.TimeOf(c.ClaimedAt), ExpiresAt: api.TimeOf(c.ExpiresAt), RunID: api.Optional(c.RunID)}}, nil
}

func createRun(tx *store.Tx, r *request, body api.RunRequest) (answer, error) {
	if err := agree(r, body.Owner); err != nil {
		return answer{}, err
	}
	ask := jobs.RunRequest{RepoRef: body.RepoRef, IssueRef: api.Value(body.IssueRef), PolicyBundleID: api.Value(body.PolicyBundleID),
		Metadata: api.Value(body.Metadata), Summary: documentOf(body.Summary),
		Key: r.Header.Get(api.HeaderKey), Silence: time.Duration(api.Value(body.SilenceSecs)) * time.Second}
	if p := body.Proof; p != nil {
		ask.Proof = &jobs.ProofRequest{MaxPriceMsats: api.Value(p.MaxPriceMsats),
			Needs: job.Needs{Capability: job.SandboxRun, NetworkPolicy: job.NetworkNone,
				CPUMillis: api.Value(p.CPUMillis), MemoryMB: api.Value(p.MemoryMb), DiskMB: api.Value(p.DiskMb), TimeoutSecs: api.Value(p.TimeoutSecs)}}
	}
	run, err := jobs.CreateRun(tx, r.caller.Principal, ask)
	if reason.CodeOf(err) == reason.NoProvider || reason.CodeOf(err) == reason.ProviderDisabled {
		return answer{}, &unstored{err} // a provider may come in a moment
	}
	a, err := runAnswer(tx, run, err)
	a.location = "/v1/runs/" + run.ID
	return a, err
}

func getRun(tx *store.Tx, r *request) (answer, error) {
	run, err := jobs.FindRun(tx, r.caller.Principal, r.PathValue("run_id"))
	a, err := runAnswer(tx, run, err)
	if err != nil || run.Outcome == "" {
		return a, err
	}
	given, err := tx.Outcomes(run.ID)
	if value, ok := a.value.(api.Run); ok {
		list := itemsOf(given, func(o store.OutcomeRow) api.GivenOutcome {
			return api.GivenOutcome{Kind: o.Kind, Note: o.Note, Principal: o.Principal, RecordedAt: api.TimeOf(o.RecordedAt)}
		})
		value.Outcomes = &list
		a.value = value
	}
	return a, err
}

func runAnswer(tx *store.Tx, run jobs.Run, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	summed, err := tx.SummedRun(run.ID)
	if err != nil {
		return answer{}, err
	}
	value, err := runOf(summed)
	return answer{value: value, etag: etag(value.LastSeq)}, err
}

func runOf(run jobs.SummedRun) (api.Run, error) {
	out := api.Run{
		RunID: run.ID, Owner: run.Owner, Status: api.RunStatus(run.State), RepoRef: run.RepoRef, IssueRef: run.IssueRef,
		PolicyBundleID: run.PolicyBundleID, Metadata: map[string]string{}, LastSeq: run.LastSeq, CreatedBy: api.Optional(run.CreatedBy),
		CreatedAt: api.TimeOf(run.CreatedAt), StartedAt: api.OptionalTime(run.StartedAt), FinishedAt: api.OptionalTime(run.FinishedAt),
		ForgottenAt: api.OptionalTime(run.ForgottenAt), Outcome: api.Optional(run.Outcome),
	}
	if run.JournalEntries > 0 {
		out.Journal = new(journalCursor(run.RunRow))
	}
	if s := run.Summary; s.Body != "" {
		out.Summary, out.SummarySource = new(api.RunSummary(s.Body)), new(api.RunSummarySource(s.Source))
		out.SummaryAt, out.Findings = api.OptionalTime(s.UpdatedAt), &[]api.RunFinding{}
		if err := json.Unmarshal([]byte(s.Findings), out.Findings); err != nil {
			return api.Run{}, fmt.Errorf("reading the findings of run %s: %w", run.ID, err)
		}
	}
	return out, json.Unmarshal(run.Metadata, &out.Metadata)
}

// cancelRun asks a run to end; its open jobs are cancelled with it.
func cancelRun(tx *store.Tx, r *request, body api.ReasonRequest) (answer, error) {
	why, err := reasonOf(body)
	if err != nil {
		return answer{}, err
	}
	run, err := jobs.CancelRun(tx, r.caller.Principal, r.PathValue("run_id"), why)
	return runAnswer(tx, run, err)
}

func finishRun(tx *store.Tx, r *request, body api.FinishRequest) (answer, error) {
	if err := short("reason", body.Reason, maxReason); err != nil {
		return answer{}, err
	}
	expected, err := ifMatch(r)
	if err != nil {
		return answer{}, err
	}
	run, err := jobs.FinishRun(tx, r.caller.Principal, r.PathValue("run_id"), jobs.FinishRequest{
		Status: jobs.RunState(body.Status), Reason: api.Value(body.Reason), ExpectedSeq: expected})
	return runAnswer(tx, run, err)
}

func listEvents(tx *store.Tx, r *request) (answer, error) {
	events, p, head, err := eventsOf(tx, r)
	if err != nil {
		return answer{}, err
	}
	out := api.EventPage{HeadSeq: head,
		Items: itemsOf(events, lanes.EventOf), NextCursor: p.next(len(events), lastSeq(events))}
	return answer{value: out}, nil
}

// listReceipts pages through the log; a page holds the receipts among its events.
func listReceipts(tx *store.Tx, r *request) (answer, error) {
	events, p, _, err := eventsOf(tx, r)
	if err != nil {
		return answer{}, err
	}
	out := api.ReceiptPage{Items: []api.Receipt{}, NextCursor: p.next(len(events), lastSeq(events))}
	for _, e := range events {
		if rc, ok := authority.ReadReceipt(e); ok {
			out.Items = append(out.Items, api.Receipt{Seq: e.Seq, ReceiptType: rc.Type, Payload: rc.Payload, Principal: rc.Principal,
				IdempotencyKey: rc.Key, RecordedAt: api.TimeOf(e.RecordedAt), ReceiptSha256: rc.SHA256})
		}
	}
	return answer{value: out}, nil
}

func eventsOf(tx *store.Tx, r *request) (events []store.Event, p page, head int64, err error) {
	if p, err = pageOf(r); err != nil {
		return nil, p, 0, err
	}
	after, err := p.seq()
	if err != nil {
		return nil, p, 0, err
	}
	run, err := jobs.FindRun(tx, r.caller.Principal, r.PathValue("run_id"))
	if err != nil {
		return nil, p, 0, err
	}
	if err := remembered(run); err != nil {
		return nil, p, 0, err
	}
	stream := authority.RunStream(run.ID)
	if head, _, err = tx.Head(stream); err != nil {
		return nil, p, 0, err
	}
	events, err = tx.Events(stream, after, p.limit)
	return events, p, head, err
}

func lastSeq(events []store.Event) func() string {
	return func() string { return strconv.FormatInt(events[len(events)-1].Seq, 10) }
}

// appendEvent writes what a client may write. The key of the event is the
// request's, unless the client has a better name for it.
func appendEvent(tx *store.Tx, r *request, body api.EventRequest) (answer, error) {
	key := api.Value(body.EventKey)
	if key == "" {
		key = r.Header.Get(api.HeaderKey)
	}
	e, created, err := jobs.AppendEvent(tx, r.caller.Principal, r.PathValue("run_id"), jobs.EventRequest{
		Type: body.EventType, Payload: body.Payload, Key: key, ExpectedPreviousSeq: body.ExpectedPreviousSeq})
	if err != nil {
		return answer{}, err
	}
	return answer{existed: !created, value: lanes.EventOf(e)}, nil
}
