package server

import (
	"errors"
	"math"
	"net/http"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/proof/record"
)

func jobRoutes() []route {
	return []route{
		query(api.ListJobs, listJobs),
		ensure(api.DispatchJob, dispatchJob),
		mutation(api.LeaseJobs, leaseJobs),
		query(api.ListLeases, listLeases),
		query(api.GetJob, getJob),
		briefly(mutation(api.RenewLease, renewLease)),
		mutation(api.ReleaseLease, releaseLease),
		briefly(mutation(api.AppendLog, appendLog)),
		{Operation: api.CompleteJob.Operation, special: (*Server).completeJob},
		mutation(api.CancelJob, cancelJob),
		mutation(api.SettleJob, settleJob),
	}
}

// maxWait bounds how long a dispatch waits for a provider, in seconds: a request has
// to be answered before its time is over.
const maxWait = 20

// dispatchJob has three answers: a new job, the job that the run has had before,
// and a refusal that is recorded in the run's log.
func dispatchJob(tx *store.Tx, r *request, body api.DispatchRequest) (answer, error) {
	if err := agree(r, body.Owner); err != nil {
		return answer{}, err
	}
	if err := errors.Join(within("wait_secs", body.WaitSecs, 0, maxWait), within("max_price_msats", body.MaxPriceMsats, 1, math.MaxInt64),
		short("provider_id", body.ProviderID, maxID)); err != nil {
		return answer{}, err
	}
	d, err := jobs.Dispatch(tx, r.caller.Principal, r.PathValue("run_id"), jobs.DispatchRequest{
		JobType: body.JobType, Request: body.Request, MaxPriceMsats: api.Value(body.MaxPriceMsats),
		ProviderID: api.Value(body.ProviderID), Key: r.Header.Get(api.HeaderKey)})
	switch {
	case err != nil:
		return answer{}, err
	case d.Rejected != nil && d.Rejected.Code == reason.NoProvider && r.waited < time.Duration(api.Value(body.WaitSecs))*time.Second:
		return answer{}, errNotYet
	case d.Rejected != nil:
		return answer{refused: d.Rejected}, nil //nolint:nilerr // the refusal is recorded: the command commits
	}
	return answer{existed: !d.Created, value: jobOf(d.Job), etag: etag(d.Job.Revision), location: "/v1/jobs/" + d.Job.ID}, nil
}

func listJobs(tx *store.Tx, r *request) (answer, error) {
	p, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	list, err := jobs.List(tx, r.caller.Principal, r.PathValue("run_id"), p.after, p.limit)
	if err != nil {
		return answer{}, err
	}
	out := api.JobPage{
		Items: itemsOf(list, jobOf), NextCursor: p.next(len(list), func() string { return list[len(list)-1].ID })}
	return answer{value: out}, nil
}

func getJob(tx *store.Tx, r *request) (answer, error) {
	return jobAnswer(jobs.Find(tx, r.caller.Principal, r.PathValue("job_id")))
}

func leaseJobs(tx *store.Tx, r *request, body api.LeaseRequest) (answer, error) {
	most := api.Value(body.Max)
	if err := within("max", body.Max, 1, jobs.MaxLeases); err != nil {
		return answer{}, err
	}
	ttl, err := seconds(body.TTLSeconds)
	if err != nil {
		return answer{}, err
	}
	list, err := jobs.TakeLeases(tx, r.caller.Principal, jobs.LeaseRequest{Max: int(most), TTL: ttl, JobID: api.Value(body.JobID)})
	if err != nil {
		return answer{}, err
	}
	// An empty answer holds nothing that could be lost with it.
	return answer{value: api.LeaseList{Leases: itemsOf(list, leaseOf)}, brief: len(list) == 0}, nil
}

func listLeases(tx *store.Tx, r *request) (answer, error) {
	list, err := jobs.Held(tx, r.caller.Principal)
	return answer{value: api.LeaseList{Leases: itemsOf(list, leaseOf)}}, err
}

func renewLease(tx *store.Tx, r *request, body api.RenewRequest) (answer, error) {
	ttl, err := seconds(body.TTLSeconds)
	if err != nil {
		return answer{}, err
	}
	l, err := jobs.Renew(tx, r.caller.Principal, r.PathValue("job_id"), jobs.RenewRequest{Fence: body.Fence, TTL: ttl})
	if err != nil {
		return answer{}, err
	}
	return answer{value: leaseOf(l)}, nil
}

func releaseLease(tx *store.Tx, r *request, body api.ReleaseRequest) (answer, error) {
	return jobAnswer(jobs.Release(tx, r.caller.Principal, r.PathValue("job_id"), body.Fence))
}

// seconds reads a duration; the bounds of a lease are for jobs to check.
func seconds(n *int64) (time.Duration, error) {
	const most = 24 * 3600
	return time.Duration(api.Value(n)) * time.Second, within("ttl_seconds", n, 1, most)
}

func appendLog(tx *store.Tx, r *request, body api.LogRequest) (answer, error) {
	length, err := jobs.AppendLog(tx, r.caller.Principal, r.PathValue("job_id"), jobs.LogRequest{
		Fence: body.Fence, Stream: string(body.Stream), Offset: body.Offset, Text: body.Text})
	if err != nil {
		return answer{}, err
	}
	return answer{value: api.LogAppended{JobID: r.PathValue("job_id"), Length: length}}, nil
}

// completeJob takes the response of a job. The bundle of an engine that worked for a
// run without a client is the run's: what it says is read before the command, outside
// of any transaction.
func (s *Server) completeJob(w http.ResponseWriter, r *request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	if err := readBody(w, r, api.MaxBody); err != nil {
		return err
	}
	var asked api.CompleteRequest
	var sealed *sealedAgain
	if r.json(&asked) == nil { // else the command says what is wrong with it
		var err error
		if sealed, err = s.bundleOfJob(r, asked); err != nil {
			return err
		}
	}
	return s.commit(w, r, withBody(func(tx *store.Tx, r *request, body api.CompleteRequest) (answer, error) {
		j, err := jobs.Complete(tx, r.caller.Principal, r.PathValue("job_id"), jobs.CompleteRequest{Fence: body.Fence, Response: body.Response})
		if err == nil && sealed != nil && j.State == string(jobs.Submitted) {
			err = sealed.record(tx, authority.Sweeper(), j.RunID)
		}
		return jobAnswer(j, err)
	}), nil)
}

// bundleOfJob reads the bundle that a response announces. It is nil where the run has a
// client, who hands in its own, or a bundle already; where the response is not one that
// the authority would believe; and where the bundle is about another contract or commit.
func (s *Server) bundleOfJob(r *request, asked api.CompleteRequest) (*sealedAgain, error) {
	if given, err := job.ParseEngineRunResponse(asked.Response); err != nil || given.BundleSHA256 == "" {
		return nil, nil //nolint:nilerr // the command says what is wrong with it
	}
	var found *jobs.JobBundle
	err := s.opt.Store.View(r.Context(), func(tx *store.Tx) (err error) {
		id := r.PathValue("job_id")
		if jobs.MayUpload(tx, r.caller.Principal, id, asked.Fence) != nil {
			return nil //nolint:nilerr // the command says so
		}
		found, err = jobs.BundleOfResponse(tx, id, asked.Response)
		return err
	})
	if err != nil || found == nil {
		return nil, err
	}
	_, entries, err := s.bundleJournal(r.Context(), found.SHA256)
	if err != nil {
		return nil, s.unreadable(r, err)
	}
	summary, err := evidence.SummaryOf(entries)
	if err != nil {
		return nil, s.unreadable(r, err)
	}
	opened, err := evidence.OpenedOf(entries)
	if err != nil || opened.ContractSHA256 != found.Contract || string(summary.BaselineCommit) != found.Commit {
		return nil, s.unreadable(r, errors.New("it is about another contract or commit"))
	}
	return &sealedAgain{found.RunArtifactRequest, &jobs.Derived{Summary: summary}}, nil
}

// unreadable logs why the bundle of a job does not become that of its run. It stays an
// artifact of the job; only what is no fault of the bundle refuses the response.
func (s *Server) unreadable(r *request, err error) error {
	if reason.CodeOf(err) == reason.StoreUnavailable || r.Context().Err() != nil {
		return err
	}
	s.opt.Log.Warn("bundle of a job", "request_id", r.id, "job", r.PathValue("job_id"), "error", err)
	return nil
}

func settleJob(tx *store.Tx, r *request, _ api.None) (answer, error) {
	if err := refuseBody(r); err != nil {
		return answer{}, err
	}
	s, _, err := jobs.Settle(tx, r.caller.Principal, r.PathValue("job_id"))
	if err != nil {
		return answer{}, err
	}
	return answer{value: api.Settlement{
		JobID: s.JobID, JobHash: s.JobHash, RunID: s.RunID, ProviderID: s.ProviderID, ReservationID: s.ReservationID, AmountMsats: s.ReservedMsats,
		Outcome: string(s.Outcome), VerificationPassed: s.Passed, ExitCode: int64(s.ExitCode), Violations: itemsOf(s.Violations, violationOf),
		SettlementStatus: api.SettlementSettlementStatus(s.Status), SettlementRoute: record.Route, Reason: api.Optional(s.Reason),
		VerificationReceiptSha256: s.VerificationReceiptSHA256, Verifier: job.VerifierVersion,
	}}, nil
}

func violationOf(v record.Violation) api.Violation {
	return api.Violation{Code: v.Code, Detail: v.Detail, Provider: v.Provider}
}

// refuseBody refuses a body that would be ignored.
func refuseBody(r *request) error {
	if len(r.body) > 0 {
		return r.json(&struct{}{})
	}
	return nil
}

func jobAnswer(j jobs.Job, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return answer{value: jobOf(j), etag: etag(j.Revision)}, nil
}

func leaseOf(l jobs.Lease) api.Lease {
	out := api.Lease{Job: jobOf(l.Job), Fence: l.Fence, LeaseUntil: api.TimeOf(l.LeaseUntil), RenewEveryMs: l.RenewEvery.Milliseconds()}
	if c := l.Caps; c != nil {
		out.Caps = &api.GrantedCaps{CPUMillis: c.CPUMillis, MemoryMb: c.MemoryMB, DiskMb: c.DiskMB, Pids: c.Pids, TimeoutSecs: c.TimeoutSecs,
			Network: api.GrantedCapsNetwork(c.Network)}
	}
	return out
}

func jobOf(j jobs.Job) api.Job {
	out := api.Job{
		JobID: j.ID, RunID: j.RunID, Owner: j.Owner, JobType: j.Type, JobHash: j.Hash, State: api.JobState(j.State), Reason: api.Optional(j.Reason),
		Attempt: j.Attempt, ProviderID: j.ProviderID, Tier: j.Tier, FallbackFrom: api.Optional(j.FallbackFrom), AmountMsats: j.AmountMsats,
		ReservationID: j.ReservationID, Request: j.Request, ResponseSha256: api.Optional(j.ResponseSHA256), Outcome: api.Optional(j.Outcome),
		Payment: api.Optional(j.Payment), Fence: j.Fence, OfferUntil: api.OptionalTime(j.OfferUntil), LeaseUntil: api.OptionalTime(j.LeaseUntil),
		DeadlineAt: api.OptionalTime(j.DeadlineAt), DispatchedAt: api.TimeOf(j.DispatchedAt), LeasedAt: api.OptionalTime(j.LeasedAt),
		SubmittedAt: api.OptionalTime(j.SubmittedAt), ClosedAt: api.OptionalTime(j.ClosedAt), Revision: j.Revision,
	}
	if len(j.Response) > 0 {
		out.Response = &j.Response
	}
	if j.Outcome != "" {
		out.ExitCode = &j.ExitCode
	}
	return out
}

func cancelJob(tx *store.Tx, r *request, body api.ReasonRequest) (answer, error) {
	if _, err := reasonOf(body); err != nil {
		return answer{}, err
	}
	return jobAnswer(jobs.Cancel(tx, r.caller.Principal, r.PathValue("job_id")))
}
