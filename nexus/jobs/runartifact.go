package jobs

import (
	"errors"

	"remit/law/job"
	"remit/nexus/authority"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
)

// A run has artifacts of its own beside those that its jobs deliver: what the
// jobs are executed on, and the sealed bundle at the end. The owner writes
// them, the providers of the run read them. They are no part of the run's log,
// so they may come after its end.

// Names that the parts of the house give to artifacts of a run.
const (
	SourcePack = "source.pack"
	BundleZip  = job.BundleZip
)

// Limits of what an owner stores for a run.
const (
	MaxRunArtifacts     = job.MaxArtifacts
	MaxRunArtifactBytes = MaxArtifactBytes // of all artifacts of a run
)

// RunArtifactRequest records content that was received and whose digest the
// caller, a part of the authority, has computed itself.
type RunArtifactRequest struct {
	Name      string
	SHA256    string
	SizeBytes int64
}

// MayStore checks before content is read from the wire whether it would be
// recorded; SizeBytes is what is known of the size, 0 for nothing.
func MayStore(tx *store.Tx, p authority.Principal, runID string, r RunArtifactRequest) error {
	if err := p.Require(authority.ScopeRuns); err != nil {
		return err
	}
	if _, err := FindRun(tx, p, runID); err != nil {
		return err
	}
	return r.admit(tx, runID, false)
}

// PutRunArtifact records received content of a run.
func PutRunArtifact(tx *store.Tx, p authority.Principal, runID string, r RunArtifactRequest) (store.RunArtifactRow, error) {
	if err := p.Require(authority.ScopeRuns); err != nil {
		return store.RunArtifactRow{}, err
	}
	if _, err := lockRun(tx, p, runID); err != nil { // so that two at once do not both find room
		return store.RunArtifactRow{}, err
	}
	if err := r.admit(tx, runID, true); err != nil {
		return store.RunArtifactRow{}, err
	}
	err := tx.PutRunArtifact(store.RunArtifactRow{RunID: runID, Name: r.Name, SHA256: r.SHA256, SizeBytes: r.SizeBytes})
	if errors.Is(err, store.ErrConflict) {
		return store.RunArtifactRow{}, otherContent(r.Name)
	}
	if err != nil {
		return store.RunArtifactRow{}, err
	}
	return tx.RunArtifact(runID, r.Name)
}

// admit holds an artifact against what the run has. What it has already needs
// no room; sized says that the size is the true one.
func (r RunArtifactRequest) admit(tx *store.Tx, runID string, sized bool) error {
	switch {
	case !job.ArtifactName(r.Name):
		return invalid("name", "must be a clean relative path of at most %d bytes", maxArtifactName)
	case !canon.ValidDigest(r.SHA256):
		return invalid("digest", "is not sha256: and 64 lowercase hex digits")
	case r.SizeBytes < 0:
		return invalid("size_bytes", "is negative")
	}
	have, err := tx.RunArtifacts(runID, MaxRunArtifacts)
	if err != nil {
		return err
	}
	total := r.SizeBytes
	for _, a := range have {
		if a.Name == r.Name && (a.SHA256 != r.SHA256 || sized && a.SizeBytes != r.SizeBytes) {
			return otherContent(r.Name)
		}
		if a.Name == r.Name {
			return nil
		}
		total += a.SizeBytes
	}
	if len(have) >= MaxRunArtifacts || total > MaxRunArtifactBytes {
		return reason.Errorf(reason.RequestTooLarge, "a run has at most %d artifacts and %d bytes", MaxRunArtifacts, int64(MaxRunArtifactBytes))
	}
	return nil
}

func otherContent(name string) error {
	return reason.Errorf(reason.Conflict, "artifact %q was received with other content", name)
}

// FindRunArtifact reads the record of a run's artifact by its digest. A run
// shows what it has to its owner, and to a provider that has or had the lease
// of one of its jobs, also of another owner; to others it is not there.
func FindRunArtifact(tx *store.Tx, p authority.Principal, runID, digest string) (store.RunArtifactRow, error) {
	if err := mayReadArtifacts(tx, p, runID); err != nil {
		return store.RunArtifactRow{}, err
	}
	list, err := tx.RunArtifacts(runID, MaxRunArtifacts)
	if err != nil {
		return store.RunArtifactRow{}, err
	}
	for _, a := range list {
		if a.SHA256 == digest {
			return a, nil
		}
	}
	return store.RunArtifactRow{}, reason.Errorf(reason.NotFound, "the run has no artifact %.80q", digest)
}

func mayReadArtifacts(tx *store.Tx, p authority.Principal, runID string) error {
	if p.Kind != authority.Provider {
		_, err := FindRun(tx, p, runID)
		return err
	}
	leased, err := tx.HasLeased(runID, p.ProviderID())
	if err == nil && !leased {
		err = noRun(runID)
	}
	return err
}

// FindRunBundle reads the record of the run's bundle as it was sealed last.
func FindRunBundle(tx *store.Tx, p authority.Principal, runID string) (store.RunArtifactRow, error) {
	run, err := FindRun(tx, p, runID)
	if err != nil {
		return store.RunArtifactRow{}, err
	}
	list, err := tx.RunArtifacts(run.ID, MaxRunArtifacts)
	if err != nil {
		return store.RunArtifactRow{}, err
	}
	last, latest := store.RunArtifactRow{}, -1
	for _, a := range list {
		if n, ok := job.BundleEntries(a.Name); ok && n > latest {
			last, latest = a, n
		}
	}
	if latest < 0 {
		return last, reason.Errorf(reason.NotFound, "run %s has no %s", run.ID, BundleZip)
	}
	return last, nil
}

// JobBundle is a bundle that the only job of a run has handed in.
type JobBundle struct {
	RunArtifactRequest
	RunID    string
	Contract string // digest of the contract that the job was for
	Commit   string // that it was to begin with
}

// BundleOfResponse is the bundle that a response to an engine run announces, where the
// run was made for this job. It is nil where the run has a client or a bundle, and where
// [Settle] would lay the response at its provider's door.
func BundleOfResponse(tx *store.Tx, jobID string, response []byte) (*JobBundle, error) {
	j, err := tx.Job(jobID)
	if err != nil || j.Type != job.EngineRun {
		return nil, err
	}
	run, err := tx.Run(j.RunID)
	if err != nil || !madeForJobs(run) {
		return nil, err
	}
	req, resp, err := read(j.Type, j.Request, response)
	if err != nil {
		return nil, nil //nolint:nilerr // Complete says it
	}
	asked, ok := req.(job.EngineRunRequest)
	given, ended := resp.(job.EngineRunResponse)
	if !ok || !ended || given.BundleSHA256 == "" || job.Check(req, resp).Outcome == job.ProviderFault {
		return nil, nil
	}
	got, err := tx.Artifact(j.ID, j.Fence, BundleZip)
	if err != nil || got.SHA256 != given.BundleSHA256 {
		return nil, nil //nolint:nilerr // Complete says it
	}
	out := &JobBundle{RunArtifactRequest{Name: BundleZip, SHA256: got.SHA256, SizeBytes: got.SizeBytes}, run.ID, asked.ContractSHA256,
		asked.Baseline.Commit}
	if out.admit(tx, run.ID, true) != nil {
		return nil, nil //nolint:nilerr // it stays an artifact of the job
	}
	return out, nil
}
