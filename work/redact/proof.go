package redact

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"remit/law/secret"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// ProofFile is the artifact in which every scan is recorded.
const ProofFile = evidence.ProofsDir + "/secret-scan.json"

// Proof says what was searched, for what, and what was found: also when nothing
// was. The blockers are those of what is in no artifact; what is found in an
// artifact is a blocker of its own step.
func (s *Secrets) Proof() (body map[string]any, blockers []evidence.Blocker) {
	blockers = s.Blame()
	s.mu.Lock()
	redacted, all := slices.Clone(s.redacted), s.redactedAll
	s.mu.Unlock()
	hits, quarantined, artifacts := redacted, []string{}, []*scan{}
	for _, name := range slices.Sorted(maps.Keys(s.scans)) {
		found := s.scans[name]
		artifacts, hits = append(artifacts, found), append(hits, found.hits...)
		if found.Quarantined {
			quarantined = append(quarantined, name)
		}
		all += found.Hits
	}
	return map[string]any{
		"scanner":     map[string]any{"name": "remit/law/secret", "version": secret.Version, "shapes": secret.Kinds()},
		"credentials": map[string]any{"searched": s.scanner.Searched(), "not_searched": len(s.scanner.NotSearched())},
		"artifacts":   artifacts, "hits": hits[:min(len(hits), maxHits)], "hits_total": all, "quarantined": quarantined, "blockers": blockers,
	}, blockers
}

// Blame is the blocker of what would have reached the journal since the last
// time that it was asked for.
func (s *Secrets) Blame() []evidence.Blocker {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.redacted, func(h hit) bool { return !h.blamed })
	if at < 0 {
		return nil
	}
	for i := range s.redacted {
		s.redacted[i].blamed = true
	}
	return []evidence.Blocker{{Code: reason.SecretLeak, Evidence: ProofFile,
		Message: fmt.Sprintf("the run would have written into its journal %s (in %s); it was redacted before it was written", s.redacted[at].what(), s.redacted[at].Place)}}
}

// CheckProjections is the last look, at what is derived from a journal that was
// shown no secret: a credential that is a part of the documents' own form.
func (s *Secrets) CheckProjections(set evidence.Set) error {
	for _, name := range set.Names() {
		var found []secret.Finding
		// A reader of memory does not fail.
		_ = s.scanner.Scan(bytes.NewReader(set[name]), secret.Values, func(f secret.Finding, _ []byte) { found = append(found, f) })
		if len(found) > 0 {
			return reason.Errorf(reason.SecretLeak, "%s would hold %s", name, hit{Finding: found[0]}.what()).
				WithHint("the session is not sealed: do not give it away")
		}
	}
	return nil
}

const (
	// maxKnown bounds how many different shapes of a run are searched for in
	// the baseline, and maxKnownFile how much of one of its files.
	maxKnown     = 128
	maxKnownFile = 64 << 20
)

// compare marks the shapes whose very text the baseline holds, in a file or as
// a name. An agent that moves a test's key from one file to another leaks
// nothing. A credential of this machine is a leak wherever it stands. The caller
// holds s.mu.
func (s *Secrets) compare(hits []hit) []hit {
	if s.Baseline == "" {
		return hits
	}
	wanted := map[string]bool{}
	for _, h := range hits {
		text := string(h.text)
		if _, asked := s.old[text]; h.text != nil && !asked && len(s.old)+len(wanted) < maxKnown {
			wanted[text] = false
		}
	}
	if len(wanted) > 0 {
		searchBaseline(s.Baseline, wanted)
		maps.Copy(s.old, wanted)
	}
	for i := range hits {
		hits[i].InBaseline = s.old[string(hits[i].text)]
	}
	return hits
}

// leaks are the hits that the repository did not have before.
func (s *Secrets) leaks(hits []hit) []hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return leaksOf(s.compare(hits))
}

func leaksOf(hits []hit) []hit {
	var out []hit
	for _, h := range hits {
		if !h.InBaseline {
			out = append(out, h)
		}
	}
	return out
}

// searchBaseline looks for texts below the baseline's tree. What cannot be read
// holds nothing: a hit then stays a leak.
func searchBaseline(dir string, wanted map[string]bool) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	left := len(wanted)
	mark := func(text []byte) {
		for w, found := range wanted {
			if !found && bytes.Contains(text, []byte(w)) {
				wanted[w] = true
				left--
			}
		}
	}
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if left == 0 {
			return fs.SkipAll
		}
		mark([]byte(name))
		if err == nil && d.Type().IsRegular() {
			if f, err := root.Open(name); err == nil {
				content, _ := io.ReadAll(io.LimitReader(f, maxKnownFile)) // as above
				mark(content)
				f.Close()
			}
		}
		return nil
	})
}
