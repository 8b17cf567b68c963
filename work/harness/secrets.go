package harness

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

// secrets keeps credentials out of the evidence of one run, at three places.
//
// What the user hands in (the contract, held-out tests, the words of the
// engine's command) is refused when it holds one: nothing has been started, and
// what a person wrote is theirs to correct. What the journal receives is
// redacted before it is appended, since nothing can be taken back from a chain;
// every digest inside a step (argv_sha256, params_hash) is over the redacted
// text. And every file is scanned before its digest is recorded; see screen.
type secrets struct {
	scanner *secret.Scanner
	values  []secret.Value // that it looks for

	baseline string // the directory of the baseline's tree, "" before there is one

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

// newSecrets looks for the credentials of this process's environment and for
// the given ones.
func newSecrets(more []secret.Value) *secrets {
	values := append(EnvironmentCredentials(os.Environ()), more...)
	return &secrets{scanner: secret.New(values), values: values, old: map[string]bool{}, scans: map[string]*scan{}, known: map[string]bool{}}
}

// find lists the secrets of a text.
func (s *secrets) find(text string, rules secret.Rules) []hit {
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

// step redacts what goes into the journal.
func (s *secrets) step(j journal.Step) journal.Step {
	j.StepID = s.redact(j.Name, j.StepID)
	j.Inputs = s.clean(j.Name+"/inputs", j.Inputs)
	j.Outputs = s.clean(j.Name+"/outputs", j.Outputs)
	return j
}

// clean redacts the strings of a JSON value. A value without secrets is given
// back as it is.
func (s *secrets) clean(place string, v any) any {
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
		clean := s.redact(place, text)
		changed = changed || clean != text
		return clean
	})
	if !changed {
		return v
	}
	return decoded
}

// walk applies f to every string of a decoded JSON value, keys included.
func (s *secrets) walk(v any, place string, f func(place, text string) string) any {
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

// redact takes the secrets out of a text for the journal and remembers them.
func (s *secrets) redact(place, text string) string {
	found := s.find(text, secret.All)
	if len(found) == 0 {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	leaks := leaksOf(s.compare(found))
	for _, h := range leaks {
		h.Place = cutText(place, maxPlace)
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
func (s *secrets) remember(h hit) {
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

// quiet is a progress view that sees no secret: its output may be the log
// of a machine that everybody reads.
type quiet struct {
	Progress
	secrets *secrets
}

func (q quiet) Step(name, status, detail string) {
	q.Progress.Step(name, status, q.secrets.scanner.Redact(detail))
}
func (q quiet) Output(line string) { q.Progress.Output(q.secrets.scanner.Redact(line)) }

// progress wraps the view of a run.
func (s *secrets) progress(p Progress) Progress {
	if p == nil {
		return nil
	}
	return quiet{p, s}
}
