package harness

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
	"remit/proof/journal"
	"remit/proof/reason"
)

// secretProof is the artifact in which every scan is recorded.
const secretProof = evidence.ProofsDir + "/secret-scan.json"

// proveSecrets records what was searched, for what, and what was found: also
// when nothing was. What is found in an artifact is a blocker of its own step.
func (r *run) proveSecrets() error {
	if err := r.screenRest(); err != nil {
		return err
	}
	s := r.secrets
	blockers := s.blame()
	for _, b := range blockers {
		r.tell("secret.scan", "failed", b.Message)
	}
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
	body := map[string]any{
		"scanner":     map[string]any{"name": "remit/law/secret", "version": secret.Version, "shapes": secret.Kinds()},
		"credentials": map[string]any{"searched": s.scanner.Searched(), "not_searched": len(s.scanner.NotSearched())},
		"artifacts":   artifacts, "hits": hits[:min(len(hits), maxHits)], "hits_total": all, "quarantined": quarantined, "blockers": blockers,
	}
	// A run that was cut off after this step and taken up again has more than one.
	name := "secret-scan"
	for n := 2; slices.ContainsFunc(r.w.Entries(), func(e journal.Entry) bool { return e.StepID == "proof-"+name }); n++ {
		name = fmt.Sprintf("secret-scan-%d", n)
	}
	r.note(evidence.StepProof, "proof-"+name, status(blockers), evidence.ProofRecorded{Name: name}, body)
	return nil
}

// blame is the blocker of what the journal would have reached the journal since the last
// time that it was asked for.
func (s *secrets) blame() []evidence.Blocker {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.redacted, func(h hit) bool { return !h.blamed })
	if at < 0 {
		return nil
	}
	for i := range s.redacted {
		s.redacted[i].blamed = true
	}
	return []evidence.Blocker{{Code: reason.SecretLeak, Evidence: secretProof,
		Message: fmt.Sprintf("the run would have written into its journal %s (in %s); it was redacted before it was written", s.redacted[at].what(), s.redacted[at].Place)}}
}

// tellUnsearched says, on the spot and not in evidence, which credentials of
// the environment are not searched for.
func (r *run) tellUnsearched() {
	for _, u := range r.secrets.scanner.NotSearched() {
		r.tell("secret.scan", "skipped", fmt.Sprintf("%s %s, so evidence is not searched for it", u.Name, u.Why))
	}
}

// checkProjections is the last look, at what is derived from a journal that was
// shown no secret: a credential that is a part of the documents' own form.
func (s *secrets) checkProjections(set evidence.Set) error {
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
func (s *secrets) compare(hits []hit) []hit {
	if s.baseline == "" {
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
		searchBaseline(s.baseline, wanted)
		maps.Copy(s.old, wanted)
	}
	for i := range hits {
		hits[i].InBaseline = s.old[string(hits[i].text)]
	}
	return hits
}

// leaks are the hits that the repository did not have before.
func (s *secrets) leaks(hits []hit) []hit {
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
