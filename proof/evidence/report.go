package evidence

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"remit/proof/canon"
	"remit/proof/journal"
)

// stamp is an artifact's freshness: when it was written and when it was read
// back and hashed. A projection is as fresh as the journal's last entry.
type stamp struct {
	WrittenAt string `json:"written_at"`
	CheckedAt string `json:"checked_at"`
}

// Report is report.json.
type Report struct {
	Schema                  string            `json:"schema"`
	CaseID                  string            `json:"case_id"`
	RunID                   string            `json:"run_id"`
	SessionID               string            `json:"session_id"`
	Status                  string            `json:"status"`
	Backend                 string            `json:"backend"`
	RunStartedAt            string            `json:"run_started_at"`
	RunFinishedAt           string            `json:"run_finished_at"`
	BackendExitCode         *int              `json:"backend_exit_code"`
	EngineProcessStarted    bool              `json:"engine_process_started"`
	ArtifactsDir            string            `json:"artifacts_dir"`
	ChangedFiles            []string          `json:"changed_files"`
	AllowedWritesPassed     bool              `json:"allowed_writes_passed"`
	ApprovalStatus          string            `json:"approval_status"`
	MutationMode            string            `json:"mutation_mode"`
	AllowedMutationScope    string            `json:"allowed_mutation_scope"`
	Verification            []CommandRun      `json:"verification"`
	VerificationDelta       int               `json:"verification_delta"`
	Blockers                []Blocker         `json:"blockers"`
	FailureReason           *string           `json:"failure_reason"`
	SourceAdmissionStatus   string            `json:"source_admission_status"`
	ModelProvider           *string           `json:"model_provider"`
	Model                   *string           `json:"model"`
	RuntimeModelProvider    *string           `json:"runtime_model_provider"`
	ModelAdmissionStatus    string            `json:"model_admission_status"`
	SourceRepositoryMutated bool              `json:"source_repository_mutated"`
	SourceChangedMeanwhile  *SourceChange     `json:"source_changed_meanwhile,omitempty"` // out of the run's reach
	OperatorOutcome         string            `json:"operator_outcome"`
	NotApplicable           map[string]string `json:"not_applicable"`
	Usage                   MeteredUsage      `json:"usage"`
	Lifecycle               *Lifecycle        `json:"lifecycle,omitempty"` // of an engine that was stopped
	// What a verification says of its own tests, where it states a control.
	Control        *Control     `json:"control,omitempty"`
	NewTests       *NewTests    `json:"new_tests,omitempty"`
	Observation    *Observation `json:"observation,omitempty"`
	UntrackedTests []string     `json:"untracked_tests,omitempty"`
	PolicySHA256   string       `json:"policy_sha256,omitempty"`
	Parent         *Parent      `json:"parent,omitempty"`      // of a run that continues another
	Checked        *Checked     `json:"checked,omitempty"`     // of a run without an engine
	Environment    *Environment `json:"environment,omitempty"` // what lay beside the tree
	// Of a run that delivers its change: where it may go, what the repository is,
	// and what is there now.
	BranchPolicy            *ReportedPolicy  `json:"branch_policy,omitempty"`
	TargetRepository        string           `json:"target_repository,omitempty"`         // digest of its path
	DisposableRepositoryDir string           `json:"disposable_repository_dir,omitempty"` // symbolic
	Delivered               *DeliveredBranch `json:"delivered,omitempty"`

	ArtifactPaths   []string          `json:"artifact_paths"`
	ArtifactDigests map[string]string `json:"artifact_digests"`
	Freshness       map[string]stamp  `json:"freshness"`
}

// report makes report.json over the other projections. Its own digest in
// artifact_digests is that of the canonical report with that one value empty.
func (r *run) report(set Set) ([]byte, error) {
	rep := r.reportFields()
	head := entryTime(&r.entries[len(r.entries)-1])
	add := func(name, digest string, s stamp) {
		rep.ArtifactPaths = append(rep.ArtifactPaths, name)
		rep.ArtifactDigests[name] = digest
		rep.Freshness[name] = s
	}
	projected := stamp{head, head}
	for _, name := range set.Names() {
		add(name, canon.Digest(set[name]), projected)
	}
	for _, a := range r.artifacts {
		add(a.Path, a.SHA256, stamp{a.WrittenAt, a.CheckedAt})
	}
	add(ReportFile, "", projected)
	digest, err := canon.DigestOf(rep)
	if err != nil {
		return nil, err
	}
	rep.ArtifactDigests[ReportFile] = digest
	b, err := canon.Marshal(rep)
	return append(b, '\n'), err
}

func (r *run) reportFields() *Report {
	o := r.opened
	rep := &Report{
		Schema: ReportSchema, CaseID: o.CaseID, RunID: o.RunID, SessionID: r.session,
		Status: StatusBlocked, Backend: o.Engine.Name, RunStartedAt: r.entries[0].StartedAt,
		RunFinishedAt: r.completedAt, ArtifactsDir: ".", ChangedFiles: []string{}, Verification: []CommandRun{},
		ApprovalStatus: r.approval, MutationMode: o.MutationMode, AllowedMutationScope: r.mutationScope(),
		Blockers: []Blocker{}, SourceAdmissionStatus: o.SourceAdmission, ModelProvider: o.ModelProvider, Model: o.Model,
		ModelAdmissionStatus: o.ModelAdmission, OperatorOutcome: Pending, NotApplicable: map[string]string{},
		Usage: r.usage, Lifecycle: r.reported(), PolicySHA256: o.PolicySHA256, Parent: o.Parent, Checked: r.checked(), ArtifactDigests: map[string]string{}, Freshness: map[string]stamp{}, ArtifactPaths: []string{},
	}
	if r.usage.CostKnown != nil && r.usage.Requests > 0 {
		rep.RuntimeModelProvider = o.ModelProvider // the gateway knows no other
	}
	if r.completed != nil {
		rep.Status, rep.Blockers, rep.FailureReason = r.completed.Status, r.completed.Blockers, r.completed.FailureReason
	}
	if r.engine != nil {
		rep.BackendExitCode, rep.EngineProcessStarted = r.engine.ExitCode, r.engine.ProcessStarted
	} else {
		rep.EngineProcessStarted = r.engineStarted
	}
	if r.patch != nil {
		for _, f := range r.patch.Files {
			rep.ChangedFiles = append(rep.ChangedFiles, f.Path)
		}
	}
	rep.AllowedWritesPassed = r.writes != nil && r.writes.AllowedWritesPassed
	for _, p := range r.judged() {
		rep.Verification = append(rep.Verification, p.Runs...)
	}
	if r.verification != nil {
		v := r.verification
		rep.VerificationDelta = v.Delta
		rep.Control, rep.NewTests, rep.Observation, rep.UntrackedTests = v.Control, v.NewTests, v.Observation, v.Untracked
	}
	if r.source != nil {
		rep.SourceRepositoryMutated, rep.SourceChangedMeanwhile = r.source.Mutated, r.source.Meanwhile
	}
	rep.Environment = r.environment()
	if r.outcome != nil {
		rep.OperatorOutcome = r.outcome.Outcome
	}
	r.notApplicable(rep.NotApplicable)
	r.reportDelivery(rep)
	return rep
}

// mutationScope is what the run's mode means, in words.
func (r *run) mutationScope() string {
	return cmp.Or(r.opened.AllowedMutationScope, olderScope(r.opened.MutationMode))
}

// judged are the phases that the verdict is about: of the patched tree each, of
// the baseline the last. A run that is taken up again verifies both again.
func (r *run) judged() []VerifyPhase {
	last := r.phase("base")
	var out []VerifyPhase
	for i := range r.phases {
		p := &r.phases[i]
		if len(p.Runs) == 0 || p.Runs[0].Phase != "base" || p == last {
			out = append(out, *p)
		}
	}
	return out
}

// notApplicable says of each field that holds no observation why it does not.
func (r *run) notApplicable(out map[string]string) {
	if r.engine == nil || r.engine.ExitCode == nil {
		out["backend_exit_code"] = "the engine process did not run to an exit"
	}
	if r.checks() {
		out["backend_exit_code"] = "the run checks a change that was there before, and has no engine"
		out["engine.sha256"] = out["backend_exit_code"]
	}
	if r.writes == nil {
		out["allowed_writes_passed"] = "no patch was captured, so no path was checked"
	}
	if r.verification == nil {
		out["verification"] = "the run ended before the verifier"
	}
	if r.source == nil {
		out["source_repository_mutated"] = "the run ended before the source was looked at again"
	}
	if r.opened.Model == nil {
		out["model"] = "this engine uses no model"
		out["runtime_model_provider"] = "this engine uses no model"
		out["usage"] = "no model gateway was open, so no request could be made"
	}
	r.notApplicableUnopened(out)
	if r.completed == nil {
		out["run_finished_at"] = "the run has not ended"
	}
}

// between is the time from a to b in milliseconds, 0 if either is not a time.
func between(a, b string) int64 {
	from, err := time.Parse(time.RFC3339Nano, a)
	if err != nil {
		return 0
	}
	to, err := time.Parse(time.RFC3339Nano, b)
	if err != nil {
		return 0
	}
	return max(0, to.Sub(from).Milliseconds())
}

// ReadReport decodes report.json of a session directory listing.
func ReadReport(b []byte) (*Report, error) {
	rep := new(Report)
	return rep, json.Unmarshal(b, rep)
}

// ReportOf projects only the report's fields, without digests: what a listing shows.
func ReportOf(entries []journal.Entry) (*Report, error) {
	r, err := fold(entries)
	if err != nil {
		return nil, err
	}
	return r.reportFields(), nil
}

// reportMarkdown makes report.md: the report for a person who audits a run.
func (r *run) reportMarkdown() []byte {
	rep := r.reportFields()
	var b strings.Builder
	fmt.Fprintf(&b, "# Run report: %s\n\n**Status: %s**\n\n", r.title(), strings.ToUpper(rep.Status))
	row := func(k, v string) { fmt.Fprintf(&b, "| %s | %s |\n", k, strings.ReplaceAll(plainLine(v), "|", `\|`)) }
	b.WriteString("| what | value |\n|---|---|\n")
	row("session", code(r.session))
	row("case", code(rep.CaseID))
	row("run id", code(rep.RunID))
	row("started", rep.RunStartedAt)
	row("finished", rep.RunFinishedAt)
	row("engine", code(r.opened.Engine.Name+" "+r.opened.Engine.Version))
	if r.opened.DecidedOn == "" {
		row("baseline", code(string(r.opened.BaselineCommit)))
	} else {
		row("baseline", "none: "+r.unopened())
	}
	if rep.Parent != nil {
		row("continues", code(rep.Parent.SessionID)+" ("+rep.Parent.Status+"), patch "+code(rep.Parent.PatchSHA256)+", kept as "+code(ParentPatchFile))
	}
	row("mutation", rep.MutationMode+" ("+rep.AllowedMutationScope+")")
	row("approval", rep.ApprovalStatus)
	if rep.PolicySHA256 != "" {
		row("policy as applied", code(rep.PolicySHA256))
	}
	row("sandbox", r.opened.Host.Sandbox.Driver+" "+r.opened.Host.Sandbox.Version+", "+r.opened.Host.Sandbox.Layer)
	if len(r.opened.Host.Sandbox.NotEnforced) > 0 {
		row("**not enforced here**", strings.Join(r.opened.Host.Sandbox.NotEnforced, ", "))
	}
	row("source repository touched", fmt.Sprint(rep.SourceRepositoryMutated))
	if s := rep.SourceChangedMeanwhile; s != nil {
		row("source repository", s.Sentence())
	}
	if rep.BranchPolicy != nil {
		row("delivery", rep.DeliverySentence())
	}
	if rep.Environment != nil {
		for _, s := range rep.Environment.Sentences() {
			row("environment", s)
		}
	}
	row("operator outcome", rep.OperatorOutcome)
	if rep.Lifecycle != nil {
		fmt.Fprintf(&b, "\n%s\n", rep.Lifecycle.sentence())
	}
	if len(rep.Blockers) > 0 {
		b.WriteString("\n## Blockers\n\n")
		for _, k := range rep.Blockers {
			fmt.Fprintf(&b, "- `%s`: %s (see `%s`)\n", k.Code, r.prose(k.Message), k.Evidence)
		}
	}
	b.WriteString("\n## Changed files\n\n")
	if len(rep.ChangedFiles) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString("| path | operation | added | removed |\n|---|---|---|---|\n")
		for _, f := range r.patch.Files {
			fmt.Fprintf(&b, "| %s | %s | %d | %d |\n", strings.ReplaceAll(code(f.Path), "|", `\|`), f.Op, f.Added, f.Removed)
		}
	}
	if r.patch != nil && len(r.patch.Ignored) > 0 {
		more := ""
		if n := r.patch.IgnoredMore; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		fmt.Fprintf(&b, "\nLeft out by the baseline's ignore rules: %s%s.\n", names(r.patch.Ignored), more)
	}
	b.WriteString("\n## Verification\n\n")
	if len(rep.Verification) == 0 {
		b.WriteString("Not run.\n")
	} else {
		b.WriteString("| phase | command | exit | passed | tests | ms |\n|---|---|---|---|---|---|\n")
		for _, c := range rep.Verification {
			tests := "unknown"
			if c.Tests != nil {
				tests = fmt.Sprintf("%d passed, %d failed, %d skipped", c.Tests.Passed, c.Tests.Failed, c.Tests.Skipped)
			}
			phase := c.Phase
			if c.Cached {
				phase += ", of " + c.CachedAt + " (cached)"
			}
			fmt.Fprintf(&b, "| %s | %s | %d | %t | %s | %d |\n", phase, strings.ReplaceAll(code(c.Command), "|", `\|`), c.ExitCode, c.Passed, tests, c.DurationMS)
		}
	}
	if r.stated() {
		fmt.Fprintf(&b, "\n## The tests themselves\n\n- Control: %s\n- New or edited tests: %s\n- Parts of the change that no test notices: %s\n",
			r.controlled(rep.Control), r.newTests(rep.NewTests), r.unobserved(rep.Observation))
		if len(rep.UntrackedTests) > 0 {
			fmt.Fprintf(&b, "- Not part of this run, since no commit has them: %s\n", names(rep.UntrackedTests))
		}
	}
	if r.engine != nil && len(r.engine.Caps) > 0 {
		b.WriteString("\n## Resource limits of the engine\n\n| limit | value | enforced | by | observed |\n|---|---|---|---|---|\n")
		for _, c := range r.engine.Caps {
			fmt.Fprintf(&b, "| %s | %d | %t | %s | %d |\n", c.Name, c.Limit, c.Enforced, c.How, c.Observed)
		}
	}
	return []byte(b.String())
}
