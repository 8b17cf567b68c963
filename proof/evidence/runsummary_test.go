//go:build !race

package evidence_test

import (
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// TestRunSummary: what a list says of a run is what its report and its receipt
// say, at every point of the journal, and each null has its reason.
func TestRunSummary(t *testing.T) {
	t.Parallel()
	for name := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := entriesOf(t, name)
			for n := 1; n <= len(entries); n++ {
				part := entries[:n]
				s, err := evidence.SummaryOf(part)
				if err != nil {
					t.Fatalf("of %d entries: %v", n, err)
				}
				rep, err := evidence.ReportOf(part)
				if err != nil {
					t.Fatal(err)
				}
				if s.SessionID != rep.SessionID || s.TaskID != rep.CaseID || s.Engine.Name != rep.Backend || s.Outcome != rep.OperatorOutcome ||
					s.Approval != rep.ApprovalStatus || s.JournalEntries != int64(n) || s.JournalHead != part[n-1].EntryHash || s.Title == "" {
					t.Errorf("of %d entries: %+v", n, s)
				}
				if (s.Status != nil) != (rep.RunFinishedAt != "") || s.Status != nil && *s.Status != rep.Status {
					t.Errorf("of %d entries: status %v, the report has %s", n, s.Status, rep.Status)
				}
				if s.Changed != nil && s.Changed.Files != len(rep.ChangedFiles) {
					t.Errorf("%d files, the report has %d", s.Changed.Files, len(rep.ChangedFiles))
				}
				if len(rep.Blockers) > 0 && (s.Blocker == nil || s.Blocker.Code != rep.Blockers[0].Code || s.Blockers != len(rep.Blockers)) {
					t.Errorf("the first blocker is %+v of %d", s.Blocker, s.Blockers)
				}
				nulls(t, s)
				text, err := canon.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				read, err := evidence.ReadRunSummary(text)
				if err != nil {
					t.Fatalf("reading it back: %v", err)
				}
				if d := read.Differences(s); len(d) != 0 {
					t.Errorf("read back it differs in %v", d)
				}
			}
			whole, err := evidence.SummaryOf(entries)
			if err != nil {
				t.Fatal(err)
			}
			var rc evidence.Receipt
			if raw := readTree(t, golden(name))[evidence.ReceiptFile]; whole.Status != nil {
				if err := evidence.DecodeReceipt(raw, &rc); err != nil {
					t.Fatal(err)
				}
				if *whole.ReceiptSHA256 != rc.CanonicalJSONSHA256 || *whole.TrajectoryHash != rc.TrajectoryHash {
					t.Errorf("the digests are not those of the receipt: %+v", whole)
				}
			}
		})
	}
}

// nulls checks that exactly what is null has a reason.
func nulls(t *testing.T, s *evidence.RunSummary) {
	t.Helper()
	for field, is := range map[string]bool{
		"status": s.Status == nil, "model": s.Model == nil, "model_provider": s.ModelProvider == nil, "engine.sha256": s.Engine.SHA256 == "",
		"baseline_commit": s.BaselineCommit == "", "changed": s.Changed == nil, "patch_sha256": s.PatchSHA256 == nil, "tests_before": s.TestsBefore == nil,
		"tests_after": s.TestsAfter == nil, "tests": s.Tests == nil, "requests": s.Requests == nil, "tokens": s.Tokens == nil,
		"cost_micro_usd": s.CostMicroUSD == nil, "cost_known": s.CostKnown == nil, "approval_id": s.ApprovalID == nil, "finished_at": s.FinishedAt == nil,
		"trajectory_hash": s.TrajectoryHash == nil, "receipt_sha256": s.ReceiptSHA256 == nil,
	} {
		if why := s.Unknown[field]; (why != "") != is {
			t.Errorf("%s is null: %t, and the reason is %q", field, is, why)
		}
		delete(s.Unknown, field)
	}
	for field := range s.Unknown {
		t.Errorf("a reason for %s, which is not a field that may be null", field)
	}
}

// TestOutline: an outline is the summary but for the digests of its end.
func TestOutline(t *testing.T) {
	t.Parallel()
	whole, err := evidence.SummaryOf(entriesOf(t, "pass"))
	if err != nil {
		t.Fatal(err)
	}
	outline, err := evidence.OutlineOf(entriesOf(t, "pass"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(outline.Differences(whole), " "); got != "receipt_sha256 trajectory_hash unknown" {
		t.Error(got)
	}
}

// TestForeignRunSummaries: a summary from outside is refused unless it has exactly the
// form.
func TestForeignRunSummaries(t *testing.T) {
	t.Parallel()
	s, err := evidence.SummaryOf(entriesOf(t, "pass"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := canon.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"another schema":      {evidence.RunSummarySchema, "remit.other.v1"},
		"another member":      {`"step":`, `"stop":`},
		"one member more":     {`{"approval":`, `{"also":1,"approval":`},
		"a status of yours":   {`"status":"pass"`, `"status":"great"`},
		"no journal":          {s.JournalHead, "sha256:0"},
		"a member twice":      {`{"approval":`, `{"approval":"granted","approval":`},
		"a word for a number": {`"journal_entries":`, `"journal_entries":"1","x":`},
		"too long":            {s.Title, strings.Repeat("x", evidence.MaxRunSummary)},
	} {
		bad := strings.Replace(string(text), change[0], change[1], 1)
		if bad == string(text) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := evidence.ReadRunSummary([]byte(bad)); reason.CodeOf(err) != reason.RequestInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
