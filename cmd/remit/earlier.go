package main

import (
	"os"
	"path/filepath"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/session"
)

// earlier is a session that has ended, with what a run needs that takes its change.
type earlier struct {
	*session.State
	local    session.Local
	contract *task.Contract
	opened   evidence.RunOpened
	patch    string // file
}

// earlierChange finds a session with a change.
func earlierChange(home session.Home, name string) (*earlier, error) {
	s, err := home.Find(name)
	if err != nil {
		return nil, err
	}
	e := &earlier{patch: filepath.Join(s.Dir, evidence.PatchFile)}
	if e.State, err = s.Inspect(); err != nil {
		return nil, err
	}
	if e.Phase != session.Sealed {
		return nil, reason.Errorf(reason.JournalUnfinished, "session %s is %s: it has no change yet", s.ID, e.Phase).
			WithHint("`remit resume %s` brings it to its end first", s.ID)
	}
	if info, err := os.Stat(e.patch); err != nil || info.Size() == 0 {
		return nil, reason.Errorf(reason.NoDiff, "session %s has no change that could be taken", s.ID).
			WithHint("start the task again with an engine")
	}
	if e.local, err = home.LoadLocal(s.ID); err != nil {
		return nil, err
	}
	if e.local.Contract == nil {
		return nil, reason.Errorf(reason.ContractUnreadable, "the contract of session %s is not on this machine", s.ID).
			WithHint("run its task with --engine fake --fake-patch %s", e.patch)
	}
	if e.contract, err = task.ParseCanonical(evidence.ContractFile, e.local.Contract); err != nil {
		return nil, err
	}
	if e.opened, err = evidence.OpenedOf(e.Log.Entries); err != nil {
		return nil, err
	}
	if canon.Digest(e.local.Contract) != e.opened.ContractSHA256 { // it lies beside the session, where no audit looks
		return nil, reason.Errorf(reason.ContractUnreadable,
			"what this machine keeps as the contract of session %s is another one than it ran under", s.ID).
			WithHint("start its task again, from its own file")
	}
	e.contract.Dir = e.local.TaskDir
	return e, nil
}
