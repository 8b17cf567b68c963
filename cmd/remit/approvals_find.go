package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"remit/nexus/api"
	"remit/proof/reason"
	"remit/work/harness"
)

// latestApproval names the newest one that nobody has decided about.
const latestApproval = "latest"

// findApproval finds one by its id, by the beginning or end of it, or the
// latest, with its contract.
func findApproval(ctx context.Context, to connect, owner, name string) (found api.Approval, err error) {
	conn, err := to(ctx)
	if err != nil {
		return found, err
	}
	defer func() { err = cmp.Or(err, conn.Close()) }()
	status := ""
	if name == latestApproval {
		status = pending
	}
	var ids []string
	if len(name) == approvalIDLength && strings.HasPrefix(name, approvalPrefix) {
		ids = []string{name}
	} else if err := eachApproval(ctx, conn, owner, status, func(a api.Approval) (bool, error) {
		if name == latestApproval || strings.HasPrefix(a.ApprovalID, name) || strings.HasSuffix(a.ApprovalID, name) {
			ids = append(ids, a.ApprovalID)
		}
		return name != latestApproval && len(ids) < 2, nil
	}); err != nil {
		return found, err
	}
	switch {
	case len(ids) > 1:
		return found, usagef("%q is the beginning or end of more than one approval: %s, %s", name, ids[0], ids[1])
	case len(ids) == 0 && name == latestApproval:
		return found, reason.Errorf(reason.NotFound, "no approval is pending")
	case len(ids) == 0 || name == "":
		return found, reason.Errorf(reason.NotFound, "no approval %.64q", name).WithHint("`remit approvals` lists them")
	}
	got, err := api.GetApproval.Get(ctx, conn.Person(), ids[0])
	if err != nil {
		return found, err
	}
	return got, nil
}

// The form of an id.
const (
	approvalPrefix   = "apr_"
	approvalIDLength = len(approvalPrefix) + 32
)

// approvalArgs completes ids of this machine's authority. It makes nothing: an
// authority that is not there has no approvals.
func (a *app) approvalArgs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	home, err := harness.HomeFromEnv()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	here := &app{home: home}
	if _, err := os.Stat(filepath.Join(here.home.AuthorityDir(), "nexus.db")); err != nil || os.Getenv(envNexus) != "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	conn, err := here.ownAuthority(operator())(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer func() { _ = conn.Close() }() // nothing was changed
	out := []string{latestApproval}
	if err := eachApproval(cmd.Context(), conn, "", pending, func(found api.Approval) (bool, error) {
		out = append(out, found.ApprovalID+"\t"+plain(found.RepoRef))
		return len(out) < 50, nil
	}); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
