package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"remit/law/eligibility"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/redact"
)

// notOpened is the sandbox driver of a run that was refused before one was needed.
const notOpened = "not-opened"

// gateLog is the raw log of a refusal, and inspectionProof says what was opened
// and started for it.
const (
	gateLog         = evidence.BackendDir + "/gate.log"
	inspectionProof = "no-target-inspection"
)

// Looked is what a caller has read of the target before it asked for the run, and
// the programs that it started for that.
type Looked struct {
	Files    []string
	Programs []string
}

// Preflight asks the gates that records, the contract and, with
// [eligibility.KnownPolicy], the policy decide. They need neither the repository
// nor git, a sandbox or any other process, and nothing of that is opened or
// started here. A refusal is a whole session: the outcome. Without one the run may
// go on, and the outcome is nil.
func Preflight(ctx context.Context, req Request, known eligibility.Known) (*Outcome, error) {
	if req.Clock == nil {
		req.Clock = time.Now
	}
	r, identity, err := req.before(ctx)
	if err != nil {
		return nil, err
	}
	if !eligibility.Decide(r.askedBefore(known)).Blocked() {
		return nil, nil
	}
	r.secrets = redact.New(req.Credentials)
	if r.opened, err = r.opening(identity); err != nil {
		return nil, err
	}
	r.opened.DecidedOn, r.opened.Host.Sandbox.Driver = string(known), notOpened
	if r.opened.RunID, err = evidence.RunIDOf(r.opened); err != nil {
		return nil, err
	}
	if err := r.refuseSecretsNamed(); err != nil {
		return nil, err
	}
	if err := r.create(); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(r.work) }() // what stays is swept by the next run
	defer func() { _ = r.w.Close() }()          // it is synced before anything depends on it
	r.hook = req.JournalHook
	if err := r.refuseEarly(known); err != nil {
		r.stop(ctx, err)
	}
	return r.seal(ctx)
}

// Refuses reports whether [Preflight] would refuse, and leaves nothing behind.
func Refuses(ctx context.Context, req Request, known eligibility.Known) (bool, error) {
	r, _, err := req.before(ctx)
	return err == nil && eligibility.Decide(r.askedBefore(known)).Blocked(), err
}

// before is the run as it is known before its repository is opened.
func (req Request) before(ctx context.Context) (*run, evidence.EngineIdentity, error) {
	r := &run{Request: req, artifact: map[string]bool{}}
	identity, err := r.identityBefore(ctx)
	if reason.CodeOf(err) == reason.ProviderUnavailable && eligibility.AdmissionRequired(r.EngineName) && r.EngineName != "" {
		identity, err, r.Admission.Unavailable = evidence.EngineIdentity{Name: r.EngineName}, nil, err
	}
	if r.opened.Engine.Name = identity.Name; r.Denier != "" {
		r.approved.state, r.approved.by.DecidedBy = eligibility.ApprovalDenied, r.Denier
	}
	return r, identity, err
}

// identityBefore is the engine's identity as far as it is known without a look at
// a program that could be a file of the target: that of an engine that needs no
// admission is its name.
func (r *run) identityBefore(ctx context.Context) (evidence.EngineIdentity, error) {
	switch {
	case r.Admission.Build != nil:
		return *r.Admission.Build, nil
	case r.EngineName != "" && (r.Admission.Unavailable != nil || !eligibility.AdmissionRequired(r.EngineName)):
		return evidence.EngineIdentity{Name: r.EngineName}, nil //nolint:nilerr // that its program is missing is the refusal
	}
	return r.Engine.Identity(ctx)
}

// askedBefore is the request of a run of which no more is known.
func (r *run) askedBefore(known eligibility.Known) eligibility.Request {
	req := r.eligibilityRequest()
	req.Known, req.ModeOpen, req.Sandbox = known, known == eligibility.KnownRecords && !r.Contract.StatesMode(), eligibility.Sandbox{}
	return req
}

// refuseEarly journals the refusal, and what shows that nothing was opened for it.
func (r *run) refuseEarly(known eligibility.Known) error {
	raw, err := r.Contract.Canonical()
	if err != nil {
		return fmt.Errorf("encoding the contract: %w", err)
	}
	r.note(evidence.StepContract, "contract", journal.Completed,
		evidence.ContractCreated{ContractSHA256: r.opened.ContractSHA256, Contract: raw}, blockersOnly{})
	r.tell(evidence.StepContract, string(journal.Completed), r.Contract.TaskID)
	decision := eligibility.Decide(r.askedBefore(known))
	encoded, err := canon.Marshal(decision)
	if err != nil {
		return fmt.Errorf("encoding the eligibility decision: %w", err)
	}
	blockers := decisionBlockers(decision)
	if r.Compared && !slices.ContainsFunc(blockers, func(b evidence.Blocker) bool { return b.Code == reason.ProviderUnavailable }) {
		blockers = append(blockers, evidence.Blocker{Code: reason.ProviderUnavailable, Evidence: gateLog,
			Message: fmt.Sprintf("this lane of the comparison cannot run: %s", blockers[0].Code)})
	}
	r.note(evidence.StepEligibility, "eligibility", status(blockers), nil, evidence.EligibilityDecided{Decision: encoded, Blockers: blockers})
	r.noteApproval()
	_ = r.gateBlocked(decision.MissingGates[0], blockers[0].Code) // it says errStopped
	inspected, err := r.inspection(raw)
	if err != nil {
		return err
	}
	r.recordProof(inspectionProof, inspected)
	return r.writeGateLog(decision)
}

// writeGateLog writes the raw log of the refusal.
func (r *run) writeGateLog(d eligibility.Decision) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: engine %s, mutation mode %s, decided on: %s\n", stamp(r.clock()), r.opened.Engine.Name, r.opened.MutationMode,
		r.opened.DecidedOn)
	for _, name := range d.PassedGates {
		fmt.Fprintf(&b, "passed   %s\n", name)
	}
	for _, why := range d.Reasons {
		if slices.Contains(d.MissingGates, why.Gate) {
			fmt.Fprintf(&b, "missing  %s: %s: %s\n         to open it: %s\n", why.Gate, why.Code, why.Detail, d.Remedy(why.Gate))
		}
	}
	for _, name := range d.NotAsked {
		fmt.Fprintf(&b, "not asked %s\n", name)
	}
	fmt.Fprintf(&b, "denied   backend.gate. The run opened no repository and started no process.\n")
	path := filepath.Join(r.session.Dir, filepath.FromSlash(gateLog))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return writeFailure(gateLog, err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return writeFailure(gateLog, err)
	}
	return r.recordArtifact(gateLog)
}

// inspection is the body of proofs/no-target-inspection.json.
type inspection struct {
	DecidedOn        string     `json:"decided_on"`
	RepositoryOpened bool       `json:"repository_opened"` // by the run
	SandboxOpened    bool       `json:"sandbox_opened"`
	ProcessesStarted []string   `json:"processes_started"` // by the run
	FilesBefore      []string   `json:"files_read_before"` // of the target, by the command that asked for the run
	ProgramsBefore   []string   `json:"programs_started_before"`
	Searched         []searched `json:"searched"`
}

// searched is a place that was searched for the path of the target. NamingTarget
// are its parts that hold it, by name: the path itself is in no evidence.
type searched struct {
	Place        string   `json:"place"`
	Values       int      `json:"values"`
	NamingTarget []string `json:"naming_target"`
}

// inspection searches what the run was asked with for the path of the target.
func (r *run) inspection(contract []byte) (inspection, error) {
	target, err := r.targetPaths()
	if err != nil {
		return inspection{}, err
	}
	out := inspection{DecidedOn: r.opened.DecidedOn, ProcessesStarted: []string{}, FilesBefore: orNone(r.Looked.Files),
		ProgramsBefore: orNone(r.Looked.Programs)}
	configuration := map[string]string{"nexus": r.Nexus, "repo_ref": r.RepoRef}
	if m := r.Model; m != nil {
		configuration["provider"], configuration["model"], configuration["base_url"] = m.Upstream.Provider, m.Model, m.Upstream.BaseURL
		configuration["model_ca"], configuration["key_file"] = m.Upstream.CAFile, m.Upstream.Credential.File
	}
	environment, argv := map[string]string{}, map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		environment[name] = value
	}
	for i, word := range os.Args {
		argv[fmt.Sprintf("word %d", i)] = word
	}
	fields := map[string]string{}
	var decoded any
	if err := json.Unmarshal(contract, &decoded); err != nil {
		return inspection{}, fmt.Errorf("reading the contract: %w", err)
	}
	collectTexts(decoded, "", fields)
	for _, place := range []struct {
		name   string
		values map[string]string
	}{{"contract", fields}, {"argv", argv}, {"environment", environment}, {"configuration", configuration}} {
		found := searched{Place: place.name, Values: len(place.values), NamingTarget: []string{}}
		for name, value := range place.values {
			if value == r.Repo && value != "." || slices.ContainsFunc(target, func(path string) bool { return namesPath(value, path) }) {
				found.NamingTarget = append(found.NamingTarget, evidence.DisplayPath(name))
			}
		}
		slices.Sort(found.NamingTarget)
		out.Searched = append(out.Searched, found)
	}
	return out, nil
}

// targetPaths are the forms in which the path of the target can be written.
func (r *run) targetPaths() ([]string, error) {
	path, err := filepath.Abs(r.Repo)
	if err != nil {
		return nil, fmt.Errorf("finding the repository: %w", err)
	}
	paths := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		paths = append(paths, real)
	}
	return slices.DeleteFunc(paths, func(p string) bool { return p == string(filepath.Separator) }), nil
}

// namesPath reports whether a text holds a path, and not only the beginning of a
// longer name.
func namesPath(text, path string) bool {
	for {
		at := strings.Index(text, path)
		if at < 0 {
			return false
		}
		text = text[at+len(path):]
		if next := []rune(text[:min(len(text), 4)]); len(next) == 0 ||
			!unicode.IsLetter(next[0]) && !unicode.IsDigit(next[0]) && !strings.ContainsRune("-_.", next[0]) {
			return true
		}
	}
}

// collectTexts collects the texts of a JSON value by their places.
func collectTexts(v any, place string, out map[string]string) {
	switch v := v.(type) {
	case string:
		out[place] = v
	case []any:
		for i := range v {
			collectTexts(v[i], fmt.Sprintf("%s/%d", place, i), out)
		}
	case map[string]any:
		for key := range v {
			collectTexts(v[key], place+"/"+key, out)
		}
	}
}

// unavailable is why an engine cannot run, as its gate says it.
func (r *run) unavailable(err error) *eligibility.Unavailable {
	out := &eligibility.Unavailable{Code: reason.ProviderUnavailable, Detail: err.Error()}
	if coded, ok := errors.AsType[*reason.Error](err); ok {
		out.Code, out.Remedy = coded.Code, r.scrub(coded.Hint)
		out.Detail = strings.TrimSuffix(err.Error(), fmt.Sprintf(" (%s)", coded.Code)) // the code stands beside it
	}
	out.Detail = r.scrub(out.Detail)
	return out
}
