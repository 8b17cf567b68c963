//go:build !race

package evidence_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"remit/fixtures/tally"
	"remit/proof/attest"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// attestChange writes the statements of a session, signed.
func attestChange(t testing.TB, dir string, key *attest.PrivateKey) {
	t.Helper()
	statements, err := evidence.Statements(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	for name, payload := range statements {
		text, err := attest.SignEnvelope(key, attest.PayloadInToto, payload)
		if err != nil {
			t.Fatal(err)
		}
		statements[name] = text
	}
	log, err := journal.ReadFile(filepath.Join(dir, evidence.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	statements[evidence.CheckpointFile] = checkpoint(t, key, log.Entries)
	for name, text := range statements {
		path := filepath.Join(dir, evidence.AttestationsDir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// checkpoint is the head of a journal, signed.
func checkpoint(t testing.TB, key *attest.PrivateKey, entries []journal.Entry) []byte {
	t.Helper()
	head, err := evidence.CheckpointOf(entries)
	if err != nil {
		t.Fatal(err)
	}
	text, err := attest.SignCheckpoint(key, head)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var statementFiles = []string{evidence.ProvenanceFile, evidence.SVRFile, evidence.TestResultFile, evidence.VSAFile}

// attestedFiles are all files below attestations/.
var attestedFiles = append([]string{evidence.CheckpointFile}, statementFiles...)

// TestStatements: four statements about one subject, which do not change with what
// comes after the verdict, and hold nothing that the engine says.
func TestStatements(t *testing.T) {
	t.Parallel()
	early, late := build(t, "controlled"), build(t, "attested")
	before, err := evidence.Statements(os.DirFS(early.dir))
	early.must(err)
	after, err := evidence.Statements(os.DirFS(late.dir))
	late.must(err)
	if names := slices.Sorted(maps.Keys(before)); !slices.Equal(names, statementFiles) {
		t.Fatalf("statements %q", names)
	}
	subjects := map[string]bool{}
	for name, text := range before {
		if !bytes.Equal(text, after[name]) {
			t.Errorf("%s changes with the outcome:\n%s\n%s", name, text, after[name])
		}
		var s struct {
			Type    string            `json:"_type"`
			Subject []json.RawMessage `json:"subject"`
		}
		early.must(json.Unmarshal(text, &s))
		if s.Type != "https://in-toto.io/Statement/v1" || len(s.Subject) != 1 {
			t.Errorf("%s: %s with %d subjects", name, s.Type, len(s.Subject))
			continue
		}
		subjects[string(s.Subject[0])] = true
		for _, said := range []string{"summary", "message", "tool_calls"} {
			if bytes.Contains(text, []byte(`"`+said+`"`)) {
				t.Errorf("%s repeats %s, which is the engine's word", name, said)
			}
		}
	}
	if len(subjects) != 1 {
		t.Errorf("the statements have %d different subjects", len(subjects))
	}
	for subject := range subjects {
		for _, digest := range []string{"sha256", "gitTree", "gitCommit"} {
			if !strings.Contains(subject, `"`+digest+`"`) {
				t.Errorf("the subject has no %s: %s", digest, subject)
			}
		}
	}
}

// TestNoStatements: of a run that was not verified nothing is attested.
func TestNoStatements(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]reason.Code{"blocked": reason.NotAcceptable, "interrupted": reason.JournalUnfinished} {
		if got, err := evidence.Statements(os.DirFS(golden(name))); reason.CodeOf(err) != want || got != nil {
			t.Errorf("%s: %v, %d statements", name, err, len(got))
		}
	}
}

// TestWhoVouches: an audit says which key vouches for what, and what cannot be
// checked is never passed.
func TestWhoVouches(t *testing.T) {
	t.Parallel()
	const skipped = reason.Code("skipped")
	whole := memory(t, golden("attested"))
	with := func(edit func(files fstest.MapFS)) fstest.MapFS {
		files := maps.Clone(whole)
		edit(files)
		return files
	}
	at := func(name string) string { return evidence.AttestationsDir + "/" + name }
	sign := func(seed byte, kind string, payload []byte) *fstest.MapFile {
		text, err := attest.SignEnvelope(signingKey(t, seed), kind, payload)
		if err != nil {
			t.Fatal(err)
		}
		return &fstest.MapFile{Data: text}
	}
	payload := func(files fstest.MapFS, name string) []byte {
		e, err := attest.ParseEnvelope(files[at(name)].Data)
		if err != nil {
			t.Fatal(err)
		}
		return e.Payload
	}
	mine, other := signingKey(t, 1).Public().String(), signingKey(t, 2).Public().String()
	all := "RECEIPT.json, " + evidence.CheckpointFile + ", " + strings.Join(statementFiles, ", ")
	log, err := journal.Read(bytes.NewReader(whole[evidence.JournalFile].Data))
	if err != nil {
		t.Fatal(err)
	}
	head := func(seed byte, entries int) func(files fstest.MapFS) {
		return func(f fstest.MapFS) {
			f[at(evidence.CheckpointFile)] = &fstest.MapFile{Data: checkpoint(t, signingKey(t, seed), log.Entries[:entries])}
		}
	}
	tests := []struct {
		name, trust, revoked string
		files                fstest.MapFS
		code                 reason.Code
		why                  string
	}{
		{"trusted", "alice " + mine, "", whole, "", "signed by alice: " + all},
		{"no key is trusted", "", "", whole, skipped, "(not in your allowed signers): " + all},
		{"revoked", "alice " + mine, mine, whole, reason.SignerRevoked, ""},
		{"revoked, and never trusted", "", mine, whole, reason.SignerRevoked, ""},
		{"another one is revoked", "alice " + mine, other, whole, "", "signed by alice"},
		{"one statement by another trusted key", "alice " + mine + "\nbob " + other, "", with(func(f fstest.MapFS) {
			f[at(evidence.SVRFile)] = sign(2, attest.PayloadInToto, payload(whole, evidence.SVRFile))
		}), "", "signed by bob: " + evidence.SVRFile},
		{"one by a revoked key", "alice " + mine + "\nbob " + other, other, with(func(f fstest.MapFS) {
			f[at(evidence.SVRFile)] = sign(2, attest.PayloadInToto, payload(whole, evidence.SVRFile))
		}), reason.SignerRevoked, ""},
		{"one by an unknown key", "alice " + mine, "", with(func(f fstest.MapFS) {
			f[at(evidence.SVRFile)] = sign(2, attest.PayloadInToto, payload(whole, evidence.SVRFile))
		}), reason.SignatureUnchecked, ""},
		{"a good signature over something else", "alice " + mine, "", with(func(f fstest.MapFS) {
			f[at(evidence.SVRFile)] = sign(1, attest.PayloadInToto, payload(whole, evidence.TestResultFile))
		}), reason.StatementMismatch, "`remit export 2"},
		{"more properties than were shown", "alice " + mine, "", with(func(f fstest.MapFS) {
			f[at(evidence.SVRFile)] = sign(1, attest.PayloadInToto, bytes.Replace(payload(whole, evidence.SVRFile), []byte(`"REMIT_CONTROL_MADE"`), []byte(`"REMIT_CHANGE_APPROVED","REMIT_CONTROL_MADE"`), 1))
		}), reason.StatementMismatch, ""},
		{"of another payload type", "alice " + mine, "", with(func(f fstest.MapFS) {
			f[at(evidence.SVRFile)] = sign(1, "application/json", payload(whole, evidence.SVRFile))
		}), reason.StatementMismatch, ""},
		{"another patch", "alice " + mine, "", with(func(f fstest.MapFS) {
			f[evidence.JournalFile] = &fstest.MapFile{Data: memory(t, golden("feature"))[evidence.JournalFile].Data}
		}), reason.StatementMismatch, ""},
		{"no statement", "alice " + mine, "", with(func(f fstest.MapFS) { f[at(evidence.SVRFile)] = &fstest.MapFile{Data: []byte("{}\n")} }), reason.SignatureInvalid, ""},
		{"endless", "alice " + mine, "", with(func(f fstest.MapFS) {
			f[at(evidence.SVRFile)] = &fstest.MapFile{Data: bytes.Repeat([]byte("x"), attest.MaxEnvelope+1)}
		}), reason.SignatureInvalid, ""},
		{"a stranger beside them", "alice " + mine, "", with(func(f fstest.MapFS) { f[at("more.intoto.jsonl")] = f[at(evidence.SVRFile)] }), reason.SignatureUnchecked, ""},
		{"a directory beside them", "alice " + mine, "", with(func(f fstest.MapFS) { f[at("d/"+evidence.SVRFile)] = f[at(evidence.SVRFile)] }), reason.SignatureUnchecked, ""},
		{"the receipt is not signed", "alice " + mine, "", with(func(f fstest.MapFS) { delete(f, evidence.SignatureFile) }), skipped, "RECEIPT.json is not signed; signed by alice: "},
		{"a checkpoint by another trusted key", "alice " + mine + "\nbob " + other, "", with(head(2, len(log.Entries))), "", "signed by bob: " + evidence.CheckpointFile},
		{"a checkpoint by an unknown key", "alice " + mine, "", with(head(2, len(log.Entries))), reason.SignatureUnchecked, ""},
		{"a checkpoint by a revoked key", "alice " + mine + "\nbob " + other, other, with(head(2, len(log.Entries))), reason.SignerRevoked, ""},
		{"a checkpoint of a shorter journal", "alice " + mine, "", with(head(1, len(log.Entries)-1)), reason.StatementMismatch, ""},
		{"no checkpoint", "alice " + mine, "", with(func(f fstest.MapFS) { delete(f, at(evidence.CheckpointFile)) }), "", "RECEIPT.json, " + evidence.ProvenanceFile},
		{"of a run that has none", "alice " + mine, "", func() fstest.MapFS {
			f := memory(t, golden("blocked"))
			f[at(evidence.SVRFile)] = whole[at(evidence.SVRFile)]
			return f
		}(), reason.StatementMismatch, ""},
	}
	for _, tt := range tests {
		trust := evidence.Trust{}
		if tt.trust != "" {
			trust.Signers = signers(t, tt.trust)
		}
		if tt.revoked != "" {
			var err error
			if trust.Revoked, err = attest.ParseRevoked([]byte(tt.revoked)); err != nil {
				t.Fatal(err)
			}
		}
		found, skip, why, _ := trust.State(t.Context(), tt.files)
		got := reason.Code("")
		switch {
		case len(found) > 0:
			got, why = found[0].Code, found[0].Hint
		case skip:
			got = skipped
		}
		if got != tt.code || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %q %q, want %q %q:%s", tt.name, got, why, tt.code, tt.why, texts(found))
		}
	}
}

// TestThreeRefusals: where a signer is required, unsigned, foreign and revoked are
// three things.
func TestThreeRefusals(t *testing.T) {
	t.Parallel()
	mine := signingKey(t, 1).Public().String()
	revoked, err := attest.ParseRevoked([]byte("# lost in March\n" + mine + " a laptop\n"))
	if err != nil {
		t.Fatal(err)
	}
	alice := signers(t, "alice "+mine)
	for _, tt := range []struct {
		session string
		trust   evidence.Trust
		want    reason.Code
	}{
		{"pass", evidence.Trust{Signers: alice, Require: true}, reason.SignatureMissing},
		{"attested", evidence.Trust{Signers: signers(t, "bob "+signingKey(t, 2).Public().String()), Require: true}, reason.SignerUnknown},
		{"attested", evidence.Trust{Signers: alice, Revoked: revoked, Require: true}, reason.SignerRevoked},
		{"attested", evidence.Trust{Signers: alice, Require: true}, ""},
	} {
		found := tt.trust.Check(t.Context(), memory(t, golden(tt.session)))
		if tt.want == "" && len(found) > 0 || tt.want != "" && (len(found) == 0 || slices.ContainsFunc(found, func(f reason.Finding) bool { return f.Code != tt.want })) {
			t.Errorf("%s, want %q:%s", tt.session, tt.want, texts(found))
		}
	}
}

// TestEveryByteOfAnAttestation: whatever one byte of a patch, of an envelope (its
// payload, key and signature), of the signature over the receipt or of the trusted
// key is changed to, the evidence is refused.
func TestEveryByteOfAnAttestation(t *testing.T) {
	t.Parallel()
	whole := memory(t, golden("attested"))
	line := "alice " + signingKey(t, 1).Public().String()
	trust := evidence.Trust{Signers: signers(t, line), Require: true}
	if found := trust.Check(t.Context(), whole); len(found) > 0 {
		t.Fatalf("the control is refused:%s", texts(found))
	}
	changed := func(name string, i int, mask byte) fstest.MapFS {
		files := maps.Clone(whole)
		for _, other := range attestedFiles { // they are unchanged, and would be made again each time
			delete(files, evidence.AttestationsDir+"/"+other)
		}
		text := bytes.Clone(whole[name].Data)
		text[i] ^= mask
		files[name] = &fstest.MapFile{Data: text}
		return files
	}
	names := []string{evidence.SignatureFile}
	for _, name := range attestedFiles {
		names = append(names, evidence.AttestationsDir+"/"+name)
	}
	for _, name := range names {
		for i := range whole[name].Data {
			if !tally.ByTurn(t, i, 10) {
				continue
			}
			for _, mask := range []byte{1, 0x20} {
				if found := trust.Check(t.Context(), changed(name, i, mask)); len(found) == 0 {
					t.Errorf("%s: byte %d is another (%#x), and nothing is found", name, i, mask)
				}
			}
		}
	}
	for i := range whole[evidence.PatchFile].Data {
		if found := evidence.CheckProjections(t.Context(), changed(evidence.PatchFile, i, 1)); !has(found, reason.ArtifactDigest, evidence.PatchFile) {
			t.Errorf("byte %d of the patch is another, and nothing is found:%s", i, texts(found))
		}
	}
	begin := len("alice ssh-ed25519 ")
	for i := begin; i < len(line); i++ {
		text := []byte(line)
		text[i] ^= 1
		known, err := attest.ParseSigners(text)
		if err != nil {
			continue
		}
		if found := (evidence.Trust{Signers: known, Require: true}).Check(t.Context(), whole); len(found) == 0 {
			t.Errorf("byte %d of the trusted key is another, and nothing is found", i)
		}
	}
}

// everyByte changes each byte of the two signatures and the checkpoint, and every seventh of a payload, and
// prints the number of changes that verify.py accepts: its ed25519 takes milliseconds.
const everyByte = `
import sys; sys.dont_write_bytecode = True
import verify as v
files = v.read_directory(sys.argv[2])
known = v.allowed_signers(v.read(sys.argv[3]).decode())
def refused(check):
    try: check()
    except (v.Wrong, v.Unchecked, LookupError, TypeError, ValueError, AttributeError): return True
    return False
keys = {v.fingerprint(line[1]): line[1] for line in known}
path, sig, receipt = "attestations/svr.intoto.jsonl", files["RECEIPT.json.sig"], files["RECEIPT.json"]
text = files[path]
assert v.envelope_of(path, text, keys) and v.signer_of(sig, receipt)
tried = accepted = 0
places = [i for i in range(len(text)) if i % 7 == 0 or i >= text.index(b'payloadType')]
for i in places:
    tried, accepted = tried + 1, accepted + (not refused(lambda: v.envelope_of(path, text[:i] + bytes([text[i] ^ 1]) + text[i + 1:], keys)))
for i in range(len(sig)):
    tried, accepted = tried + 1, accepted + (not refused(lambda: v.signer_of(sig[:i] + bytes([sig[i] ^ 1]) + sig[i + 1:], receipt)))
note = files["attestations/journal.checkpoint"]
assert v.checkpoint_of(note, keys)
for i in range(len(note)):
    tried, accepted = tried + 1, accepted + (not refused(lambda: v.checkpoint_of(note[:i] + bytes([note[i] ^ 1]) + note[i + 1:], keys)))
print(tried == len(places) + len(sig) + len(note), accepted)
`

// TestPythonEveryByte: the second verifier refuses such changes, too.
func TestPythonEveryByte(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("PYTHON3 IS NOT INSTALLED: the second verifier was not run")
	}
	cmd := exec.CommandContext(t.Context(), python, "-B", "-c", everyByte, "-", filepath.Join(validDir, "attested"), vectorSigners)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+vectorsDir)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "True 0\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
