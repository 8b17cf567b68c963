package main

import (
	"remit/proof/reason"
	"remit/work/session"
)

// finished inspects a session of which something is wanted that only its end
// gives. For one that still runs, or was cut off, the error says what is missing
// and what to do.
func finished(s session.Session, missing string) (*session.State, error) {
	st, err := s.Inspect()
	switch {
	case err != nil || st.Phase == session.Sealed:
		return st, err
	case st.Phase == session.Running:
		return nil, reason.Errorf(reason.JournalUnfinished, "session %s is still running: there is %s yet", s.ID, missing).
			WithHint("wait for its end; `remit show %s` says where it is", s.ID)
	}
	return nil, reason.Errorf(reason.JournalUnfinished, "session %s was cut off at %s: there is %s", s.ID, st.At, missing).
		WithHint("`remit resume %s` goes on, or closes it as blocked", s.ID)
}

// auditable refuses a session, named by its id, that has no bundle yet: its files
// would be taken for those of another kind of bundle. One whose journal is damaged
// is audited, so that the findings are told.
func (a *app) auditable(name, target string) error {
	if name == target {
		return nil
	}
	s, err := a.home.Find(name)
	if err != nil {
		return nil //nolint:nilerr // the audit says that there is no such file
	}
	if st, err := s.Inspect(); err != nil || st.Phase == session.Sealed {
		return nil //nolint:nilerr // the audit says what is wrong with it
	}
	_, err = finished(s, "no bundle to audit")
	return err
}
