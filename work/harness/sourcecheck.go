package harness

import (
	"context"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/sandbox"
)

const sourceProof = "source-nonmutation"

// proveSource looks at the source again and at the tree that the engine stood
// on. What changed in the source is held against a run that could have reached
// it, and recorded of one that could not: people work in their repositories.
func (r *run) proveSource(ctx context.Context) {
	if r.before == nil {
		return
	}
	done := r.times.Begin(evidence.StepSourceChecked)
	defer done()
	out := evidence.SourceChecked{}
	after, err := r.source.Fingerprint(ctx)
	shown := evidence.ProofsDir + "/" + sourceProof + ".json"
	switch {
	case err != nil && r.keptOut():
		out.Meanwhile = r.meanwhile([]string{"not looked at again: " + r.scrub(err.Error())})
	case err != nil:
		out.Blockers = []evidence.Blocker{{Code: reason.InfrastructureFault, Message: r.scrub(err.Error()), Evidence: shown}}
	default:
		if differs := r.before.Compare(after); len(differs) > 0 && r.keptOut() {
			out.Meanwhile = r.meanwhile(differs)
		} else if len(differs) > 0 {
			out.Mutated, out.Differs = true, displayed(differs)
			out.Blockers = []evidence.Blocker{{Code: reason.SourceRepositoryMutated,
				Message: "the source repository changed while the run went on, and nothing kept the run away from it: " +
					named(differs), Evidence: shown}}
		}
	}
	r.note(evidence.StepSourceChecked, "source", status(out.Blockers), nil, out)
	proof := map[string]any{"before": r.before, "after": after, "differs": orNone(out.Differs), "mutated": out.Mutated}
	if out.Meanwhile != nil {
		proof["changed_meanwhile"] = out.Meanwhile
		r.tell(evidence.StepSourceChecked, string(journal.Completed), "the source repository "+out.Meanwhile.Sentence())
	}
	r.recordProof(sourceProof, proof)
	r.recordProof("workspace-clean", r.workspaceProof(ctx))
}

// keptOut reports whether everything that the run started was kept away from
// the source, from its first step to its last.
func (r *run) keptOut() bool {
	if !r.opened.Host.Sandbox.KeepsOut() || r.Sandbox != nil && r.Sandbox.Describe().Driver == sandbox.DriverNone {
		return false
	}
	local, err := r.Home.LoadLocal(r.session.ID)
	return err == nil && local.Contract != nil && !local.Unconfined // it may have been resumed without a sandbox before
}

// maxDifference bounds the name of one thing that changed in the source.
const maxDifference = 300

// meanwhile says what changed in the source out of the run's reach, and when.
func (r *run) meanwhile(differs []string) *evidence.SourceChange {
	from, to := r.startedAt(), r.clock()
	for _, e := range r.w.Entries() {
		if e.Name == evidence.StepSourceObserved {
			if at, err := time.Parse(journal.TimeFormat, e.StartedAt); err == nil {
				from = at
			}
		}
	}
	out := &evidence.SourceChange{From: stamp(from), To: stamp(to), KeptOutBy: r.opened.Host.Sandbox.Driver}
	for _, what := range differs {
		// The name of a user's own file is no leak of the run, and not for others either.
		shown := evidence.DisplayPath(r.secrets.Redact(what))
		d := evidence.SourceDifference{What: evidence.CutText(shown, maxDifference)}
		if at := r.source.ChangedAt(what); !at.Before(from.Truncate(time.Second)) && !at.After(to) {
			d.At = stamp(at)
		}
		out.Changes = append(out.Changes, d)
	}
	return out
}

// proveLater looks at the source again for a run that was cut off. If it has
// changed it is not known when: out of the run's reach that is recorded, else the
// run proves nothing about it.
func (r *run) proveLater(ctx context.Context) {
	if r.has(evidence.StepSourceChecked, journal.Completed) {
		return
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	if r.source == nil {
		if err := r.restore(closing); err != nil {
			r.interrupted("the run was cut off, and the source could not be looked at again: " + err.Error())
			return
		}
	}
	if !r.keptOut() {
		now, err := r.source.Fingerprint(closing)
		if err == nil {
			if differs := r.before.Compare(now); len(differs) > 0 {
				r.interrupted("the source changed between the interruption and now, so it cannot be proved untouched: " + named(differs))
				return
			}
		}
	}
	r.proveSource(closing)
}
