package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/reason"
)

// maxDocument bounds a document that a check holds in memory.
const maxDocument = 256 << 20

// CheckJournal is the audit gate journal.chain: the chain holds, the journal
// is complete, ends with the run, and is the one that the receipt names.
func CheckJournal(_ context.Context, files fs.FS) []reason.Finding {
	log, findings := openJournal(files)
	if log == nil {
		return findings
	}
	add := func(code reason.Code, line int, format string, args ...any) {
		findings = append(findings, reason.Finding{Code: code, Path: JournalFile, Line: line, Detail: fmt.Sprintf(format, args...)})
	}
	if log.TornBytes > 0 {
		add(reason.JournalTorn, len(log.Entries)+1, "the last line is torn (%d bytes without an end)", log.TornBytes)
	}
	ended := lastCompleted(log.Entries)
	if ended < 0 {
		add(reason.JournalUnfinished, len(log.Entries), "the run was interrupted: no %s entry", StepRunCompleted)
	}
	for i := ended + 1; ended >= 0 && i < len(log.Entries); i++ {
		if name := log.Entries[i].Name; name != StepOutcome && name != StepReceipt {
			add(reason.JournalOrder, i+1, "%s after the end of the run", log.Entries[i].Name)
		}
	}
	outcomes := 0
	for i, e := range log.Entries {
		if e.Name != StepOutcome {
			continue
		}
		if outcomes++; outcomes > 1 || i < ended {
			add(reason.JournalOrder, i+1, "%s where no run can have one: it is given once, after the end", StepOutcome)
		}
	}
	findings = append(findings, checkTimes(log.Entries)...)
	var receipt Receipt
	if err := readDocument(files, ReceiptFile, &receipt); err != nil {
		return append(findings, documentFinding(ReceiptFile, err))
	}
	head, err := journal.HeadOf(log.Entries)
	if err != nil {
		add(reason.JournalChain, 0, "%v", err)
	} else if head != receipt.Journal {
		add(reason.JournalChain, len(log.Entries), "the receipt names head %s of %d entries, the journal has %s of %d",
			receipt.Journal.Head, receipt.Journal.Entries, head.Head, head.Entries)
	}
	return findings
}

func lastCompleted(entries []journal.Entry) int {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Name == StepRunCompleted {
			return i
		}
	}
	return -1
}

// CheckProjections is the audit gate projections: every artifact is what the
// journal says, byte for byte, every blob has the digest that the journal
// recorded, nothing else lies in the session, the journal's own claims (run_id,
// contract digest, parameter hashes, verdict) are what its facts give, and the
// blobs say what the journal says of them: the files of the patch, the runs in
// test.log, the tests that are counted, the engine's output.
func CheckProjections(ctx context.Context, files fs.FS) []reason.Finding {
	log, findings := openJournal(files)
	if log == nil {
		return findings
	}
	r, err := fold(log.Entries)
	if err != nil {
		return append(findings, documentFinding(JournalFile, err))
	}
	findings = append(findings, r.consistent()...)
	set, err := Project(log.Entries)
	if err != nil {
		return append(findings, documentFinding(JournalFile, err))
	}
	for _, name := range set.Names() {
		got, err := readFile(files, name)
		if err != nil {
			findings = append(findings, documentFinding(name, err))
			continue
		}
		if !bytes.Equal(got, set[name]) {
			findings = append(findings, reason.Finding{Code: reason.ProjectionMismatch, Path: name, Line: firstDifference(got, set[name]),
				Detail: "is not what the journal gives"})
		}
	}
	findings = append(findings, r.checkBlobs(ctx, files)...)
	findings = append(findings, r.checkPatchFiles(files)...)
	findings = append(findings, r.checkTestLog(files)...)
	findings = append(findings, r.checkCounts(files)...)
	findings = append(findings, r.checkOutput()...)
	return append(findings, r.checkStrangers(files, set)...)
}

// consistent re-computes what the journal claims of itself.
func (r *run) consistent() []reason.Finding {
	var out []reason.Finding
	want := func(ok bool, code reason.Code, format string, args ...any) {
		if !ok {
			out = append(out, reason.Finding{Code: code, Path: JournalFile, Detail: fmt.Sprintf(format, args...)})
		}
	}
	id, err := RunIDOf(r.opened)
	want(err == nil && id == r.opened.RunID, reason.ProjectionMismatch, "run_id does not follow from its inputs")
	digest, err := canon.DigestOf(r.contract.Contract)
	want(err == nil && digest == r.opened.ContractSHA256 && digest == r.contract.ContractSHA256,
		reason.ProjectionMismatch, "contract_sha256 is not the digest of the contract")
	for _, t := range r.tools {
		hash, err := canon.DigestOf(t.Params)
		want(err == nil && hash == t.ParamsHash, reason.ReplayInvalid, "params_hash of tool call %q is not the digest of its params", t.ID)
	}
	if r.completed != nil {
		verdict := r.verdict()
		want(verdict.Status == r.completed.Status && slices.Equal(verdict.Blockers, r.completed.Blockers) &&
			equalText(verdict.FailureReason, r.completed.FailureReason), reason.ProjectionMismatch,
			"run.completed says %s, its steps give %s", r.completed.Status, verdict.Status)
	}
	for _, text := range r.contradictions() {
		want(false, reason.ProjectionMismatch, "%s", text)
	}
	for _, a := range r.artifacts {
		want(a.WrittenAt >= r.entries[0].StartedAt && a.CheckedAt >= a.WrittenAt, reason.ArtifactStale,
			"%s was written or checked before the run began", a.Path)
		if r.patch != nil && a.Path == PatchFile {
			want(a.SHA256 == r.patch.PatchSHA256, reason.ArtifactDigest, "patch.diff is not the patch that was captured")
		}
	}
	return out
}

func equalText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// checkBlobs hashes every recorded blob.
func (r *run) checkBlobs(ctx context.Context, files fs.FS) []reason.Finding {
	var out []reason.Finding
	recorded := map[string]bool{}
	for _, a := range r.artifacts {
		recorded[a.Path] = true
		if ctx.Err() != nil {
			return append(out, reason.Finding{Code: reason.GateUnavailable, Path: a.Path, Detail: ctx.Err().Error()})
		}
		digest, size, err := hashFile(files, a.Path)
		switch {
		case err != nil:
			out = append(out, documentFinding(a.Path, err))
		case digest != a.SHA256 || size != a.Bytes:
			out = append(out, reason.Finding{Code: reason.ArtifactDigest, Path: a.Path,
				Detail: fmt.Sprintf("has %s (%d bytes), the journal recorded %s (%d bytes)", digest, size, a.SHA256, a.Bytes)})
		}
	}
	for _, name := range []string{PatchFile, TestLogFile} {
		if r.completed != nil && !recorded[name] {
			out = append(out, reason.Finding{Code: reason.ArtifactMissing, Path: name, Detail: "the journal records no such artifact"})
		}
	}
	return out
}

// checkStrangers finds files that neither the journal nor a projection explains.
func (r *run) checkStrangers(files fs.FS, set Set) []reason.Finding {
	var out []reason.Finding
	known := map[string]bool{JournalFile: true, ManifestFile: true}
	for _, name := range set.Names() {
		known[name] = true
	}
	for _, a := range r.artifacts {
		known[a.Path] = true
	}
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && !known[path] && !strings.HasPrefix(path, "attestations/") && path != SignatureFile {
			out = append(out, reason.Finding{Code: reason.ProjectionMismatch, Path: path, Detail: "is not an artifact of this run"})
		}
		return nil
	})
	if err != nil {
		out = append(out, reason.Finding{Code: reason.GateUnavailable, Detail: err.Error()})
	}
	return out
}

func openJournal(files fs.FS) (*journal.Log, []reason.Finding) {
	f, err := files.Open(JournalFile)
	if err != nil {
		return nil, []reason.Finding{documentFinding(JournalFile, err)}
	}
	defer f.Close()
	log, err := journal.Read(f)
	if err != nil {
		return nil, []reason.Finding{documentFinding(JournalFile, err)}
	}
	return log, nil
}

// documentFinding turns an error about a file into a finding.
func documentFinding(path string, err error) reason.Finding {
	var coded *reason.Error
	if errors.As(err, &coded) {
		return reason.Finding{Code: coded.Code, Path: path, Line: coded.Line, Detail: coded.Message}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return reason.Finding{Code: reason.ArtifactMissing, Path: path, Detail: "is missing"}
	}
	return reason.Finding{Code: reason.SchemaInvalid, Path: path, Detail: err.Error()}
}

func readDocument(files fs.FS, name string, v any) error {
	b, err := readFile(files, name)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func readFile(files fs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, maxDocument)
}

func hashFile(files fs.FS, name string) (string, int64, error) {
	f, err := files.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	return canon.DigestReader(f)
}

// firstDifference is the 1-based line at which two documents part.
func firstDifference(a, b []byte) int {
	line := 1
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return line
		}
		if a[i] == '\n' {
			line++
		}
	}
	return line
}
