package harness

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

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
	contract, err := r.Contract.Canonical()
	if err != nil {
		return fmt.Errorf("encoding the contract: %w", err)
	}
	if err := r.secrets.refuse("the task", contract, secret.All); err != nil {
		return err
	}
	opened, err := canon.Marshal(r.opened)
	if err != nil {
		return fmt.Errorf("encoding the run: %w", err)
	}
	if err := r.secrets.refuse("what names the run", opened, secret.Values); err != nil {
		return err
	}
	for _, h := range r.Contract.HeldOutTests {
		content, err := readHeldOut(r.Contract.Dir, h.Source)
		if err != nil {
			return reason.Errorf(reason.ContractUnreadable, "reading the held-out test %q: %w", h.Source, err)
		}
		if found := r.secrets.find(string(content), secret.Values); len(found) > 0 {
			return refusal(fmt.Sprintf("the held-out test %q", h.Source), "", found[0])
		}
	}
	return nil
}

func (s *secrets) refuse(what string, document []byte, rules secret.Rules) error {
	var decoded any
	if err := json.Unmarshal(document, &decoded); err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	var refused error
	s.walk(decoded, "", func(place, text string) string {
		if found := s.find(text, rules); len(found) > 0 && refused == nil {
			refused = refusal(what, place, found[0])
		}
		return text
	})
	return refused
}

func refusal(what, place string, h hit) error {
	if place != "" {
		place = " (at " + place + ")"
	}
	e := reason.Errorf(reason.SecretLeak, "%s holds %s%s, and evidence would publish it; nothing was started", what, h.what(), place)
	return e.WithHint("take it out; a command in the sandbox has no network and needs no credential")
}

// what says what was found, without saying it.
func (h hit) what() string {
	switch h.Kind {
	case secret.Credential:
		if h.Encoding == "raw" {
			return "the value of credential " + h.Name
		}
		return fmt.Sprintf("the value of credential %s (as %s)", h.Name, h.Encoding)
	case secret.BinaryContent:
		return "binary content that could not be searched for secrets"
	}
	return "what has the form of a secret (" + h.Kind + ")"
}

// guardEngine gives the words of the engine's command as evidence may show
// them, and refuses to start an engine that would be told a secret. A shape
// that the repository itself holds is none: a command may be there to remove it.
func (r *run) guardEngine(inv *engine.Invocation) ([]string, error) {
	shown := displayArgv(inv.Argv)
	var leaks []hit
	for i, w := range inv.Argv {
		for _, h := range r.secrets.leaks(r.secrets.find(w, secret.All)) {
			h.Place = fmt.Sprintf("word %d of the engine's command", i+1)
			leaks = append(leaks, h)
		}
		shown[i] = r.secrets.scanner.Redact(shown[i])
	}
	for _, name := range slices.Sorted(maps.Keys(inv.Env)) {
		// Shapes may stand there: the engine's token for its own run has one.
		for _, h := range r.secrets.find(inv.Env[name], secret.Values) {
			h.Place = "variable " + name + " of the engine's environment"
			leaks = append(leaks, h)
		}
	}
	if len(leaks) == 0 {
		return shown, nil
	}
	blocker := evidence.Blocker{Code: reason.SecretLeak, Evidence: secretProof,
		Message: fmt.Sprintf("%s holds %s; the engine was not started, for no secret may reach it", leaks[0].Place, leaks[0].what())}
	for _, h := range leaks {
		h.blamed = true
		r.secrets.mu.Lock()
		r.secrets.remember(h)
		r.secrets.mu.Unlock()
	}
	r.note(evidence.StepStopped, "stop", journal.Failed, nil, blockersOnly{[]evidence.Blocker{blocker}})
	r.tell("secret.scan", "failed", blocker.Message)
	return nil, errStopped
}
