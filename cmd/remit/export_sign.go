package main

import (
	"context"

	"remit/forge"
	"remit/proof/reason"
	"remit/work/git"
	"remit/work/session"
)

// signer signs the commit of an export as the operator's own configuration of git says,
// once: what was signed for a session is kept and given again. It is nil where nothing
// was signed and nothing is to be.
func (a *app) signer(ctx context.Context, s session.Session, wanted bool) (forge.Sign, error) {
	local, err := a.home.LoadLocal(s.ID)
	if err != nil {
		return nil, err
	}
	var own *git.Signing
	if wanted {
		if own, err = git.OwnSigning(ctx); err != nil {
			return nil, err
		}
	}
	if own == nil && len(local.Signed) == 0 {
		return nil, nil //nolint:nilnil // documented: there is nothing to sign
	}
	return func(ctx context.Context, d git.Dir, commit, tree string, c git.Commit) (string, error) {
		if kept, ok := local.Signed[commit]; ok {
			id, err := d.WriteCommit(ctx, []byte(kept.Text))
			if err == nil && id != kept.ID {
				err = reason.Errorf(reason.SigningRefused, "the signed commit of session %s that was kept is damaged", s.ID).
					WithHint("--no-sign exports it without your signature")
			}
			return id, err
		}
		if own == nil {
			return commit, nil
		}
		id, text, err := d.SignedCommit(ctx, own, tree, c)
		if err != nil {
			return "", err
		}
		return id, a.home.ChangeLocal(s.ID, func(l *session.Local) {
			if l.Signed == nil {
				l.Signed = map[string]session.SignedCommit{}
			}
			l.Signed[commit] = session.SignedCommit{ID: id, Text: string(text)}
		})
	}, nil
}
