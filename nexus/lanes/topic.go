package lanes

import (
	"strings"

	"remit/proof/reason"
)

// Kind is what a topic is about.
type Kind string

// The kinds of topic.
const (
	Fleet   Kind = "fleet"   // Subject is a user id
	Run     Kind = "run"     // Subject is a run id
	Jobs    Kind = "jobs"    // Subject is a provider id
	Account Kind = "account" // Subject is a user id
)

// Topic is a parsed topic name.
type Topic struct {
	Name    string // also the stream_id
	Kind    Kind
	Subject string
}

const maxTopic = 255

// Parse reads a topic name; anything but the four forms is lane_unknown.
func Parse(name string) (Topic, error) {
	t := Topic{Name: name}
	switch {
	case len(name) > maxTopic:
	case between(name, "fleet:user:", ":workers", &t.Subject):
		t.Kind = Fleet
	case between(name, "run:", ":events", &t.Subject):
		t.Kind = Run
	case between(name, "jobs:", "", &t.Subject):
		t.Kind = Jobs
	case between(name, "user:", ":receipts", &t.Subject):
		t.Kind = Account
	}
	if t.Kind == "" {
		return Topic{}, reason.Errorf(reason.LaneUnknown, "no lane %.80q", name)
	}
	return t, nil
}

// between takes the subject out of a name. A subject has no colon and no
// control, so that one name has one reading.
func between(name, before, after string, subject *string) bool {
	rest, ok := strings.CutPrefix(name, before)
	if !ok {
		return false
	}
	s, ok := strings.CutSuffix(rest, after)
	if !ok || s == "" {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == ':' || s[i] == '/' {
			return false
		}
	}
	*subject = s
	return true
}
