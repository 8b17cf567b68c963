package admission

import (
	"time"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Decision is what a person decided.
type Decision string

// The decisions. Only admitted admits.
const (
	Admitted   Decision = "admitted"
	Rejected   Decision = "rejected"
	NotDecided Decision = "not_decided" // an earlier decision is taken back, and none stands in its place
)

// Decisions returns all of them.
func Decisions() []Decision { return []Decision{Admitted, Rejected, NotDecided} }

// TimeFormat is how a record writes a time: UTC, with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// MaxHistory is how many earlier decisions a record keeps. Older ones are
// dropped, since taking an admission back must always be possible.
const MaxHistory = 100

// Ruling is what every decision has.
type Ruling struct {
	Revision      int      `json:"revision"`    // from 1
	ID            string   `json:"id"`          // digest of the decision without its id
	PreviousID    *string  `json:"previous_id"` // null in the first
	Decision      Decision `json:"decision"`
	By            string   `json:"approval_source"`     // who decided
	At            string   `json:"admission_timestamp"` // TimeFormat
	Reason        string   `json:"reason"`
	ReviewTrigger string   `json:"review_trigger"` // what is to bring it up again
}

func (r *Ruling) check(p *problem) {
	p.oneOf("decision", string(r.Decision), texts(Decisions()))
	p.line("approval_source", r.By)
	p.line("reason", r.Reason)
	p.line("review_trigger", r.ReviewTrigger)
	p.time("admission_timestamp", r.At)
}

// decided is one decision of a record, of either kind.
type decided interface {
	ruling() *Ruling
	subject() string // what it is about, in words
	check(p *problem)
	digest() (string, error) // of the decision without its id
}

// chain checks decisions, the oldest first, the latest last.
func chain[D decided](all []D) *reason.Error {
	latest := all[len(all)-1]
	if n := latest.ruling().Revision; n < 1 || len(all)-1 != min(n-1, MaxHistory) {
		return invalid("history", "revision %d has %d earlier decisions", n, len(all)-1)
	}
	previous := (*Ruling)(nil)
	for i, d := range all {
		r := d.ruling()
		p := &problem{}
		r.check(p)
		d.check(p)
		if p.found != nil {
			return p.found
		}
		id, err := d.digest()
		switch {
		case err != nil:
			return invalid("id", "%w", err)
		case d.subject() != latest.subject():
			return invalid("history", "revision %d is about %s, the record about %s", r.Revision, d.subject(), latest.subject())
		case r.Revision != latest.ruling().Revision-len(all)+1+i:
			return invalid("revision", "revision %d stands where another should", r.Revision)
		case r.ID != id:
			return invalid("id", "revision %d is not what its id was made from", r.Revision)
		case (r.PreviousID == nil) != (r.Revision == 1):
			return invalid("previous_id", "only the first decision has none before it")
		case r.PreviousID != nil && !canon.ValidDigest(*r.PreviousID), previous != nil && *r.PreviousID != previous.ID:
			return invalid("previous_id", "revision %d does not follow the one before it", r.Revision)
		}
		previous = r
	}
	return nil
}

// follow numbers a new decision after the earlier ones and gives it its id.
func follow[D decided](next D, previous *Ruling) error {
	r := next.ruling()
	r.Revision, r.PreviousID = 1, nil
	if previous != nil {
		before := previous.ID
		r.Revision, r.PreviousID = previous.Revision+1, &before
	}
	id, err := next.digest()
	r.ID = id
	return err
}

// kept returns the part of a history that a record keeps.
func kept[D any](history []D) []D { return history[max(0, len(history)-MaxHistory):] }

// invalid is the error of a text that is no record.
func invalid(field, format string, args ...any) *reason.Error {
	e := reason.Errorf(reason.InvalidAdmission, format, args...)
	e.Field = field
	return e
}

func validTime(s string) bool {
	t, err := time.Parse(TimeFormat, s)
	return err == nil && t.Format(TimeFormat) == s
}
