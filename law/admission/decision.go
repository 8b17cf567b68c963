package admission

import "remit/proof/canon"

// The schemas of decision records. A decision grants nothing by itself: it says
// what may be admitted, or asked for, on which grounds.
const (
	ProviderDecisionSchema  = "remit.decision.provider.v1"
	PromotionDecisionSchema = "remit.decision.promotion.v1"
)

// ProviderDecision is the decision about asking one model of one provider, with
// at most one fallback. Model admissions point to it.
type ProviderDecision struct {
	Schema string `json:"schema"`
	ProviderRuling
	History []ProviderRuling `json:"history"` // the oldest first
}

// ProviderRuling is one decision about a provider.
type ProviderRuling struct {
	Ruling
	DecisionStatus   DecisionStatus `json:"decision_status"`
	ProviderClass    string         `json:"provider_class"` // external, or local
	Provider         string         `json:"provider"`
	Model            string         `json:"model"`
	FallbackProvider string         `json:"fallback_provider"` // "" for none
	FallbackModel    string         `json:"fallback_model"`
	CredentialSource string         `json:"credential_source_class"` // a class, never a value
	Network          string         `json:"allowed_network_class"`
	EvidenceSources  []string       `json:"evidence_sources"`
	Effect           string         `json:"effect"`
}

// The provider classes.
const (
	ExternalProvider = "external"
	LocalProvider    = "local"
)

// ProviderClasses returns all of them.
func ProviderClasses() []string { return []string{ExternalProvider, LocalProvider} }

// maxEvidence bounds evidence_sources.
const maxEvidence = 100

// NextProviderDecision puts a decision on top of a record, or begins one on nil.
// The word of the ruling follows from the status: a provider that is approved or
// required is admitted, any other not_decided. previous is not changed.
func NextProviderDecision(previous *ProviderDecision, d ProviderRuling) (*ProviderDecision, error) {
	d.Decision = NotDecided
	class, credential, network := ExternalProvider, "environment", "internet"
	switch d.DecisionStatus {
	case ExternalApproved:
		d.Decision = Admitted
	case LocalRequired:
		d.Decision = Admitted
		class, credential, network = LocalProvider, "none", "loopback"
	}
	setDefault(&d.ProviderClass, class)
	setDefault(&d.CredentialSource, credential)
	setDefault(&d.Network, network)
	setDefault(&d.ReviewTrigger, "another provider, model, fallback or credential source")
	setDefault(&d.Effect, "a model admission of this pair may rest on it; no run is admitted by it")
	d.EvidenceSources = append([]string{}, d.EvidenceSources...)
	next := &ProviderDecision{Schema: ProviderDecisionSchema, ProviderRuling: d}
	var before *ProviderRuling
	var history []ProviderRuling
	if previous != nil {
		before, history = &previous.ProviderRuling, previous.History
	}
	var err error
	if next.History, err = follow(&next.ProviderRuling, before, history); err != nil {
		return nil, err
	}
	return next, next.Check()
}

// Check returns a *reason.Error with invalid_admission for what is no record.
func (d *ProviderDecision) Check() error {
	return checkRecord(d.Schema, ProviderDecisionSchema, d.History, &d.ProviderRuling)
}

// Encode returns the bytes of the record's file.
func (d *ProviderDecision) Encode() ([]byte, error) { return encode(d) }

func (d *ProviderDecision) file() string { return ProviderDecisionFile(d.Provider, d.Model) }

func (d *ProviderRuling) ruling() *Ruling { return &d.Ruling }

func (d *ProviderRuling) subject() string { return "provider " + d.Provider + " " + d.Model }

func (d *ProviderRuling) facts() Facts {
	return Facts{OnModel: PairFact(d.Provider, d.Model), OnFallback: PairFact(d.FallbackProvider, d.FallbackModel),
		OnCredentialSource: d.CredentialSource, OnNetworkClass: d.Network}
}

func (d *ProviderRuling) check(p *problem) {
	d.Ruling.check(p)
	p.oneOf("decision_status", string(d.DecisionStatus), texts(DecisionStatuses()))
	p.oneOf("provider_class", d.ProviderClass, ProviderClasses())
	p.name("provider", d.Provider)
	p.name("model", d.Model)
	p.oneOf("credential_source_class", d.CredentialSource, CredentialSources())
	p.oneOf("allowed_network_class", d.Network, NetworkClasses())
	p.line("effect", d.Effect)
	if (d.Decision == Admitted) != (d.DecisionStatus != ProviderNotDecided) {
		p.is("decision", "%q does not follow from the status %q", d.Decision, d.DecisionStatus)
	}
	switch {
	case (d.FallbackProvider == "") != (d.FallbackModel == ""):
		p.is("fallback_model", "a fallback is a provider and a model")
	case d.FallbackProvider != "":
		p.name("fallback_provider", d.FallbackProvider)
		p.name("fallback_model", d.FallbackModel)
		if d.FallbackProvider == d.Provider && d.FallbackModel == d.Model {
			p.is("fallback_model", "it is the model itself")
		}
	}
	switch {
	case d.DecisionStatus == ExternalApproved && d.ProviderClass != ExternalProvider, d.DecisionStatus == LocalRequired && d.ProviderClass != LocalProvider:
		p.is("provider_class", "%q is not what %s decides about", d.ProviderClass, d.DecisionStatus)
	case d.ProviderClass == LocalProvider && d.Network == "internet":
		p.is("allowed_network_class", "a local provider needs no internet")
	}
	p.lines("evidence_sources", d.EvidenceSources, maxEvidence)
}

// PromotionStatus is the status of a promotion decision.
type PromotionStatus string

// The promotion statuses. Requesting a promotion promotes nothing.
const (
	PromotionNotDecided PromotionStatus = "not_decided"
	PromotionRequested  PromotionStatus = "core_promotion_requested"
	PromotionDeferred   PromotionStatus = "core_promotion_deferred"
)

// PromotionStatuses returns all of them.
func PromotionStatuses() []PromotionStatus {
	return []PromotionStatus{PromotionNotDecided, PromotionRequested, PromotionDeferred}
}

// RepeatabilityRequired is how many distinct passes a request for promotion needs.
const RepeatabilityRequired = 2

// The words of the fields that no decision changes, and of what may come next.
const (
	NotPromoted       = "not-promoted"
	NextOpenCoreRoute = "open_governed_core_prd_route"
	NextStayLocal     = "keep_evidence_child_local"
	RepeatabilityPass = "pass"
	candidateOnly     = "candidate_only_until_core_route_admission_guard_passes"
)

// RepeatabilityStatuses are the values of repeatability_status.
func RepeatabilityStatuses() []string { return []string{RepeatabilityPass, "blocked", "fail"} }

// PromotionDecision is the decision about asking for an engine to become the
// default. It activates nothing, whatever it says.
type PromotionDecision struct {
	Schema string `json:"schema"`
	PromotionRuling
	History []PromotionRuling `json:"history"` // the oldest first
}

// PromotionRuling is one decision about the promotion of an engine.
type PromotionRuling struct {
	Ruling
	Engine              string          `json:"engine"`
	DecisionStatus      PromotionStatus `json:"decision_status"`
	ReadyForReview      bool            `json:"ready_for_core_review"`
	Eligible            bool            `json:"candidate_default_repeatability_eligible"`
	RepeatabilityCount  int             `json:"repeatability_count"`
	RepeatabilityStatus string          `json:"repeatability_status"`
	NextDecision        string          `json:"recommended_next_decision"`
	Recommendation      string          `json:"recommendation_status"`
	DefaultActivation   bool            `json:"runtime_default_activation"` // false
	CorePromotion       string          `json:"core_promotion_status"`      // NotPromoted
	// RefreshSHA256 is the digest of the refresh that the figures are from; "" without
	// one, and then nothing is ready.
	RefreshSHA256   string   `json:"refresh_sha256"`
	EvidenceSources []string `json:"evidence_sources"`
}

// NextPromotionDecision puts a decision on top of a record, or begins one on nil.
// What is ready follows from the figures. previous is not changed.
func NextPromotionDecision(previous *PromotionDecision, d PromotionRuling) (*PromotionDecision, error) {
	d.Decision = NotDecided
	if d.DecisionStatus == PromotionDeferred {
		d.Decision = Rejected
	}
	setDefault(&d.RepeatabilityStatus, "blocked")
	d.Eligible = d.repeated()
	d.ReadyForReview, d.CorePromotion, d.DefaultActivation = d.Eligible, NotPromoted, false
	d.NextDecision, d.Recommendation = NextStayLocal, "none"
	if d.DecisionStatus == PromotionRequested {
		d.NextDecision, d.Recommendation = NextOpenCoreRoute, candidateOnly
	}
	setDefault(&d.ReviewTrigger, "another refresh")
	d.EvidenceSources = append([]string{}, d.EvidenceSources...)
	next := &PromotionDecision{Schema: PromotionDecisionSchema, PromotionRuling: d}
	var before *PromotionRuling
	var history []PromotionRuling
	if previous != nil {
		before, history = &previous.PromotionRuling, previous.History
	}
	var err error
	if next.History, err = follow(&next.PromotionRuling, before, history); err != nil {
		return nil, err
	}
	return next, next.Check()
}

// Check returns a *reason.Error with invalid_admission for what is no record.
func (d *PromotionDecision) Check() error {
	return checkRecord(d.Schema, PromotionDecisionSchema, d.History, &d.PromotionRuling)
}

// Encode returns the bytes of the record's file.
func (d *PromotionDecision) Encode() ([]byte, error) { return encode(d) }

func (d *PromotionDecision) file() string { return PromotionDecisionFile(d.Engine) }

// repeated reports whether the figures of a refresh show enough passes.
func (d *PromotionRuling) repeated() bool {
	return d.RefreshSHA256 != "" && d.RepeatabilityStatus == RepeatabilityPass && d.RepeatabilityCount >= RepeatabilityRequired
}

func (d *PromotionRuling) ruling() *Ruling { return &d.Ruling }

func (d *PromotionRuling) subject() string { return "promotion of engine " + d.Engine }

func (d *PromotionRuling) facts() Facts { return Facts{} }

func (d *PromotionRuling) check(p *problem) {
	d.Ruling.check(p)
	p.name("engine", d.Engine)
	p.oneOf("decision_status", string(d.DecisionStatus), texts(PromotionStatuses()))
	p.oneOf("repeatability_status", d.RepeatabilityStatus, RepeatabilityStatuses())
	p.oneOf("recommended_next_decision", d.NextDecision, []string{NextOpenCoreRoute, NextStayLocal})
	p.oneOf("recommendation_status", d.Recommendation, []string{candidateOnly, "none"})
	requested := d.DecisionStatus == PromotionRequested
	switch {
	case d.Decision == Admitted || (d.Decision == Rejected) != (d.DecisionStatus == PromotionDeferred):
		p.is("decision", "%q does not follow from the status %q", d.Decision, d.DecisionStatus)
	case d.DefaultActivation:
		p.is("runtime_default_activation", "a decision record activates nothing")
	case d.CorePromotion != NotPromoted:
		p.is("core_promotion_status", "a decision record promotes nothing")
	case d.RepeatabilityCount < 0 || d.RepeatabilityCount > 1_000_000:
		p.is("repeatability_count", "%d is no count", d.RepeatabilityCount)
	case d.RefreshSHA256 != "" && !canon.ValidDigest(d.RefreshSHA256):
		p.is("refresh_sha256", "%q is no digest", d.RefreshSHA256)
	case d.Eligible != d.repeated() || d.ReadyForReview != d.Eligible:
		p.is("ready_for_core_review", "it claims more, or less, than the figures show")
	case requested && !d.ReadyForReview:
		p.is("decision_status", "a promotion is requested only on a refresh that passed with %d distinct passes", RepeatabilityRequired)
	case requested != (d.NextDecision == NextOpenCoreRoute) || requested != (d.Recommendation == candidateOnly):
		p.is("recommended_next_decision", "%q does not follow from the status %q", d.NextDecision, d.DecisionStatus)
	}
	p.lines("evidence_sources", d.EvidenceSources, maxEvidence)
}

// lines refuses a list that is too long, or an entry that says nothing.
func (p *problem) lines(field string, values []string, most int) {
	if len(values) > most {
		p.is(field, "more than %d", most)
	}
	for _, v := range values {
		p.line(field, v)
	}
}
