package panel

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"remit/law/job"
	"remit/law/task"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/registry"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// approvalsPage is what waits, and what was decided last.
type approvalsPage struct {
	Waiting []waiting
	Decided []api.Approval
	Older   string
	MayDo   bool
}

// waiting is an approval that is not decided, with what tells it from others.
type waiting struct {
	api.Approval
	Work *task.Contract // nil where it cannot be read
}

// withContract reads an approval with its contract, which a list leaves out.
func (v *viewer) withContract(ctx context.Context, id string) (waiting, error) {
	a, err := api.GetApproval.Get(ctx, v.client, id)
	if err != nil {
		return waiting{}, err
	}
	_, work, _ := contractOf(a)
	return waiting{a, work}, nil
}

func (p *Panel) approvals(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	params := api.ListApprovalsParams{}
	if c := r.URL.Query().Get("cursor"); c != "" {
		params.Cursor = &c
	}
	got, err := api.ListApprovals.Get(r.Context(), v.client, params)
	if err != nil {
		return nil, err
	}
	d := approvalsPage{MayDo: v.MayDo(authority.ScopeApprove)}
	for _, a := range got.Items {
		if a.Status != api.ApprovalStatusRequested {
			d.Decided = append(d.Decided, a)
			continue
		}
		one, err := v.withContract(r.Context(), a.ApprovalID)
		if err != nil {
			return nil, err
		}
		d.Waiting = append(d.Waiting, one)
	}
	if got.NextCursor != nil {
		d.Older = withQuery("/approvals", "cursor", *got.NextCursor)
	}
	return &page{name: "approvals", Title: "Approvals", Nav: "approvals", Data: d}, nil
}

// approvalPage is one packet. It is not executable: a decision starts nothing.
type approvalPage struct {
	api.Approval
	Work     *task.Contract
	Why      []string            // the rules by which a word is needed
	Packet   *job.ApprovalPacket // what is agreed to, and what may be done now
	Used     *Summary            // the run that has used it up
	Asked    string              // the page of the run that asked, "" where none is known
	Whole    string              // the contract as canonical JSON
	Unread   string              // why it cannot be shown, and so not be approved
	Open     bool
	MayDo    bool
	Execute  bool // a run may use it now
	Sentence string
}

func (p *Panel) approval(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	a, err := api.GetApproval.Get(r.Context(), v.client, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	d := approvalPage{Approval: a, Open: a.Status == api.ApprovalStatusRequested, Execute: a.Status == api.ApprovalStatusGranted}
	if err := p.asker(r, v, &d); err != nil {
		return nil, err
	}
	d.read()
	// What was not read whole cannot be approved; it may be denied.
	d.MayDo = d.Open && v.MayDo(authority.ScopeApprove)
	return &page{name: "approval", Title: "Approval for " + a.RepoRef, Nav: "approvals", Data: d}, nil
}

// contractOf is the contract of an approval, if it is the one that the packet names, and
// why it cannot be read, "" where it can.
func contractOf(a api.Approval) (raw json.RawMessage, work *task.Contract, unread string) {
	switch {
	case a.Contract == nil:
		return nil, nil, "The nexus did not send the contract."
	case canon.Digest(*a.Contract) != a.ContractSha256:
		return nil, nil, "The contract is not the one whose digest the packet has."
	}
	work, err := task.ParseCanonical("contract", *a.Contract)
	if err != nil {
		return *a.Contract, nil, "The contract does not obey its own rules: " + err.Error()
	}
	return *a.Contract, work, ""
}

// read takes the contract apart.
func (d *approvalPage) read() {
	d.Sentence = map[api.ApprovalStatus]string{
		api.ApprovalStatusRequested: "Waits for a word. Nothing runs until there is one.",
		api.ApprovalStatusGranted:   "Granted. The next run with this contract finds the word and uses it up.",
		api.ApprovalStatusDenied:    "Denied. No run may use it.",
		api.ApprovalStatusConsumed:  "Used up by a run. It lets nothing run any more.",
		api.ApprovalStatusExpired:   "It was not decided in time. It lets nothing run.",
	}[d.Status]
	raw, work, unread := contractOf(d.Approval)
	if d.Unread = unread; raw != nil {
		d.Whole = string(indented(raw))
	}
	if work == nil {
		return
	}
	d.Work, d.Why = work, work.ApprovalRules()
	packet := job.PacketOf(work, job.Approval{ID: d.ApprovalID, ContractSHA256: d.ContractSha256, Status: string(d.Status), ExpiresAt: d.ExpiresAt}, d.RepoRef, "",
		d.Approval.Binding.Work(), d.pass())
	d.Packet = &packet
}

// pass is the run that has used the approval up, if it passed.
func (d *approvalPage) pass() *job.PassEvidence {
	if d.Used == nil || d.Used.Status != evidence.StatusPass {
		return nil
	}
	return &job.PassEvidence{RunID: d.Used.ID, Report: evidence.ReportFile, Proof: "proofs/approval.json"}
}

// asker finds the run that asked, and the one that has used the approval up.
func (p *Panel) asker(r *http.Request, v *viewer, d *approvalPage) error {
	if id := api.Value(d.RunID); id != "" {
		run, err := api.GetRun.Get(r.Context(), v.client, id)
		if err != nil && reason.CodeOf(err) != reason.NotFound {
			return err
		}
		if err == nil {
			used := OfRun(run)
			d.Used = &used
		}
	}
	if d.Asker == nil || d.Asker.SessionID == "" {
		return nil
	}
	if v.home {
		if _, err := p.opt.Home.Session(r.Context(), d.Asker.SessionID); err == nil {
			d.Asked = (Summary{ID: d.Asker.SessionID}).Href()
			return nil
		}
	}
	f := filter{From: "nexus"}
	d.Asked = f.With("q", d.Asker.SessionID)
	return nil
}

// whyOf is the reason that a decision has.
func whyOf(r *http.Request) (string, error) {
	why := strings.Join(strings.Fields(r.PostForm.Get("reason")), " ")
	if why == "" {
		e := reason.Errorf(reason.RequestInvalid, "a decision has a reason: it goes into the receipt")
		e.Field = "reason"
		return "", e.WithHint("go back, and say why in a few words")
	}
	return why, nil
}

// conclude hands to the API what becomes of a run's result. The authority seals it
// into the bundle that it keeps, unless another decision came first.
func conclude(ctx context.Context, c *api.Client, r *http.Request) error {
	why, err := whyOf(r)
	if err != nil {
		return err
	}
	kind := api.OutcomeRequestKind(r.PostForm.Get("outcome"))
	_, err = api.RecordOutcome.Do(ctx, c, keyOf(r)+"-"+string(kind), r.PathValue("id"),
		api.OutcomeRequest{Kind: kind, Note: &why, Seal: new(true)})
	return err
}

func nexusRunHref(r *http.Request) string { return "/nexus/runs/" + url.PathEscape(r.PathValue("id")) }

// decide hands a decision to the API.
func decide(ctx context.Context, c *api.Client, r *http.Request) error {
	why, err := whyOf(r)
	if err != nil {
		return err
	}
	decision := api.ApprovalDecisionDecision(r.PostForm.Get("decision"))
	_, err = api.DecideApproval.Do(ctx, c, keyOf(r)+"-"+string(decision), r.PathValue("id"),
		api.ApprovalDecision{Decision: decision, Reason: &why})
	return err
}

func approvalHref(r *http.Request) string { return "/approvals/" + url.PathEscape(r.PathValue("id")) }

// fleetPage is the machines that may do jobs.
type fleetPage struct {
	Machines []machine
	Ready    int
	MayDo    bool
	Older    string
}

type machine struct {
	api.Provider
	Mark, Word string
	Heard      string // how long ago, "" for never
	Use        []use
	Seen       string // what its daemon says of itself, "" for nothing
	Offered    int64  // jobs
}

// use is how much of a cap is in use now.
type use struct {
	Name, Used, Of, W string
}

// late is when a machine is said to be late. A daemon says that it lives twice within
// the time after which it counts as silent, or more often: by then one such word is
// missing.
const late = registry.StaleAfter/2 + 5*time.Second

// machineOf is a machine as of now.
func machineOf(one api.Provider, now time.Time) machine {
	m := machine{Provider: one, Mark: "pass", Word: "Ready", Offered: api.Value(one.QueuedJobs)}
	heard := instant(api.Value(one.LastHeartbeatAt))
	age := max(0, now.Sub(heard))
	if !heard.IsZero() {
		m.Heard = took(age)
	}
	switch {
	case one.RetiredAt != nil:
		m.Mark, m.Word = "none", "Retired"
	case one.Quarantined:
		m.Mark, m.Word = "block", "Quarantined"
	case !one.Enabled:
		m.Mark, m.Word = "none", "Off"
	case one.Liveness != "fresh":
		m.Mark, m.Word = "block", "Silent"
	case age > late:
		m.Mark, m.Word = "block", "Late"
	}
	if c := one.Caps; c != nil && c.Concurrency > 0 {
		m.Use = append(m.Use, use{"jobs", thousands(one.LeasedJobs), thousands(c.Concurrency),
			fmt.Sprintf("%.1f%%", min(100, 100*float64(one.LeasedJobs)/float64(c.Concurrency)))})
	}
	if one.Observed != nil {
		m.Seen = clip(maxSaid, string(indented(*one.Observed)))
	}
	return m
}

// MachineWord is how a machine is, in the word of its page.
func MachineWord(one api.Provider, now time.Time) string { return machineOf(one, now).Word }

func (p *Panel) fleet(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	params := api.ListProvidersParams{}
	if c := r.URL.Query().Get("cursor"); c != "" {
		params.Cursor = &c
	}
	got, err := api.ListProviders.Get(r.Context(), v.client, params)
	if err != nil {
		return nil, err
	}
	d := fleetPage{MayDo: v.MayDo(authority.ScopeProviders)}
	for _, one := range got.Items {
		m := machineOf(one, p.opt.Clock())
		if m.Word == "Ready" || m.Word == "Late" { // which may be offered a job
			d.Ready++
		}
		d.Machines = append(d.Machines, m)
	}
	if got.NextCursor != nil {
		d.Older = withQuery("/fleet", "cursor", *got.NextCursor)
	}
	return &page{name: "fleet", Title: "Fleet", Nav: "fleet", Data: d}, nil
}

// turn switches a machine on or off, by the API.
func turn(ctx context.Context, c *api.Client, r *http.Request) error {
	id := r.PathValue("id")
	if r.PostForm.Get("to") == "on" {
		_, err := api.EnableProvider.Do(ctx, c, keyOf(r)+"-on", api.EnableProviderParams{ProviderID: id}, api.None{})
		return err
	}
	_, err := api.DisableProvider.Do(ctx, c, keyOf(r)+"-off", id,
		api.ReasonRequest{Reason: api.Optional(strings.TrimSpace(r.PostForm.Get("reason")))})
	return err
}

func (p *Panel) treasury(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	got, err := api.GetTreasurySummary.Get(r.Context(), v.client, api.GetTreasurySummaryParams{})
	if err != nil {
		return nil, err
	}
	models, err := spendingOf(r.Context(), v.client)
	if err != nil {
		return nil, err
	}
	return &page{name: "treasury", Title: "Treasury", Nav: "treasury", Data: treasuryPage{got, models}}, nil
}

type treasuryPage struct {
	api.TreasurySummary
	Models *spending
}
