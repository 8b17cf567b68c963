// Package health is the verdict over everything that Remit keeps on a machine:
// one status, and a named cause for each thing that is wrong. It is a pure
// function of what was found; package main looks.
//
// A thing that is not there is no fault: a home without a matrix, a proof or a
// record is healthy, and the check says that there is none.
package health

import (
	"remit/law/secret"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// Schema names the document.
const Schema = "remit.health.v1"

// The checks, in the order in which they are reported.
const (
	Doctor     = "doctor"     // what a run needs of this machine
	Store      = "store"      // the books of the authority of this machine
	Admissions = "admissions" // the records that grant
	Matrix     = "matrix"     // failure matrices that this build has made
	Proofs     = "proofs"     // stage proofs and the sessions that they name
	Refresh    = "refresh"    // recorded passes of stage 5
	Records    = "records"    // a folder of governance records
	Sessions   = "sessions"   // every session, with its audit
)

// Checks lists them.
func Checks() []string {
	return []string{Doctor, Store, Admissions, Matrix, Proofs, Refresh, Records, Sessions}
}

// Cause is one thing that is wrong.
type Cause struct {
	Check   string      `json:"check"`
	Code    reason.Code `json:"code"`
	What    string      `json:"what"` // a file, an engine or the id of a session
	Message string      `json:"message"`
	Hint    string      `json:"hint"`
}

// Check is one line of the verdict.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // pass, fail or blocked
	Looked int    `json:"looked_at"`
}

// Report is the verdict.
type Report struct {
	Schema   string  `json:"schema"`
	OK       bool    `json:"ok"`
	Status   string  `json:"status"` // the worst of the checks; fail is worse than blocked
	ExitCode int     `json:"exit_code"`
	Checks   []Check `json:"checks"`
	Causes   []Cause `json:"causes"`
}

// Findings collect what was found.
type Findings struct {
	looked map[string]int
	causes []Cause
}

// Looked counts things that were looked at.
func (f *Findings) Looked(check string, n int) {
	if f.looked == nil {
		f.looked = map[string]int{}
	}
	f.looked[check] += n
}

// Add records a cause. The hint is that of the code unless one is given, and no
// text repeats a credential.
func (f *Findings) Add(check string, code reason.Code, what, message, hint string) {
	if info, ok := reason.Lookup(code); ok && hint == "" {
		hint = info.Hint
	}
	clean := func(text string) string { return secret.Redact(text, nil) }
	f.causes = append(f.causes, Cause{Check: check, Code: code, What: clean(what), Message: clean(message), Hint: clean(hint)})
}

// Report makes the verdict.
func (f *Findings) Report() Report {
	r := Report{Schema: Schema, Status: evidence.StatusPass, Causes: append([]Cause{}, f.causes...)}
	for _, name := range Checks() {
		c := Check{Name: name, Status: evidence.StatusPass, Looked: f.looked[name]}
		for _, cause := range f.causes {
			if cause.Check == name {
				c.Status = worse(c.Status, string(reason.StatusOf(cause.Code)))
			}
		}
		r.Status = worse(r.Status, c.Status)
		r.Checks = append(r.Checks, c)
	}
	r.OK = r.Status == evidence.StatusPass
	r.ExitCode = evidence.ExitCode(r.Status)
	return r
}

func worse(a, b string) string {
	if a == evidence.StatusFail || b == evidence.StatusPass {
		return a
	}
	return b
}
