package admission

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"remit/proof/canon"
	"remit/proof/reason"
)

var update = flag.Bool("update", false, "write the vectors of the records anew")

const vectorsDir = "../../vectors/records"

// parsers read each kind of record; the name of a vector begins with its kind.
var parsers = map[string]func(text []byte) error{
	"admission-source":   func(text []byte) error { _, err := ParseSource("f", text); return err },
	"admission-model":    func(text []byte) error { _, err := ParseModel("f", text); return err },
	"admission-target":   func(text []byte) error { _, err := ParseTarget("f", text); return err },
	"decision-provider":  func(text []byte) error { _, err := ParseProviderDecision("f", text); return err },
	"decision-promotion": func(text []byte) error { _, err := ParsePromotionDecision("f", text); return err },
}

// kindOf is the kind of record that a vector is of.
func kindOf(t *testing.T, name string) string {
	t.Helper()
	for kind := range parsers {
		if strings.HasPrefix(name, kind) {
			return kind
		}
	}
	t.Fatalf("%s is of no kind", name)
	return ""
}

// must is the record that was made.
func must[R any](t *testing.T) func(R, error) R {
	return func(rec R, err error) R {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
}

func validVectors(t *testing.T) map[string]string {
	t.Helper()
	decided := ProviderRuling{Ruling: ruling(""), Provider: "openai", Model: "gpt-5.5", DecisionStatus: ExternalApproved,
		FallbackProvider: "openai", FallbackModel: "gpt-5.5-mini", EvidenceSources: []string{"contract 12"}}
	provider := must[*ProviderDecision](t)(NextProviderDecision(nil, decided))
	rests := ModelDecision{Ruling: reviewed(Admitted), Provider: "openai", Model: "gpt-5.5", ProviderDecisionID: provider.ID, Fallbacks: []string{"gpt-5.5-mini"}}
	asked := PromotionRuling{Ruling: ruling(""), Engine: "pi", DecisionStatus: PromotionRequested, RepeatabilityCount: 2,
		RepeatabilityStatus: RepeatabilityPass, RefreshSHA256: canon.Digest([]byte("refresh"))}
	rejected := TargetDecision{Ruling: ruling(Rejected), Path: repository}
	return map[string]string{
		"admission-source":          text(t, source(t, nil, Admitted)),
		"admission-source-rejected": text(t, must[*Source](t)(NextSource(nil, SourceDecision{Ruling: ruling(Rejected), Engine: "pi"}))),
		"admission-source-history":  text(t, source(t, source(t, source(t, nil, Admitted), Rejected), Admitted)),
		"admission-model":           text(t, must[*Model](t)(NextModel(nil, rests))),
		"admission-model-local": text(t, must[*Model](t)(NextModel(nil, ModelDecision{Ruling: ruling(Admitted), Provider: "ollama",
			Model: "qwen3-coder", Class: Local}))),
		"admission-target":          text(t, target(t, nil, admittedTarget())),
		"admission-target-rejected": text(t, target(t, nil, rejected)),
		"decision-provider":         text(t, provider),
		"decision-promotion":        text(t, must[*PromotionDecision](t)(NextPromotionDecision(nil, asked))),
	}
}

// forged is a record with something else in it. With signed, its id is computed
// anew, as who holds the disk can do.
func forged(t *testing.T, valid, old, with string, signed bool) string {
	t.Helper()
	if strings.Count(valid, old) != 1 {
		t.Fatalf("%q occurs %d times in %s", old, strings.Count(valid, old), valid)
	}
	out := strings.Replace(valid, old, with, 1)
	if !signed {
		return out
	}
	var rec map[string]any
	if err := canon.Decode([]byte(strings.TrimSuffix(out, "\n")), &rec); err != nil {
		t.Fatal(err)
	}
	was := rec["id"].(string)
	delete(rec, "schema")
	delete(rec, "history")
	rec["id"] = ""
	id, err := canon.DigestOf(rec)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(out, was, id, 1)
}

func invalidVectors(t *testing.T, valid map[string]string) map[string]string {
	t.Helper()
	local, promotion := valid["admission-model-local"], valid["decision-promotion"]
	return map[string]string{
		"admission-source-edited":          forged(t, valid["admission-source"], `"decision":"admitted"`, `"decision":"rejected"`, false),
		"admission-source-moving-version":  forged(t, valid["admission-source"], `"version":"0.169.0"`, `"version":"latest"`, true),
		"admission-source-no-digest":       forged(t, valid["admission-source"], `"sha256":"`+build.SHA256+`"`, `"sha256":""`, true),
		"admission-source-unconfined":      forged(t, valid["admission-source"], `"allowed_execution_mode":"sandbox"`, `"allowed_execution_mode":"host"`, true),
		"admission-source-unknown-key":     forged(t, valid["admission-source"], `,"source_name"`, `,"source_mirror":true,"source_name"`, true),
		"admission-source-no-line-feed":    strings.TrimSuffix(valid["admission-source"], "\n"),
		"admission-model-status":           forged(t, local, `"status":"admitted"`, `"status":"not_admitted"`, true),
		"admission-model-local-internet":   forged(t, local, `"allowed_network_class":"loopback"`, `"allowed_network_class":"internet"`, true),
		"admission-model-undecided":        forged(t, local, `"decision_status":"local_provider_required"`, `"decision_status":"not_decided"`, true),
		"admission-target-relative":        forged(t, valid["admission-target"], `"`+repository+`"`, `"home/owner/tool"`, true),
		"admission-target-status":          forged(t, valid["admission-target-rejected"], `"admission_status":"not_admitted"`, `"admission_status":"admitted"`, true),
		"decision-provider-half-fallback":  forged(t, valid["decision-provider"], `"fallback_provider":"openai"`, `"fallback_provider":""`, true),
		"decision-promotion-activates":     forged(t, promotion, `"runtime_default_activation":false`, `"runtime_default_activation":true`, true),
		"decision-promotion-promoted":      forged(t, promotion, `"core_promotion_status":"not-promoted"`, `"core_promotion_status":"promoted"`, true),
		"decision-promotion-one-pass":      forged(t, promotion, `"repeatability_count":2`, `"repeatability_count":1`, true),
		"decision-promotion-admitted":      forged(t, promotion, `"decision":"not_decided"`, `"decision":"admitted"`, true),
		"admission-source-history-dropped": forged(t, valid["admission-source"], `"revision":1`, `"revision":2`, true),
	}
}

// TestRecordVectors: the vectors are what this package writes, reads and refuses,
// and each valid one obeys the published schema of its kind.
func TestRecordVectors(t *testing.T) {
	t.Parallel()
	valid := validVectors(t)
	compiler, schemas := jsonschema.NewCompiler(), map[string]*jsonschema.Schema{}
	for kind := range parsers {
		s, err := compiler.Compile("../../schemas/" + kind + ".v1.json")
		if err != nil {
			t.Fatal(err)
		}
		schemas[kind] = s
	}
	obeys := func(kind string, text []byte) error {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return err
		}
		return schemas[kind].Validate(value)
	}
	for name, want := range valid {
		kind, got := kindOf(t, name), vectorFile(t, "valid", name, want)
		if err := parsers[kind](got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := obeys(kind, got); err != nil {
			t.Errorf("%s breaks its schema: %v", name, err)
		}
	}
	refused := 0
	for name, want := range invalidVectors(t, valid) {
		kind, got := kindOf(t, name), vectorFile(t, "invalid", name, want)
		if err := parsers[kind](got); reason.CodeOf(err) != reason.InvalidAdmission {
			t.Errorf("%s: %v", name, err)
		}
		if obeys(kind, got) != nil {
			refused++
		}
	}
	if refused < 5 { // the shape alone tells of these; relations between fields are in docs/records.md
		t.Errorf("the schemas refuse %d of the invalid vectors", refused)
	}
}

// vectorFile is a vector as it lies on disk, which is as it should be.
func vectorFile(t *testing.T, dir, name, want string) []byte {
	t.Helper()
	path := filepath.Join(vectorsDir, dir, name+".json")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the package writes (%v); run go test ./law/admission -update", path, err)
	}
	return got
}
