package requester

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/proof/record"
)

// cancelTime bounds the cancelling of a job that is given up.
const cancelTime = 15 * time.Second

// dispatchTime bounds a dispatch, retries included, besides what it waits for a
// provider.
const dispatchTime = time.Minute

// Prove has the change proved: the price is held and the job dispatched at
// once, a provider runs it, and the authority judges what it handed in. A proof
// that was not accepted is a settlement, too. An error means that there is no
// settlement; a job that was dispatched is then cancelled, or settled later by
// the authority itself.
func (q *Requester) Prove(ctx context.Context, p job.Proof) (s record.Settlement, receipts []record.Recorded, err error) {
	err = q.withNext(ctx, func(conn *Connection) error { // the end of the run comes next
		s, err = q.prove(ctx, conn, p)
		var late error
		receipts, late = q.receipts(context.WithoutCancel(ctx), conn)
		return cmp.Or(err, late)
	})
	return s, receipts, err
}

func (q *Requester) prove(ctx context.Context, conn *Connection, p job.Proof) (record.Settlement, error) {
	none := record.Settlement{RunID: q.run, Status: record.Withheld, Executed: executed(conn)}
	req, err := q.request(ctx, conn, p)
	if err != nil {
		if conn.Worker != nil && reason.CodeOf(err) == reason.JobInvalid {
			// What no job can say, such as a command of many kilobytes, was
			// verified all the same; only the books have nothing of it.
			none.Reason = string(reason.JobInvalid)
			return none, nil
		}
		return none, err
	}
	var j api.Job
	if err := q.retryUnreachable(ctx, conn, p, func() (err error) {
		j, err = q.dispatch(ctx, conn, req, p.MaxPriceMsats)
		return err
	}); err != nil {
		return none, err
	}
	if conn.Worker != nil {
		j, err = completeHere(ctx, conn, j, p.Here)
	} else {
		j, err = Await(ctx, conn, j, q.Patience)
	}
	if err != nil {
		q.abandon(ctx, conn, j.JobID)
		return none, err
	}
	s := none
	err = q.retryUnreachable(ctx, conn, p, func() (err error) {
		s, err = q.settle(ctx, conn, j)
		return err
	})
	return s, err
}

// executed says where a job on this connection runs its commands.
func executed(conn *Connection) string {
	if conn.Worker != nil {
		return record.ExecutedHere
	}
	return record.ExecutedElsewhere
}

// request completes the job's request: it says how a provider gets the tree.
func (q *Requester) request(ctx context.Context, conn *Connection, p job.Proof) (job.SandboxRunRequest, error) {
	req := p.Request
	req.Repo = job.Repo{Source: "git-tree:" + p.Tree}
	if conn.Worker == nil {
		// The cheap part of the check comes before the tree is packed.
		if _, err := req.Filled(); err != nil {
			return req, err
		}
		digest, commit, err := q.handOver(ctx, conn, p, "source.pack", p.Pack)
		if err != nil {
			return req, fmt.Errorf("handing over the patched tree: %w", err)
		}
		req.Repo.Source, req.Repo.GitRef = "artifact:"+digest, &commit
		if e := req.Environment; e != nil {
			digest, base, err := q.handOver(ctx, conn, p, "base.pack", p.PackBase)
			if err != nil {
				return req, fmt.Errorf("handing over the base: %w", err)
			}
			sent := *e
			sent.Base = job.Base{Source: "artifact:" + digest, GitRef: base}
			req.Environment = &sent
		}
	}
	return req.Filled()
}

// handOver stores a packed commit as an artifact of the run.
func (q *Requester) handOver(ctx context.Context, conn *Connection, p job.Proof, name string,
	write func(context.Context, io.Writer) (string, error)) (digest, commit string, err error) {
	pack, err := newBlob(func(w io.Writer) (err error) {
		commit, err = write(ctx, w)
		return err
	})
	if err != nil {
		return "", "", err
	}
	defer pack.remove()
	return pack.digest, commit, q.retryUnreachable(ctx, conn, p, func() error { return q.put(ctx, conn, name, pack) })
}

func (q *Requester) dispatch(ctx context.Context, conn *Connection, req job.SandboxRunRequest, most int64) (api.Job, error) {
	if ctx.Err() != nil {
		return api.Job{}, context.Cause(ctx)
	}
	ask := api.DispatchRequest{JobType: job.SandboxRun, Request: req.Canonical(), MaxPriceMsats: api.Optional(most)}
	var j api.Job
	key := q.key("dispatch:" + req.Hash())
	err := awaitProvider(ctx, q.Wait, q.Waiting, func(left time.Duration) error {
		ask.WaitSecs = waitSecs(left)
		// Once it is sent its answer is wanted in any case: a job whose id is unknown
		// could not be cancelled.
		sent, cancel := context.WithTimeout(context.WithoutCancel(ctx), dispatchTime)
		defer cancel()
		answer, err := api.DispatchJob.Do(sent, conn.Client, key, q.run, ask)
		j, key = answer.Value, api.NewKey() // the refusal is the answer to the key of before
		return err
	})
	if err != nil {
		return api.Job{}, fmt.Errorf("dispatching the proof: %w", err)
	}
	return j, nil // also when it was dispatched before
}

// completeHere acts for the provider in this process: it leases the job and hands
// in what the verifier has seen.
func completeHere(ctx context.Context, conn *Connection, j api.Job, seen job.SandboxRunResponse) (api.Job, error) {
	lease, err := leaseJob(ctx, conn, j)
	if err != nil {
		return j, fmt.Errorf("taking the job: %w", err)
	}
	if lease == nil { // an earlier life of this run has handed it in, or lost it
		now, err := api.GetJob.Get(ctx, conn.Client, j.JobID)
		if err != nil {
			return j, err
		}
		if now.State == api.JobStateQueued || now.State == api.JobStateLeased {
			return j, reason.Errorf(reason.Conflict, "job %s was not given to the provider of this process", j.JobID)
		}
		return now, nil
	}
	at := time.Now().Unix()
	seen.Provider, seen.Provenance.ExecutedAt = &conn.Provider, &at
	body, err := json.Marshal(seen)
	if err != nil {
		return j, fmt.Errorf("encoding the response: %w", err)
	}
	_, err = api.CompleteJob.Do(ctx, conn.Worker, derive(j.JobID, fmt.Sprint("complete", lease.Fence)), j.JobID,
		api.CompleteRequest{Fence: lease.Fence, Response: body})
	if err != nil {
		return j, fmt.Errorf("handing in the result: %w", err)
	}
	return j, nil
}

// leaseJob leases the job, or finds the lease that an earlier life had; nil when
// there is none to be had.
func leaseJob(ctx context.Context, conn *Connection, j api.Job) (*api.Lease, error) {
	taken, err := api.LeaseJobs.Do(ctx, conn.Worker, api.NewKey(), api.None{}, api.LeaseRequest{JobID: &j.JobID})
	if err != nil {
		return nil, err
	}
	if list := taken.Leases; len(list) == 1 {
		return &list[0], nil
	}
	held, err := api.ListLeases.Get(ctx, conn.Worker, api.None{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(held.Leases, func(l api.Lease) bool { return l.Job.JobID == j.JobID })
	if i < 0 {
		return nil, nil
	}
	return &held.Leases[i], nil
}

// settle has the response judged and the money moved, or reads how that ended.
func (q *Requester) settle(ctx context.Context, conn *Connection, j api.Job) (record.Settlement, error) {
	out := record.Settlement{RunID: q.run, JobID: j.JobID, JobHash: j.JobHash, ProviderID: j.ProviderID, ReservationID: j.ReservationID,
		Executed: executed(conn), Status: record.Withheld, ReservedMsats: j.AmountMsats, Reason: api.Value(j.Reason)}
	if j.State == api.JobStateFailed || j.State == api.JobStateCanceled || j.State == api.JobStateExpired {
		if out.Reason == "" {
			out.Reason = string(reason.VerificationFailed)
		}
		return out, nil
	}
	answer, err := api.SettleJob.Do(ctx, conn.Client, q.key("settle:"+j.JobID), j.JobID, api.None{})
	if err != nil {
		return out, fmt.Errorf("settling job %s: %w", j.JobID, err)
	}
	s := answer
	out.Passed, out.Status, out.Reason = s.VerificationPassed, string(s.SettlementStatus), api.Value(s.Reason)
	out.ProviderID, out.ReservationID, out.VerificationReceiptSHA256 = s.ProviderID, s.ReservationID, s.VerificationReceiptSha256
	if out.ReservedMsats = s.AmountMsats; out.Status == record.Released {
		out.SettledMsats = s.AmountMsats
	}
	return out, nil
}

// abandon cancels a job that is given up.
func (q *Requester) abandon(ctx context.Context, conn *Connection, jobID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	// A job that was handed in meanwhile is not cancelled but settled, by the
	// authority, when its time comes.
	_, _ = api.CancelJob.Do(ctx, conn.Client, q.key("cancel:"+jobID), jobID, api.ReasonRequest{})
}

// blob is content on its way, on disk because its digest comes first.
type blob struct {
	name   string
	digest string
	size   int64
}

func newBlob(write func(io.Writer) error) (*blob, error) {
	f, err := os.CreateTemp("", "remit-upload-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary file: %w", err)
	}
	b := &blob{name: f.Name()}
	sum := sha256.New()
	err = write(io.MultiWriter(f, sum))
	if err == nil {
		b.size, err = f.Seek(0, io.SeekEnd)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		b.remove()
		return nil, err
	}
	b.digest = canon.DigestSum(sum)
	return b, nil
}

func (b *blob) remove() { _ = os.Remove(b.name) }

// upload hands content over as an artifact of the run.
func (q *Requester) upload(ctx context.Context, conn *Connection, name string, write func(io.Writer) error) error {
	b, err := newBlob(write)
	if err != nil {
		return err
	}
	defer b.remove()
	return q.put(ctx, conn, name, b)
}

// put sends a blob; the client may send it again when the connection breaks.
func (q *Requester) put(ctx context.Context, conn *Connection, name string, b *blob) error {
	_, err := api.PutRunArtifact.Put(ctx, conn.Client, q.key("artifact:"+b.digest),
		api.PutRunArtifactParams{RunID: q.run, Digest: b.digest, Name: name},
		api.Content{Open: func() (io.ReadCloser, error) { return os.Open(b.name) }, Size: b.size})
	return err
}
