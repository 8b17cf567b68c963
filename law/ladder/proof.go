package ladder

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// ProofSchema names the proof of a stage.
const ProofSchema = "remit.ladder.proof.v1"

// The files of a key's directory besides the proofs themselves.
const (
	InspectionFile = "stage2-no-target-inspection.json"
	SourceFile     = "stage3-source-before-after.json"
	RefreshFile    = "stage6-real-governed-refresh-comparison.json"
)

// proofFiles are the names of the proofs, by stage from 1.
var proofFiles = [...]string{
	"stage1-gated-engine-proof.json", "stage2-artificial-fixture-proof.json", "stage3-copied-repo-proof.json",
	"stage4-disposable-sandbox-proof.json", "stage5-owned-repo-proof.json", "stage6-candidate-default-comparison.json",
}

// ProofFile is the name of a stage's proof, "" for a stage that does not exist.
func ProofFile(stage int) string {
	if stage < 1 || stage > len(proofFiles) {
		return ""
	}
	return proofFiles[stage-1]
}

// MatrixFile is the name of the failure matrix beside the proof of a stage that
// names one.
func MatrixFile(stage int) string { return fmt.Sprintf("stage%d-failure-matrix.json", stage) }

// LanesFile has the lanes of the comparison of stage 6, and the five dimensions.
const LanesFile = "stage6-lanes.json"

// The models that the sessions of a proof asked.
const (
	ModelPair     = "pair"     // the pair that is being proved
	ModelScripted = "scripted" // the scripted model, in the same process
	ModelNone     = "none"
)

// Proof is what one stage showed of one key.
type Proof struct {
	Schema    string `json:"schema"`
	Stage     int    `json:"stage"`
	MadeAt    string `json:"made_at"`
	ReviewBy  string `json:"review_by"` // from then on the proof counts for nothing
	Key       Key    `json:"key"`
	KeySHA256 string `json:"key_sha256"`
	// Engine is what ran, also where the key leaves it open.
	Engine               evidence.EngineIdentity `json:"engine"`
	RuntimeModelProvider *string                 `json:"runtime_model_provider"` // that answered the passing runs; null: none was asked
	Build                evidence.Build          `json:"build"`                  // recorded only: another build with the same key is no reason
	Sandbox              evidence.SandboxFacts   `json:"sandbox"`
	PolicySHA256         string                  `json:"policy_sha256"`
	ContractSHA256       string                  `json:"contract_sha256"`
	SourceAdmissionID    *string                 `json:"source_admission_id"`
	ModelAdmissionID     *string                 `json:"model_admission_id"`
	TargetAdmissionID    *string                 `json:"target_admission_id"`
	ApprovalID           *string                 `json:"approval_id"`
	Earlier              []EarlierProof          `json:"earlier"`       // of each stage below, lowest first
	MatrixSHA256         *string                 `json:"matrix_sha256"` // of the complete failure matrix, where one was made
	Attachments          []Attachment            `json:"attachments"`
	Passes               []Session               `json:"passes"`
	Failures             []Session               `json:"failures"`
	Checks               []Check                 `json:"checks"`
	OK                   bool                    `json:"ok"`
	Checked              int                     `json:"checked"`
	Errors               []string                `json:"errors"` // of the checks that do not hold, and of what could not be made
	Status               string                  `json:"status"` // pass, fail or blocked
	CanonicalJSONSHA256  string                  `json:"canonical_json_sha256"`
}

// EarlierProof is the proof of a stage below.
type EarlierProof struct {
	Stage  int    `json:"stage"`
	SHA256 string `json:"sha256"` // its canonical_json_sha256
}

// Attachment is a file beside the proof.
type Attachment struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// Session is one sealed session that a proof names; it is kept below bundles/.
type Session struct {
	SessionID string `json:"session_id"`
	Engine    string `json:"engine"`
	Model     string `json:"model"` // pair, scripted or none
	Class     string `json:"class"` // of a failure; what a pass shows
	Case      string `json:"case"`
	Status    string `json:"status"`
	Code      string `json:"code"` // of the first blocker, "" for none; see [ClassMissingOutcome]
	// ApprovalID is the approval that a pass consumed, where the stage needs one.
	ApprovalID     *string      `json:"approval_id,omitempty"`
	ReportSHA256   string       `json:"report_sha256"`
	ManifestSHA256 string       `json:"manifest_sha256"`
	Journal        journal.Head `json:"journal"`
}

// Check is one thing that a program looked at.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Seal computes what follows from the rest of a proof: the digests, the counts
// and the status. A proof without a check that holds is no pass.
func (p *Proof) Seal(blocked bool) error {
	p.Schema = ProofSchema
	p.Checked = len(p.Checks)
	for _, c := range p.Checks {
		if !c.OK {
			p.Errors = append(p.Errors, c.Name+": "+c.Detail)
		}
	}
	p.OK = len(p.Errors) == 0 && p.Checked > 0
	switch {
	case p.OK:
		p.Status = evidence.StatusPass
	case blocked:
		p.Status = evidence.StatusBlocked
	default:
		p.Status = evidence.StatusFail
	}
	var err error
	if p.KeySHA256, err = p.Key.Digest(); err != nil {
		return err
	}
	p.CanonicalJSONSHA256 = ""
	text, err := canon.Marshal(p)
	if err == nil {
		p.CanonicalJSONSHA256, err = ownDigest(text)
	}
	if err != nil {
		return reason.Errorf(reason.ProofInvalid, "the proof of stage %d has no canonical form: %w", p.Stage, err)
	}
	return nil
}

// Encode is the proof as it is kept: canonical JSON and a line feed.
func (p *Proof) Encode() ([]byte, error) {
	text, err := canon.Marshal(p)
	return append(text, '\n'), err
}

// ownDigest is the digest of a proof without canonical_json_sha256.
func ownDigest(text []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", err
	}
	delete(fields, "canonical_json_sha256")
	return canon.DigestOf(fields)
}

// ParseProof reads a proof and holds it against everything that it says of
// itself: its form, its digests, its counts, the sessions that its stage needs.
// It does not look at the sessions: [remit/work/prove] does.
func ParseProof(text []byte) (*Proof, error) {
	body, ended := cutLine(text)
	if !ended {
		return nil, reason.Errorf(reason.ProofInvalid, "a proof is one line of canonical JSON with a line feed behind it")
	}
	if defects := evidence.LadderProofDefects(body); len(defects) > 0 {
		return nil, reason.Errorf(reason.ProofInvalid, "%s", defects[0])
	}
	p := &Proof{}
	if err := canon.Decode(body, p); err != nil {
		return nil, reason.Errorf(reason.ProofInvalid, "%w", err)
	}
	digest, err := ownDigest(body)
	switch {
	case err != nil:
		return nil, reason.Errorf(reason.ProofInvalid, "%w", err)
	case digest != p.CanonicalJSONSHA256:
		return nil, reason.Errorf(reason.ProofInvalid, "canonical_json_sha256 is %s, the proof has %s: it was edited", p.CanonicalJSONSHA256, digest)
	}
	if err := p.coherent(); err != nil {
		return nil, reason.Errorf(reason.ProofInvalid, "%w", err)
	}
	return p, nil
}

func cutLine(text []byte) (body []byte, ok bool) {
	n := len(text) - 1
	if n < 0 || text[n] != '\n' {
		return nil, false
	}
	return text[:n], true
}

// coherent says what a proof contradicts in itself.
func (p *Proof) coherent() error {
	digest, err := p.Key.Digest()
	if err != nil {
		return err
	}
	if digest != p.KeySHA256 {
		return fmt.Errorf("key_sha256 is %s, the key has %s", p.KeySHA256, digest)
	}
	if p.Engine.Name != p.Key.Engine {
		return fmt.Errorf("engine %q ran, and the key names %q", p.Engine.Name, p.Key.Engine)
	}
	if p.Key.EngineSHA256 != "" && (p.Engine.SHA256 != p.Key.EngineSHA256 || p.Engine.Version != p.Key.EngineVersion) {
		return fmt.Errorf("the engine that ran is not the one that the key names")
	}
	if p.Sandbox.Driver != p.Key.SandboxDriver {
		return fmt.Errorf("sandbox driver %q ran, and the key names %q", p.Sandbox.Driver, p.Key.SandboxDriver)
	}
	if p.Checked != len(p.Checks) {
		return fmt.Errorf("checked is %d, there are %d checks", p.Checked, len(p.Checks))
	}
	failed := slices.ContainsFunc(p.Checks, func(c Check) bool { return !c.OK })
	if p.OK != (p.Status == evidence.StatusPass) || p.OK && (failed || len(p.Errors) > 0 || p.Checked == 0) {
		return fmt.Errorf("ok is %v with status %s and %d errors: the checks say otherwise", p.OK, p.Status, len(p.Errors))
	}
	if p.OK {
		return p.complete()
	}
	return nil
}

// complete says what a proof that claims a pass lacks.
func (p *Proof) complete() error {
	stage := stages[p.Stage-1]
	if len(p.Earlier) != p.Stage-1 {
		return fmt.Errorf("stage %d needs the proofs of %d stages below it, and names %d", p.Stage, p.Stage-1, len(p.Earlier))
	}
	for i, e := range p.Earlier {
		if e.Stage != i+1 {
			return fmt.Errorf("earlier proof %d is of stage %d", i+1, e.Stage)
		}
	}
	if len(p.Passes) == 0 {
		return fmt.Errorf("no run shows what stage %d proves", p.Stage)
	}
	for _, s := range p.Passes {
		// Stage 1 shows that nothing is executed: its runs are refusals.
		if want := passStatus(p.Stage); s.Status != want {
			return fmt.Errorf("session %s shows %s with status %s, and it must be %s", s.SessionID, s.Class, s.Status, want)
		}
	}
	if err := p.shownBy(); err != nil {
		return err
	}
	for _, class := range stage.FailureClasses {
		if !slices.ContainsFunc(p.Failures, func(s Session) bool { return s.Class == class }) {
			return fmt.Errorf("no run shows how failure class %s of stage %d ends", class, p.Stage)
		}
	}
	for _, s := range p.Failures {
		if s.Status == evidence.StatusPass && !s.withoutOutcome() || s.Code == "" {
			return fmt.Errorf("session %s of failure class %s ends with status %s and code %q", s.SessionID, s.Class, s.Status, s.Code)
		}
	}
	for _, name := range stage.CheckNames(p.Key.Engine) {
		if !slices.ContainsFunc(p.Checks, func(c Check) bool { return c.Name == name && c.OK }) {
			return fmt.Errorf("check %s of stage %d is missing", name, p.Stage)
		}
	}
	return nil
}

// withoutOutcome reports whether a session stands for a run that passed, and counts
// for nothing as long as its operator has said nothing.
func (s *Session) withoutOutcome() bool {
	return s.Class == ClassMissingOutcome && s.Code == string(reason.OperatorOutcomeMissing)
}

// passStatus is how the passing runs of a stage end.
func passStatus(stage int) string {
	if stage == 1 {
		return evidence.StatusBlocked
	}
	return evidence.StatusPass
}

// Expired reports whether the review of a proof is due.
func (p *Proof) Expired(now time.Time) bool {
	by, err := time.Parse(journal.TimeFormat, p.ReviewBy)
	return err != nil || !now.Before(by)
}

// Key names what a proof is about. A proof holds for a run only if the keys are
// equal in every field: another version, digest, model or driver is another key.
//
// EngineVersion and EngineSHA256 are "" for fake and command: the program of
// those is the user's and changes with every run, so the key names the adapter
// that starts it. Provider and Model are "" for an engine that asks no model.
type Key struct {
	Engine         string `json:"engine"`
	EngineVersion  string `json:"engine_version"`
	EngineSHA256   string `json:"engine_sha256"`
	AdapterVersion string `json:"adapter_version"`
	Provider       string `json:"provider"`
	Model          string `json:"model"`
	VerifierSHA256 string `json:"verifier_sha256"`
	SandboxDriver  string `json:"sandbox_driver"`
}

// Digest is the SHA-256 of the canonical key, "sha256:" and 64 hex digits.
func (k Key) Digest() (string, error) {
	digest, err := canon.DigestOf(k)
	if err != nil {
		return "", reason.Errorf(reason.ProofInvalid, "the key of engine %q has no canonical form: %w", k.Engine, err)
	}
	return digest, nil
}

// Differences says in words in which fields a proof's key differs from k, the
// key of what is there now. It is empty for equal keys.
func (k Key) Differences(proved Key) []string {
	var out []string
	differ := func(what, now, then string) {
		if now != then {
			out = append(out, fmt.Sprintf("%s (%s now, %s in the proof)", what, shown(now), shown(then)))
		}
	}
	differ("engine", k.Engine, proved.Engine)
	differ("engine version", k.EngineVersion, proved.EngineVersion)
	differ("engine binary", k.EngineSHA256, proved.EngineSHA256)
	differ("adapter version", k.AdapterVersion, proved.AdapterVersion)
	differ("model pair", pair(k), pair(proved))
	differ("verifier digest", k.VerifierSHA256, proved.VerifierSHA256)
	differ("sandbox driver", k.SandboxDriver, proved.SandboxDriver)
	return out
}

// pair is the model pair as one text, "" without a model.
func pair(k Key) string {
	if k.Provider == "" && k.Model == "" {
		return ""
	}
	return k.Provider + "/" + k.Model
}

// shownDigits is how much of a digest a message repeats.
const shownDigits = len("sha256:") + 12

// shown is a value of a key in a message.
func shown(value string) string {
	switch {
	case value == "":
		return "none"
	case canon.ValidDigest(value):
		return value[:shownDigits]
	}
	return value
}
