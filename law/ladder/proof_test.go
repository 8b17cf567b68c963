package ladder

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

var update = flag.Bool("update", false, "write the valid vectors of the ladder anew")

const vectorsDir = "../../vectors/ladder"

func digestOf(text string) string { return canon.Digest([]byte(text)) }

// agentKey is the key of an agent, fakeKey that of an engine that is built in.
func agentKey() Key {
	return Key{Engine: "codex", EngineVersion: "0.1.2", EngineSHA256: digestOf("codex"), AdapterVersion: "1", Provider: "openai", Model: "gpt-5.5",
		VerifierSHA256: digestOf("verifier"), SandboxDriver: "bwrap"}
}

func fakeKey() Key {
	return Key{Engine: "fake", AdapterVersion: "1", VerifierSHA256: digestOf("verifier"), SandboxDriver: "bwrap"}
}

var madeAt = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)

// proofOf is a sealed proof of a stage in which everything holds.
func proofOf(t testing.TB, key Key, stage int, earlier []EarlierProof) *Proof {
	t.Helper()
	p := &Proof{Stage: stage, MadeAt: madeAt.Format(journal.TimeFormat), ReviewBy: madeAt.Add(ReviewAfter).Format(journal.TimeFormat), Key: key,
		Engine:       evidence.EngineIdentity{Name: key.Engine, Version: key.EngineVersion, SHA256: key.EngineSHA256},
		Build:        evidence.Build{Version: "v1", Commit: "c"},
		Sandbox:      evidence.SandboxFacts{Driver: key.SandboxDriver, Version: "1", Layer: "overlay"},
		PolicySHA256: digestOf("policy"), ContractSHA256: digestOf("contract"), Earlier: earlier}
	model := ModelNone
	if key.EngineSHA256 == "" {
		p.Engine.Version, p.Engine.SHA256 = "1", digestOf("patch")
	}
	if key.Provider != "" {
		provider := key.Provider
		p.RuntimeModelProvider, model = &provider, ModelPair
	}
	session := func(class, model, status string, code reason.Code) Session {
		return Session{SessionID: "20260201T120000Z-" + class, Engine: key.Engine, Model: model, Class: class, Case: "only", Status: status, Code: string(code),
			ReportSHA256: digestOf("report " + class), ManifestSHA256: digestOf("manifest " + class),
			Journal: journal.Head{Entries: 9, Head: digestOf("head"), TreeSize: 9, Root: digestOf("root")}}
	}
	if stage == 1 {
		p.Passes = []Session{session("refused-without-gate", ModelNone, evidence.StatusBlocked, reason.EngineNotEnabled)}
	} else {
		p.Passes = []Session{session("run", model, evidence.StatusPass, "")}
	}
	if model == ModelPair {
		model = ModelScripted
	}
	for _, class := range stages[stage-1].FailureClasses {
		p.Failures = append(p.Failures, session(class, model, evidence.StatusBlocked, reason.Timeout))
	}
	for _, name := range stages[stage-1].CheckNames(key.Engine) {
		p.Checks = append(p.Checks, Check{Name: name, OK: true, Detail: "held"})
	}
	if err := p.Seal(false); err != nil {
		t.Fatal(err)
	}
	return p
}

// ladderOf are the proofs of the stages 1 to n.
func ladderOf(t testing.TB, key Key, n int) []Recorded {
	t.Helper()
	var out []Recorded
	var earlier []EarlierProof
	for stage := 1; stage <= n; stage++ {
		p := proofOf(t, key, stage, slices.Clone(earlier))
		earlier = append(earlier, EarlierProof{stage, p.CanonicalJSONSHA256})
		out = append(out, Recorded{Path: ProofFile(stage), Stage: stage, Proof: p})
	}
	return out
}

func encoded(t testing.TB, p *Proof) []byte {
	t.Helper()
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestProofVectors: the valid ones are what this package writes and reads, and
// every invalid one is refused for what it says.
func TestProofVectors(t *testing.T) {
	t.Parallel()
	valid := map[string]*Proof{
		"agent-stage1.json": proofOf(t, agentKey(), 1, nil),
		"fake-stage3.json":  ladderOf(t, fakeKey(), 3)[2].Proof,
		"agent-stage6.json": ladderOf(t, agentKey(), 6)[5].Proof,
	}
	failed := proofOf(t, fakeKey(), 1, nil)
	failed.Checks[0].OK, failed.Checks[0].Detail = false, "the engine is not registered"
	if err := failed.Seal(false); err != nil {
		t.Fatal(err)
	}
	valid["fake-stage1-failed.json"] = failed
	for name, p := range valid {
		path := filepath.Join(vectorsDir, "valid", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, encoded(t, p), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(text, encoded(t, p)) {
			t.Errorf("%s is not what the package writes (%v); run go test ./law/ladder -update", name, err)
		}
		if _, err := ParseProof(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	invalid, err := filepath.Glob(filepath.Join(vectorsDir, "invalid", "*.txt"))
	if err != nil || len(invalid) < 10 {
		t.Fatalf("%d invalid vectors (%v)", len(invalid), err)
	}
	for _, path := range invalid {
		text, says := changed(t, path)
		if _, err := ParseProof(text); err == nil || reason.CodeOf(err) != reason.ProofInvalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", filepath.Base(path), err, says)
		}
	}
}

// changed carries out the steps of an invalid vector.
func changed(t *testing.T, path string) (text []byte, says string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case strings.HasPrefix(line, "#") || line == "\n":
		case !ok:
			t.Fatalf("%s: %q is not key: value", path, line)
		case key == "base":
			if text, err = os.ReadFile(filepath.Join(vectorsDir, value)); err != nil {
				t.Fatal(err)
			}
		case key == "replace":
			old, with, ok := strings.Cut(value, " → ")
			if !ok || bytes.Count(text, []byte(old)) != 1 {
				t.Fatalf("%s: %q occurs %d times", path, old, bytes.Count(text, []byte(old)))
			}
			text = bytes.Replace(text, []byte(old), []byte(with), 1)
		case key == "truncate":
			text = text[:len(text)-1]
		case key == "resign":
			if text, err = resigned(text); err != nil {
				t.Fatal(err)
			}
		case key == "says":
			says = value
		case key != "code" && key != "python":
			t.Fatalf("%s: unknown step %q", path, key)
		}
	}
	return text, says
}

// resigned is a proof with its digest computed anew, as a forger does.
func resigned(text []byte) ([]byte, error) {
	digest, err := ownDigest(text)
	if err != nil {
		return nil, err
	}
	at := bytes.Index(text, []byte(`"canonical_json_sha256":"`)) + len(`"canonical_json_sha256":"`)
	return slices.Concat(text[:at], []byte(digest), text[at+len(digest):]), nil
}

// TestEveryByteCounts: no byte of a proof can be changed unnoticed.
func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	text := encoded(t, proofOf(t, fakeKey(), 1, nil))
	for i := 0; i < len(text); i += 11 {
		edited := bytes.Clone(text)
		edited[i] ^= 1
		if _, err := ParseProof(edited); err == nil {
			t.Fatalf("byte %d of %d was changed to %q, and the proof holds", i, len(text), edited[i])
		}
	}
}

// TestSecondVerifierKnowsTheStages keeps the table of vectors/verify.py equal to
// the data.
func TestSecondVerifierKnowsTheStages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../vectors/verify.py")
	if err != nil {
		t.Fatal(err)
	}
	table := strings.ReplaceAll(string(text), "\"\n     \"", "")
	for _, s := range stages {
		for _, want := range []string{ProofFile(s.Number), strings.Join(s.FailureClasses, " "), strings.Join(s.CheckNames(engineWord), " ")} {
			if !strings.Contains(table, `"`+want+`"`) {
				t.Errorf("STAGES of vectors/verify.py lacks %q of stage %d", want, s.Number)
			}
		}
	}
}
