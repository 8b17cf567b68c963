package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"remit/forge/pull"
	"remit/forge/push"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/workspace"
)

// checkPull are the flags that name a pull request.
type checkPull struct {
	named string
	at    forgeFlags
}

func (p *checkPull) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.named, "pr", "", "pull request whose change is checked: its number, or the address of its page")
	p.at.addForge(cmd)
	p.at.addKind(cmd)
}

// address is where the pull request is.
func (p *checkPull) address(source *workspace.Source) (pull.Address, int, error) {
	number, err := strconv.Atoi(p.named)
	if err != nil {
		return pull.ParsePull(p.named)
	}
	if number < 1 {
		return pull.Address{}, 0, usagef("--pr %q: want the number of a pull request, or the address of its page", p.named)
	}
	address, err := p.at.repository(source)
	return address, number, err
}

// fetch asks the forge which commit the pull request has at its head and which branch
// it is for, and gets the commits that the repository lacks. Both come from the forge
// alone: neither the repository nor an artifact has a say.
func (p *checkPull) fetch(cmd *cobra.Command, f *checkFlags, source *workspace.Source) (change *harness.Check, done func(), err error) {
	done = func() {}
	address, number, err := p.address(source)
	if err != nil {
		return nil, done, err
	}
	client, err := p.at.reader(cmd, address)
	if err != nil {
		return nil, done, err
	}
	asked, err := client.Ask(cmd.Context(), number)
	if err != nil {
		return nil, done, err
	}
	remote := remoteOf(client)
	refs, err := remote.Offered(cmd.Context())
	if err != nil {
		return nil, done, err
	}
	head, base := refs.Names[pull.Ref(number)], refs.Names["refs/heads/"+asked.Base]
	switch {
	case head != asked.Head:
		return nil, done, reason.Errorf(reason.ForgeConflict, "pull request %d is at %.12s, and its ref at %.12q: it moves", number,
			asked.Head, head).
			WithHint("give the same command again")
	case refs.Format != source.Format():
		return nil, done, reason.Errorf(reason.ForgeConflict, "the forge names objects by %s, and the repository by %s",
			refs.Format, source.Format())
	}
	if f.base == "" {
		if f.base, err = source.Commit(cmd.Context(), base); err != nil || base == "" {
			return nil, done, reason.Errorf(reason.BaseNotFound, "the repository lacks %.12q, where the branch %q is at the forge",
				base, asked.Base).
				WithHint("git fetch %s %s", plain(form.ShellWord(address.Git())), plain(form.ShellWord(asked.Base)))
		}
	}
	change = &harness.Check{Head: head, PullRequest: address.Pull(number)}
	if _, err := source.Commit(cmd.Context(), head); err == nil {
		return change, done, nil
	}
	dir, err := os.MkdirTemp("", "remit-check-")
	if err != nil {
		return nil, done, fmt.Errorf("making a directory for the commits: %w", err)
	}
	done = func() { _ = os.RemoveAll(dir) } // a temporary directory
	change.Pack = filepath.Join(dir, "head.pack")
	if err := p.fetchPack(cmd, f, source, remote, refs, change); err != nil {
		done()
		return nil, func() {}, err
	}
	return change, done, nil
}

func (p *checkPull) fetchPack(cmd *cobra.Command, f *checkFlags, source *workspace.Source, remote push.Remote, refs push.Refs,
	change *harness.Check) error {
	base, err := source.Resolve(cmd.Context(), f.base)
	if err != nil {
		return err
	}
	var have []string
	if !base.Shallow { // else what the base reaches is not all here
		have = []string{base.Commit}
	}
	pack, err := os.OpenFile(change.Pack, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keeping the commits: %w", err)
	}
	return errors.Join(remote.Fetch(cmd.Context(), refs, change.Head, have, pack), pack.Close())
}
