package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"remit/work/redact"
	"remit/work/session"

	"remit/law/eligibility"
	"remit/law/job"
	"remit/law/secret"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/engine"
	"remit/work/sandbox"
	"remit/work/workspace"
)

// Request is one run.
type Request struct {
	Home     session.Home
	Repo     string // the source repository, never written
	Contract *task.Contract
	// PolicySHA256 is the digest of the policy that was applied, "" for none.
	PolicySHA256 string
	Engine       engine.Engine
	// EngineName is the name under which the engine is registered. With it the
	// gates of an engine that needs no admission are asked before its program is
	// looked at.
	EngineName string
	// Disabled is set when the policy switches the engine off.
	Disabled bool
	// Sandbox confines everything that the run starts. When it is nil,
	// OpenSandbox is asked for one while the repository is being read; a machine
	// on which none works has the run blocked.
	Sandbox     sandbox.Driver
	OpenSandbox func(context.Context) (sandbox.Driver, error)
	// ExplicitNone says that the user asked by name for no confinement.
	ExplicitNone bool
	// Approver is the person who starts the run and approves its contract, "" when
	// they do not. Under an authority it counts as far as that lets them decide.
	Approver string
	// WaitApproval is how long to wait for the authority's decision; 0 ends the
	// run as blocked when there is none yet. ApprovalTTL is how long a new request
	// is good for; 0 leaves it to the authority.
	WaitApproval, ApprovalTTL time.Duration
	// Lowered are the limits that the policy has lowered. The approver sees them.
	Lowered []task.Lowered
	// CheckGrant says why a granted approval does not count although its authority
	// knows of it; nil where the word of the authority is enough.
	CheckGrant func(job.Approval, job.Packet) error
	// Denier is who refused the approval. A denial is terminal: it wins over a
	// grant, and blocks a contract that asked for no approval as well.
	Denier string
	Repeat int // verifier repetitions, at least 1
	// VerdictCache allows the base phase of the verifier to be taken from the
	// cache, and kept there. What is taken says so in the evidence.
	VerdictCache bool
	// Admission is what the records and the proofs say of the engine. Nothing is
	// proved by the zero value, and no run begins with it.
	Admission Admission
	// Purpose is "", or [eligibility.PurposeProof] for a run by which an engine shows
	// a stage: it may go one mode further than is proved. Only what makes proofs, on
	// repositories of its own, asks for that.
	Purpose string
	// Looked is what the caller has read of the target before.
	Looked Looked
	// Compared says that the run is a lane of a comparison.
	Compared bool
	// Target is what the records say of the repository, where the change is to be
	// delivered there.
	Target TargetAdmission
	// Parent is the session whose change the run continues, nil for one that starts
	// from the baseline.
	Parent *Parent
	// Check is the change that a run without an engine checks, nil for a run whose
	// engine makes one. It takes the place of Engine, EngineName and Purpose.
	Check *Check
	// Model is the way to a model, nil for an engine that asks none.
	Model *ModelRoute
	// Authority agrees to the run and pays for its proof; nil is a run that
	// no authority knows of.
	Authority Authority
	// RepoRef is how the authority calls the repository; "" is a name that only
	// this run has, so that it claims nothing that another run could want.
	RepoRef string
	// Unclaimed leaves the issue of the contract to other runs as well.
	Unclaimed bool
	// ClaimIssue claims the issue of the contract at its forge for a session, before the
	// engine is given anything; nil for nothing to claim. Its error ends the run.
	ClaimIssue func(ctx context.Context, session string) error
	// MaxPriceMsats is the most that the proof of the change may cost, 0: no
	// limit.
	MaxPriceMsats int64
	// Silence is how long the run may say nothing before its authority ends it, 0:
	// as long as the authority says.
	Silence time.Duration
	// Nexus is where the authority is, "" for the one of this machine. It is
	// kept beside the session, so that a resumed run finds it again.
	Nexus    string
	Build    evidence.Build
	Progress Progress
	Clock    func() time.Time
	// JournalHook, if set, stands between the run and its journal: what it returns
	// is written in place of the step. It is for tests of what a journal must hold.
	JournalHook func(journal.Step) []journal.Step
	// Timeline collects where the time of the run goes, nil for nowhere.
	Timeline *Timeline
	// Registries say where dependencies are fetched from; nil is the public ones.
	Registries Registries
	// Credentials are searched for in the evidence, as those of this process's
	// environment are.
	Credentials []secret.Value
}

// Outcome is a run that has ended, whatever its status.
type Outcome struct {
	Session   session.Session
	Report    *evidence.Report
	NoSandbox error // why no sandbox works here, nil if one does
	// NotConcluded is why the authority does not know of the end of the run, nil if
	// it does. Resume concludes the run there.
	NotConcluded error
}

// run is the state of one pipeline: each step reads what earlier ones left.
type run struct {
	Request
	*recorder
	session  session.Session
	work     string // temporary, removed at the end
	source   *workspace.Source
	dirty    func() ([]string, error) // tracked paths that differ from HEAD, when they are known
	base     workspace.Baseline
	store    *workspace.Store
	checkout *workspace.Checkout
	start    *workspace.Checkout // what the engine of a follow-up starts from, else nil
	trimmed  func()              // waits for the cache being trimmed, nil before it is
	before   *workspace.Fingerprint
	patched  *patched
	checked  *evidence.Checked // what a run without an engine checks
	prepared *depend.Prepared  // what lies beside the tree, nil before it is there
	// headPrepared lies beside the patched tree, nil for the same as beside the base.
	headPrepared *depend.Prepared
	servedLog    serviceLog // of the verifier's runs
	measured     *basePhase // the verification of the baseline, nil before it begins
	changed      []workspace.FileChange
	links        map[string]string // symlinks that the engine left: path to target
	paths        []string          // what the engine's process changed, before any rule
	review       *string           // why the engine's own reviewer rejected the change, nil if it did not
	unjudged
	opened   evidence.RunOpened
	approved approved
	recalled *eligibility.Engine // of a resumed run: what was known of its engine when it was opened
	repriced int64               // what the proof may cost now, 0: what the run began with
	claimed  bool                // the authority knows of the run by this process
	asked    bool                // an earlier life has asked the authority for the run
	found    string              // the run that it has of an earlier life, which had no answer
	telling  *telling            // tells the authority the journal, nil before it agreed
	artifact map[string]bool     // blobs already recorded
	secrets  *redact.Secrets
}

// Run executes a request. An error means that there is no session (bad input,
// nothing was started) or that its evidence could not be completed; the error
// then says where the work is kept. Everything else is an Outcome.
func Run(ctx context.Context, req Request) (*Outcome, error) {
	if req.Clock == nil {
		req.Clock = time.Now
	}
	req = req.withoutEngine()
	if out, err := Preflight(ctx, req, eligibility.KnownPolicy); out != nil || err != nil {
		return out, err
	}
	driver := begin(func() (sandbox.Driver, error) {
		done := req.Timeline.Begin("sandbox.opened")
		defer done()
		return req.driver(ctx)
	})
	defer func() { _, _ = driver() }() // not left behind when the repository is refused
	if a, ok := req.Authority.(readier); ok {
		a.Ready(ctx)
		defer func() { _ = a.Release() }() // no call has taken it, and none comes
	}
	opened := req.Timeline.Begin("source.opened")
	source, err := workspace.OpenSource(ctx, req.Repo)
	if err != nil {
		return nil, err
	}
	base, err := source.Resolve(ctx, req.Contract.Base)
	opened()
	if err != nil {
		return nil, err
	}
	if err := req.bindInstructions(ctx, source, base); err != nil {
		return nil, err
	}
	r := &run{Request: req, source: source, base: base, artifact: map[string]bool{}}
	if req.Check != nil {
		if r.checked, err = req.Check.named(ctx, source); err != nil {
			return nil, err
		}
	}
	if req.Contract.RequireClean {
		r.dirty = begin(func() ([]string, error) {
			done := req.Timeline.Begin("source.dirty")
			defer done()
			return source.Dirty(ctx)
		})
		defer func() { _, _ = r.dirty() }() // not left behind
	}
	var noSandbox error
	if r.Sandbox, noSandbox = driver(); noSandbox != nil && reason.CodeOf(noSandbox) != reason.SandboxUnavailable {
		return nil, cmp.Or(r.Home.Prepare(), noSandbox) // a home that cannot be written is the likely cause
	}
	if r.opened, err = r.open(ctx); err != nil {
		return nil, err
	}
	r.secrets = redact.New(req.Credentials)
	if err := r.refuseSecrets(); err != nil {
		return nil, err
	}
	created := req.Timeline.Begin(evidence.StepRunOpened)
	if err := r.create(); err != nil {
		return nil, err
	}
	created()
	r.tellUnsearched()
	defer func() { _ = os.RemoveAll(r.work) }() // what stays is swept by the next run
	defer func() { _ = r.w.Close() }()          // it is synced before anything depends on it
	r.hook = req.JournalHook
	if err := r.Home.Distrust(r.Sandbox); err != nil {
		return nil, err
	}
	defer func() { _ = r.Home.Distrust(r.Sandbox) }() // it could be emptied before
	defer r.closeStore()
	defer r.endTelling()
	r.pipeline(ctx)
	out, err := r.seal(ctx)
	closed := r.times.Begin("authority.closed")
	r.conclude(context.WithoutCancel(ctx), out)
	closed()
	if out != nil {
		out.NoSandbox = noSandbox
	}
	return out, err
}

// driver is the sandbox of the request; an error comes with a nil driver.
func (req *Request) driver(ctx context.Context) (sandbox.Driver, error) {
	if req.Sandbox != nil || req.OpenSandbox == nil {
		return req.Sandbox, nil
	}
	d, err := req.OpenSandbox(ctx)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// pipeline runs the steps until one stops. Blockers are in the journal; what
// is no blocker is an infrastructure fault and becomes one here.
func (r *run) pipeline(ctx context.Context) {
	defer r.release()
	change := r.runEngine
	if r.checks() {
		change = r.takeChange
	}
	for _, step := range []func(context.Context) error{
		r.admit, r.claim, r.claimIssue, r.copyWorkspace, r.prepareEnvironment, r.branchPolicy, change, r.capture, r.checkWrites, r.verify,
	} {
		err := step(ctx)
		if err == nil {
			err = r.failed()
		}
		if err == nil && ctx.Err() == nil {
			continue
		}
		r.stop(ctx, err)
		break
	}
	r.judgeEnd(false) // whatever came: what it left is not judged yet
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	r.keepWork(closing)
	r.proveSource(closing)
}

// claimIssue is for the issue of a forge, which the harness does not know.
func (r *run) claimIssue(ctx context.Context) error {
	if r.ClaimIssue == nil {
		return nil
	}
	return r.ClaimIssue(ctx, r.session.ID)
}

// closingTime bounds what is still done for the evidence of a run that was
// cancelled.
const closingTime = 2 * time.Minute

// keepWork captures the patch of a run that stopped between the engine's end
// and the capture: work that was paid for is kept.
func (r *run) keepWork(ctx context.Context) {
	if r.patched == nil || r.artifact[evidence.PatchFile] {
		return
	}
	if code := reason.CodeOf(r.patched.failed); code != "" && code != reason.ArtifactWriteFailure {
		return // it would fail again
	}
	if err := r.capture(ctx); err != nil {
		r.stop(ctx, err)
		return
	}
	if err := r.checkWrites(ctx); err != nil {
		r.stop(ctx, err)
	}
}

// stop records why the pipeline ended early, unless a step already has.
func (r *run) stop(ctx context.Context, err error) {
	if errors.Is(err, errStopped) && ctx.Err() == nil {
		return
	}
	r.judgeEnd(false)
	blocker := evidence.Blocker{Code: reason.InfrastructureFault, Message: "the run could not go on", Evidence: evidence.TraceFile}
	switch {
	case ctx.Err() != nil:
		blocker.Code, blocker.Message = reason.Cancelled, "the run was cancelled"
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			blocker.Message += ": " + r.scrub(cause.Error())
		}
	default:
		blocker.Message = err.Error()
		if coded, ok := errors.AsType[*reason.Error](err); ok {
			blocker.Code, blocker.Hint = coded.Code, r.scrub(coded.Hint)
			blocker.Message = strings.TrimSuffix(blocker.Message, fmt.Sprintf(" (%s)", coded.Code)) // the code stands beside it
		}
		blocker.Message = r.scrub(blocker.Message)
	}
	r.note(evidence.StepStopped, "stop", journal.Failed, nil, blockersOnly{[]evidence.Blocker{blocker}})
	r.tell("stopped", "failed", blocker.Message)
	if blocker.Code == reason.ArtifactWriteFailure {
		// The work that is still to be kept may fit then. It can fill the disk once
		// more, with nothing reserved: no entry may be written beside it.
		r.stopBase()
		r.yield(r.session.Journal())
	}
}

// release waits for what goes on beside the pipeline and gives back the cached
// tree. Nothing writes to the journal behind it.
func (r *run) release() {
	r.stopBase()
	if r.trimmed != nil {
		r.trimmed()
	}
	r.prepared.Release()
	r.headPrepared.Release()
	for _, c := range []*workspace.Checkout{r.checkout, r.start} {
		if c != nil {
			c.Release()
		}
	}
}

// closeStore comes last: the patched tree is packed out of the store when the
// pipeline has ended.
func (r *run) closeStore() {
	if r.store != nil {
		_ = r.store.Close() // its directory goes with the work directory anyway
	}
}
