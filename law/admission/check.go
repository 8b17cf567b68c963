package admission

import (
	"fmt"

	"remit/law/eligibility"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// Status is a status word of the report.
type Status = eligibility.ModelStatus

// The status words. Only admitted admits; not_required is for what asks for no
// record.
const (
	StatusAdmitted    = eligibility.ModelAdmitted
	StatusMissing     = eligibility.ModelMissing
	StatusMismatch    = eligibility.ModelMismatch
	StatusInvalid     = eligibility.ModelInvalid
	StatusNotAdmitted = eligibility.ModelNotAdmitted
	StatusNotRequired = eligibility.ModelNotRequired
)

// Result is what a record says of what is at hand.
type Result struct {
	Status   Status      `json:"status"`
	Code     reason.Code `json:"code"`  // "" when admitted or not required
	Stale    bool        `json:"stale"` // the record is about another build or pair
	Detail   string      `json:"detail"`
	RecordID string      `json:"record_id"` // of the latest decision, "" without a valid record
}

// Admitted reports whether a record holds. What requires none is not admitted.
func (r Result) Admitted() bool { return r.Status == StatusAdmitted }

// SourceStatus is the source_admission_status of the report, which has only
// three words.
func (r Result) SourceStatus() string {
	if r.Status == StatusAdmitted || r.Status == StatusNotRequired {
		return string(r.Status)
	}
	return string(StatusNotAdmitted)
}

// CheckSource says whether the record, nil for none, admits this build of an
// engine. The engines that are built in require none, whatever a record says.
func CheckSource(rec *Source, id evidence.EngineIdentity) Result {
	if !eligibility.AdmissionRequired(id.Name) {
		return Result{Status: StatusNotRequired, Detail: fmt.Sprintf("engine %q is built in", id.Name)}
	}
	if rec == nil {
		return Result{Status: StatusMissing, Code: reason.SourceNotAdmitted, Detail: fmt.Sprintf("no record admits a build of engine %q", id.Name)}
	}
	return rec.Holds(id)
}

// Holds is [CheckSource] for an engine of any kind.
func (s *Source) Holds(id evidence.EngineIdentity) Result {
	if err := s.Check(); err != nil {
		return InvalidSource(err)
	}
	r := Result{Status: StatusMismatch, Code: reason.SourceNotAdmitted, Stale: true, RecordID: s.ID}
	switch {
	case s.Engine != id.Name:
		r.Detail = fmt.Sprintf("the record is stale: it is about engine %q, not %q", s.Engine, id.Name)
	case s.Decision != Admitted:
		r.Status, r.Stale = StatusNotAdmitted, s.Identity() != id
		r.Detail = fmt.Sprintf("the decision about engine %q is %s", s.Engine, s.Decision)
	case s.Version != id.Version:
		r.Detail = fmt.Sprintf("the record is stale: it is about version %q of engine %q, not %q", s.Version, s.Engine, id.Version)
	case s.SHA256 != id.SHA256:
		r.Detail = fmt.Sprintf("the record is stale: what engine %q executes is %q, and %s was admitted", s.Engine, id.SHA256, s.SHA256)
	default:
		return Result{Status: StatusAdmitted, Detail: fmt.Sprintf("version %s of engine %q is admitted", s.Version, s.Engine), RecordID: s.ID}
	}
	return r
}

// CheckModel says whether the record, nil for none, admits a pair. A run that
// asks no model, and so names neither, requires none.
func CheckModel(rec *Model, provider, model string) Result {
	pair := fmt.Sprintf("%q of provider %q", model, provider)
	switch {
	case provider == "" && model == "":
		return Result{Status: StatusNotRequired, Detail: "no model is asked"}
	case rec == nil:
		return Result{Status: StatusMissing, Code: reason.ModelNotAdmitted, Detail: "no record admits model " + pair}
	}
	if err := rec.Check(); err != nil {
		return InvalidModel(err)
	}
	r := Result{Code: reason.ModelNotAdmitted, RecordID: rec.ID}
	switch {
	case rec.Provider != provider || rec.Model != model:
		r.Status, r.Code, r.Stale = StatusMismatch, reason.ModelMismatch, true
		r.Detail = fmt.Sprintf("the record is stale: it is about model %q of provider %q, not %s", rec.Model, rec.Provider, pair)
	case rec.Decision != Admitted:
		r.Status = StatusNotAdmitted
		r.Detail = fmt.Sprintf("the decision about model %s is %s", pair, rec.Decision)
	default:
		r.Status, r.Code, r.Detail = StatusAdmitted, "", fmt.Sprintf("model %s is admitted", pair)
	}
	return r
}

// InvalidSource is the result of a source record that could not be read.
func InvalidSource(err error) Result {
	return Result{Status: StatusInvalid, Code: reason.SourceNotAdmitted, Detail: err.Error()}
}

// InvalidModel is the result of a model record that could not be read.
func InvalidModel(err error) Result {
	return Result{Status: StatusInvalid, Code: reason.ModelNotAdmitted, Detail: err.Error()}
}

// SourceResult reads the record of an engine and checks it. rec is nil where
// none was found or the one that is there is damaged.
func SourceResult(home string, id evidence.EngineIdentity) (res Result, rec *Source) {
	rec, err := SourceRecord(home, id.Name)
	if err != nil && eligibility.AdmissionRequired(id.Name) {
		return InvalidSource(err), nil
	}
	return CheckSource(rec, id), rec
}

// ModelResult reads the record of a pair and checks it. rec is nil where none
// was found or the one that is there is damaged.
func ModelResult(home, provider, model string) (res Result, rec *Model) {
	if provider == "" && model == "" {
		return CheckModel(nil, provider, model), nil
	}
	rec, err := ModelRecord(home, provider, model)
	if err != nil {
		return InvalidModel(err), nil
	}
	return CheckModel(rec, provider, model), rec
}
