package admission

import (
	"slices"

	"remit/proof/canon"
)

// ModelSchema names a model admission record.
const ModelSchema = "remit.admission.model.v1"

// Class says who runs a model.
type Class string

// The classes.
const (
	Hosted Class = "hosted" // a provider elsewhere: what is asked leaves the machine
	Local  Class = "local"
)

// DecisionStatus is the decision about providers that is behind a model's.
type DecisionStatus string

// The decision statuses. Prompts go to a hosted model only where an external
// provider is approved.
const (
	ProviderNotDecided DecisionStatus = "not_decided"
	ExternalApproved   DecisionStatus = "external_provider_approved"
	LocalRequired      DecisionStatus = "local_provider_required"
)

// DecisionStatuses returns all of them.
func DecisionStatuses() []DecisionStatus {
	return []DecisionStatus{ProviderNotDecided, ExternalApproved, LocalRequired}
}

// Model admits one pair of provider and model, or says why it does not.
type Model struct {
	Schema string `json:"schema"`
	ModelDecision
	History []ModelDecision `json:"history"` // the oldest first
}

// ModelDecision is one decision about a pair. Provider and Model are compared
// with the pair that a run asks for. A fallback is named here for people, and
// needs a record of its own.
type ModelDecision struct {
	Ruling
	Provider         string         `json:"provider"`
	Model            string         `json:"model"` // exact
	Class            Class          `json:"class"`
	Status           Status         `json:"status"` // admitted or not_admitted
	DecisionStatus   DecisionStatus `json:"decision_status"`
	CredentialSource string         `json:"credential_source_class"` // a class, never a value
	Network          string         `json:"allowed_network_class"`
	Fallbacks        []string       `json:"fallbacks"` // models of the same provider
	// ProviderDecisionID is the decision about the provider that this one rests on
	// ([ProviderDecision]); "" where none was recorded.
	ProviderDecisionID string `json:"provider_decision_id,omitempty"`
}

// CredentialSources are the values of credential_source_class: where the
// gateway reads the credential.
func CredentialSources() []string { return []string{"none", "environment", "file", "command"} }

// NetworkClasses are the values of allowed_network_class: how far the gateway
// has to reach.
func NetworkClasses() []string { return []string{"loopback", "private", "internet"} }

// maxFallbacks bounds the list.
const maxFallbacks = 16

// NextModel puts a decision on top of a record, or begins one on nil. Status
// follows from the decision; what else it leaves open gets the default of its
// class. previous is not changed.
func NextModel(previous *Model, d ModelDecision) (*Model, error) {
	setDefault((*string)(&d.Class), string(Hosted))
	status, credential, network := ExternalApproved, "environment", "internet"
	if d.Class == Local {
		status, credential, network = LocalRequired, "none", "loopback"
	}
	if d.Decision != Admitted {
		status = ProviderNotDecided
	}
	setDefault((*string)(&d.DecisionStatus), string(status))
	setDefault(&d.CredentialSource, credential)
	setDefault(&d.Network, network)
	setDefault(&d.ReviewTrigger, "another provider or model")
	d.Status = statusOf(d.Decision)
	d.Fallbacks = append([]string{}, d.Fallbacks...)
	next := &Model{Schema: ModelSchema, ModelDecision: d}
	var before *ModelDecision
	var history []ModelDecision
	if previous != nil {
		before, history = &previous.ModelDecision, previous.History
	}
	var err error
	if next.History, err = follow(&next.ModelDecision, before, history); err != nil {
		return nil, err
	}
	return next, next.Check()
}

// Check returns a *reason.Error with invalid_admission for what is no record.
func (m *Model) Check() error { return checkRecord(m.Schema, ModelSchema, m.History, &m.ModelDecision) }

// Encode returns the bytes of the record's file.
func (m *Model) Encode() ([]byte, error) { return encode(m) }

func (m *Model) file() string { return ModelFile(m.Provider, m.Model) }

func (d *ModelDecision) ruling() *Ruling { return &d.Ruling }

func (d *ModelDecision) subject() string { return "model " + d.Provider + " " + d.Model }

func (d *ModelDecision) facts() Facts {
	return Facts{OnModel: PairFact(d.Provider, d.Model), OnFallback: listFact(d.Fallbacks), OnCredentialSource: d.CredentialSource, OnNetworkClass: d.Network}
}

func (d *ModelDecision) check(p *problem) {
	d.Ruling.check(p)
	p.name("provider", d.Provider)
	p.name("model", d.Model)
	p.oneOf("class", string(d.Class), []string{string(Hosted), string(Local)})
	p.oneOf("decision_status", string(d.DecisionStatus), texts(DecisionStatuses()))
	p.oneOf("credential_source_class", d.CredentialSource, CredentialSources())
	p.oneOf("allowed_network_class", d.Network, NetworkClasses())
	if d.Status != statusOf(d.Decision) {
		p.is("status", "%q does not follow from the decision %q", d.Status, d.Decision)
	}
	switch {
	case d.Decision == Admitted && d.DecisionStatus == ProviderNotDecided:
		p.is("decision_status", "a model is admitted only when it is decided what providers may be asked")
	case d.Decision == Admitted && d.Class == Hosted && d.DecisionStatus != ExternalApproved:
		p.is("decision_status", "a hosted model is admitted only where it is %s", ExternalApproved)
	case d.Class == Local && d.Network == "internet":
		p.is("allowed_network_class", "a local model needs no internet")
	}
	if d.ProviderDecisionID != "" && !canon.ValidDigest(d.ProviderDecisionID) {
		p.is("provider_decision_id", "%q is no id of a decision", d.ProviderDecisionID)
	}
	if len(d.Fallbacks) > maxFallbacks {
		p.is("fallbacks", "more than %d", maxFallbacks)
	}
	for i, f := range d.Fallbacks {
		p.name("fallbacks", f)
		if f == d.Model || slices.Contains(d.Fallbacks[:i], f) {
			p.is("fallbacks", "%q is named already", f)
		}
	}
}

func statusOf(d Decision) Status {
	if d == Admitted {
		return StatusAdmitted
	}
	return StatusNotAdmitted
}
