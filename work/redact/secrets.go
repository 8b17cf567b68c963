// Package redact keeps secrets out of the evidence of one run: the values of
// credentials, and texts that have the form of one. [Secrets] looks for them,
// [Screen] takes them out of the artifacts of a session, and [RefuseRecord]
// refuses a record that holds one. What is found is named by its digest and its
// place, never by its text.
package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"remit/law/secret"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// Secrets keeps credentials out of the evidence of one run, at three places.
//
// What the user hands in (the contract, held-out tests, the words of the
// engine's command) is refused when it holds one: nothing has been started, and
// what a person wrote is theirs to correct. What the journal receives is
// redacted before it is appended, since nothing can be taken back from a chain;
// every digest inside a step (argv_sha256, params_hash) is over the redacted
// text. And every file is scanned before its digest is recorded; see [Screen].
type Secrets struct {
	scanner *secret.Scanner
	values  []secret.Value // that it looks for

	// Baseline is the directory of the baseline's tree, "" before there is one: a
	// shape that stands there was no secret of this run.
	Baseline string

	mu          sync.Mutex
	old         map[string]bool  // which texts of shapes the baseline has, as far as it was asked
	scans       map[string]*scan // by artifact
	redacted    []hit            // in what the journal was given, before it was redacted
	redactedAll int64
	known       map[string]bool // hits already in redacted: a step has its inputs twice
}

// hit is a secret in an artifact.
type hit struct {
	Artifact string `json:"artifact"`
	Place    string `json:"place"` // inside of the artifact, where an offset alone says little
	secret.Finding
	InBaseline bool `json:"in_baseline"` // a shape that the repository had before: no leak of this run

	text   []byte // of a shape, for the search in the baseline
	blamed bool   // a step of its own has the blocker
}

const (
	// maxHits bounds what is listed of one artifact.
	maxHits = 1000
	// maxHitText bounds the texts of shapes that are held for one artifact.
	maxHitText = 1 << 20
)

// New looks for the credentials of this process's environment and for
// the given ones.
func New(more []secret.Value) *Secrets {
	values := append(EnvironmentCredentials(os.Environ()), more...)
	return &Secrets{scanner: secret.New(values), values: values, old: map[string]bool{}, scans: map[string]*scan{}, known: map[string]bool{}}
}

// Redact takes the secrets out of a text that is shown to a person.
func (s *Secrets) Redact(text string) string { return s.scanner.Redact(text) }

// Unsearched are the credentials that evidence is not searched for, and why.
func (s *Secrets) Unsearched() []secret.Unsearched { return s.scanner.NotSearched() }

// Learn has everything from now on searched for one more credential. It must
// not be called while anything else uses s: the pipeline calls it before there
// is an engine.
func (s *Secrets) Learn(name string, text []byte) {
	s.values = append(s.values, secret.Value{Name: name, Value: strings.TrimSpace(string(text))})
	s.scanner = secret.New(s.values)
}

// find lists the secrets of a text.
func (s *Secrets) find(text string, rules secret.Rules) []hit {
	if !s.scanner.Suspects([]byte(text)) {
		return nil
	}
	var out []hit
	// A reader of memory does not fail.
	_ = s.scanner.Scan(strings.NewReader(text), rules, func(f secret.Finding, found []byte) {
		if len(out) < maxHits {
			out = append(out, hit{Finding: f, text: shapeText(f, found)})
		}
	})
	return out
}

// shapeText keeps the text of a shape. That of a credential is not needed.
func shapeText(f secret.Finding, text []byte) []byte {
	if f.Kind == secret.Credential {
		return nil
	}
	return bytes.Clone(text)
}

// Step redacts what goes into the journal.
func (s *Secrets) Step(j journal.Step) journal.Step {
	j.StepID = s.redactStep(j.Name, j.StepID)
	j.Inputs = s.Clean(j.Name+"/inputs", j.Inputs)
	j.Outputs = s.Clean(j.Name+"/outputs", j.Outputs)
	return j
}

// Clean redacts the strings of a JSON value. A value without secrets is given
// back as it is.
func (s *Secrets) Clean(place string, v any) any {
	if v == nil {
		return nil
	}
	text, err := canon.Marshal(v)
	if err != nil || !s.scanner.Suspects(text) {
		return v // what cannot be encoded is refused by the journal
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var decoded any
	if dec.Decode(&decoded) != nil {
		return v // not reached: canonical text decodes
	}
	changed := false
	decoded = s.walk(decoded, place, func(place, text string) string {
		clean := s.redactStep(place, text)
		changed = changed || clean != text
		return clean
	})
	if !changed {
		return v
	}
	return decoded
}

// walk applies f to every string of a decoded JSON value, keys included.
func (s *Secrets) walk(v any, place string, f func(place, text string) string) any {
	switch v := v.(type) {
	case string:
		return f(place, v)
	case []any:
		for i := range v {
			v[i] = s.walk(v[i], fmt.Sprintf("%s/%d", place, i), f)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			name := f(place, key)
			for _, taken := out[name]; taken; _, taken = out[name] {
				name += "'" // two keys that differed in their secrets only
			}
			out[name] = s.walk(v[key], place+"/"+name, f)
		}
		return out
	}
	return v
}

// redactStep takes the secrets out of a text for the journal and remembers them.
func (s *Secrets) redactStep(place, text string) string {
	found := s.find(text, secret.All)
	if len(found) == 0 {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	leaks := leaksOf(s.compare(found))
	for _, h := range leaks {
		h.Place = evidence.CutText(place, maxPlace)
		s.remember(h)
	}
	if len(leaks) == len(found) {
		return s.scanner.Redact(text)
	}
	var out strings.Builder
	// Memory does not fail.
	_ = secret.Copy(&out, strings.NewReader(text), findingsOf(leaks), false)
	return out.String()
}

// remember keeps a secret that was taken out of a step. The caller holds s.mu.
func (s *Secrets) remember(h hit) {
	key := fmt.Sprint(h.Place, h.Offset, h.Digest)
	if s.known[key] {
		return
	}
	s.known[key] = true
	s.redactedAll++
	if len(s.redacted) < maxHits {
		h.Artifact = evidence.JournalFile
		s.redacted = append(s.redacted, h)
	}
}

func findingsOf(hits []hit) []secret.Finding {
	out := make([]secret.Finding, len(hits))
	for i, h := range hits {
		out[i] = h.Finding
	}
	return out
}

// maxPlace bounds the place of a hit: an agent can nest its parameters deep.
const maxPlace = 200
