package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"remit/law/task"
	"remit/proof/canon"
)

// Trigger is something whose change brings a decision up again.
type Trigger string

// The triggers.
const (
	OnEngineDigest     Trigger = "engine_digest"
	OnModel            Trigger = "model"
	OnFallback         Trigger = "fallback"
	OnCredentialSource Trigger = "credential_source" //nolint:gosec // the name of a trigger
	OnNetworkClass     Trigger = "network_class"
	OnTargetPath       Trigger = "target_path"
	OnAllowedPaths     Trigger = "allowed_paths"
	OnForbiddenActions Trigger = "forbidden_actions"
	OnRiskClass        Trigger = "risk_class"
	OnPolicy           Trigger = "policy"
	OnContract         Trigger = "contract"
)

// OnReviewBy is how a review names the time of review_by. It stands in no list
// of triggers.
const OnReviewBy Trigger = "review_by"

// Triggers returns all of them.
func Triggers() []Trigger {
	return []Trigger{OnEngineDigest, OnModel, OnFallback, OnCredentialSource, OnNetworkClass, OnTargetPath, OnAllowedPaths, OnForbiddenActions,
		OnRiskClass, OnPolicy, OnContract}
}

// Facts are what is at hand, by the trigger that watches it. A trigger whose
// fact is not known does not fire.
type Facts map[Trigger]string

// With returns the facts and, where they say nothing of their own, the others.
func (f Facts) With(others Facts) Facts {
	out := Facts{}
	maps.Copy(out, others)
	maps.Copy(out, f)
	return out
}

// FactsOf are the facts of a contract, and of the policy that it is under.
func FactsOf(c *task.Contract, policySHA256 string) (Facts, error) {
	digest, err := c.Digest()
	if err != nil {
		return nil, fmt.Errorf("encoding the contract: %w", err)
	}
	return Facts{OnPolicy: policySHA256, OnContract: digest, OnAllowedPaths: listFact(c.AllowedPaths),
		OnForbiddenActions: listFact(c.ForbiddenActions), OnRiskClass: string(c.RiskClass)}, nil
}

// Review is when a decision, or a proof, is to be made again. Where a trigger
// fired the record is stale and admits nothing.
type Review struct {
	Triggers []Trigger          `json:"review_triggers,omitempty"`
	Basis    map[Trigger]string `json:"review_basis,omitempty"` // the fact of each trigger at the time of the decision
	By       string             `json:"review_by,omitempty"`    // TimeFormat; "" for no time
}

// Fired is a trigger that has fired.
type Fired struct {
	On      Trigger
	Was, Is string
}

// String names the trigger and both facts.
func (f Fired) String() string {
	if f.On == OnReviewBy {
		return fmt.Sprintf("%s: it was to be reviewed by %s", f.On, f.Was)
	}
	return fmt.Sprintf("%s was %s and is %s", f.On, cmp.Or(f.Was, "none"), cmp.Or(f.Is, "none"))
}

// Fired lists the triggers that have fired at a time, in their order. It is pure.
func (r Review) Fired(facts Facts, now time.Time) []Fired {
	var out []Fired
	for _, t := range r.Triggers {
		if is, known := facts[t]; known && is != r.Basis[t] {
			out = append(out, Fired{t, r.Basis[t], is})
		}
	}
	if by, err := time.Parse(TimeFormat, r.By); r.By != "" && (err != nil || !now.Before(by)) {
		out = append(out, Fired{OnReviewBy, r.By, now.UTC().Format(TimeFormat)})
	}
	return out
}

// settle gives each trigger without a stated basis the fact of the record itself.
func (r *Review) settle(own Facts) error {
	if len(r.Triggers) == 0 && len(r.Basis) == 0 {
		r.Triggers, r.Basis = nil, nil
		return nil
	}
	r.Triggers, r.Basis = slices.Clone(r.Triggers), maps.Clone(r.Basis)
	if r.Basis == nil {
		r.Basis = map[Trigger]string{}
	}
	for _, t := range r.Triggers {
		if _, stated := r.Basis[t]; stated {
			continue
		}
		fact, known := own[t]
		if !known {
			return invalid("review_triggers", "the record does not say what %s is: state it as %[1]s=VALUE", t)
		}
		r.Basis[t] = fact
	}
	return nil
}

func (r *Review) check(p *problem) {
	for i, t := range r.Triggers {
		p.oneOf("review_triggers", string(t), texts(Triggers()))
		if slices.Contains(r.Triggers[:i], t) {
			p.is("review_triggers", "%s is there twice", t)
		}
		if _, stated := r.Basis[t]; !stated {
			p.is("review_basis", "it does not say what %s was", t)
		}
		p.optional("review_basis", r.Basis[t])
	}
	if len(r.Basis) != len(r.Triggers) {
		p.is("review_basis", "it names what is no trigger of the record")
	}
	if r.By != "" {
		p.time("review_by", r.By)
	}
}

// PairFact is the fact of [OnModel].
func PairFact(provider, model string) string {
	if provider == "" && model == "" {
		return ""
	}
	return provider + " " + model
}

// listFact is the fact of a list: its order does not matter.
func listFact(list []string) string {
	if len(list) == 0 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(list))
	text := strings.Join(sorted, " ")
	if len(text) <= MaxName && !strings.ContainsFunc(strings.Join(sorted, ""), func(c rune) bool { return c <= ' ' || c > '~' }) {
		return text
	}
	return canon.Digest([]byte(strings.Join(sorted, "\x00")))
}
