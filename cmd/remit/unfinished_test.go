package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/journal"
	"remit/proof/reason"
)

// TestUnfinishedSessions: what only the end of a run gives is refused with words
// that say what to do, while it runs and after it was cut off.
func TestUnfinishedSessions(t *testing.T) {
	home := t.TempDir()
	t.Setenv("REMIT_HOME", home)
	const id = "20260201T120000Z-fix-add-0a1b2c"
	dir := filepath.Join(home, ".autopilot/sessions", id)
	if err := os.CopyFS(dir, os.DirFS("../../proof/evidence/testdata/golden/interrupted")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "patch.diff")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	tell := func(hint string) {
		t.Helper()
		for _, args := range [][]string{{"audit", id}, {"diff", id}, {"export", id, "--to", "zip"}} {
			root := newRoot()
			var out bytes.Buffer
			root.SetOut(&out)
			root.SetArgs(args)
			err := root.ExecuteContext(t.Context())
			if reason.CodeOf(err) != reason.JournalUnfinished || out.Len() > 0 || !strings.Contains(ownHint(err), hint) {
				t.Errorf("%q: %v (%s), and printed %.100q", args, err, ownHint(err), &out)
			}
		}
	}
	tell("remit resume")
	w, err := journal.Continue(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	tell("wait for its end")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// ownHint is the hint that an error has of its own.
func ownHint(err error) string {
	var e *reason.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
