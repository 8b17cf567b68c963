package forge

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"remit/forge/pull"
	"remit/forge/push"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/git"
)

// Claim is the word of a run that it works on an issue of a forge: a ref beside the
// branches, whose commit names the session. Git sets a ref that is not there for one of
// those who try, at every forge; comments and labels have no such
// rule. Who may not write to the repository can neither claim nor lift a claim.
type Claim struct {
	Client *pull.Client
	Remote push.Remote
	Issue  int
}

// ClaimFor is how long a claim counts: one of a run that is lost stops no other
// for ever.
const ClaimFor = 12 * time.Hour

// ClaimLabel marks an issue as claimed for people. It decides nothing.
const ClaimLabel = "remit-claimed"

// claimTries bounds the tries of a push whose answer was lost.
const claimTries = 4

// Ref is the ref of the claim at the forge.
func (c Claim) Ref() string { return fmt.Sprintf("refs/remit-claims/%d", c.Issue) }

// Take claims the issue for a session. Take calls keep with the commit of the claim
// before it sends the claim. The error is issue_claimed if another session has it.
func (c Claim) Take(ctx context.Context, session string, now time.Time, keep func(commit string) error) error {
	refs, err := c.Remote.Refs(ctx)
	if err != nil {
		return err
	}
	store, commit, done, err := c.commit(ctx, refs.Format, session, now)
	if err != nil {
		return err
	}
	defer done()
	if err := c.free(ctx, refs, now); err != nil {
		return err
	}
	if err := keep(commit); err != nil {
		return err
	}
	return c.set(ctx, store, refs, commit, func(refs push.Refs) error { return c.free(ctx, refs, now) })
}

// Release gives the issue back, where the commit is still its claim; "" is any claim.
func (c Claim) Release(ctx context.Context, commit string) (released bool, err error) {
	refs, err := c.Remote.Refs(ctx)
	if err != nil {
		return false, err
	}
	there := refs.Names[c.Ref()]
	if there == "" || commit != "" && there != commit {
		return false, nil
	}
	store, _, done, err := c.commit(ctx, refs.Format, "", time.Time{})
	if err != nil {
		return false, err
	}
	defer done()
	return true, c.set(ctx, store, refs, refs.Format.Zero(), func(refs push.Refs) error {
		if now := refs.Names[c.Ref()]; now != there {
			return reason.Errorf(reason.IssueClaimed, "the claim of issue %d has changed meanwhile", c.Issue)
		}
		return nil
	})
}

// set lets the ref of the claim name a commit, or removes it. may is asked before each
// further try, which an answer that was lost makes necessary.
func (c Claim) set(ctx context.Context, store git.Dir, refs push.Refs, commit string, may func(push.Refs) error) (err error) {
	zero := refs.Format.Zero()
	for range claimTries {
		there := cmp.Or(refs.Names[c.Ref()], zero)
		if there == commit {
			return nil
		}
		if may := may(refs); may != nil {
			return may
		}
		err = c.Remote.Push(ctx, store, refs, []push.Update{{Ref: c.Ref(), Old: there, New: commit}})
		if err == nil {
			return nil
		}
		// Either nothing was heard of it, or the ref has moved: it says itself what it is.
		if now, unheard := c.Remote.Refs(ctx); unheard == nil {
			refs = now
		}
	}
	return err
}

// free says why the issue cannot be claimed: another run has done so.
func (c Claim) free(ctx context.Context, refs push.Refs, now time.Time) error {
	there := refs.Names[c.Ref()]
	if there == "" {
		return nil
	}
	message, at, err := c.Client.CommitOf(ctx, there)
	if err != nil {
		return err
	}
	if age := now.Sub(at); age >= ClaimFor {
		return nil
	}
	who := "a session that it does not name"
	if m := claimMessage().FindStringSubmatch(message); m != nil {
		who = "session " + m[1]
	}
	return reason.Errorf(reason.IssueClaimed, "issue %d is claimed by %s, since %s", c.Issue, who, at.UTC().Format(time.RFC3339)).
		WithHint("wait for its end; the claim counts for %s. Of a run that is lost: `remit issues --release %d`. --no-claim runs without one",
			ClaimFor, c.Issue)
}

var claimMessage = form.Lazy(`^Remit works on issue [0-9]+\n\nSession: ([A-Za-z0-9._-]{1,120})\n?$`)

// commit makes the commit of a claim, without parents and files, in a store that done
// removes. Without a session there is only the store.
func (c Claim) commit(ctx context.Context, format git.Format, session string,
	when time.Time) (store git.Dir, commit string, done func(), err error) {
	dir, err := os.MkdirTemp("", "remit-claim-")
	if err != nil {
		return store, "", nil, fmt.Errorf("making a work directory: %w", err)
	}
	done = func() { _ = os.RemoveAll(dir) } // a temporary directory
	if store, err = git.Create(dir, format); err == nil && session != "" {
		var made git.Imported
		made, err = store.Import(ctx, format.EmptyTree(), nil,
			git.Commit{Message: fmt.Sprintf("Remit works on issue %d\n\nSession: %s\n", c.Issue, session), When: when})
		commit = made.Commit
	}
	if err != nil {
		done()
		return store, "", nil, err
	}
	return store, commit, done, nil
}

// Told returns the comment that a session writes on its issue when the session ends. It
// has facts and codes, and no words of the agent or of the issue.
func Told(dir string) (string, error) {
	c, err := open(dir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Remit: **%s**. %s. Session `%s`, receipt `%s`.\n\nThis says what the verifier found. Nothing is merged or closed by it.",
		c.report.Status, c.status().Description, c.receipt.SessionID, c.digest), nil
}
