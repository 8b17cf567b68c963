package admission

import (
	"slices"
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
	ReviewTrigger string   `json:"review_trigger"` // what is to bring it up again, for people
	Review
}

func (r *Ruling) check(p *problem) {
	p.oneOf("decision", string(r.Decision), texts(Decisions()))
	p.line("approval_source", r.By)
	p.line("reason", r.Reason)
	p.line("review_trigger", r.ReviewTrigger)
	p.time("admission_timestamp", r.At)
	r.Review.check(p)
}

// decided is one decision of a record, of any kind.
type decided[D any] interface {
	*D
	ruling() *Ruling
	subject() string  // what it is about, in words
	facts() Facts     // what it says of the things that a review trigger can watch
	check(p *problem) // with its ruling
}

// digest is the id of a decision: the digest of its canonical bytes without it.
func digest[D any, P decided[D]](d *D) (string, error) {
	without := *d
	P(&without).ruling().ID = ""
	return canon.DigestOf(without)
}

// checkRecord checks a record: its schema and its decisions, the oldest first.
func checkRecord[D any, P decided[D]](schema, want string, history []D, latest *D) error {
	if schema != want {
		return invalid("schema", "%q is not %s", schema, want)
	}
	all := make([]P, 0, len(history)+1)
	for i := range history {
		all = append(all, &history[i])
	}
	if err := chain(append(all, latest)); err != nil {
		return err
	}
	return nil
}

// chain checks decisions, the oldest first, the latest last.
func chain[D any, P decided[D]](all []P) *reason.Error {
	latest := all[len(all)-1]
	if n := latest.ruling().Revision; n < 1 || len(all)-1 != min(n-1, MaxHistory) {
		return invalid("history", "revision %d has %d earlier decisions", n, len(all)-1)
	}
	previous := (*Ruling)(nil)
	for i, d := range all {
		r := d.ruling()
		p := &problem{}
		d.check(p)
		if p.found != nil {
			return p.found
		}
		id, err := digest[D, P](d)
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

// follow numbers a new decision after the earlier ones, gives its review triggers
// their values and itself an id. It returns the history of the new record; previous,
// with its own history, is nil for the first decision.
func follow[D any, P decided[D]](next, previous *D, history []D) ([]D, error) {
	r := P(next).ruling()
	r.Revision, r.PreviousID = 1, nil
	kept := []D{}
	if previous != nil {
		before := *P(previous).ruling()
		r.Revision, r.PreviousID = before.Revision+1, &before.ID
		kept = append(slices.Clone(history), *previous)
		kept = kept[max(0, len(kept)-MaxHistory):]
	}
	if err := r.Review.settle(P(next).facts()); err != nil {
		return nil, err
	}
	id, err := digest[D, P](next)
	r.ID = id
	return kept, err
}

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
