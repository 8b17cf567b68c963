package admission

import (
	"net/url"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/form"
)

// SourceSchema names a source admission record.
const SourceSchema = "remit.admission.source.v1"

// ExecutionSandbox is the only execution mode that a source can be admitted
// for: nothing runs an engine outside the sandbox on the strength of a record.
const ExecutionSandbox = "sandbox"

// Source admits one build of an engine, or says why it does not.
type Source struct {
	Schema string `json:"schema"`
	SourceDecision
	History []SourceDecision `json:"history"` // the oldest first
}

// SourceDecision is one decision about a build of an engine. Engine, Version
// and SHA256 are compared with the engine at hand. Version and SHA256 are empty
// only where nothing is admitted: an engine that is not there can be rejected.
// An empty URL, License, RetrievedAt or RetrievalCommand was not stated.
type SourceDecision struct {
	Ruling
	Engine           string `json:"engine"`
	Version          string `json:"version"` // pinned: commit, tag or package version
	SHA256           string `json:"sha256"`  // of what is executed
	Name             string `json:"source_name"`
	URL              string `json:"source_url"`
	Type             string `json:"source_type"`
	License          string `json:"license_note"`
	RetrievedAt      string `json:"retrieved_at"`
	RetrievalCommand string `json:"retrieval_command"`
	ExecutionMode    string `json:"allowed_execution_mode"`
	Boundary         string `json:"protected_source_boundary"`
	// Of a build from source: the commit and the toolchain that it is said
	// to be from, and what the digest does not prove about that. They came later
	// than the rest, and a decision without them has the id that it always had.
	SourceCommit string `json:"source_commit,omitempty"`
	Toolchain    string `json:"toolchain,omitempty"`
	Unproven     string `json:"digest_does_not_prove,omitempty"`
}

// unproven is what no digest of a program proves about its source.
const unproven = "that the program was built from this commit with this toolchain: another build of the same has another digest"

// sourceCommit is a whole commit id, or a prefix of one that git would check out.
var sourceCommit = form.Lazy(`^[0-9a-f]{12,64}$`)

// SourceTypes are the values of source_type.
func SourceTypes() []string { return []string{"builtin", "npm", "git", "release", "local"} }

// NextSource puts a decision on top of a record, or begins one on nil. What the
// decision leaves open gets its default. previous is not changed.
func NextSource(previous *Source, d SourceDecision) (*Source, error) {
	setDefault(&d.Name, d.Engine)
	setDefault(&d.Type, "local")
	setDefault(&d.ExecutionMode, ExecutionSandbox)
	setDefault(&d.Boundary, "lent to the sandbox read-only; no run changes it")
	setDefault(&d.ReviewTrigger, "another version or digest")
	if d.SourceCommit != "" || d.Toolchain != "" {
		setDefault(&d.Unproven, unproven)
	}
	next := &Source{Schema: SourceSchema, SourceDecision: d}
	var before *SourceDecision
	var history []SourceDecision
	if previous != nil {
		before, history = &previous.SourceDecision, previous.History
	}
	var err error
	if next.History, err = follow(&next.SourceDecision, before, history); err != nil {
		return nil, err
	}
	return next, next.Check()
}

// Check returns a *reason.Error with invalid_admission for what is no record.
func (s *Source) Check() error {
	return checkRecord(s.Schema, SourceSchema, s.History, &s.SourceDecision)
}

// Encode returns the bytes of the record's file.
func (s *Source) Encode() ([]byte, error) { return encode(s) }

func (s *Source) file() string { return SourceFile(s.Engine) }

// Identity is the build that the record is about.
func (d *SourceDecision) Identity() evidence.EngineIdentity {
	return evidence.EngineIdentity{Name: d.Engine, Version: d.Version, SHA256: d.SHA256}
}

func (d *SourceDecision) ruling() *Ruling { return &d.Ruling }

func (d *SourceDecision) subject() string { return "engine " + d.Engine }

func (d *SourceDecision) facts() Facts { return Facts{OnEngineDigest: d.SHA256} }

func (d *SourceDecision) check(p *problem) {
	d.Ruling.check(p)
	p.name("engine", d.Engine)
	if d.Decision == Admitted || d.Version != "" || d.SHA256 != "" {
		p.pinned("version", d.Version)
		if !canon.ValidDigest(d.SHA256) {
			p.is("sha256", "%q is no digest", d.SHA256)
		}
	}
	p.line("source_name", d.Name)
	p.oneOf("source_type", d.Type, SourceTypes())
	p.oneOf("allowed_execution_mode", d.ExecutionMode, []string{ExecutionSandbox})
	p.line("protected_source_boundary", d.Boundary)
	p.optional("license_note", d.License)
	p.optional("retrieval_command", d.RetrievalCommand)
	p.optional("source_url", d.URL)
	p.optional("toolchain", d.Toolchain)
	p.optional("digest_does_not_prove", d.Unproven)
	if d.SourceCommit != "" && !sourceCommit().MatchString(d.SourceCommit) {
		p.is("source_commit", "%q is not the id of a commit, of 12 hex digits or more", d.SourceCommit)
	}
	if u, err := url.Parse(d.URL); d.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil) {
		p.is("source_url", "not an http or https address without a user name")
	}
	if d.RetrievedAt != "" {
		p.time("retrieved_at", d.RetrievedAt)
	}
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}
