package admission

import (
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/reason"
)

func providerDecision(t *testing.T, previous *ProviderDecision, status DecisionStatus) *ProviderDecision {
	t.Helper()
	rec, err := NextProviderDecision(previous, ProviderRuling{Ruling: ruling(""), DecisionStatus: status, Provider: "openai", Model: "gpt-5.5",
		EvidenceSources: []string{"docs/decision.md"}})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestModelRestsOnDecision: a model admission that points to a decision about the provider holds only as
// long as that decision stands as it was.
func TestModelRestsOnDecision(t *testing.T) {
	t.Parallel()
	first := providerDecision(t, nil, ExternalApproved)
	d := ModelDecision{Ruling: ruling(Admitted), Provider: "openai", Model: "gpt-5.5", ProviderDecisionID: first.ID}
	rec, err := NextModel(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		behind *ProviderDecision
		status Status
		detail string
	}{
		"as it was":  {first, StatusAdmitted, "is admitted"},
		"gone":       {nil, StatusMismatch, "is gone"},
		"made again": {providerDecision(t, first, ExternalApproved), StatusMismatch, "made again"},
		"taken back": {providerDecision(t, first, ProviderNotDecided), StatusMismatch, "made again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			put(t, home, ModelFile("openai", "gpt-5.5"), text(t, rec), 0o600)
			if test.behind != nil {
				put(t, home, ProviderDecisionFile("openai", "gpt-5.5"), text(t, test.behind), 0o600)
			}
			res, _ := below(home).ModelResult("openai", "gpt-5.5")
			if res.Status != test.status || !strings.Contains(res.Detail, test.detail) || res.Admitted() != (res.Code == "") {
				t.Errorf("%+v", res)
			}
		})
	}
}

func TestProviderDecisions(t *testing.T) {
	t.Parallel()
	for _, status := range DecisionStatuses() {
		rec := providerDecision(t, nil, status)
		if (rec.Decision == Admitted) != (status != ProviderNotDecided) || (rec.ProviderClass == LocalProvider) != (status == LocalRequired) || rec.Effect == "" {
			t.Errorf("%s: %+v", status, rec)
		}
		if got, err := ParseProviderDecision("f", []byte(text(t, rec))); err != nil || got.ID != rec.ID {
			t.Errorf("%s: %v", status, err)
		}
	}
	for name, change := range map[string]func(*ProviderRuling){
		"another status":         func(d *ProviderRuling) { d.DecisionStatus = "approved" },
		"another class":          func(d *ProviderRuling) { d.ProviderClass = LocalProvider },
		"half a fallback":        func(d *ProviderRuling) { d.FallbackModel = "x" },
		"itself as the fallback": func(d *ProviderRuling) { d.FallbackProvider, d.FallbackModel = "openai", "gpt-5.5" },
		"a value as a class":     func(d *ProviderRuling) { d.CredentialSource = "hunter2" },
		"no provider":            func(d *ProviderRuling) { d.Provider = "" },
	} {
		d := ProviderRuling{Ruling: ruling(""), DecisionStatus: ExternalApproved, Provider: "openai", Model: "gpt-5.5"}
		change(&d)
		if _, err := NextProviderDecision(nil, d); reason.CodeOf(err) != reason.InvalidAdmission {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPromotionClaimsNoMoreThanItsFigures: a request needs a refresh that passed with two distinct passes,
// and no decision activates or promotes anything.
func TestPromotionClaimsNoMoreThanItsFigures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status PromotionStatus
		count  int
		result string
		digest string
		made   bool
		ready  bool
	}{
		"two passes":            {PromotionRequested, 2, "pass", canon.Digest(nil), true, true},
		"one pass":              {PromotionRequested, 1, "pass", canon.Digest(nil), false, false},
		"blocked":               {PromotionRequested, 2, "blocked", canon.Digest(nil), false, false},
		"by word of mouth":      {PromotionRequested, 2, "pass", "", false, false},
		"deferred all the same": {PromotionDeferred, 2, "pass", canon.Digest(nil), true, true},
		"deferred":              {PromotionDeferred, 0, "", "", true, false},
		"not decided":           {PromotionNotDecided, 0, "", "", true, false},
		"another word":          {"promoted", 2, "pass", canon.Digest(nil), false, false},
	} {
		rec, err := NextPromotionDecision(nil, PromotionRuling{Ruling: ruling(""), Engine: "pi", DecisionStatus: test.status,
			RepeatabilityCount: test.count, RepeatabilityStatus: test.result, RefreshSHA256: test.digest, DefaultActivation: true, CorePromotion: "promoted"})
		if (err == nil) != test.made {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil {
			continue
		}
		if rec.ReadyForReview != test.ready || rec.Eligible != test.ready || rec.DefaultActivation || rec.CorePromotion != NotPromoted {
			t.Errorf("%s: %+v", name, rec)
		}
		if (rec.NextDecision == NextOpenCoreRoute) != (test.status == PromotionRequested) {
			t.Errorf("%s: next %s", name, rec.NextDecision)
		}
		if got, err := ParsePromotionDecision("f", []byte(text(t, rec))); err != nil || got.ID != rec.ID {
			t.Errorf("%s: %v", name, err)
		}
	}
	rec, err := NextPromotionDecision(nil, PromotionRuling{Ruling: ruling(""), Engine: "pi", DecisionStatus: PromotionNotDecided})
	if err != nil {
		t.Fatal(err)
	}
	for name, forge := range map[string]func(*PromotionDecision){
		"active":   func(d *PromotionDecision) { d.DefaultActivation = true },
		"promoted": func(d *PromotionDecision) { d.CorePromotion = "promoted" },
		"ready":    func(d *PromotionDecision) { d.ReadyForReview, d.Eligible = true, true },
	} {
		forged := *rec
		forge(&forged)
		if forged.ID, err = digest(&forged.PromotionRuling); err != nil {
			t.Fatal(err)
		}
		if err := forged.Check(); reason.CodeOf(err) != reason.InvalidAdmission {
			t.Errorf("%s: %v", name, err)
		}
	}
}
