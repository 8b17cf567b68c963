package redact

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"remit/law/secret"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// RefuseRecord looks at a record that a command is about to store, or to send
// to an authority that does, for the credentials of this process's environment
// and for what has the form of one. A record stays: what it holds cannot be
// taken back, so the person who wrote it takes it out first. The error names
// what was found and where, never the secret.
func RefuseRecord(what string, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	place, found, err := New(nil).first(text, secret.All)
	if found == nil || err != nil {
		return err
	}
	e := reason.Errorf(reason.SecretLeak, "%s holds %s%s, and a record is kept for good; nothing was written", what, found.what(), at(place))
	return e.WithHint("say it without the secret; if it is a real one, it was typed into a shell's history too: replace it")
}

// Refuse refuses a JSON document that holds a secret and would be published.
func (s *Secrets) Refuse(what string, document []byte, rules secret.Rules) error {
	place, found, err := s.first(document, rules)
	if found == nil || err != nil {
		return err
	}
	return refusal(what, place, *found)
}

// RefuseText is Refuse for a text.
func (s *Secrets) RefuseText(what, text string, rules secret.Rules) error {
	if found := s.find(text, rules); len(found) > 0 {
		return refusal(what, "", found[0])
	}
	return nil
}

// first finds the first secret in the texts of a JSON document, nil for none.
func (s *Secrets) first(document []byte, rules secret.Rules) (place string, found *hit, err error) {
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

// Guard gives the words of an engine's command as evidence may show them, and
// the blocker of an engine that would be given a secret, by them or by its
// environment. A shape that the repository itself holds is none: a command may
// be there to remove it.
func (s *Secrets) Guard(argv []string, env map[string]string) (shown []string, blocker *evidence.Blocker) {
	shown = make([]string, len(argv))
	var leaks []hit
	for i, w := range argv {
		for _, h := range s.leaks(s.find(w, secret.All)) {
			h.Place = fmt.Sprintf("word %d of the engine's command", i+1)
			leaks = append(leaks, h)
		}
		shown[i] = s.Redact(evidence.DisplayPath(w))
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		// Shapes may stand there: the engine's token for its own run has one.
		for _, h := range s.find(env[name], secret.Values) {
			h.Place = "variable " + name + " of the engine's environment"
			leaks = append(leaks, h)
		}
	}
	if len(leaks) == 0 {
		return shown, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range leaks {
		h.blamed = true
		s.remember(h)
	}
	return shown, &evidence.Blocker{Code: reason.SecretLeak, Evidence: ProofFile,
		Message: fmt.Sprintf("%s holds %s; the engine was not started, for no secret may reach it", leaks[0].Place, leaks[0].what())}
}
