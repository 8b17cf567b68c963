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
	"remit/proof/reason"
	"remit/work/engine"
)

// secrets keeps credentials out of the evidence of one run, at three places.
//
// What the user hands in (the contract, held-out tests, the words of the
// engine's command) is refused when it holds one: nothing has been started, and
// what a person wrote is theirs to correct. What the journal is told is
// redacted before it is appended, since nothing can be taken back from a chain;
// every digest inside a step (argv_sha256, params_hash) is over the redacted
// text. And every file is scanned before its digest is recorded; see screen.
type secrets struct {
	scanner *secret.Scanner

	baseline string // the directory of the baseline's tree, "" before there is one

	mu      sync.Mutex
	old     map[string]bool  // which texts of shapes the baseline has, as far as it was asked
	scans   map[string]*scan // by artifact
	told    []hit            // in what the journal was told, before it was redacted
	toldAll int64
	known   map[string]bool // hits already in told: a step has its inputs twice
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
	return &secrets{scanner: secret.New(values), old: map[string]bool{}, scans: map[string]*scan{}, known: map[string]bool{}}
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

// step redacts what the journal is about to be told.
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

// remember keeps a secret that the journal is not told. The caller holds s.mu.
func (s *secrets) remember(h hit) {
	key := fmt.Sprint(h.Place, h.Offset, h.Digest)
	if s.known[key] {
		return
	}
	s.known[key] = true
	s.toldAll++
	if len(s.told) < maxHits {
		h.Artifact = evidence.JournalFile
		s.told = append(s.told, h)
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

// refuse looks at what the user handed in. A contract has a digest that
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
			return fmt.Errorf("reading the held-out test %q: %w", h.Source, err)
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

// quiet is a progress view that is told no secret: its output may be the log
// of a machine that everybody reads.
type quiet struct {
	Progress
	scanner *secret.Scanner
}

func (q quiet) Step(name, status, detail string) {
	q.Progress.Step(name, status, q.scanner.Redact(detail))
}
func (q quiet) Output(line string) { q.Progress.Output(q.scanner.Redact(line)) }

// progress wraps the view of a run.
func (s *secrets) progress(p Progress) Progress {
	if p == nil {
		return nil
	}
	return quiet{p, s.scanner}
}
