package main

import (
	"context"
	"fmt"
	"os"

	"remit/proof/reason"
	"remit/work/session"
	"remit/work/workspace"
)

// find finds a session that is to be read. Where "latest" names one of another repository
// than that of the current directory, stderr says so.
func (a *app) find(ctx context.Context, name string) (session.Session, error) {
	s, err := a.home.Find(name)
	if err != nil {
		return s, err
	}
	if e := latestElsewhere(ctx, a.home, name, s.ID, reason.SessionNotFound); e != nil {
		fmt.Fprintf(os.Stderr, "note: %s\n", e.Message)
	}
	return s, nil
}

// findOwn finds a session that something is done with, and refuses the latest one where
// it is of another repository: the name says of none that it is meant.
func (a *app) findOwn(ctx context.Context, name string) (session.Session, error) {
	s, err := a.home.Find(name)
	if err != nil {
		return s, err
	}
	if e := latestElsewhere(ctx, a.home, name, s.ID, reason.SessionNotFound); e != nil {
		return s, e.WithHint("name the session that you mean, `remit list` shows them; for that one write %s", s.ID)
	}
	return s, nil
}

// latestElsewhere is the error, of a code, that "latest" names a session of another
// repository than that of the current directory, nil where it does not.
func latestElsewhere(ctx context.Context, home session.Home, name, id string, code reason.Code) *reason.Error {
	if name != session.Latest {
		return nil
	}
	repo := otherThanHere(ctx, home, id)
	if repo == "" {
		return nil
	}
	return reason.Errorf(code, "the latest session, %s, is of another repository: %s", id, plain(repo))
}

// otherThanHere is the repository of a session, where the current directory is in another
// one. Outside of a repository none is meant, and one that is gone is no other.
func otherThanHere(ctx context.Context, home session.Home, id string) string {
	local, err := home.LoadLocal(id)
	if err != nil || local.Repo == "" {
		return ""
	}
	if here, err := os.Getwd(); err != nil || here == local.Repo { // nearly always: nothing is opened
		return ""
	}
	here, err := workspace.OpenSource(ctx, ".")
	if err != nil {
		return ""
	}
	its, err := workspace.OpenSource(ctx, local.Repo)
	if err != nil || here.Common() == its.Common() {
		return ""
	}
	return local.Repo
}
