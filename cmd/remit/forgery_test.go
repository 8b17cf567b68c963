package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// forgeSession makes of a copy of a session what an attacker makes of it who has our own
// packages: another patch, which gives the tree in TREEFILE, a journal with a
// correct chain that claims it, and everything projected and sealed anew.
func forgeSession(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: forge DIR OLD NEW TREEFILE")
	}
	dir := ts.MkAbs(args[0])
	file := func(name string) string { return filepath.Join(dir, name) }
	text, err := os.ReadFile(file(evidence.PatchFile))
	ts.Check(err)
	if strings.Count(string(text), args[1]) != 1 {
		ts.Fatalf("%q occurs %d times in the patch", args[1], strings.Count(string(text), args[1]))
	}
	patch := []byte(strings.Replace(string(text), args[1], args[2], 1))
	tree := strings.TrimSpace(ts.ReadFile(args[3]))
	log, err := journal.ReadFile(file(evidence.JournalFile))
	ts.Check(err)
	ts.Check(os.Remove(file(evidence.JournalFile)))
	w, err := journal.Create(file(evidence.JournalFile), log.Entries[0].SessionID)
	ts.Check(err)
	for _, e := range log.Entries {
		_, err := w.Append(forgedStep(ts, e, patch, tree))
		ts.Check(err)
	}
	set, err := evidence.Project(w.Entries())
	ts.Check(err)
	ts.Check(w.Close())
	ts.Check(os.WriteFile(file(evidence.PatchFile), patch, 0o600))
	ts.Check(evidence.Write(dir, set))
	ts.Check(bundle.Seal(dir))
}

// forgedStep is a step of the journal that claims the other patch.
func forgedStep(ts *testscript.TestScript, e journal.Entry, patch []byte, tree string) journal.Step {
	at := func(text string) time.Time {
		t, err := time.Parse(journal.TimeFormat, text)
		ts.Check(err)
		return t
	}
	step := journal.Step{StepID: e.StepID, Name: e.Name, Status: e.Status, StartedAt: at(e.StartedAt), Inputs: e.Inputs, Outputs: e.Outputs}
	if e.CompletedAt != nil {
		step.CompletedAt = at(*e.CompletedAt)
	}
	switch {
	case e.Status == journal.Started:
	case e.Name == evidence.StepPatch:
		var p evidence.PatchCaptured
		ts.Check(json.Unmarshal(e.Outputs, &p))
		p.PatchSHA256, p.PatchBytes, p.HeadTree = canon.Digest(patch), int64(len(patch)), tree
		step.Outputs = p
	case e.Name == evidence.StepArtifact:
		var a evidence.ArtifactRecorded
		ts.Check(json.Unmarshal(e.Outputs, &a))
		if a.Path == evidence.PatchFile {
			a.SHA256, a.Bytes = canon.Digest(patch), int64(len(patch))
		}
		step.Outputs = a
	}
	return step
}
