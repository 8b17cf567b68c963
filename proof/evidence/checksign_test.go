//go:build !race

package evidence_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"remit/proof/attest"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// signingKey is a key that is the same in every run of the tests. The published
// vectors are signed with that of seed 1.
func signingKey(t testing.TB, seed byte) *attest.PrivateKey {
	t.Helper()
	key, err := attest.NewPrivateKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signReceipt(t testing.TB, dir string, key *attest.PrivateKey) {
	t.Helper()
	receipt, err := os.ReadFile(filepath.Join(dir, evidence.ReceiptFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, evidence.SignatureFile), attest.Sign(key, attest.NamespaceReceipt, receipt), 0o644); err != nil {
		t.Fatal(err)
	}
}

func signers(t testing.TB, text string) *attest.Signers {
	t.Helper()
	s, err := attest.ParseSigners([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// vectorSigners is the file that trusts the key of the vectors.
const vectorSigners = vectorsDir + "/evidence/allowed_signers"

// TestVectorSigners keeps the published file equal to the key of the vectors.
func TestVectorSigners(t *testing.T) {
	t.Parallel()
	line, err := attest.Line("vectors@remit.example", signingKey(t, 1).Public())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(vectorSigners, []byte(line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(vectorSigners); err != nil || string(text) != line+"\n" {
		t.Errorf("%s is not %q (%v)", vectorSigners, line, err)
	}
}

// TestSignatures: the gate passes only for a signature that is there, verifies
// and is trusted, and says what is missing.
func TestSignatures(t *testing.T) {
	t.Parallel()
	const skipped = reason.Code("skipped")
	signed, unsigned := memory(t, golden("signed")), memory(t, golden("pass"))
	receipt := signed[evidence.ReceiptFile].Data
	with := func(base fstest.MapFS, name string, text []byte) fstest.MapFS {
		files := maps.Clone(base)
		files[name] = &fstest.MapFile{Data: text}
		return files
	}
	sign := func(seed byte, namespace string, message []byte) fstest.MapFS {
		return with(signed, evidence.SignatureFile, attest.Sign(signingKey(t, seed), namespace, message))
	}
	key := signingKey(t, 1).Public()
	alice := "alice@example.com " + key.String()
	sig := signed[evidence.SignatureFile].Data
	tests := []struct {
		name, trust string // the file of allowed signers
		files       fstest.MapFS
		free        reason.Code // what is found when no signer is required; "" is a pass
		required    reason.Code // and when one is
		why         string
	}{
		{"unsigned", alice, unsigned, skipped, reason.SignatureMissing, evidence.Unsigned},
		{"no signer is known", "", signed, skipped, reason.SignerUnknown, "signed by " + key.Fingerprint() + " (not in your allowed signers)"},
		{"another key is known", "bob " + signingKey(t, 2).Public().String(), signed, skipped, reason.SignerUnknown, "not in your allowed signers"},
		{"known", alice, signed, "", "", "signed by alice@example.com"},
		{"known for something else", `alice namespaces="git" ` + key.String(), signed, skipped, reason.SignerUnknown, "not in your allowed signers"},
		{"known until the run", `alice valid-before="20260201120000Z" ` + key.String(), signed, skipped, reason.SignerUnknown, "not in your allowed signers"},
		{"known at the time of the run", `alice valid-after="20260201Z",valid-before="20260202Z" ` + key.String(), signed, "", "", "signed by alice"},
		{"signed by another key", alice, sign(2, attest.NamespaceReceipt, receipt), skipped, reason.SignerUnknown, signingKey(t, 2).Public().Fingerprint()},
		{"for another purpose", alice, sign(1, "git", receipt), reason.SignatureInvalid, reason.SignatureInvalid, ""},
		{"of another receipt", alice, sign(1, attest.NamespaceReceipt, append(bytes.Clone(receipt), '\n')), reason.SignatureInvalid, reason.SignatureInvalid, ""},
		{"trailing bytes", alice, with(signed, evidence.SignatureFile, append(bytes.Clone(sig), '\n')), reason.SignatureInvalid, reason.SignatureInvalid, ""},
		{"truncated", alice, with(signed, evidence.SignatureFile, sig[:len(sig)/2]), reason.SignatureInvalid, reason.SignatureInvalid, ""},
		{"empty", alice, with(signed, evidence.SignatureFile, nil), reason.SignatureInvalid, reason.SignatureInvalid, ""},
		{"endless", alice, with(signed, evidence.SignatureFile, bytes.Repeat(sig, 1000)), reason.SignatureInvalid, reason.SignatureInvalid, ""},
		{"an attestation", alice, with(signed, "attestations/run.intoto.jsonl", []byte("{}\n")), reason.SignatureUnchecked, reason.SignatureUnchecked, ""},
		{"inside the receipt", alice, with(unsigned, evidence.ReceiptFile, bytes.Replace(unsigned[evidence.ReceiptFile].Data, []byte(`"signature":null`), []byte(`"signature":{"scheme":"x"}`), 1)),
			reason.SignatureUnchecked, reason.SignatureUnchecked, ""},
		{"a receipt that is not its own digest", alice, with(signed, evidence.ReceiptFile, bytes.Replace(receipt, []byte(`"status":"pass"`), []byte(`"status":"fail"`), 1)),
			reason.ArtifactDigest, reason.ArtifactDigest, ""},
	}
	for _, tt := range tests {
		for _, require := range []bool{false, true} {
			want := tt.free
			if require {
				want = tt.required
			}
			trust := evidence.Trust{Require: require}
			if tt.trust != "" {
				trust.Signers = signers(t, tt.trust)
			}
			found, skip, why, _ := trust.State(t.Context(), tt.files)
			got := reason.Code("")
			switch {
			case len(found) > 0:
				got = found[0].Code
			case skip:
				got = skipped
			}
			if got != want || len(found) == 0 && !strings.Contains(why, tt.why) {
				t.Errorf("%s (required %t): %q %q, want %q %q:%s", tt.name, require, got, why, want, tt.why, texts(found))
			}
		}
	}
}

// TestSignaturesInTheReport: an audit shows a skipped gate as skipped, and the
// reason of one that passes.
func TestSignaturesInTheReport(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, session, trust string
		status               bundle.Status
		reason               string
	}{
		{"unsigned", "pass", "", bundle.Skipped, evidence.Unsigned},
		{"unknown", "signed", "", bundle.Skipped, "not in your allowed signers"},
		{"trusted", "signed", "alice " + signingKey(t, 1).Public().String(), bundle.Pass, "signed by alice"},
	} {
		trust := evidence.Trust{}
		if tt.trust != "" {
			trust.Signers = signers(t, tt.trust)
		}
		opt := bundle.Options{RunStatus: evidence.RunStatus}
		for _, g := range trust.Gates() {
			opt.Gates = append(opt.Gates, bundle.Gate(g))
		}
		rep, err := bundle.Audit(t.Context(), filepath.Join(validDir, tt.session), opt)
		if err != nil {
			t.Fatal(err)
		}
		g := rep.Gates[slices.IndexFunc(rep.Gates, func(g bundle.GateResult) bool { return g.Name == bundle.GateSignatures })]
		if rep.Status != bundle.Pass || g.Status != tt.status || !strings.Contains(g.Reason, tt.reason) || rep.RunStatus != "pass" {
			t.Errorf("%s: %s, gate %s %q, run %q", tt.name, rep.Status, g.Status, g.Reason, rep.RunStatus)
		}
		var text bytes.Buffer
		if err := rep.WriteReport(&text); err != nil {
			t.Fatal(err)
		}
		if want := "signatures: **" + strings.ToUpper(string(tt.status)) + "**"; !strings.Contains(text.String(), want) {
			t.Errorf("%s: the report does not say %q:\n%s", tt.name, want, &text)
		}
	}
}

// TestAuditOfAFailedRun: an audit that holds does not look like a pass of the run.
func TestAuditOfAFailedRun(t *testing.T) {
	t.Parallel()
	rep := audit(t, filepath.Join(validDir, "fail"))
	if rep.RunStatus != "" {
		t.Errorf("a run status %q that no caller asked for", rep.RunStatus)
	}
	opt := bundle.Options{RunStatus: evidence.RunStatus}
	for _, g := range evidence.Gates() {
		opt.Gates = append(opt.Gates, bundle.Gate(g))
	}
	rep, err := bundle.Audit(t.Context(), filepath.Join(validDir, "fail"), opt)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Status != bundle.Pass || rep.RunStatus != "fail" || rep.Verdict() != "the audit holds: the run it records is FAIL" {
		t.Errorf("%s, run %q: %s", rep.Status, rep.RunStatus, rep.Verdict())
	}
}

// TestExpected: every digest that a bundle ever had is found, with the entry
// after which it was true, and no other is.
func TestExpected(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	passing(s)
	given := map[string]string{} // digest: what is said of it
	note := func(entry string) {
		s.write()
		files := memory(t, s.dir)
		var receipt evidence.Receipt
		s.must(evidence.DecodeReceipt(files[evidence.ReceiptFile].Data, &receipt))
		given[canon.Digest(files[evidence.ReceiptFile].Data)] = "RECEIPT.json after entry " + entry
		given[receipt.CanonicalJSONSHA256] = "canonical_json_sha256 after entry " + entry
		given[receipt.Journal.Head] = "head after entry " + entry
		given[receipt.Journal.Root] = "root after entry " + entry
		if _, known := given[receipt.TrajectoryHash]; !known {
			given[receipt.TrajectoryHash] = "trajectory_hash after entry"
		}
	}
	last := func() string { return lastSeq(s) + " (" + s.w.Entries()[len(s.w.Entries())-1].Name + ")" }
	note(last())
	verdict, err := evidence.VerdictReceipt(s.w.Entries())
	s.must(err)
	if _, known := given[canon.Digest(verdict)]; !known {
		t.Error("the verdict's receipt is not the one at the end of the run")
	}
	for range 3 {
		s.receipt("ForgeUpdated", map[string]any{"branch": lastSeq(s)})
		note(last())
	}
	s.outcome("accepted", "")
	note(last())
	again, err := evidence.VerdictReceipt(s.w.Entries())
	s.must(err)
	if !bytes.Equal(verdict, again) {
		t.Error("the verdict's receipt changes with what comes later")
	}
	files := memory(t, s.dir)
	for digest, want := range given {
		found, skip, why, _ := evidence.Expected{Digest: digest}.State(t.Context(), files)
		if len(found) > 0 || skip || !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q:%s", digest, why, want, texts(found))
		}
	}
	before, err := evidence.Project(s.w.Entries()[:len(s.w.Entries())-5])
	s.must(err)
	for name, digest := range map[string]string{"another digest": canon.Digest([]byte("other")), "of a receipt before the verdict": canon.Digest(before[evidence.ReceiptFile])} {
		if found, _, _, _ := (evidence.Expected{Digest: digest}).State(t.Context(), files); !has(found, reason.DigestUnknown, evidence.ReceiptFile) {
			t.Errorf("%s is found:%s", name, texts(found))
		}
	}
}

// TestExpectedIsBounded: a journal whose end is followed by thousands of entries
// does not keep an auditor busy.
func TestExpectedIsBounded(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	passing(s)
	for range 300 {
		s.receipt("ForgeUpdated", map[string]any{})
	}
	files := fstest.MapFS{evidence.JournalFile: &fstest.MapFile{Data: memory(t, s.dir)[evidence.JournalFile].Data}}
	if found, _, _, _ := (evidence.Expected{Digest: canon.Digest(nil)}).State(t.Context(), files); !has(found, reason.GateUnavailable, evidence.JournalFile) {
		t.Errorf("found:%s", texts(found))
	}
}

// TestExpectedZip: the digest of the zip is found, and also in the directory
// that the zip was made of.
func TestExpectedZip(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(validDir, "signed")
	zip := zipped(t, dir)
	text, err := os.ReadFile(zip)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, zip} {
		opt := bundle.Options{Further: []bundle.Gate{bundle.Gate(evidence.Expected{Digest: canon.Digest(text)}.Gate())}}
		for _, g := range evidence.Gates() {
			opt.Gates = append(opt.Gates, bundle.Gate(g))
		}
		rep, err := bundle.Audit(t.Context(), path, opt)
		if err != nil {
			t.Fatal(err)
		}
		if rep.Status != bundle.Pass || !strings.Contains(findingsOf(rep), "expect pass it is the digest of the zip") {
			t.Errorf("%s", findingsOf(rep))
		}
	}
}

func lastSeq(s *session) string { return strconv.Itoa(len(s.w.Entries()) - 1) }

// TestPythonSigners: the second verifier trusts the same keys for the same file,
// and prints no pass for a signature that is not there.
func TestPythonSigners(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("PYTHON3 IS NOT INSTALLED: the second verifier was not run")
	}
	line := signingKey(t, 1).Public().String()
	for i, tt := range []struct{ session, trust string }{
		{"signed", "alice " + line}, {"signed", "bob " + signingKey(t, 2).Public().String()}, {"pass", "alice " + line}, {"signed", "# empty\n"},
		{"signed", `"alice,bob" namespaces="git,remit-*" ` + line + " a comment"}, {"signed", `alice namespaces="*,!remit-receipt" ` + line},
		{"signed", `alice namespaces="remit.receipt" ` + line}, {"signed", `alice valid-before="20260101Z" ` + line},
		{"signed", `alice valid-after="20260201Z",valid-before="20260202000000Z" ` + line}, {"signed", "alice cert-authority " + line},
		{"signed", `alice valid-before="20990101" ` + line}, {"signed", `alice namespaces="git ` + line}, {"signed", "alice ssh-none AAAA"},
		{"signed", "bob ssh-rsa AAAA\r\nalice " + line},
	} {
		file, dir := filepath.Join(t.TempDir(), "allowed"), filepath.Join(validDir, tt.session)
		if err := os.WriteFile(file, []byte(tt.trust+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		want := 1
		known, parseErr := attest.ParseSigners([]byte(tt.trust + "\n"))
		if parseErr == nil {
			if want = 2; len(evidence.Trust{Signers: known, Require: true}.Check(t.Context(), os.DirFS(dir))) == 0 {
				want = 0
			}
		}
		cmd := exec.CommandContext(t.Context(), python, "-I", "-B", filepath.Join(vectorsDir, "verify.py"), "--allowed-signers", file, dir)
		out, _ := cmd.CombinedOutput() // its exit code says the rest
		if got := cmd.ProcessState.ExitCode(); got != want || strings.Contains(string(out), "PASS signatures") != (want == 0) {
			t.Errorf("%d: %s: exit %d, want %d (%v)\n%s", i, tt.trust, got, want, parseErr, out)
		}
	}
}
