package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"remit/law/job"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
	"remit/work/sandbox"
	"remit/work/session"
)

// Authority agrees to a run: it knows of it before anything is started, has the
// change proved by a provider once the verifier has passed it, and pays for
// that. Whether it is a part of this process or a server elsewhere is its own
// business. Every call may be repeated and has its effect once; receipts that
// come with an error were given all the same.
type Authority interface {
	// Ask finds or requests the approval of a contract, and Use uses a granted
	// one up for the run that Open has opened.
	Ask(ctx context.Context, p job.Packet) (job.Approval, error)
	Use(ctx context.Context, a job.Approval) ([]record.Recorded, error)
	Open(ctx context.Context, c job.Claim) ([]record.Recorded, error)
	// Find returns the run that an earlier life of the session has opened, "" when
	// there is none: a run that was killed before the answer to Open came knows only
	// the session.
	Find(ctx context.Context, session string) (run string, err error)
	Prove(ctx context.Context, p job.Proof) (record.Settlement, []record.Recorded, error)
	// Close ends the run. bundle writes the sealed bundle.
	Close(ctx context.Context, passed bool, bundle func(io.Writer) error) error
	// Amend hands over what became of the run after its end.
	Amend(ctx context.Context, a job.Amendment) error
}

// readier is an authority that can be made ready for its next call beside the
// caller. Release takes that back.
type readier interface {
	Ready(ctx context.Context)
	Release() error
}

// hostImage is the root file system of the machine itself, read-only: what a run
// has whose policy names no image.
const hostImage = "host"

// claim tells the authority of the run, before anything costs something.
func (r *run) claim(ctx context.Context) error {
	if r.Authority == nil || r.claimed {
		return nil
	}
	done := r.times.Begin("authority.opened")
	defer done()
	c := r.claimOf()
	if c.RunID == "" { // from now on there may be a run whose id is not known here
		if err := r.Home.ChangeLocal(r.session.ID, func(l *session.Local) { l.Asked = true }); err != nil {
			return fmt.Errorf("remembering that the authority is asked: %w", err)
		}
	}
	receipts, err := r.Authority.Open(ctx, c)
	r.received(receipts)
	r.claimed = err == nil
	if err != nil {
		return fmt.Errorf("telling the authority of the run: %w", err)
	}
	r.tell("authority.opened", "completed", fmt.Sprintf("%d receipt(s)", len(receipts)))
	r.beginTelling(ctx)
	return nil
}

func (r *run) claimOf() job.Claim {
	c := job.Claim{Key: r.session.ID, RepoRef: cmp.Or(r.RepoRef, r.session.ID), PolicyBundleID: r.Contract.PolicyBundleID,
		RunID: cmp.Or(session.NexusRun(r.w.Entries()), r.found), MaxPriceMsats: r.MaxPriceMsats, Silence: r.Silence,
		Metadata: map[string]string{"session_id": r.session.ID, "run_id": r.opened.RunID, "task_id": r.Contract.TaskID,
			"baseline_commit": string(r.opened.BaselineCommit)}}
	// Of the first entry alone: a claim that is repeated says the same.
	if s, err := evidence.SummaryOf(r.w.Entries()[:1]); err == nil { // else the run is claimed without
		c.Summary, _ = canon.Marshal(s)
	}
	switch n := r.opened.IssueNumber; {
	case r.Unclaimed:
	case n != nil:
		c.IssueRef = fmt.Sprintf("#%d", *n)
	case r.Contract.Issue != nil:
		c.IssueRef = r.Contract.TaskID
	}
	if len(r.Contract.VerificationCommands) > 0 {
		c.Proof = r.sandbox().Needs()
	}
	return c
}

// sandbox is what the job of the proof runs in.
func (r *run) sandbox() job.SandboxRunRequest {
	return job.SandboxRunRequest{Sandbox: job.Sandbox{Provider: "local", ImageDigest: r.rootImage(), NetworkPolicy: job.NetworkNone,
		Resources: r.resources()}}
}

// received journals the receipts that are not in the journal yet.
func (r *run) received(receipts []record.Recorded) {
	for _, s := range session.NewReceipts(r.w.Entries(), receipts, r.clock()) {
		r.append(s)
	}
	r.sync()
}

// settle has the verified change proved and paid. What is not verified is not
// offered to anybody. It comes when nothing but the verdict is left to write.
func (r *run) settle(ctx context.Context) {
	if r.Authority == nil || r.has(evidence.StepBudget, journal.Completed) || len(r.blockersSoFar()) > 0 ||
		!r.has(evidence.StepVerification, journal.Completed) {
		return
	}
	r.tell(evidence.StepBudget, "started", "")
	done := r.times.Begin(evidence.StepBudget)
	defer done()
	var s record.Settlement
	proof, err := r.proof()
	if err == nil && !r.claimed { // by the life of this run that was cut off
		err = r.claim(ctx)
	}
	if err == nil {
		var receipts []record.Recorded
		s, receipts, err = r.Authority.Prove(ctx, proof)
		r.received(receipts)
	}
	if err != nil {
		r.stop(ctx, unproved(err))
		return
	}
	out := evidence.BudgetSettled{Settlement: s}
	if s.Executed == record.ExecutedElsewhere && !s.Passed {
		out.Blockers = []evidence.Blocker{{Code: blockerOf(s.Reason), Evidence: evidence.ReceiptFile,
			Message: fmt.Sprintf("the change was verified here, but its proof by provider %s was not accepted: %s", s.ProviderID, s.Reason)}}
	}
	r.note(evidence.StepBudget, "budget", status(out.Blockers), nil, out)
	r.tell(evidence.StepBudget, string(status(out.Blockers)), settledWords(s))
}

// settledWords tells a person where the proof went, and of money only where some
// could change hands.
func settledWords(s record.Settlement) string {
	if s.Executed == record.ExecutedHere {
		return "recorded in the books of this machine"
	}
	return fmt.Sprintf("%d msat %s, proved by provider %s", s.SettledMsats, s.Status, s.ProviderID)
}

// unproved is the error of a change that was verified here and that the
// authority did not have proved. The agent's work is not lost: a run of its own
// can have the same patch verified and proved.
func unproved(err error) error {
	err = fmt.Errorf("having the change proved: %w", err)
	code := reason.CodeOf(err)
	if code == "" {
		return err
	}
	info, _ := reason.Lookup(code)
	first := info.Hint
	if coded, ok := errors.AsType[*reason.Error](err); ok {
		first = cmp.Or(coded.Hint, first)
	}
	if first != "" {
		first += "; "
	}
	return reason.Errorf(code, "%w", err).
		WithHint("%sthe change is verified, and kept: `remit run` with the same task and --engine fake --fake-patch <session>/%s has it verified and proved again, without the agent", first, evidence.PatchFile)
}

// blockerOf is the code of a reason that an authority gave, if it is one of ours.
func blockerOf(text string) reason.Code {
	if info, known := reason.Lookup(reason.Code(text)); known {
		return info.Code
	}
	return reason.VerificationFailed
}

// proof asks for what the verifier did on the patched tree, and brings what it
// saw. It is made from the journal, so that a run that was cut off has it too.
func (r *run) proof() (job.Proof, error) {
	head, tree := r.headPhase()
	p := job.Proof{Tree: tree, Request: r.sandbox(), MaxPriceMsats: cmp.Or(r.repriced, r.MaxPriceMsats)}
	p.Waiting = func(patience time.Duration, err error) {
		r.tell(evidence.StepBudget, "waiting", fmt.Sprintf("for at most %s: %s", patience, r.scrub(err.Error())))
	}
	p.Pack = func(ctx context.Context, w io.Writer) (string, error) {
		return r.packTree(ctx, tree, "the change to be proved", w)
	}
	p.Here = job.SandboxRunResponse{EnvInfo: job.EnvInfo{ImageDigest: r.rootImage()}, Runs: []job.Run{}, Artifacts: []job.Artifact{},
		Status: job.Success, Provenance: job.Provenance{ModelID: "none"}}
	if e := r.environmentOfJob(); e != nil {
		p.Request.Environment, p.Here.EnvInfo.Layers, p.Here.EnvInfo.Services = e, e.Beside(), e.Services
		p.PackBase = func(ctx context.Context, w io.Writer) (string, error) {
			return r.packTree(ctx, string(r.opened.BaselineTree), "the base of the change", w)
		}
	}
	for _, c := range head.Runs {
		p.Request.Commands = append(p.Request.Commands, job.Command{Cmd: c.Command})
		p.Here.Runs = append(p.Here.Runs, job.Run{Cmd: c.Command, ExitCode: int32(c.ExitCode), DurationMS: uint64(max(0, c.DurationMS)),
			StdoutSHA256: c.StdoutSHA256, StderrSHA256: c.StderrSHA256})
	}
	p.Here.Caps, p.Here.Usage = capsApplied(head.Caps),
		&job.Usage{CPUMillis: head.Usage.CPUMillis, PeakMemoryBytes: head.Usage.PeakMemoryBytes, WallMillis: head.Usage.WallMillis}
	s := r.opened.Host.Sandbox
	p.Here.Platform = &job.SandboxInfo{Driver: s.Driver, Version: s.Version, Layer: s.Layer, NotEnforced: s.NotEnforced}
	digest, err := canon.DigestOf(struct {
		Runs   []job.Run  `json:"runs"`
		Status job.Status `json:"status"`
	}{p.Here.Runs, p.Here.Status})
	p.Here.Provenance.OutputSHA256 = &digest
	return p, err
}

// resources are the limits of the verification as a job states them. A job has
// upper bounds of its own.
func (r *run) resources() job.Resources {
	l, d := limitsOf(r.Contract), sandbox.DefaultLimits()
	disk := uint32(min(cmp.Or(l.DiskMB, d.DiskMB), job.MaxDiskMB))
	return job.Resources{
		MemoryMB:    uint32(min(cmp.Or(l.MemoryMB, d.MemoryMB), job.MaxMemoryMB)),
		CPUs:        min(job.Cores(cmp.Or(l.CPUsMilli, d.CPUsMilli))/1000, job.MaxCPUs),
		TimeoutSecs: uint32(min(cmp.Or(l.Wall, d.Wall), job.MaxTimeoutSecs*time.Second) / time.Second),
		DiskMB:      &disk,
	}
}

// headPhase reads what the verifier saw on the patched tree, and that tree.
func (r *run) headPhase() (head evidence.VerifyPhase, tree string) {
	for _, e := range r.w.Entries() {
		if e.Status != journal.Completed {
			continue
		}
		var p evidence.PatchCaptured
		switch e.Name {
		case evidence.StepVerifyHead:
			head = evidence.VerifyPhase{}
			_ = json.Unmarshal(e.Outputs, &head) // written by this very type
		case evidence.StepPatch:
			if json.Unmarshal(e.Outputs, &p) == nil {
				tree = p.HeadTree
			}
		}
	}
	return head, tree
}

// capsApplied are the limits that were really in force; 0 is not limited.
func capsApplied(caps []evidence.Cap) *job.CapsApplied {
	out := &job.CapsApplied{Network: job.NetworkNone}
	memory := int64(0) // of all that is kept there, which includes what is written
	for _, c := range caps {
		if !c.Enforced {
			continue
		}
		switch c.Name {
		case "cpu":
			out.CPUMillis = c.Limit
		case "memory":
			memory = c.Limit
		case "disk":
			out.DiskMB = c.Limit >> 20
		case "pids":
			out.Pids = c.Limit
		case "wall":
			out.TimeoutSecs = c.Limit / 1000
		}
	}
	out.MemoryMB = job.MemoryMB(memory, out.DiskMB)
	return out
}

// packTree writes a tree as a commit without history. The same tree gives the same
// commit everywhere.
func (r *run) packTree(ctx context.Context, tree, message string, w io.Writer) (commit string, err error) {
	if r.store == nil {
		if err := r.restore(ctx); err != nil {
			return "", err
		}
	}
	if commit, err = r.store.CommitTree(ctx, tree, "", message, time.Unix(0, 0)); err != nil {
		return "", err
	}
	return commit, r.store.Pack(ctx, commit, w)
}

// conclude tells the authority that the run has ended. The evidence does not
// depend on it any more; an authority that does not know of it learns it when the
// session is resumed.
func (r *run) conclude(ctx context.Context, out *Outcome) {
	local, err := r.Home.LoadLocal(r.session.ID)
	r.endTelling()
	if r.Authority == nil || out == nil {
		return
	}
	if !local.Asked && !r.has(evidence.StepReceipt, journal.Completed) && !r.announce(ctx, out) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closingTime)
	defer cancel()
	if err == nil && local.Concluded {
		out.NotConcluded = r.Home.Amend(ctx, r.session, r.Authority)
		return
	}
	there, err := r.reopen(ctx)
	if err == nil && !there && !r.announce(ctx, out) {
		return // the request never came there, or was refused
	}
	if err == nil {
		err = r.tellRest(ctx)
	}
	if err == nil {
		err = r.Authority.Close(ctx, out.Report.Status == evidence.StatusPass,
			func(w io.Writer) error { return bundle.WriteZip(w, r.session.Dir) })
	}
	if err != nil {
		r.tell("authority.closed", "failed", r.scrub(err.Error()))
		out.NotConcluded = err
		return
	}
	if r.Nexus != "" { // the authority of this machine is asked again for nothing
		_ = r.Home.ChangeLocal(r.session.ID, func(l *session.Local) { l.Concluded = true }) // it would be closed again
	}
	out.NotConcluded = r.Home.Amend(ctx, r.session, r.Authority)
}

// reopen finds the run at the authority; there is false when it has none.
func (r *run) reopen(ctx context.Context) (there bool, err error) {
	if r.claimed {
		return true, nil
	}
	c := r.claimOf()
	if c.RunID == "" {
		if c.RunID, err = r.Authority.Find(ctx, r.session.ID); err != nil || c.RunID == "" {
			return false, err
		}
		r.found = c.RunID
	}
	_, err = r.Authority.Open(ctx, c)
	return err == nil, err
}
