package panel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"remit/law/task"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// runPage is a run, from the verdict to the contract.
type runPage struct {
	*Session
	Now        time.Time
	Sentence   string
	Blockers   []blocker
	Siblings   []Summary
	Passed     int
	Compare    string
	Verified   *verified
	Ran        string       // what a run without an agent started, as typed
	Ends       []commandEnd // how the verification commands ended
	Agent      []string     // what the agent said last
	Printed    bool         // it is the end of what it printed
	View       string       // of the change
	Files      []diffFile
	FilesMore  int
	Timeline   timeline
	Caps       []cap
	Artifacts  []artifact
	Proofs     []artifact
	Audit      *bundle.Report
	Contract   *task.Contract
	Gates      gates
	Receipts   int
	Approval   string
	ApprovalID string // of the request that the run made, "" where it made none
	Commands   []command
	Exports    *exports // nil while there is nothing to take along
	CostOf     string
	CostW      string
	Incomplete string // why there is no verdict
	NotSealed  []string
	FromBundle bool // the timeline of a run of a nexus comes from its bundle: no client has sent its journal
}

// blocker is why a run is not a pass, and what to do.
type blocker struct{ Code, Message, Evidence, Hint string }

// gates are those that a run needed before anything was copied.
type gates struct {
	Required []string `json:"required_gates"`
	Passed   []string `json:"passed_gates"`
	Missing  []string `json:"missing_gates"`
	Ways     []string `json:"escalation_path"`
	Reasons  []string `json:"reasons"`
}

// artifact is a file of the bundle.
type artifact struct {
	Path, SHA256 string
	Bytes        int64
	At           string
}

// session finds the session of a request, for who may see it.
func (p *Panel) session(r *http.Request, v *viewer) (*Session, error) {
	if !v.home {
		return nil, errNoHome()
	}
	return p.opt.Home.Session(r.Context(), r.PathValue("id"))
}

// run shows one session.
func (p *Panel) run(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	s, err := p.session(r, v)
	if err != nil {
		return nil, err
	}
	d := &runPage{Session: s, Now: p.opt.Clock(), View: view(r)}
	d.read()
	d.Timeline = timelineOf(s, d.Now)
	if err := p.siblings(r.Context(), d); err != nil {
		return nil, err
	}
	if d.Verified != nil {
		if err := p.tests(r.Context(), d); err != nil {
			return nil, err
		}
	}
	if err := p.diffs(r.Context(), d); err != nil {
		return nil, err
	}
	if err := p.compareSealed(r.Context(), d); err != nil {
		return nil, err
	}
	if err := p.lastWords(r.Context(), d); err != nil {
		return nil, err
	}
	d.commands()
	d.Exports = d.exports(p.manifest(r.Context(), s))
	d.Sentence = d.sentence()
	if s.Phase == Sealed && r.URL.Query().Has("audit") {
		if d.Audit, err = p.opt.Home.Audit(r.Context(), s.ID); err != nil {
			return nil, err
		}
	}
	live := ""
	if s.Phase == Running {
		live = liveTopic("home", s.ID)
	}
	return &page{name: "run", Title: s.Word() + ": " + s.Title, Nav: "runs", Live: live, Replay: true, Data: d}, nil
}

// Replays reports whether there is a timeline to play: of a run that has ended.
func (d *runPage) Replays() bool { return d.Phase != Running && len(d.Timeline.Rows) > 1 }

// read takes from the journal what the page shows beside the timeline.
func (d *runPage) read() {
	for _, e := range d.Journal {
		d.entry(e)
	}
	if d.Report != nil && !d.Ended.IsZero() {
		for _, b := range d.Report.Blockers {
			d.Blockers = append(d.Blockers, shownBlocker(b))
		}
	}
	slices.SortFunc(d.Artifacts, func(a, b artifact) int { return strings.Compare(a.Path, b.Path) })
	if d.Contract != nil && d.Contract.Budget.MaxBudgetMicroUSD != nil && *d.Contract.Budget.MaxBudgetMicroUSD > 0 {
		most := *d.Contract.Budget.MaxBudgetMicroUSD
		d.CostOf = money(most)
		d.CostW = fmt.Sprintf("%.1f%%", min(100, 100*float64(d.MicroUSD)/float64(most)))
	}
	switch d.Phase {
	case Interrupted:
		d.Incomplete = d.cutOff()
	case Damaged:
		d.Incomplete = "The journal of this session is damaged: " + clip(300, d.Why) +
			". Nothing that it says is shown, and nothing of it counts."
	case Unsealed:
		d.Incomplete = "The run has ended, but its evidence is not sealed. Until it is, it counts as blocked."
	}
}

func (d *runPage) entry(e journal.Entry) {
	switch e.Name {
	case evidence.StepContract:
		var in evidence.ContractCreated
		decode(e.Inputs, &in)
		if c, err := task.ParseCanonical(evidence.ContractFile, in.Contract); err == nil {
			d.Contract = c
		}
	case evidence.StepEligibility:
		var out struct{ Decision gates }
		decode(e.Outputs, &out)
		d.Gates = out.Decision
	case evidence.StepApprovalRequested:
		var a evidence.Approval
		decode(e.Outputs, &a)
		d.ApprovalID = a.ApprovalID
	case evidence.StepApprovalGranted, evidence.StepApprovalDenied:
		var a evidence.Approval
		decode(e.Outputs, &a)
		d.Approval = strings.TrimPrefix(e.Name, "approval.") + " by " + a.Actor
	case evidence.StepVerifyBase, evidence.StepVerifyHead:
		if e.CompletedAt != nil {
			var o evidence.VerifyPhase
			decode(e.Outputs, &o)
			d.ends(o, e.Name == evidence.StepVerifyHead)
		}
	case evidence.StepEngine:
		if e.CompletedAt == nil && d.Program() {
			var o evidence.EngineStarted
			decode(e.Inputs, &o)
			d.Ran = typed(o.Argv)
		}
		if e.CompletedAt != nil {
			var o evidence.EngineFinished
			decode(e.Outputs, &o)
			d.Caps = capsOf(o)
			if o.Summary != "" {
				d.Agent = []string{clip(maxSaid, o.Summary)}
			}
		}
	case evidence.StepVerification:
		var v evidence.VerificationCompleted
		decode(e.Outputs, &v)
		d.Verified = verifiedOf(v)
	case evidence.StepArtifact:
		var a evidence.ArtifactRecorded
		decode(e.Outputs, &a)
		d.Artifacts = append(d.Artifacts, artifact{a.Path, a.SHA256, a.Bytes, a.WrittenAt})
	case evidence.StepProof:
		var in evidence.ProofRecorded
		decode(e.Inputs, &in)
		d.Proofs = append(d.Proofs, artifact{Path: in.Name, SHA256: clip(20_000, string(indented(e.Outputs)))})
	case evidence.StepReceipt:
		d.Receipts++
	}
}

// maxSaid bounds what is quoted of an agent.
const maxSaid = 2000

func indented(raw json.RawMessage) []byte {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return raw
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return raw
	}
	return out
}

// sentence says in one line what a program can derive.
func (d *runPage) sentence() string {
	switch {
	case d.Phase == Running:
		return "It is under way."
	case d.Incomplete != "":
		return d.Incomplete
	case d.Code == string(reason.VerifierTampering): // so that no count of tests says anything
		return clip(300, d.Why)
	case d.Measured && slices.Contains(stopped, reason.Code(d.Code)):
		return clip(300, d.Why) + ". " + d.left()
	case d.Measured && d.Broken+d.NotRun > 0:
		return d.harm() + ". Nothing was delivered; the change is kept."
	case d.Status == evidence.StatusPass && d.Fixed > 0:
		return fmt.Sprintf("%s now and none broke.", passNow(d.Fixed))
	case d.Status == evidence.StatusPass && d.Kept > 0:
		return fmt.Sprintf("%s that passed before still pass.", count(d.Kept, "test"))
	case d.Status == evidence.StatusPass:
		return "The verification commands pass on a fresh checkout with the change."
	case d.Verified != nil && len(d.Verified.Failing) > 0:
		still := failAgain(len(d.Verified.Failing) + d.Verified.FailingMore)
		if d.Fixed > 0 {
			return fmt.Sprintf("It fixes %s, and %s. Nothing was delivered; the change is kept.", count(d.Fixed, "test"), still)
		}
		return fmt.Sprintf("It fixes nothing: %s. Nothing was delivered; the change is kept.", still)
	case d.Why != "":
		return clip(300, d.Why)
	}
	return ""
}

// harm says what a change did to tests that were there before: some that passed fail
// now, some did not run.
func (d *runPage) harm() string {
	notRun := fmt.Sprintf("%s that ran before did not run with it", count(d.NotRun, "test"))
	switch {
	case d.Broken == 0 && d.Fixed > 0:
		return fmt.Sprintf("It fixes %s, but %s", count(d.Fixed, "test"), notRun)
	case d.Broken == 0:
		return notRun
	}
	out := fmt.Sprintf("It breaks %s that passed before", count(d.Broken, "test"))
	if d.Fixed > 0 {
		out = fmt.Sprintf("It fixes %s and breaks %d that passed before", count(d.Fixed, "test"), d.Broken)
	}
	if d.NotRun > 0 {
		out += fmt.Sprintf("; %d more did not run", d.NotRun)
	}
	return out
}

func passNow(n int) string {
	if n == 1 {
		return "1 failing test passes"
	}
	return fmt.Sprintf("%d failing tests pass", n)
}

// siblings are the attempts at the same task.
func (p *Panel) siblings(ctx context.Context, d *runPage) error {
	list, _, err := p.opt.Home.List(ctx)
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.Contract == d.Summary.Contract && s.Repository == d.Repository && s.Contract != "" {
			d.Siblings = append(d.Siblings, s)
			if s.Status == evidence.StatusPass {
				d.Passed++
			}
		}
	}
	if len(d.Siblings) > maxSiblings {
		d.Siblings = d.Siblings[:maxSiblings]
	}
	if len(d.Siblings) > 1 {
		others := []Summary{d.Summary}
		for _, s := range d.Siblings {
			if s.ID != d.ID {
				others = append(others, s)
			}
		}
		d.Compare = compareHref(others)
	}
	return nil
}

const maxSiblings = 40

// readAll reads a small artifact, up to a bound.
func (p *Panel) readAll(ctx context.Context, id, name string, most int64) ([]byte, error) {
	f, _, err := p.opt.Home.Open(ctx, id, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// CostText is what the model cost.
func (d *runPage) CostText() string {
	switch {
	case d.CostKnown == nil:
		return "–"
	case !*d.CostKnown && d.MicroUSD == 0:
		return "not known"
	case !*d.CostKnown:
		return "at least " + money(d.MicroUSD)
	}
	return money(d.MicroUSD)
}

// Documents are the files that follow from the journal.
func (d *runPage) Documents() []string {
	return []string{evidence.ReportFile, evidence.ReportMDFile, evidence.ReceiptFile, evidence.SummaryFile, evidence.ContractFile,
		evidence.EligibilityFile, evidence.ContextFile, evidence.EventsFile, evidence.TraceFile, evidence.ReplayFile, evidence.ManifestFile}
}
