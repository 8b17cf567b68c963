package evidence

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"remit/proof/canon"
	"remit/proof/journal"
)

// The commit of an exported change follows from the evidence alone, so that a
// reader of the bundle knows its id without the repository.

// Subject is a title as the first line of a commit message: one line, not too
// long.
func Subject(title string) string {
	title = strings.Join(strings.Fields(title), " ")
	const limit = 72
	if runes := []rune(title); len(runes) > limit {
		title = string(runes[:limit-1]) + "…"
	}
	return title
}

// receiptTrailer names the receipt as of the verdict in a commit.
const receiptTrailer = "Verified-Patch-Receipt: "

// rejectedLine stands in the commit of a change that its operator has turned down.
const rejectedLine = "REJECTED by its operator, and exported all the same.\n\n"

// CommitBody is the message of the commit of a change behind its subject. digest is
// that of the receipt as of the verdict; rejected marks a change that its operator
// has turned down.
func CommitBody(receipt *Receipt, digest string, rejected bool) string {
	var b strings.Builder
	verified := "Verified"
	if receipt.Status != StatusPass {
		verified = "NOT verified (" + receipt.Status + ")"
	}
	if rejected {
		b.WriteString(rejectedLine)
	}
	fmt.Fprintf(&b, "%s by Remit on a fresh checkout of %s:\n", verified, receipt.BaselineCommit)
	for i, command := range receipt.Verification.CommandsRun {
		fmt.Fprintf(&b, "- %s (exit %d)\n", strings.Join(strings.Fields(command), " "), receipt.Verification.ExitCodes[i])
	}
	if n := receipt.IssueNumber; n != nil {
		fmt.Fprintf(&b, "\nIssue: #%d\n", *n)
	}
	fmt.Fprintf(&b, "\nRemit-Session: %s\nRemit-Policy-Bundle: %s\nRemit-Trajectory: %s\nAssisted-by: %s %s\n"+receiptTrailer+"%s\n",
		receipt.SessionID, receipt.PolicyBundleID, receipt.TrajectoryHash, receipt.Engine.Name, receipt.Engine.Version, digest)
	return b.String()
}

// commitOf is the id of the commit that has the change of a run: the one that the
// run delivered, else the one that an export makes; "" where nothing was changed.
// verdict is the receipt as of the verdict.
func (r *run) commitOf(verdict []byte) (string, error) {
	if r.delivered != nil {
		return r.delivered.Commit, nil
	}
	var receipt Receipt
	if err := DecodeReceipt(verdict, &receipt); err != nil {
		return "", err
	}
	at, err := time.Parse(journal.TimeFormat, receipt.CompletedAt)
	if err != nil || receipt.HeadTree == nil || len(r.patch.Files) == 0 {
		return "", err
	}
	title, err := titleOf(r.contract.Contract)
	if err != nil {
		return "", err
	}
	d := Delivered{Tree: *receipt.HeadTree, BaselineCommit: string(receipt.BaselineCommit), Commit: string(receipt.BaselineCommit), // for its length
		Message: Subject(title) + "\n\n" + CommitBody(&receipt, canon.Digest(verdict), false), CommittedAt: max(0, at.Unix())}
	return d.commitID(), nil
}

func titleOf(contract json.RawMessage) (string, error) {
	if len(contract) == 0 {
		return "", nil
	}
	return TitleOf(contract)
}
