//go:build !race

package evidence_test

import (
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// parentPatch is what an earlier session made of the file that patchText changes.
const parentPatch = `diff --git a/calc/add.go b/calc/add.go
index 1f0f2a5..5d3c1aa 100644
--- a/calc/add.go
+++ b/calc/add.go
@@ -1,5 +1,5 @@
 package calc

 func Add(a, b int) int {
-	return a - b
+	return a * b
 }
`

const (
	grandparentID = "20260201T100000Z-fix-add-111111"
	parentID      = "20260201T110000Z-fix-add-222222"
	parentTree    = "0fd1cf4de4a3f0d3f3c5b2bb0a1c9f9a3a1a1b1a"
)

// parentOf is what the session "continued" says of its parent, which continued
// another one itself.
func parentOf() *evidence.Parent {
	patch, tree := canon.Digest([]byte(parentPatch)), parentTree
	before := &evidence.Parent{SessionID: grandparentID, Chain: []string{grandparentID},
		Used: evidence.MeteredUsage{Tokens: 500, CostMicroUSD: 100, Requests: 1, CostKnown: new(true)}}
	return evidence.ParentOf(&evidence.Receipt{SessionID: parentID, Status: evidence.StatusFail, PatchSHA256: &patch, HeadTree: &tree, Parent: before},
		canon.Digest([]byte("the receipt of the parent")), evidence.MeteredUsage{Tokens: 1500, CostMicroUSD: 700, Requests: 3, CostKnown: new(true)})
}

// continued is a run that went on from the change of an earlier one.
func continued(s *session) {
	s.parent = parentOf()
	controlled(s)
}

// TestParentAddsUp: a chain names every session that led here, and counts what
// all of them have used.
func TestParentAddsUp(t *testing.T) {
	t.Parallel()
	p := parentOf()
	if got := strings.Join(p.Chain, " "); got != grandparentID+" "+parentID {
		t.Errorf("the chain is %s", got)
	}
	if u := p.Used; u.Requests != 4 || u.Tokens != 2000 || u.CostMicroUSD != 800 || u.CostKnown == nil || !*u.CostKnown {
		t.Errorf("used is %+v", u)
	}
}

// TestForgedParent: the holder of the disk who makes a session anew cannot have it
// start from another patch than it keeps, hide the patch, or pass with the change
// that it began with.
func TestForgedParent(t *testing.T) {
	t.Parallel()
	s := build(t, "continued")
	if found := gates(t, s.dir); len(found) > 0 {
		t.Fatalf("the session itself:%s", texts(found))
	}
	opened := func(edit func(p *evidence.Parent)) func(i int, step *journal.Step) bool {
		return s.reopened(func(o *evidence.RunOpened) {
			p := *o.Parent
			o.Parent = &p
			edit(&p)
		})
	}
	for name, forged := range map[string]struct {
		edit func(i int, step *journal.Step) bool
		says string
	}{
		"another patch": {opened(func(p *evidence.Parent) { p.PatchSHA256 = canon.Digest(nil) }), "is not the patch of the session"},
		"no digest":     {opened(func(p *evidence.Parent) { p.ReceiptSHA256 = "none" }), "not named by digests"},
		"another chain": {opened(func(p *evidence.Parent) { p.Chain = []string{grandparentID} }), "the chain of sessions"},
		"itself":        {opened(func(p *evidence.Parent) { p.Chain = []string{sessionID, parentID} }), "the chain of sessions"},
		"blocked":       {opened(func(p *evidence.Parent) { p.Status = evidence.StatusBlocked }), "cannot be continued"},
		"less":          {opened(func(p *evidence.Parent) { p.Used.Tokens = -1 }), "less than nothing"},
		"unchanged":     {opened(func(p *evidence.Parent) { p.HeadTree = headTree }), "its steps give fail"},
		"not kept": {func(_ int, step *journal.Step) bool { return step.StepID != "artifact-"+evidence.ParentPatchFile },
			"is not kept"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := s.forged(t, forged.edit); !strings.Contains(found, forged.says) || !strings.Contains(found, string(reason.ProjectionMismatch)) {
				t.Errorf("want %q, found:%s", forged.says, found)
			}
		})
	}
}

// TestStrangeParentPatch: a run that continues nothing has no such file.
func TestStrangeParentPatch(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.open(false)
	s.eligible()
	s.plan()
	s.workspace()
	s.blob(evidence.ParentPatchFile, parentPatch)
	s.engine(0)
	s.patch()
	s.writes()
	s.verify(true)
	s.source()
	s.complete()
	if found := texts(gates(t, s.write())); !strings.Contains(found, "continues no session") {
		t.Errorf("found:%s", found)
	}
}
