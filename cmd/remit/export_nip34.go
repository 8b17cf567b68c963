package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/forge"
	"remit/forge/nip34"
	"remit/nexus/nip01"
	"remit/proof/evidence"
	"remit/proof/nostr"
	"remit/proof/reason"
	"remit/proof/record"
	"remit/work/session"
	"remit/work/workspace"
)

// nostrFlags are the flags of an export to relays.
type nostrFlags struct {
	relays, clone         []string
	keyFile, keyEnv, repo string
}

func (n *nostrFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&n.relays, "relay", nil, "with nip34: ws:// or wss:// URL of a relay (repeatable)")
	fl.StringVar(&n.keyFile, "key-file", "",
		"with nip34: file of mode 0600 with the key that signs, 64 hexadecimal digits; never that of a nexus")
	fl.StringVar(&n.keyEnv, "key-env", "", "with nip34: variable that holds that key")
	fl.StringVar(&n.repo, "nostr-repo", "",
		"with nip34: the repository that the change is for, 30617:PUBKEY:ID, or the ID of one of the key's own (default: the name of its directory)")
	fl.StringArrayVar(&n.clone, "clone", nil,
		"with nip34: URL where everybody can fetch the repository, which a change of 60 kB or more needs (repeatable)")
}

// key reads the key that signs. It stays in this process.
func (n *nostrFlags) key() (nostr.Key, error) {
	switch {
	case (n.keyFile == "") == (n.keyEnv == ""):
		return nostr.Key{}, usagef("--to nip34: give one of --key-file FILE and --key-env NAME; " +
			"`(umask 077; openssl rand -hex 32 >nostr.key)` makes a key")
	case n.keyFile != "":
		return nostr.ReadKey(n.keyFile)
	}
	text := strings.TrimSpace(os.Getenv(n.keyEnv))
	if text == "" {
		return nostr.Key{}, usagef("--key-env %s: there is no such variable, or it is empty", n.keyEnv)
	}
	key, err := nostr.ParseKey(text)
	if err != nil {
		err = fmt.Errorf("$%s: %w", n.keyEnv, err)
	}
	return key, err
}

// check refuses what cannot be meant before anything is asked.
func (n *nostrFlags) check() error {
	if len(n.relays) == 0 {
		return usagef("--to nip34: --relay URL says where to publish")
	}
	for _, relay := range n.relays {
		if err := nip01.CheckURL(relay); err != nil {
			return usagef("--relay: %w", err)
		}
	}
	for _, clone := range n.clone {
		u, err := url.Parse(clone)
		odd := strings.ContainsFunc(clone, func(r rune) bool { return r <= ' ' || r > '~' })
		if err != nil || odd || u.Host == "" || u.User != nil || !slices.Contains([]string{"https", "http", "ssh", "git"}, u.Scheme) {
			return usagef("--clone %q: want https://, ssh:// or git://, without user or password: everybody can read it", clone)
		}
	}
	return nil
}

// repository is the one that is named, or the key's own by the name of its directory.
func (n *nostrFlags) repository(ctx context.Context, source *workspace.Source, key nostr.Key, base string) (nip34.Repository, error) {
	r := nip34.Repository{Owner: key.PubKey(), ID: n.repo}
	var err error
	switch {
	case strings.Contains(n.repo, ":"):
		if r, err = nip34.ParseAddress(n.repo); err != nil {
			return r, err
		}
	case n.repo == "":
		r.ID = strings.TrimSuffix(filepath.Base(source.Root()), ".git")
	}
	if r.ID = strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' || c == ':' {
			return '-'
		}
		return c
	}, r.ID); r.Owner == key.PubKey() {
		r.Clone = n.clone
	}
	r.Name = r.ID
	r.First, err = source.FirstCommit(ctx, base)
	return r, err
}

// exportNIP34 publishes the change of a session at relays, and what became of it.
func (a *app) exportNIP34(cmd *cobra.Command, f *exportFlags, s session.Session, st *session.State) error {
	ctx, n := cmd.Context(), &f.nostr
	if err := n.check(); err != nil {
		return err
	}
	key, err := n.key()
	if err != nil {
		return err
	}
	repo, branch, err := a.branchIn(f, s)
	if err != nil {
		return err
	}
	source, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		return err
	}
	actions := []string{"relay_publish"}
	if st.Report.OperatorOutcome == session.Rejected {
		actions = append(actions, "close")
	}
	if err := mayExport(ctx, source, actions); err != nil {
		return err
	}
	tell, err := a.forgeTold(cmd, f, s)
	if err != nil {
		return err
	}
	change, err := a.proposal(ctx, f, s, st, repo, source)
	if err != nil {
		return err
	}
	change.Branch, change.Clone = branch, n.clone
	about, err := n.repository(ctx, source, key, change.Parent)
	if err != nil {
		return err
	}
	var relays []nip34.Relay
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	for _, at := range n.relays {
		relay, err := nip01.Dial(ctx, at, nip34.MaxMessage)
		if err != nil {
			return err
		}
		relays, ends = append(relays, publisher{relay}), append(ends, relay.Close)
	}
	out, err := nip34.Export(ctx, n.relays, relays, key, about, change)
	if err != nil {
		return err
	}
	if out.Event != "" && out.Status != nip34.KindClosed {
		said := record.Export{Branch: branch, Commit: change.Commit, PRRef: "nip34:" + out.Event}
		err = tell("forge-updated:nip34:"+out.Event, record.ForgeUpdated, said)
		if err != nil {
			return err
		}
	}
	return a.present(cmd.OutOrStdout(), out, func(w io.Writer) error { return printProposal(w, out) })
}

func printProposal(w io.Writer, out nip34.Result) error {
	if out.Event == "" {
		_, err := fmt.Fprintln(w, "no relay has the change: nothing to close")
		return err
	}
	did := "nothing had to be sent"
	if len(out.Done) > 0 {
		did = strings.Join(out.Done, ", ")
	}
	_, err := fmt.Fprintf(w, "event %s (kind %d) of %s has the status %d (%s)\n", out.Event, out.Kind, out.Repository, out.Status, plain(did))
	return err
}

// proposal is the change of a session, with what became of it.
func (a *app) proposal(ctx context.Context, f *exportFlags, s session.Session, st *session.State, repo string,
	source *workspace.Source) (*nip34.Change, error) {
	request, err := forge.Prepare(ctx, s.Dir, repo, nil)
	if err != nil {
		return nil, err
	}
	defer request.Close()
	summary, err := s.Read(evidence.SummaryFile)
	if err != nil {
		return nil, fmt.Errorf("reading the summary: %w", err)
	}
	change, err := request.Proposal(string(summary))
	if err != nil {
		return nil, err
	}
	// A pull request names the commit as it was pushed.
	change.Tip = func() (string, error) {
		if f.noSign {
			return change.Commit, nil
		}
		sign, err := a.signer(ctx, s, true)
		if sign == nil || err != nil {
			return change.Commit, err
		}
		signed, err := forge.Prepare(ctx, s.Dir, repo, sign)
		if err != nil {
			return "", err
		}
		defer signed.Close()
		return signed.Commit, nil
	}
	if st.Report.Parent != nil {
		change.Earlier = st.Report.Parent.Chain
	}
	return change, outcomeOf(ctx, change, st, source, request)
}

// outcomeOf says what became of a change: nothing yet, open for others when its operator
// has accepted it, applied when HEAD has its commit, closed.
func outcomeOf(ctx context.Context, change *nip34.Change, st *session.State, source *workspace.Source, request *forge.Request) error {
	change.Outcome, change.OutcomeAt = nip34.KindDraft, change.At
	for _, e := range st.Log.Entries {
		if e.Name != evidence.StepOutcome || e.CompletedAt == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, *e.CompletedAt)
		if err != nil {
			return fmt.Errorf("reading the outcome: %w", err)
		}
		change.OutcomeAt = at.Unix()
	}
	switch st.Report.OperatorOutcome {
	case session.Rejected:
		change.Outcome = nip34.KindClosed
	case session.Accepted:
		change.Outcome = nip34.KindOpen
		head, err := source.Commit(ctx, "HEAD")
		if err != nil {
			return err
		}
		common, err := request.Store().MergeBase(ctx, change.Commit, head)
		if err == nil && common == change.Commit {
			change.Outcome = nip34.KindApplied
		}
	}
	return nil
}

// publisher is a connection to a relay, for an export.
type publisher struct{ *nip01.Relay }

// Publish sends an event; what the relay refuses is an error, too.
func (p publisher) Publish(ctx context.Context, e *nostr.Event) error {
	sent, err := p.Relay.Publish(ctx, e)
	switch {
	case err != nil:
		return err
	case sent.Outcome == nip01.Refused:
		return reason.Errorf(reason.ForgeDenied, "%w", sent.Err).
			WithHint("another relay takes it perhaps: give the same command with another --relay")
	}
	return sent.Err
}
