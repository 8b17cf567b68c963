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

// RefuseSecrets looks at a record that a command is about to store, or to send
// to an authority that does, for the credentials of this process's environment
// and for what has the form of one. A record stays: what it holds cannot be
// taken back, so the person who wrote it takes it out first. The error names
// what was found and where, never the secret.
func RefuseSecrets(what string, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	place, found, err := newSecrets(nil).first(text, secret.All)
	if found == nil || err != nil {
		return err
	}
	e := reason.Errorf(reason.SecretLeak, "%s holds %s%s, and a record is kept for good; nothing was written", what, found.what(), at(place))
	return e.WithHint("say it without the secret; if it is a real one, it was typed into a shell's history too: replace it")
}

func (s *secrets) refuse(what string, document []byte, rules secret.Rules) error {
	place, found, err := s.first(document, rules)
	if found == nil || err != nil {
		return err
	}
	return refusal(what, place, *found)
}

// first finds the first secret in the texts of a JSON document, nil for none.
func (s *secrets) first(document []byte, rules secret.Rules) (place string, found *hit, err error) {
	var decoded any
	if err := json.Unmarshal(document, &decoded); err != nil {
		return "", nil, fmt.Errorf("reading what is searched for secrets: %w", err)
	}
	s.walk(decoded, "", func(where, text string) string {
		if hits := s.find(text, rules); len(hits) > 0 && found == nil {
			place, found = where, &hits[0]
		}
		return text
	})
	return place, found, nil
}

func at(place string) string {
	if place == "" {
		return ""
	}
	return " (at " + place + ")"
}

func refusal(what, place string, h hit) error {
	e := reason.Errorf(reason.SecretLeak, "%s holds %s%s, and evidence would publish it; nothing was started", what, h.what(), at(place))
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
// them, and refuses to start an engine that would be given a secret. A shape
// that the repository itself holds is none: a command may be there to remove it.
func (r *run) guardEngine(inv *engine.Invocation) ([]string, error) {
	shown := displayed(inv.Argv)
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
