package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"remit/nexus/api"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// ended makes a run with a published bundle that has ended.
func (w *world) ended(name, zip string) (id string) {
	w.t.Helper()
	id = w.do(post("/v1/runs", w.alice, "run"+name, `{"repo_ref":"r"}`)).want(w.t, 201, "").field(w.t, "run_id")
	w.do(putRun(id, canon.Digest([]byte(zip)), "bundle.zip", w.alice, "zip"+name, zip)).want(w.t, 201, "")
	w.do(post("/v1/runs/"+id+"/finish", w.alice, "end"+name, `{"status":"succeeded"}`)).want(w.t, 200, "")
	return id
}

// TestFailedIsNotAccepted: what did not pass is not accepted, by no way of asking.
func TestFailedIsNotAccepted(t *testing.T) {
	w := one(t, Options{})
	id := w.do(post("/v1/runs", w.alice, "run", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
	w.do(post("/v1/runs/"+id+"/finish", w.alice, "end", `{"status":"failed"}`)).want(t, 200, "")
	w.do(post("/v1/runs/"+id+"/outcome", w.alice, "a", `{"kind":"accepted"}`)).want(t, 409, "not_acceptable")
	w.do(post("/v1/runs/"+id+"/outcome", w.alice, "b", `{"kind":"accepted","seal":true}`)).want(t, 409, "not_acceptable")
	w.do(post("/v1/runs/"+id+"/outcome", w.alice, "c", `{"kind":"rejected"}`)).want(t, 200, "")
}

// TestOutcomeIsSealed: an outcome that the authority is asked to seal stands in the
// bundle that it keeps, which an audit accepts, once, with who said it and why.
func TestOutcomeIsSealed(t *testing.T) {
	w := one(t, Options{})
	for _, name := range []string{"pass", "signed"} {
		entries, zip := sealedSession(t, name)
		id := w.ended(name, zip)
		const ask = `{"kind":"accepted","note":"read it","seal":true}`
		first := w.do(post("/v1/runs/"+id+"/outcome", w.alice, "o"+name, ask)).want(t, 200, "")
		if again := w.do(post("/v1/runs/"+id+"/outcome", w.alice, "o"+name, ask)); again.body != first.body {
			t.Errorf("%s: a double click has two answers", name)
		}
		got := w.do(get("/v1/runs/"+id+"/bundle", w.alice)).want(t, 200, "").body
		if canon.Digest([]byte(got)) != first.field(t, "bundle_sha256") {
			t.Errorf("%s: the bundle is not the one that was sealed", name)
		}
		path := filepath.Join(t.TempDir(), "bundle.zip")
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		opt := bundle.Options{Profile: bundle.ProfileBundle, Extract: filepath.Join(filepath.Dir(path), "out")}
		for _, g := range (evidence.Trust{}).Gates() {
			opt.Gates = append(opt.Gates, bundle.Gate(g))
		}
		if report, err := bundle.Audit(t.Context(), path, opt); err != nil || report.Status != bundle.Pass {
			t.Fatalf("%s: the audit says %+v, %v", name, report, err)
		}
		log, err := journal.ReadFile(filepath.Join(opt.Extract, evidence.JournalFile))
		if err != nil || len(log.Entries) != len(entries)+1 || !strings.Contains(string(log.Entries[len(entries)].Outputs), `"actor":"user:alice","outcome":"accepted","reason":"read it"`) {
			t.Errorf("%s: the journal ends with %s, %v", name, log.Entries[len(log.Entries)-1].Outputs, err)
		}
		if files, err := filepath.Glob(filepath.Join(opt.Extract, "*.sig")); err != nil || len(files) > 0 {
			t.Errorf("%s: the signature of another bundle was left: %q, %v", name, files, err)
		}
		run := w.run(id)
		if run.Outcomes == nil || run.Findings == nil {
			t.Fatalf("%s: %+v", name, run)
		}
		if given := *run.Outcomes; len(given) != 1 || given[0].Principal != "user:alice" || given[0].Note != "read it" || len(*run.Findings) > 0 ||
			!strings.Contains(string(*run.Summary), `"outcome":"accepted"`) {
			t.Errorf("%s: the run has %+v, %v", name, given, *run.Findings)
		}
		// A later decision is refused and learns who decided before. The client may hand in the same outcome again.
		late := w.do(post("/v1/runs/"+id+"/outcome", w.admin, "late", ask)).want(t, 409, "outcome_given")
		if !strings.Contains(late.problem.Detail, "already accepted by user:alice at ") || !strings.Contains(late.problem.Detail, "read it") {
			t.Errorf("%s: it says %q", name, late.problem.Detail)
		}
		w.do(post("/v1/runs/"+id+"/outcome", w.alice, "other"+name, `{"kind":"rejected"}`)).want(t, 409, "outcome_given")
		w.do(post("/v1/runs/"+id+"/outcome", w.alice, "same"+name, `{"kind":"accepted"}`)).want(t, 200, "")
		w.do(post("/v1/runs/"+id+"/outcome", w.alice, "later"+name, `{"kind":"failing"}`)).want(t, 200, "")
	}
}

// TestOutcomeIsRefused: what cannot be accepted is not, and a refusal changes
// nothing.
func TestOutcomeIsRefused(t *testing.T) {
	w := one(t, Options{})
	_, failed := sealedSession(t, "fail")
	_, delivered := sealedSession(t, "delivered")
	_, given := sealedSession(t, "accepted")
	for name, c := range map[string]struct {
		zip, kind string
		status    int
		code      string
	}{
		"a run that failed":             {failed, "accepted", 409, "not_acceptable"},
		"a run that failed is rejected": {failed, "rejected", 200, ""},
		"no bundle at all":              {"no zip", "accepted", 409, "not_acceptable"},
		"no bundle at all is rejected":  {"no zip", "rejected", 200, ""},
		"a byte of the bundle":          {strings.Replace(failed, "journal.jsonl", "Journal.jsonl", 1), "accepted", 409, "not_acceptable"},
		"a delivered branch":            {delivered, "rejected", 409, "conflict"},
		"a bundle with an outcome":      {given, "rejected", 409, "outcome_given"},
		"a word that is none":           {failed, "forgotten", 400, "request_invalid"},
	} {
		id := w.ended(canon.Digest([]byte(name))[7:17], c.zip)
		before := w.do(get("/v1/runs/"+id+"/bundle", w.alice)).body
		w.do(post("/v1/runs/"+id+"/outcome", w.alice, "o"+canon.Digest([]byte(name))[7:17], `{"kind":"`+c.kind+`","seal":true}`)).want(t, c.status, c.code)
		if run := w.run(id); (c.status == 200) != (api.Value(run.Outcome) == c.kind) {
			t.Errorf("%s: the outcome is %q", name, api.Value(run.Outcome))
		}
		if after := w.do(get("/v1/runs/"+id+"/bundle", w.alice)).body; (after == before) != (c.status != 200 || c.zip == "no zip") {
			t.Errorf("%s: the bundle is the same: %v", name, after == before)
		}
	}
	open := w.do(post("/v1/runs", w.alice, "open", `{"repo_ref":"r"}`)).want(t, 201, "").field(t, "run_id")
	w.do(post("/v1/runs/"+open+"/outcome", w.alice, "oo", `{"kind":"accepted","seal":true}`)).want(t, 409, "conflict")
	w.do(post("/v1/runs/"+open+"/outcome", w.bob, "ob", `{"kind":"accepted","seal":true}`)).want(t, 404, "not_found")
}

// TestOutcomeOfTwo: of two who decide at the same time one wins, whatever the other
// has said.
func TestOutcomeOfTwo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		_, zip := sealedSession(t, "pass")
		id := w.ended("two", zip)
		var all sync.WaitGroup
		answers := make([]seen, 4)
		for i := range answers {
			all.Go(func() {
				kind := []string{"accepted", "rejected"}[i%2]
				answers[i] = w.do(post("/v1/runs/"+id+"/outcome", w.alice, "o"+string(rune('a'+i)), `{"kind":"`+kind+`","seal":true}`))
			})
		}
		all.Wait()
		won := 0
		for _, a := range answers {
			if a.status == 200 {
				won++
				continue
			}
			a.want(t, 409, "outcome_given")
		}
		body := w.do(get("/v1/runs/"+id+"/bundle", w.alice)).body
		text, err := bundle.ReadMember(t.Context(), strings.NewReader(body), int64(len(body)), evidence.JournalFile, 1<<20)
		if err != nil || won != 1 || len(*w.run(id).Outcomes) != 1 || bytes.Count(text, []byte(evidence.StepOutcome)) != 1 {
			t.Errorf("%d won, %+v, %v", won, *w.run(id).Outcomes, err)
		}
	})
}
