package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/attest"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/sandbox"
)

// maxSignersFile bounds --allowed-signers, in bytes.
const maxSignersFile = 1 << 20

// trust is whom the auditor believes: the file that they name, which demands a
// signature by one of its keys, else the list that they keep in REMIT_HOME; and whom
// no more: the file of --revoked-keys, and their own list. Lists inside of what is
// being audited are refused: they are the maker's.
func (a *app) trust(f *auditFlags, target string) (trust evidence.Trust, err error) {
	trust.Require = f.requireSigned || f.allowedSigners != ""
	if f.allowedSigners == "" {
		trust.Signers, err = a.home.Keys().Signers()
	} else {
		trust.Signers, err = trustFile("--allowed-signers", f.allowedSigners, target, attest.ParseSigners)
	}
	if err == nil && f.revokedKeys == "" {
		trust.Revoked, err = a.home.Keys().Revoked()
	} else if err == nil {
		trust.Revoked, err = trustFile("--revoked-keys", f.revokedKeys, target, attest.ParseRevoked)
	}
	return trust, err
}

// trustFile reads a list of the auditor.
func trustFile[T any](flag, name, target string, parse func([]byte) (*T, error)) (*T, error) {
	if target != "" && within(name, target) {
		return nil, usagef("%s %s lies in what is being audited: trust comes from you, never from a bundle", flag, name)
	}
	text, err := readFlagFile(name, maxSignersFile)
	if err != nil {
		return nil, err
	}
	list, err := parse(text)
	if err != nil {
		return nil, usagef("%s %s: %w", flag, name, err)
	}
	return list, nil
}

var digestForm = form.Lazy(`^(?:sha256:)?([0-9a-f]{64})$`)

// expected reads the digest of --expect, with or without its prefix.
func expected(text string) (string, error) {
	m := digestForm().FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return "", usagef("--expect %q: must be sha256: and 64 hexadecimal digits", text)
	}
	return "sha256:" + m[1], nil
}

// extraction is a new directory that receives the content of a zip; "" for a
// directory, which can be read where it is.
func extraction(target string) (dir string, remove func(), err error) {
	if info, err := os.Stat(target); err != nil || info.IsDir() {
		return "", func() {}, err
	}
	top, err := os.MkdirTemp("", "remit-bundle-")
	if err != nil {
		return "", nil, fmt.Errorf("making a place for the bundle: %w", err)
	}
	return filepath.Join(top, "content"), func() { _ = os.RemoveAll(top) }, nil // a temporary directory
}

// gateReproduction is the gate that --repo adds behind the others.
const gateReproduction = "reproduction"

// rebuild adds the gate that rebuilds the change and verifies it again. It
// passes when that ends as the bundle says; a run without a patch has nothing to
// rebuild.
func (a *app) rebuild(ctx context.Context, f *auditFlags, rep *bundle.Report, content string) *harness.Reproduced {
	gate := bundle.GateResult{Name: gateReproduction, Status: bundle.Blocked}
	defer func() { rep.Add(gate) }()
	fault := func(err error) {
		code := reason.CodeOf(err)
		if code == "" {
			code = reason.GateUnavailable
		}
		gate.Status = bundle.Status(reason.StatusOf(code))
		gate.Findings = []reason.Finding{{Gate: gateReproduction, Code: code, Detail: err.Error()}}
	}
	switch {
	case rep.Status != bundle.Pass:
		gate.Reason = "nothing is rebuilt from a bundle whose audit does not pass"
		return nil
	}
	receipt, err := receiptIn(content)
	if err != nil {
		fault(err)
		return nil
	}
	if receipt.PatchSHA256 == nil {
		gate.Status, gate.Reason = bundle.Skipped, "the run captured no patch"
		return nil
	}
	driver, err := sandbox.Open(ctx, a.sandboxOptions(f.sandbox, f.toolchains))
	if err != nil {
		fault(err)
		return nil
	}
	view := newProgress(os.Stderr)
	out, err := harness.Reproduce(ctx, harness.Reproduction{Evidence: os.DirFS(content), Repo: f.repo, Home: a.home, Sandbox: driver,
		Repeat: 1, Log: io.Discard, Progress: view, Registries: a.registries()})
	view.close()
	if err != nil {
		fault(err)
		return nil
	}
	weighReproduction(&gate, out, receipt.Metrics.VerificationPassed)
	return out
}

// weighReproduction holds what was made anew against what is recorded: passed is
// nil for a run that was not verified.
func weighReproduction(gate *bundle.GateResult, out *harness.Reproduced, passed *bool) {
	made := out.Status == evidence.StatusPass
	switch {
	case out.Status == evidence.StatusBlocked:
		gate.Status, gate.Reason = bundle.Blocked, "the verification could not be made again"
	case out.Verification != nil && (passed == nil || *passed == made):
		gate.Status, gate.Reason = bundle.Pass, "the patch gives the recorded tree, and its verification ends again as "+out.Status
		return
	default:
		gate.Status = bundle.Fail
	}
	for _, finding := range out.Findings {
		finding.Gate = gateReproduction
		gate.Findings = append(gate.Findings, finding)
	}
	if gate.Status == bundle.Fail && len(gate.Findings) == 0 {
		gate.Findings = []reason.Finding{{Gate: gateReproduction, Code: reason.VerificationFailed, Path: evidence.ReceiptFile,
			Detail: fmt.Sprintf("the verification ends as %s, the bundle records another end", out.Status)}}
	}
}

func receiptIn(content string) (*evidence.Receipt, error) {
	raw, err := os.ReadFile(filepath.Join(content, evidence.ReceiptFile))
	if err != nil {
		return nil, fmt.Errorf("reading the receipt: %w", err)
	}
	receipt := new(evidence.Receipt)
	return receipt, json.Unmarshal(raw, receipt)
}

// conclusion says what a PASS proves, and how to have the rest proved; "" for
// everything but a PASS of a run that passed.
func conclusion(rep *bundle.Report, name string, again *harness.Reproduced) string {
	if rep.Status != bundle.Pass || rep.RunStatus != evidence.StatusPass {
		return ""
	}
	text, also := "This proves that the evidence is complete and agrees with itself", ", but not who made it"
	for _, g := range rep.Gates {
		switch trusted, _ := signersOf(g); {
		case len(trusted) > 0 && g.Status == bundle.Pass:
			also = ", and that it was " + signedBy(trusted)
		case len(trusted) > 0:
			also = ", and that a part of it was " + signedBy(trusted)
		}
	}
	if again != nil {
		return text + also + ". The patch was rebuilt, and its verification run again: it passes."
	}
	return text + also + ". That the tests pass is proved by `remit reproduce " + name + " --repo CLONE`."
}

// signersOf returns the keys that have signed what was audited: those that the auditor
// trusts, and those that are unknown. Revoked keys are in neither list.
func signersOf(gates ...bundle.GateResult) (trusted, unknown []attest.Vouched) {
	for _, g := range gates {
		for _, by := range g.Signers {
			switch {
			case by.Trusted:
				trusted = append(trusted, by)
			case !by.Revoked:
				unknown = append(unknown, by)
			}
		}
	}
	return trusted, unknown
}

// signedBy says who has signed which files.
func signedBy(signers []attest.Vouched) string {
	var parts []string
	for _, by := range signers {
		parts = append(parts, fmt.Sprintf("signed by %s (%s)", cmp.Or(by.Name, "the key "+by.Key), strings.Join(by.Files, ", ")))
	}
	return strings.Join(parts, ", ")
}

// trustAdvice returns the command to type about a signature over the receipt by an unknown
// key. The owner of a key is known only for the key of this machine.
func (a *app) trustAdvice(rep *bundle.Report, name string) string {
	trusted, unknown := signersOf(rep.Gates...)
	i := slices.IndexFunc(unknown, func(by attest.Vouched) bool { return slices.Contains(by.Files, evidence.ReceiptFile) })
	if i < 0 {
		return ""
	}
	what := "It"
	if len(trusted) > 0 {
		what = evidence.ReceiptFile
	}
	if key, err := a.home.Keys().Load(); err == nil && key.Public().Fingerprint() == unknown[i].Key {
		return fmt.Sprintf(" %s is signed by the key of this machine: `remit keys trust %s --fingerprint %s %s` has audits here say so.",
			what, signerName(), unknown[i].Key, form.ShellWord(name))
	}
	return fmt.Sprintf(" %s is signed by a key that you do not trust: ask its owner for the fingerprint of their key, then `remit keys trust NAME --fingerprint FINGERPRINT %s`.", what, form.ShellWord(name))
}

// vouchers says who vouches for the note or the statements of a commit.
func vouchers(rep *bundle.Report) string {
	const (
		anybody = ", and anybody can make a key. "
		advice  = "Name the keys that you trust with --allowed-signers FILE, or `remit keys trust`, and audit it again."
	)
	switch trusted, unknown := signersOf(rep.Gates...); {
	case len(trusted)+len(unknown) == 0:
		return "NO KEY VOUCHES FOR THIS COMMIT: it is not signed. " + advice
	case len(unknown) == 0:
		return "This says who vouches for this commit, but for its committer and signature, which anybody can set."
	case len(trusted) == 0:
		return "NO KEY THAT YOU TRUST VOUCHES FOR THIS COMMIT: only the owner of the key " + unknown[0].Key +
			" says all of this" + anybody + advice
	default:
		return "A KEY THAT YOU TRUST VOUCHES FOR ONLY A PART OF THIS COMMIT: it is " + signedBy(trusted) + ", and " +
			signedBy(unknown) + anybody + advice
	}
}
