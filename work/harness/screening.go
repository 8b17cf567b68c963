package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/redact"
	"remit/work/tree"
)

// screen is the search of the session's artifacts for secrets.
func (r *run) screen() redact.Screen {
	return redact.Screen{Secrets: r.secrets, Dir: r.session.Dir, Quarantine: filepath.Join(r.Home.QuarantineDir(), r.session.ID),
		Kept: "$REMIT_HOME/quarantine/" + r.session.ID, Binaries: r.binaries,
		Found: func(b evidence.Blocker) { r.tell("secret.scan", "failed", b.Message) }}
}

// binaries are the binary files of the patch. A run that was cut off has no tree
// to read them from.
func (r *run) binaries(ctx context.Context) (files []tree.Change, known bool, err error) {
	if r.store == nil || r.patched == nil {
		return nil, false, nil
	}
	binary := map[string]bool{}
	for _, c := range r.changed {
		binary[c.Path] = c.Binary
	}
	changes, err := r.store.Changes(ctx, r.base.Tree, r.patched.imported.Tree)
	for _, c := range changes {
		if c.Kind == tree.File && binary[c.Path] {
			files = append(files, c)
		}
	}
	return files, true, err
}

// proveSecrets records what was searched, for what, and what was found.
func (r *run) proveSecrets() error {
	if err := r.screen().Rest(r.artifact); err != nil {
		return err
	}
	body, blockers := r.secrets.Proof()
	for _, b := range blockers {
		r.tell("secret.scan", "failed", b.Message)
	}
	// A run that was cut off after this step and taken up again has more than one.
	name := "secret-scan"
	for n := 2; slices.ContainsFunc(r.w.Entries(), func(e journal.Entry) bool { return e.StepID == "proof-"+name }); n++ {
		name = fmt.Sprintf("secret-scan-%d", n)
	}
	r.note(evidence.StepProof, "proof-"+name, status(blockers), evidence.ProofRecorded{Name: name}, body)
	return nil
}

// tellUnsearched says, on the spot and not in evidence, which credentials of
// the environment are not searched for.
func (r *run) tellUnsearched() {
	for _, u := range r.secrets.Unsearched() {
		r.tell("secret.scan", "skipped", fmt.Sprintf("%s %s, so evidence is not searched for it", u.Name, u.Why))
	}
}

// quiet is a progress view that sees no secret: its output may be the log
// of a machine that everybody reads.
type quiet struct {
	Progress
	secrets *redact.Secrets
}

func (q quiet) Step(name, status, detail string) {
	q.Progress.Step(name, status, q.secrets.Redact(detail))
}
func (q quiet) Output(line string) { q.Progress.Output(q.secrets.Redact(line)) }

// quietly wraps the view of a run.
func quietly(p Progress, s *redact.Secrets) Progress {
	if p == nil {
		return nil
	}
	return quiet{p, s}
}
