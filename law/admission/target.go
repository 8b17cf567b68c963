package admission

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/reason"
)

// TargetSchema names a target admission record.
const TargetSchema = "remit.admission.target.v1"

// LowRiskNoncritical is the only risk classification of a repository that a run
// may touch.
const LowRiskNoncritical = "low_risk_noncritical"

// Target admits one repository of its owner for runs that deliver a change to
// it, or says why it does not.
type Target struct {
	Schema string `json:"schema"`
	TargetDecision
	History []TargetDecision `json:"history"` // the oldest first
}

// TargetDecision is one decision about a repository. It may be incomplete as
// long as it admits nothing; [TargetDecision.Gates] says what an admission needs.
type TargetDecision struct {
	Ruling
	Status            Status   `json:"admission_status"`       // admitted or not_admitted
	Path              string   `json:"target_repository_path"` // absolute, without links
	Owner             string   `json:"repository_owner"`
	OwnershipEvidence string   `json:"ownership_evidence"`
	Risk              string   `json:"risk_classification"`
	Rationale         string   `json:"noncritical_rationale"`
	AllowedPaths      []string `json:"allowed_paths"`
	ForbiddenPaths    []string `json:"forbidden_paths"`
	ForbiddenActions  []string `json:"forbidden_actions"`
	ApprovalTimestamp string   `json:"approval_timestamp"` // a date, or TimeFormat
	OutcomeRequired   bool     `json:"operator_outcome_required"`
}

// maxTargetList bounds the lists of a target record.
const maxTargetList = 1000

// Template is the record of a repository of which nothing is decided: what a
// person fills in.
func Template() TargetDecision {
	return TargetDecision{Status: StatusNotAdmitted, AllowedPaths: []string{}, ForbiddenPaths: []string{},
		ForbiddenActions: task.DefaultForbiddenActions(), OutcomeRequired: true}
}

// NextTarget puts a decision on top of a record, or begins one on nil. The status
// follows from the decision. An admission with a missing gate is a *reason.Error
// with the gate's code. previous is not changed.
func NextTarget(previous *Target, d TargetDecision) (*Target, error) {
	d.Status = statusOf(d.Decision)
	d.AllowedPaths, d.ForbiddenPaths = append([]string{}, d.AllowedPaths...), append([]string{}, d.ForbiddenPaths...)
	d.ForbiddenActions = append([]string{}, d.ForbiddenActions...)
	if d.Decision == Admitted {
		if gates := d.Gates(); len(gates) > 0 {
			return nil, &reason.Error{Code: gates[0].Code, Field: gates[0].Field, Message: gates[0].Detail}
		}
	}
	next := &Target{Schema: TargetSchema, TargetDecision: d}
	var before *TargetDecision
	var history []TargetDecision
	if previous != nil {
		before, history = &previous.TargetDecision, previous.History
	}
	var err error
	if next.History, err = follow(&next.TargetDecision, before, history); err != nil {
		return nil, err
	}
	return next, next.Check()
}

// Check returns a *reason.Error with invalid_admission for what is no record. A
// record that admits nothing, for want of a field, is one.
func (t *Target) Check() error {
	return checkRecord(t.Schema, TargetSchema, t.History, &t.TargetDecision)
}

// Encode returns the bytes of the record's file.
func (t *Target) Encode() ([]byte, error) { return encode(t) }

func (t *Target) file() string { return TargetFile(t.Path) }

func (d *TargetDecision) ruling() *Ruling { return &d.Ruling }

func (d *TargetDecision) subject() string { return "target " + d.Path }

func (d *TargetDecision) facts() Facts {
	return Facts{OnTargetPath: TargetDigest(d.Path), OnAllowedPaths: listFact(d.AllowedPaths), OnForbiddenActions: listFact(d.ForbiddenActions), OnRiskClass: d.Risk}
}

// TargetDigest stands for a repository where its path may not.
func TargetDigest(repository string) string {
	return canon.Digest([]byte("remit-target\n" + repository))
}

// check lets approval_source and review_trigger be empty: what is missing is a
// gate that blocks with a code of its own, and not a damaged record.
func (d *TargetDecision) check(p *problem) {
	p.oneOf("decision", string(d.Decision), texts(Decisions()))
	p.optional("approval_source", d.By)
	p.optional("review_trigger", d.ReviewTrigger)
	p.line("reason", d.Reason)
	p.time("admission_timestamp", d.At)
	d.Review.check(p)
	if !path.IsAbs(d.Path) || path.Clean(d.Path) != d.Path || d.Path == "/" {
		p.is("target_repository_path", "not the absolute path of a repository")
	}
	p.optional("target_repository_path", d.Path)
	if d.Status != statusOf(d.Decision) {
		p.is("admission_status", "%q does not follow from the decision %q", d.Status, d.Decision)
	}
	for field, text := range map[string]string{"repository_owner": d.Owner, "ownership_evidence": d.OwnershipEvidence,
		"risk_classification": d.Risk, "noncritical_rationale": d.Rationale, "approval_timestamp": d.ApprovalTimestamp} {
		p.optional(field, text)
	}
	for _, list := range []struct {
		field  string
		values []string
	}{{"allowed_paths", d.AllowedPaths}, {"forbidden_paths", d.ForbiddenPaths}} {
		if len(list.values) > maxTargetList {
			p.is(list.field, "more than %d", maxTargetList)
		}
		for _, glob := range list.values {
			if err := task.CheckGlob(glob); err != nil {
				p.is(list.field, "%+q: %w", glob, err)
			}
		}
	}
	if len(d.ForbiddenActions) > maxTargetList {
		p.is("forbidden_actions", "more than %d", maxTargetList)
	}
	for _, action := range d.ForbiddenActions {
		p.name("forbidden_actions", action)
	}
}

// Gate is one thing that a target record lacks.
type Gate struct {
	Code   reason.Code
	Field  string
	Detail string // names no path
}

// Gates lists what the decision lacks for a run to touch the repository, in the
// order of the fields; empty when it admits the repository.
func (d *TargetDecision) Gates() []Gate {
	var out []Gate
	need := func(ok bool, code reason.Code, field, format string, args ...any) {
		if !ok {
			out = append(out, Gate{code, field, fmt.Sprintf(format, args...)})
		}
	}
	said := func(text string) bool { return strings.TrimSpace(text) != "" }
	need(d.Decision == Admitted && d.Status == StatusAdmitted, reason.TargetNotAdmitted, "admission_status", "the record says %s: only admitted admits a target", StatusNotAdmitted)
	need(said(d.Owner), reason.TargetUnowned, "repository_owner", "the record names no owner of the target")
	need(said(d.OwnershipEvidence), reason.TargetUnowned, "ownership_evidence", "the record has no evidence of who owns the target")
	need(d.Risk == LowRiskNoncritical, reason.TargetCritical, "risk_classification", "the risk classification of the target is not %s", LowRiskNoncritical)
	need(said(d.Rationale), reason.TargetCritical, "noncritical_rationale", "the record does not say why the target is not critical")
	need(len(d.AllowedPaths) > 0, reason.TargetPathsMissing, "allowed_paths", "the record allows no path of the target")
	var open []string
	for _, action := range task.DefaultForbiddenActions() {
		if !slices.Contains(d.ForbiddenActions, action) {
			open = append(open, action)
		}
	}
	need(len(open) == 0, reason.TargetActionOpen, "forbidden_actions", "the record does not forbid: %s", strings.Join(open, ", "))
	need(said(d.By), reason.TargetApprovalMissing, "approval_source", "the record does not say who approved it")
	need(said(d.ApprovalTimestamp), reason.TargetApprovalMissing, "approval_timestamp", "the record does not say when it was approved")
	need(d.OutcomeRequired, reason.TargetOutcomeOptional, "operator_outcome_required", "the record does not require an operator's outcome")
	need(said(d.ReviewTrigger), reason.TargetReviewMissing, "review_trigger", "the record does not say what is to bring it up again")
	return out
}

// TargetResult says whether a record admits a repository for a contract, nil for
// none yet: then only the record is judged. path is absolute and has no links. No
// detail names it. rec is nil where none was found or it does not count.
func (s Store) TargetResult(repository string, c *task.Contract) (res Result, rec *Target) {
	rec, err := s.Target(repository)
	switch {
	case err != nil:
		res = uncounted(err, reason.TargetNotAdmitted)
		res.Detail = withoutPath(res.Detail, s.Home)
		return res, nil
	case rec == nil:
		return Result{Status: StatusMissing, Code: reason.TargetRecordMissing, Detail: "no record admits the target"}, nil
	}
	res = rec.Admits(repository, c)
	return s.Reviewed(res, reason.TargetStale, rec.Ruling, rec.facts()), rec
}

// Admits holds the record against a repository and a contract, nil for none.
func (t *Target) Admits(repository string, c *task.Contract) Result {
	if err := t.Check(); err != nil {
		return uncounted(err, reason.TargetNotAdmitted)
	}
	refuse := func(code reason.Code, stale bool, detail string) Result {
		status := StatusNotAdmitted
		if stale {
			status = StatusMismatch
		}
		return Result{Status: status, Code: code, Stale: stale, Detail: detail, RecordID: t.ID}
	}
	if t.Path != repository {
		return refuse(reason.TargetRecordMissing, true, "the record is about another repository")
	}
	if gates := t.Gates(); len(gates) > 0 {
		return refuse(gates[0].Code, false, gates[0].Detail)
	}
	if c != nil {
		scope := task.Scope{AllowedPaths: t.AllowedPaths, ForbiddenPaths: t.ForbiddenPaths, ForbiddenActions: t.ForbiddenActions}
		if outside := scope.Outside(c); len(outside) > 0 {
			return refuse(reason.TargetContractOutside, false, "the contract lies outside of the target's record: "+strings.Join(outside, "; "))
		}
	}
	return Result{Status: StatusAdmitted, Detail: "the target is admitted", RecordID: t.ID}
}

// withoutPath takes a directory out of a message.
func withoutPath(message, dir string) string { return strings.ReplaceAll(message, dir, "$REMIT_HOME") }

// Way is how a run would ask a model.
type Way struct {
	Class      Class
	Credential string // one of [CredentialSources]
	BaseURL    string
}

// Through holds the way to an admitted model against its record: who runs it,
// where its key comes from, and how far the gateway reaches. A way that needs
// less than the record allows is fine. No detail repeats the address.
func (r Result) Through(rec *Model, w Way) Result {
	if !r.Admitted() || rec == nil {
		return r
	}
	refuse := func(format string, args ...any) Result {
		return Result{Status: StatusMismatch, Code: reason.ModelMismatch, RecordID: r.RecordID, Detail: fmt.Sprintf(format, args...)}
	}
	reach := w.Network()
	if !usable(w.BaseURL) {
		reach = NetworkClasses()[0] // it reaches nothing: the gateway says what is wrong with it
	}
	switch {
	case rec.Class != w.Class:
		return refuse("the record admits a %s model, and the run would ask a %s one", rec.Class, w.Class)
	case w.Credential != "none" && rec.CredentialSource != w.Credential:
		return refuse("the record has the key come from: %s, and the run would take it from: %s", rec.CredentialSource, w.Credential)
	case slices.Index(NetworkClasses(), reach) > slices.Index(NetworkClasses(), rec.Network):
		return refuse("the record lets the gateway reach: %s, and the model is on: %s", rec.Network, reach)
	}
	return r
}

// usable reports whether an address could be a provider's at all. A gateway
// takes no other, and it is the one to say so.
func usable(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// Network is how far the gateway has to reach, one of [NetworkClasses]. No name is looked up: the answer
// could be another when it counts, and for a name below localhost it can come
// from anywhere. A name that says nothing of its place is on the internet, unless
// the model is said to be local.
func (w Way) Network() string {
	u, err := url.Parse(w.BaseURL)
	host := ""
	if err == nil {
		host = strings.ToLower(u.Hostname())
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil && addr.Unmap().IsLoopback(), strings.TrimSuffix(host, ".") == "localhost":
		return "loopback"
	case err == nil && (addr.Unmap().IsPrivate() || addr.Unmap().IsLinkLocalUnicast()), err != nil && w.Class == Local && !disguised(host):
		return "private"
	}
	return "internet"
}

// disguised reports whether a host that is no address in its usual form could
// still be taken for one: resolvers read 134744072, 8.2056, 010.8.8.8, 0x8080808
// and digits of other scripts as addresses. No name ends in a number.
func disguised(host string) bool {
	host = strings.TrimRight(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	hex, isHex := strings.CutPrefix(last, "0x")
	switch {
	case strings.IndexFunc(host, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0:
		return true
	case isHex:
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
