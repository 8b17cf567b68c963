package ladder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// ReviewAfter is how long a proof counts from the time at which it was made; no
// kept proof counts longer, whatever it says.
const ReviewAfter = 180 * 24 * time.Hour

// clockSkew is how far the clock may have gone back since a proof was made.
const clockSkew = time.Hour

// The passes that another engine than the one that is proved may show.
const (
	PassBaseline = "fake-baseline" // stage 2: the same task by fake
	PassLane     = "lane"          // stage 6: a lane of the comparison
)

// Overlong says whether a proof claims to count longer than [ReviewAfter] from the
// time at which it was made, or to be made after now.
func (p *Proof) Overlong(now time.Time) error {
	made, err := time.Parse(journal.TimeFormat, p.MadeAt)
	by, wrong := time.Parse(journal.TimeFormat, p.ReviewBy)
	if err = cmp.Or(err, wrong); err != nil {
		return reason.Errorf(reason.ProofInvalid, "the times of the proof cannot be read: %w", err)
	}
	if made.After(now.Add(clockSkew)) {
		return reason.Errorf(reason.ProofInvalid, "it was made at %s, and that is still to come: prove the stage again", p.MadeAt)
	}
	if last := made.Add(ReviewAfter); by.After(last) {
		return reason.Errorf(reason.ProofInvalid, "review_by is %s, and a proof that was made at %s counts until %s at most: prove the stage again",
			p.ReviewBy, p.MadeAt, last.Format(journal.TimeFormat))
	}
	return nil
}

// shownBy says which session of a passing proof is of another engine, or of
// another model, than the key names.
func (p *Proof) shownBy() error {
	pass, scripted := ModelNone, ModelNone
	if p.Key.Provider != "" {
		pass, scripted = ModelPair, ModelScripted
	}
	for _, s := range p.Passes {
		if s.Engine != p.Key.Engine && !p.comparedIn(s) {
			return fmt.Errorf("session %s shows %s with engine %q, and the key names %q", s.SessionID, s.Class, s.Engine, p.Key.Engine)
		}
		if s.Engine == p.Key.Engine && s.Model != pass && (p.Stage > 1 || s.Model != ModelNone) { // a refusal asks nothing
			return fmt.Errorf("session %s shows %s with model %q, and the key asks %q", s.SessionID, s.Class, s.Model, pass)
		}
	}
	if !slices.ContainsFunc(p.Passes, func(s Session) bool { return s.Engine == p.Key.Engine }) {
		return fmt.Errorf("no run of engine %q shows what stage %d proves", p.Key.Engine, p.Stage)
	}
	for _, s := range p.Failures {
		if s.Engine != p.Key.Engine {
			return fmt.Errorf("session %s of failure class %s is of engine %q, and the key names %q", s.SessionID, s.Class, s.Engine, p.Key.Engine)
		}
		if s.Model != pass && s.Model != scripted && s.Model != ModelNone {
			return fmt.Errorf("session %s of failure class %s asked model %q, and the key asks %q", s.SessionID, s.Class, s.Model, pass)
		}
	}
	return nil
}

// comparedIn reports whether a pass may be another engine's: it is what the engine
// is held against.
func (p *Proof) comparedIn(s Session) bool {
	return p.Stage == 2 && s.Class == PassBaseline && s.Engine == DefaultLane || p.Stage == len(stages) && s.Class == PassLane
}

// Ran says in what the run of a session, by entry 0 of its journal, is not what the
// proof that names it is about.
func (p *Proof) Ran(s Session, in evidence.RunOpened) error {
	mode := max(stages[p.Stage-1].Mode, task.CopiedFixture)
	if p.Stage == len(stages) && s.Class == PassLane {
		mode = task.CopiedRepo
	}
	provider, model := "", ""
	switch s.Model {
	case ModelPair:
		provider, model = p.Key.Provider, p.Key.Model
	case ModelScripted:
		provider, model = ScriptedPair, ScriptedPair
	}
	asked := said(in.ModelProvider) + "/" + said(in.Model)
	switch {
	case in.Engine.Name != s.Engine:
		return fmt.Errorf("engine %q ran, the proof says %q", in.Engine.Name, s.Engine)
	case in.MutationMode != mode.String():
		return fmt.Errorf("it ran in mode %s, and stage %d is shown in %s", in.MutationMode, p.Stage, mode)
	case in.DecidedOn == "" && in.Host.Sandbox.Driver != p.Key.SandboxDriver: // else no sandbox was opened
		return fmt.Errorf("sandbox driver %q ran, the key names %q", in.Host.Sandbox.Driver, p.Key.SandboxDriver)
	case s.Engine != p.Key.Engine:
		return nil // it has a pair of its own
	case asked != provider+"/"+model:
		return fmt.Errorf("it asked %s, the key names %s/%s and the proof says %s", asked, p.Key.Provider, p.Key.Model, s.Model)
	case !p.sameProgram(s, in.Engine):
		return fmt.Errorf("engine %s %s ran, the proof is of %s %s", in.Engine.Version, in.Engine.SHA256, p.Engine.Version, p.Engine.SHA256)
	}
	return nil
}

// sameProgram reports whether the program of a run is that of the proof. What fake and
// command start is the user's, and differs by task from stage 3 on and in every failure.
// A failure may run under a fault, which stands in its version and digest.
func (p *Proof) sameProgram(s Session, ran evidence.EngineIdentity) bool {
	failure := !slices.ContainsFunc(p.Passes, func(q Session) bool { return q.SessionID == s.SessionID })
	if ran == p.Engine || p.Key.EngineSHA256 == "" && (failure || p.Stage > 2) {
		return true
	}
	return failure && strings.HasPrefix(ran.Version, p.Engine.Version+"+fault.")
}

func said(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
