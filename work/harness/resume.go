package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"remit/work/redact"
	"remit/work/session"

	"remit/law/eligibility"
	"remit/law/secret"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/workspace"
)

// Resumption continues or closes a run that was cut off.
type Resumption struct {
	Home     session.Home
	Session  session.Session
	Repo     string // "" for the repository that the run started from
	Sandbox  sandbox.Driver
	Progress Progress
	Clock    func() time.Time
	// Authority is the one that agreed to the run, nil when there was none.
	Authority Authority
	// MaxPriceMsats replaces what the run began with, unless it is 0.
	MaxPriceMsats int64
	// Registries are those of [Request].
	Registries Registries
	// Credentials are those of [Request].
	Credentials []secret.Value
}

// Resume takes up a run where its journal ends. The agent's workspace died with
// the run, so what had no captured patch is closed as blocked, interrupted,
// with all the evidence there is. With a captured patch nothing of the agent is
// needed any more: the path check and the verification are done now, from
// patch.diff. A run that had its verdict is only sealed; an authority that has
// does not know of its end is concluded.
//
// The journal is locked while this goes on: of two processes one gets
// session_busy. A torn last line is cut off and recorded.
func Resume(ctx context.Context, req Resumption) (*Outcome, error) {
	if req.Clock == nil {
		req.Clock = time.Now
	}
	w, err := journal.CloseTorn(req.Session.Journal(), req.Clock())
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }() // it is synced before anything depends on it
	r := &run{session: req.Session, repriced: req.MaxPriceMsats, artifact: map[string]bool{}, secrets: redact.New(req.Credentials)}
	r.recorder = &recorder{w: w, clock: req.Clock, progress: quietly(req.Progress, r.secrets), clean: r.secrets.Step}
	r.Request = Request{Home: req.Home, Sandbox: req.Sandbox, Clock: req.Clock, Progress: req.Progress, Repeat: 1,
		Authority: req.Authority, Registries: req.Registries}
	if err := r.recall(req.Repo); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(r.work) }() // what stays is swept by the next run
	defer r.endTelling()
	if r.sealed() {
		return r.concluded(ctx)
	}
	if err := r.adopt(); err != nil {
		return nil, r.unsealed(err)
	}
	if r.ended() {
		if err := r.session.Seal(w.Entries(), r.secrets); err != nil {
			return nil, r.unsealed(err)
		}
		return r.concluded(ctx)
	}
	defer r.closeStore()
	r.note(evidence.StepResumed, "resume", journal.Completed, nil, nil)
	r.recallReceipts(ctx)
	r.takeUp(ctx)
	out, err := r.seal(ctx)
	r.conclude(context.WithoutCancel(ctx), out)
	return out, err
}

// concluded is the outcome of a run that was sealed before.
func (r *run) concluded(ctx context.Context) (*Outcome, error) {
	out, err := r.outcome()
	if err == nil {
		r.conclude(ctx, out)
	}
	return out, err
}

// recall reads back what the run depends on.
func (r *run) recall(repo string) error {
	entries := r.w.Entries()
	var err error
	if r.opened, err = evidence.OpenedOf(entries); err != nil {
		return reason.Errorf(reason.JournalSyntax, "%w", err)
	}
	local, err := r.Home.LoadLocal(r.session.ID)
	if err != nil {
		return fmt.Errorf("reading what this machine knows of the session: %w", err)
	}
	contract := []byte(local.Contract)
	if contract == nil {
		contract = contractOf(entries)
	}
	if canon.Digest(contract) != r.opened.ContractSHA256 {
		e := reason.Errorf(reason.ContractUnreadable, "the contract of the run is not on this machine")
		e.File = r.session.Dir
		return e.WithHint("resume on the machine and with the REMIT_HOME that the run was started with")
	}
	if r.Contract, err = task.ParseCanonical(evidence.ContractFile, contract); err != nil {
		return err
	}
	if r.Sandbox != nil && r.Sandbox.Describe().Driver == sandbox.DriverNone && local.Contract != nil && !r.sealed() {
		local.Unconfined = true
		if err := r.Home.SaveLocal(r.session.ID, local); err != nil {
			return fmt.Errorf("remembering that the run has no sandbox: %w", err)
		}
	}
	r.recalled, r.Purpose = local.Engine, r.opened.Purpose
	r.Contract.Dir, r.RepoRef, r.Nexus, r.Unclaimed = local.TaskDir, local.RepoRef, local.Nexus, local.Unclaimed
	r.MaxPriceMsats, r.Silence, r.asked = local.MaxPriceMsats, local.Silence, local.Asked
	if r.Repo = repo; repo == "" {
		r.Repo = local.Repo
	}
	r.work = filepath.Join(r.Home.WorkDir(), r.session.ID)
	if err := os.RemoveAll(r.work); err != nil { // what the dead run left there
		return fmt.Errorf("clearing the work directory: %w", err)
	}
	return os.MkdirAll(r.work, 0o700)
}

func contractOf(entries []journal.Entry) []byte {
	for _, e := range entries {
		var c evidence.ContractCreated
		if e.Name == evidence.StepContract && json.Unmarshal(e.Inputs, &c) == nil {
			return c.Contract
		}
	}
	return nil
}

func (r *run) has(name string, state journal.Status) bool {
	return slices.ContainsFunc(r.w.Entries(), func(e journal.Entry) bool { return e.Name == name && e.Status == state })
}

// sealed reports whether the run has its verdict and its manifest, and nothing
// was appended since.
func (r *run) sealed() bool {
	st, err := r.session.InspectLog(&journal.Log{Entries: r.w.Entries()})
	return err == nil && st.Phase == session.Sealed && !r.has(journal.TornStep, journal.Completed)
}

// ended reports whether the last word of the journal is a verdict, or what became of
// it since.
func (r *run) ended() bool {
	for _, e := range slices.Backward(r.w.Entries()) {
		if e.Name != evidence.StepReceipt {
			return e.Name == evidence.StepRunCompleted || e.Name == evidence.StepOutcome
		}
	}
	return false
}

// takeUp goes on from the captured patch, or says that there is none.
func (r *run) takeUp(ctx context.Context) {
	defer r.release()
	r.complement()
	r.recallEnd()
	if len(r.standing()) > 0 {
		return // the run had been refused: only its verdict is missing
	}
	if r.has(evidence.StepVerification, journal.Completed) {
		r.proveLater(ctx)
		return
	}
	if r.has(evidence.StepLifecycle, journal.Completed) {
		r.interrupted("the run was cut off while its verdict was written")
		return
	}
	if !r.has(evidence.StepPatch, journal.Completed) {
		r.interrupted("the run was cut off before its patch was captured")
		return
	}
	if err := r.restore(ctx); err != nil {
		r.interrupted("the run was cut off, and could not be taken up: " + err.Error())
		return
	}
	steps := []func(context.Context) error{r.checkWrites, r.prepareEnvironment, r.verify}
	if r.has(evidence.StepWrites, journal.Completed) || r.has(evidence.StepWrites, journal.Failed) {
		steps = steps[1:]
	}
	for _, step := range steps {
		err := step(ctx)
		if err == nil {
			err = r.failed()
		}
		if err != nil || ctx.Err() != nil {
			r.stop(ctx, err)
			break
		}
	}
	r.judgeEnd(false)
	r.proveLater(ctx)
}

// complement appends what every journal has and this one was cut off before.
func (r *run) complement() {
	if !r.has(evidence.StepContract, journal.Completed) && !r.has(evidence.StepContract, journal.Failed) {
		if raw, err := r.Contract.Canonical(); err == nil {
			r.note(evidence.StepContract, "contract", journal.Completed,
				evidence.ContractCreated{ContractSHA256: r.opened.ContractSHA256, Contract: raw}, nil)
		}
	}
	if !r.has(evidence.StepEligibility, journal.Completed) && !r.has(evidence.StepEligibility, journal.Failed) {
		if raw, err := canon.Marshal(eligibility.Decide(r.eligibilityRequest())); err == nil {
			r.note(evidence.StepEligibility, "eligibility", journal.Completed, nil, evidence.EligibilityDecided{Decision: raw})
		}
	}
	if !r.has(evidence.StepApprovalRequested, journal.Completed) {
		r.noteApproval()
	}
	r.recount()
	// A step that was cut off has an end, too.
	open := map[string]journal.Entry{}
	var order []string
	for _, e := range r.w.Entries() {
		key := e.StepID + " " + e.Name
		if e.Status == journal.Started {
			open[key] = e
			order = append(order, key)
		} else {
			delete(open, key)
		}
	}
	for _, key := range slices.Backward(order) {
		e, still := open[key]
		if !still {
			continue
		}
		delete(open, key)
		r.closeStep(e)
	}
}

// closeStep ends a step that was cut off. It is skipped, which says that its
// outcome is not known; what can be done again is.
func (r *run) closeStep(e journal.Entry) {
	began, err := time.Parse(journal.TimeFormat, e.StartedAt)
	if err != nil {
		began = r.clock()
	}
	var outputs any
	if e.Name == evidence.StepTool {
		var c evidence.ToolCalled
		if json.Unmarshal(e.Inputs, &c) == nil {
			outputs = evidence.ToolReturned{ID: c.ID, OutputHash: canon.Digest(nil)}
		}
	}
	r.append(journal.Step{StepID: e.StepID, Name: e.Name, Status: journal.Skipped, StartedAt: began, CompletedAt: r.clock(),
		Inputs: e.Inputs, Outputs: outputs})
}

func (r *run) interrupted(message string) {
	r.note(evidence.StepStopped, "stop", journal.Failed, nil, blockersOnly{[]evidence.Blocker{{
		Code: reason.Interrupted, Message: r.scrub(message), Evidence: evidence.TraceFile}}})
	r.tell("stopped", "failed", message)
}

// restore rebuilds what the remaining steps need from the patch.
func (r *run) restore(ctx context.Context) (err error) {
	if r.Sandbox == nil {
		return errors.New("no sandbox works on this machine")
	}
	if r.source, err = workspace.OpenSource(ctx, r.Repo); err != nil {
		return err
	}
	if r.base, err = r.source.Resolve(ctx, string(r.opened.BaselineCommit)); err != nil {
		return err
	}
	if r.store, err = workspace.NewStore(ctx, filepath.Join(r.work, "store.git"), r.source, r.base); err != nil {
		return err
	}
	r.boundStore()
	cache, err := workspace.OpenCache(r.Home.CacheDir())
	if err != nil {
		return err
	}
	if r.checkout, err = cache.Checkout(ctx, r.store, r.base.Tree); err != nil {
		return err
	}
	r.secrets.Baseline = r.checkout.Dir
	captured, before, err := r.captured()
	if err != nil {
		return err
	}
	r.before = before
	r.patched = &patched{imported: &workspace.Imported{Tree: captured.HeadTree}, sha256: captured.PatchSHA256, bytes: captured.PatchBytes}
	changes, err := r.applied(ctx)
	if err != nil {
		return err
	}
	r.links = linksOf(changes)
	r.changed, err = r.store.Diff(ctx, r.base.Tree, captured.HeadTree, new(counter))
	return err
}

// captured reads the patch's entry and the fingerprint of the source before.
func (r *run) captured() (*evidence.PatchCaptured, *workspace.Fingerprint, error) {
	out, before := new(evidence.PatchCaptured), new(workspace.Fingerprint)
	for _, e := range r.w.Entries() {
		var err error
		switch {
		case e.Name == evidence.StepPatch && e.Status == journal.Completed:
			err = json.Unmarshal(e.Outputs, out)
		case e.Name == evidence.StepSourceObserved:
			err = json.Unmarshal(e.Outputs, before)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading journal entry %d: %w", e.Seq, err)
		}
	}
	return out, before, nil
}
