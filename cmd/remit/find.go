package main

import (
	"context"
	"fmt"
	"os"

	"remit/proof/reason"
	"remit/work/session"
	"remit/work/workspace"
)

// latest names the newest session of the machine, of whichever repository it is.
const latest = "latest"

// find finds a session that is to be read. Where "latest" names one of another repository
// than that of the current directory, stderr says so.
func (a *app) find(ctx context.Context, name string) (session.Session, error) {
	s, err := a.home.Find(name)
	if err == nil && name == latest {
		if repo := otherThanHere(ctx, a.home, s.ID); repo != "" {
			fmt.Fprintf(os.Stderr, "note: the latest session, %s, is of another repository: %s\n", s.ID, plain(repo))
		}
	}
	return s, err
}

// findOwn finds a session that something is done with, and refuses the latest one where
// it is of another repository: the name says of none that it is meant.
func (a *app) findOwn(ctx context.Context, name string) (session.Session, error) {
	s, err := a.home.Find(name)
	if err == nil && name == latest {
		if repo := otherThanHere(ctx, a.home, s.ID); repo != "" {
			return s, otherRepository(reason.SessionNotFound, s.ID, repo).
				WithHint("name the session that you mean, `remit list` shows them; for that one write %s", s.ID)
		}
	}
	return s, err
}

func otherRepository(code reason.Code, id, repo string) *reason.Error {
	return reason.Errorf(code, "the latest session, %s, is of another repository: %s", id, plain(repo))
}

// otherThanHere is the repository of a session, where the current directory is in another
// one. Outside of a repository none is meant, and one that is gone is no other.
func otherThanHere(ctx context.Context, home session.Home, id string) string {
	local, err := home.LoadLocal(id)
	if err != nil || local.Repo == "" {
		return ""
	}
	if here, err := os.Getwd(); err != nil || here == local.Repo { // without git, as it is nearly always
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
