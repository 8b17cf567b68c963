package ladder

import (
	"fmt"
	"slices"

	"remit/proof/evidence"
	"remit/proof/reason"
)

// StatusSchema names the control summary.
const StatusSchema = "remit.ladder.status.v1"

// The states of a stage in the control summary.
const (
	NotProven = "not proven"
	Unchecked = "recorded, not checked" // a record is there, and this version cannot check it: it counts for nothing
)

// The positions that no evidence changes by itself.
const (
	NotCandidate = "not-candidate"
	Candidate    = "candidate" // every stage is proven; no default follows from it
	NotPromoted  = "not-promoted"
	NotDecided   = "not_decided"
)

// Record is a file that claims something of an engine.
type Record struct {
	Path   string `json:"path"` // relative to REMIT_HOME
	SHA256 string `json:"sha256"`
}

// MatrixRecord is the last full failure matrix that was kept.
type MatrixRecord struct {
	Record
	Status     string `json:"status"`
	Held       int    `json:"held"`
	Total      int    `json:"total"`
	FinishedAt string `json:"finished_at"`
	// Current says that this very build made it. Another build's says nothing
	// of this one.
	Current bool         `json:"current"`
	Cases   []MatrixCase `json:"cases"` // in the order of the matrix
}

// MatrixCase is how one case of a row had to end, and how it ended. What a session
// says in free text is left out: the record has it.
type MatrixCase struct {
	Row            string        `json:"row"`
	Case           string        `json:"case"`
	ExpectedStatus reason.Status `json:"expected_status"`
	ExpectedCode   reason.Code   `json:"expected_code"`
	GotStatus      string        `json:"got_status"` // "" where no session is there
	GotCode        reason.Code   `json:"got_code"`
	Verdict        string        `json:"verdict"` // held, broken, not applicable, not tried
}

// Records are what is kept of one engine.
type Records struct {
	Engine string
	Matrix *MatrixRecord
	Proofs map[int][]Record // by stage
}

// Status is the control summary: what is shown, what is not, what comes next.
// It holds no secret, no address and nothing of a target.
type Status struct {
	Schema string `json:"schema"`
	// RuntimeDefaultActivation is false, always: candidate status is evidence,
	// and making an engine the default is a recorded decision outside of it.
	RuntimeDefaultActivation bool           `json:"runtime_default_activation"`
	DefaultValidationLane    string         `json:"default_validation_lane"`
	CorePromotionStatus      string         `json:"core_promotion_status"`
	DecisionStatus           string         `json:"decision_status"`
	Stages                   []Stage        `json:"stages"`
	Engines                  []EngineStatus `json:"engines"`
	Control                  *Control       `json:"control"`
}

// EngineStatus is one engine's place on the ladder.
type EngineStatus struct {
	Engine          string        `json:"engine"`
	ProvenStage     int           `json:"proven_stage"` // 0: none
	CandidateStatus string        `json:"candidate_status"`
	Stages          []StageStatus `json:"stages"`
	Matrix          *MatrixRecord `json:"matrix"` // null: none recorded
	NextAction      string        `json:"next_action"`
}

// StageStatus is what is shown of one stage.
type StageStatus struct {
	Stage  int      `json:"stage"`
	Name   string   `json:"name"`
	State  string   `json:"state"`
	Proofs []Record `json:"proofs"`
}

// Summarize makes the control summary of the engines whose records are given.
func Summarize(engines []Records) Status {
	s := Status{Schema: StatusSchema, DefaultValidationLane: DefaultLane, CorePromotionStatus: NotPromoted, DecisionStatus: NotDecided,
		Stages: Stages(), Engines: []EngineStatus{}}
	for _, r := range engines {
		s.Engines = append(s.Engines, summarize(r))
	}
	return s
}

func summarize(r Records) EngineStatus {
	e := EngineStatus{Engine: r.Engine, CandidateStatus: NotCandidate, Matrix: r.Matrix, NextAction: nextAction(r)}
	for _, stage := range stages {
		st := StageStatus{Stage: stage.Number, Name: stage.Name, State: NotProven, Proofs: slices.Clone(r.Proofs[stage.Number])}
		if st.Proofs == nil {
			st.Proofs = []Record{}
		}
		if len(st.Proofs) > 0 {
			st.State = Unchecked
		}
		e.Stages = append(e.Stages, st)
	}
	return e
}

func nextAction(r Records) string {
	run := fmt.Sprintf("run `remit ladder matrix --engine %s`", r.Engine)
	switch {
	case r.Matrix == nil:
		return run + " and read what it says"
	case !r.Matrix.Current:
		return "the last failure matrix is another build's: " + run
	case r.Matrix.Status != evidence.StatusPass:
		return fmt.Sprintf("the last failure matrix is %s with %d of %d rows held: %s again when the cause is gone", r.Matrix.Status, r.Matrix.Held, r.Matrix.Total, run)
	}
	return "the failure matrix holds; this version makes no stage proofs, so no mode beyond what is built in opens"
}

// Attach adds the control summary, and gives every engine what the best of its
// lanes has shown.
func (s *Status) Attach(c Control) {
	s.Control = &c
	for i := range s.Engines {
		e := &s.Engines[i]
		best := -1
		for j, l := range c.Lanes {
			if l.Engine == e.Engine && (best < 0 || l.ProvenStage > c.Lanes[best].ProvenStage) {
				best = j
			}
		}
		if best < 0 {
			continue
		}
		l := c.Lanes[best]
		e.ProvenStage = l.ProvenStage
		if e.NextAction = "type `" + l.NextAction + "`"; l.CandidateDefault {
			e.CandidateStatus = Candidate
		}
		for k := range min(len(e.Stages), len(l.Stages)) {
			if state := l.Stages[k].State; state == Proven || state == Stale {
				e.Stages[k].State = string(state)
			}
		}
	}
}
