// Package audit brings what knows the law to the audit of a bundle. Package proof
// knows no rules of contracts, so the gate that holds a patch against its
// contract is decided here, from the files of the bundle alone.
package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"remit/law/task"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// GateEnvelope is the gate that holds the patch against the contract.
const GateEnvelope = "envelope"

// maxAuditContract bounds contract.json in the gate.
const maxAuditContract = 64 << 20

// Gates are the gates that an audit of a session needs besides those that
// look at the files alone: gates are 5 to 8, further those that know the law.
func Gates() (gates, further []bundle.Gate) {
	for _, g := range evidence.Gates() {
		gates = append(gates, bundle.Gate(g))
	}
	return gates, []bundle.Gate{{Name: GateEnvelope, Check: CheckEnvelope}}
}

// Options are those of the audit that anybody can make of a session: no signer is
// asked for.
func Options() bundle.Options {
	opt := bundle.Options{Profile: bundle.ProfileBundle}
	opt.Gates, opt.Further = Gates()
	return opt
}

// CheckEnvelope is the audit gate envelope. That the changed paths were inside
// the contract is a claim of the journal; contract.json and patch.diff are
// both there, so it is decided again. Only a claim that all is well is held
// against the patch: a run that was refused proves nothing that could be wrong.
//
// The rules are those of this program. One that protects more than the program
// that made the bundle refuses what that one allowed, and says which rule.
func CheckEnvelope(_ context.Context, files fs.FS) []reason.Finding {
	blocked := func(path string, err error) []reason.Finding {
		code := reason.GateUnavailable
		if errors.Is(err, fs.ErrNotExist) {
			code = reason.ArtifactMissing
		}
		return []reason.Finding{{Code: code, Path: path, Detail: err.Error()}}
	}
	passed, err := claimsWrites(files)
	if err != nil {
		return blocked(evidence.JournalFile, err)
	}
	if !passed {
		return nil
	}
	info, err := fs.Stat(files, evidence.ContractFile)
	if err == nil && info.Size() > maxAuditContract {
		err = fmt.Errorf("is larger than %d bytes", maxAuditContract)
	}
	var raw []byte
	if err == nil {
		raw, err = fs.ReadFile(files, evidence.ContractFile)
	}
	if err != nil {
		return blocked(evidence.ContractFile, err)
	}
	contract, err := task.ParseCanonical(evidence.ContractFile, bytes.TrimSuffix(raw, []byte("\n")))
	if err != nil {
		return []reason.Finding{{Code: reason.EnvelopeMismatch, Path: evidence.ContractFile, Detail: "no run has this contract: " + err.Error()}}
	}
	patch, err := files.Open(evidence.PatchFile)
	if err != nil {
		return blocked(evidence.PatchFile, err)
	}
	defer patch.Close()
	changed, err := evidence.ListPatch(patch)
	if err != nil {
		return []reason.Finding{{Code: reason.EnvelopeMismatch, Path: evidence.PatchFile, Detail: "cannot be held against the contract: " + err.Error()}}
	}
	ops := make([]task.WriteOp, len(changed))
	for i, c := range changed {
		ops[i] = task.WriteOp{Path: c.Path, Op: task.Op(c.Op), OldMode: c.OldMode, NewMode: c.NewMode, LinkTarget: c.LinkTarget}
	}
	var out []reason.Finding
	for _, f := range contract.Envelope().Check(ops) {
		out = append(out, reason.Finding{Code: reason.EnvelopeMismatch, Path: evidence.PatchFile,
			Detail: fmt.Sprintf("%s: %s: %s, and the run says that every path is inside the contract", f.Path, f.Code, f.Detail)})
	}
	return out
}

// claimsWrites says whether any writes.checked of the journal states that all
// paths are allowed.
func claimsWrites(files fs.FS) (bool, error) {
	f, err := files.Open(evidence.JournalFile)
	if err != nil {
		return false, err
	}
	defer f.Close()
	log, err := journal.Read(f)
	if err != nil {
		return false, err
	}
	rep, err := evidence.ReportOf(log.Entries)
	if err != nil {
		return false, err
	}
	return rep.AllowedWritesPassed || rep.Status == evidence.StatusPass, nil
}
