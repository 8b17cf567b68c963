package admission

import (
	"errors"
	"fmt"
	"strings"

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
	// Fired are the review triggers that have made the record stale.
	Fired []Trigger `json:"fired_triggers,omitempty"`
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
		return uncounted(err, reason.SourceNotAdmitted)
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
		return uncounted(err, reason.ModelNotAdmitted)
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

// SourceResult reads the record of an engine and checks it. rec is nil where
// none was found or the one that is there does not count.
func (s Store) SourceResult(id evidence.EngineIdentity) (res Result, rec *Source) {
	rec, err := s.Source(id.Name)
	if err != nil && eligibility.AdmissionRequired(id.Name) {
		return uncounted(err, reason.SourceNotAdmitted), nil
	}
	if res = CheckSource(rec, id); rec != nil {
		res = s.Reviewed(res, reason.SourceNotAdmitted, rec.Ruling, Facts{OnEngineDigest: id.SHA256})
	}
	return res, rec
}

// ModelResult reads the record of a pair and checks it, with the decision about
// the provider that it rests on. rec is nil where none was found or the one that
// is there does not count.
func (s Store) ModelResult(provider, model string) (res Result, rec *Model) {
	if provider == "" && model == "" {
		return CheckModel(nil, provider, model), nil
	}
	rec, err := s.Model(provider, model)
	if err != nil {
		return uncounted(err, reason.ModelNotAdmitted), nil
	}
	if res = CheckModel(rec, provider, model); !res.Admitted() {
		return res, rec
	}
	if id := rec.ProviderDecisionID; id != "" {
		behind, err := s.ProviderDecision(provider, model)
		if err != nil {
			return uncounted(err, reason.ModelNotAdmitted), nil
		}
		if res = res.restsOn(behind, rec); !res.Admitted() {
			return res, rec
		}
		if res = s.Reviewed(res, reason.ModelMismatch, behind.Ruling, Facts{OnFallback: behind.facts()[OnFallback]}); !res.Admitted() {
			res.Detail = "the decision about the provider: " + res.Detail
			return res, rec
		}
	}
	return s.Reviewed(res, reason.ModelMismatch, rec.Ruling, Facts{OnFallback: listFact(rec.Fallbacks)}), rec
}

// restsOn holds an admitted pair against the decision about its provider, nil for
// none.
func (r Result) restsOn(behind *ProviderDecision, rec *Model) Result {
	refuse := func(stale bool, format string, args ...any) Result {
		return Result{Status: StatusMismatch, Code: reason.ModelMismatch, Stale: stale, RecordID: r.RecordID, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case behind == nil:
		return refuse(true, "the record is stale: the decision about the provider that it rests on is gone")
	case behind.ID != rec.ProviderDecisionID:
		return refuse(true, "the record is stale: the decision about the provider that it rests on was made again (revision %d)", behind.Revision)
	case behind.DecisionStatus != rec.DecisionStatus:
		return refuse(false, "the decision about the provider is %s, and the record says %s", behind.DecisionStatus, rec.DecisionStatus)
	}
	return r
}

// Reviewed makes an admitted result stale where a review trigger of the record
// has fired, and says which. own are the facts of the question itself, which win
// over those of the store; stale is the code of a stale record of its kind.
func (s Store) Reviewed(r Result, stale reason.Code, rec Ruling, own Facts) Result {
	if !r.Admitted() {
		return r
	}
	fired := rec.Fired(own.With(s.Facts), s.Now)
	if len(fired) == 0 {
		return r
	}
	var said []string
	for _, f := range fired {
		r.Fired = append(r.Fired, f.On)
		said = append(said, f.String())
	}
	r.Status, r.Stale, r.Code = StatusMismatch, true, stale
	r.Detail = "the record is stale, because a review trigger fired: " + strings.Join(said, "; ")
	return r
}

// uncounted is the result of a record that could not be read or does not count.
func uncounted(err error, code reason.Code) Result {
	var unsigned *Unsigned
	if errors.As(err, &unsigned) {
		return Result{Status: StatusMissing, Code: code, Detail: err.Error()}
	}
	return Result{Status: StatusInvalid, Code: code, Detail: err.Error()}
}
