package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"remit/proof/attest"
	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/reason"
)

// maxAfterEnd bounds the entries after the end of a run for which receipts are
// computed. A run that was exported a hundred times has about as many.
const maxAfterEnd = 256

// VerdictReceipt is RECEIPT.json as it was when the run ended: of the journal up
// to its last run.completed. No later entry changes it, so it is what everything
// that is handed out names.
func VerdictReceipt(entries []journal.Entry) ([]byte, error) {
	upTo := UpToVerdict(entries)
	if len(upTo) == 0 {
		return nil, reason.Errorf(reason.JournalUnfinished, "the run has no verdict yet")
	}
	return receiptOf(upTo)
}

// UpToVerdict are the entries up to the last run.completed, none of a run that has no
// verdict.
func UpToVerdict(entries []journal.Entry) []journal.Entry { return entries[:lastCompleted(entries)+1] }

// receiptOf is RECEIPT.json of a journal.
func receiptOf(entries []journal.Entry) ([]byte, error) {
	r, err := fold(entries)
	if err != nil {
		return nil, err
	}
	head, err := journal.HeadOf(entries)
	if err != nil {
		return nil, fmt.Errorf("computing the journal head: %w", err)
	}
	trajectory, err := trajectoryHash(r.normalized())
	if err != nil {
		return nil, fmt.Errorf("hashing the trajectory: %w", err)
	}
	receipt, err := r.receipt(head, trajectory)
	if err != nil {
		return nil, fmt.Errorf("making the receipt: %w", err)
	}
	b, err := canon.Marshal(receipt)
	return append(b, '\n'), err
}

// Expected is an audit gate that looks for a digest which was kept outside
// of the bundle, in a commit, a pull request or a message: a receipt is a
// function of a prefix of the journal, so that every receipt which the bundle
// ever had can be computed again.
type Expected struct {
	Digest string // "sha256:" and 64 hexadecimal digits
}

// GateExpect is the name of the gate.
const GateExpect = "expect"

// Gate is the gate for an audit.
func (x Expected) Gate() Gate {
	return Gate{Name: GateExpect, Check: func(ctx context.Context, files fs.FS) []reason.Finding {
		found, _, _, _ := x.State(ctx, files)
		return found
	}, State: x.State}
}

// State says of what the digest is, and after which entry of the journal. It
// fails with digest_unknown when it never was one of this bundle.
func (x Expected) State(ctx context.Context, files fs.FS) (found []reason.Finding, skipped bool, why string, by []attest.Vouched) {
	log, found := openJournal(files)
	if log == nil {
		return found, false, "", nil
	}
	what, err := x.find(ctx, log.Entries)
	if err != nil {
		return []reason.Finding{{Code: reason.GateUnavailable, Path: JournalFile, Detail: err.Error()}}, false, "", nil
	}
	zip, zipped := files.(interface{ ZipSHA256() string })
	if what == "" && zipped && zip.ZipSHA256() == x.Digest {
		what = "it is the digest of the zip"
	}
	if what == "" {
		return []reason.Finding{{Code: reason.DigestUnknown, Path: ReceiptFile, Detail: x.Digest + " was never the digest of this bundle's receipt or trajectory"}}, false, "", nil
	}
	return nil, false, what, nil
}

// find looks at every prefix of the journal from the first verdict on, the
// longest first; "" when the digest is in none.
func (x Expected) find(ctx context.Context, entries []journal.Entry) (string, error) {
	first := -1
	for i := range entries {
		if entries[i].Name == StepRunCompleted {
			first = i
			break
		}
	}
	if first < 0 {
		return "", nil
	}
	if after := len(entries) - first; after > maxAfterEnd {
		return "", fmt.Errorf("%d entries follow the end of the run, and only %d are looked at", after-1, maxAfterEnd-1)
	}
	for n := len(entries); n > first; n-- {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		raw, err := receiptOf(entries[:n])
		if err != nil {
			return "", err
		}
		var receipt Receipt
		if err := DecodeReceipt(raw, &receipt); err != nil {
			return "", err
		}
		for _, d := range []struct{ what, digest string }{{ReceiptFile, canon.Digest(raw)}, {"canonical_json_sha256", receipt.CanonicalJSONSHA256},
			{"trajectory_hash", receipt.TrajectoryHash}, {"the journal's head", receipt.Journal.Head}, {"the journal's root", receipt.Journal.Root}} {
			if d.digest == x.Digest {
				return x.said(d.what, entries, n), nil
			}
		}
	}
	return "", nil
}

// said names the prefix of n entries for which the digest was true.
func (x Expected) said(what string, entries []journal.Entry, n int) string {
	last := entries[n-1]
	text := fmt.Sprintf("it is the digest of %s after entry %d (%s)", what, last.Seq, last.Name)
	if later := len(entries) - n; later > 0 {
		text += fmt.Sprintf("; %d later: %s", later, entries[len(entries)-1].Name)
	}
	return text
}

// RunStatus is how the run of an audited bundle ended, as its receipt says; ""
// when that cannot be read.
func RunStatus(files fs.FS) string {
	var receipt Receipt
	if readDocument(files, ReceiptFile, &receipt) != nil {
		return ""
	}
	return receipt.Status
}

// OpenedOf is how a run began: the inputs of the first entry of its journal.
func OpenedOf(entries []journal.Entry) (o RunOpened, err error) {
	if len(entries) == 0 {
		return o, errors.New("the journal has no entry")
	}
	if err := json.Unmarshal(entries[0].Inputs, &o); err != nil {
		return o, fmt.Errorf("reading the first journal entry: %w", err)
	}
	return o, nil
}

// Step is the step of an outcome that is given at a time.
func (o Outcome) Step(at time.Time) journal.Step {
	return journal.Step{StepID: "outcome", Name: StepOutcome, Status: journal.Completed, StartedAt: at, CompletedAt: at, Outputs: o}
}
