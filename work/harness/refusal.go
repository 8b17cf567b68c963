package harness

import (
	"fmt"

	"remit/law/secret"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine"
)

// refuseSecrets looks at what the user handed in. A contract has a digest that
// everything refers to, so it cannot be redacted, and evidence would publish it.
func (r *run) refuseSecrets() error {
	if err := r.refuseSecretsNamed(); err != nil {
		return err
	}
	for _, h := range r.Contract.HeldOutTests {
		content, err := readHeldOut(r.Contract.Dir, h.Source)
		if err != nil {
			return reason.Errorf(reason.ContractUnreadable, "reading the held-out test %q: %w", h.Source, err)
		}
		if err := r.secrets.RefuseText(fmt.Sprintf("the held-out test %q", h.Source), string(content), secret.Values); err != nil {
			return err
		}
	}
	return nil
}

// refuseSecretsNamed looks at the contract and at what names the run.
func (r *run) refuseSecretsNamed() error {
	contract, err := r.Contract.Canonical()
	if err != nil {
		return fmt.Errorf("encoding the contract: %w", err)
	}
	if err := r.secrets.Refuse("the task", contract, secret.All); err != nil {
		return err
	}
	opened, err := canon.Marshal(r.opened)
	if err != nil {
		return fmt.Errorf("encoding the run: %w", err)
	}
	return r.secrets.Refuse("what names the run", opened, secret.Values)
}

// guardEngine gives the words of the engine's command as evidence may show
// them, and refuses to start an engine that would be given a secret.
func (r *run) guardEngine(inv *engine.Invocation) ([]string, error) {
	shown, blocker := r.secrets.Guard(inv.Argv, inv.Env)
	if blocker == nil {
		return shown, nil
	}
	r.note(evidence.StepStopped, "stop", journal.Failed, nil, blockersOnly{[]evidence.Blocker{*blocker}})
	r.tell("secret.scan", "failed", blocker.Message)
	return nil, errStopped
}
