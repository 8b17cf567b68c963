package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"remit/nexus/api"
	"remit/nexus/requester"
	"remit/proof/reason"
	"remit/work/session"
)

// approvalsFlags say where approvals are kept, and whose.
type approvalsFlags struct {
	nexus         nexusFlags
	owner, status string
	most          int
}

// pending is the word of people for what is requested and not decided.
const pending = "pending"

var approvalStatuses = []string{pending, "granted", "denied", "consumed", "expired"}

func (a *app) approvalsCommand() *cobra.Command {
	f := new(approvalsFlags)
	cmd := &cobra.Command{
		Use: "approvals [ID]", Short: "List what runs were approved, or wait to be", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: a.approvalArgs,
		Long: `Approvals lists the requests of runs whose contract asks for an approval, the
newest first, and what became of them; with an ID it prints one of them whole. A run
that finds no approval asks for one and ends as blocked, or waits for it
(remit run --wait-approval). ` + "`remit approve` and `remit deny`" + ` decide. An approval is
good for one contract, one repository and one run, until it expires.

ID is an id, the beginning or end of one, or "latest", the newest that is pending.`,
		Example: `  remit approvals --status pending
  remit approvals latest
  remit approvals --nexus https://nexus.example --owner alice --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := a.authority(cmd, &f.nexus, operator())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.showApproval(cmd, to, f.owner, args[0])
			}
			rows, err := listApprovals(cmd.Context(), to, f)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), rows)
			}
			return printApprovals(cmd.OutOrStdout(), rows)
		},
	}
	cmd.AddCommand(a.showApprovalCommand())
	fl := cmd.Flags()
	f.add(cmd)
	addChoice(cmd, &f.status, "status", approvalStatuses)
	fl.IntVar(&f.most, "limit", 50, "list at most this many")
	return cmd
}

func (f *approvalsFlags) add(cmd *cobra.Command) {
	f.nexus.addOr(cmd, "the authority of this machine")
	cmd.Flags().StringVar(&f.owner, "owner", "", "whose, with an administrator's token (default the token's owner)")
}

func (a *app) showApproval(cmd *cobra.Command, to connect, owner, name string) error {
	found, err := findApproval(cmd.Context(), to, owner, name)
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(cmd.OutOrStdout(), found)
	}
	return printPacket(cmd.OutOrStdout(), found)
}

// listedApproval is one line of remit approvals.
type listedApproval struct {
	api.Approval
	Title        string   `json:"title"`
	TaskID       string   `json:"task_id"`
	AllowedPaths []string `json:"allowed_paths"`
	MutationMode string   `json:"mutation_mode"`
}

// listApprovals reads a list, and the contract of each.
func listApprovals(ctx context.Context, to connect, f *approvalsFlags) (rows []listedApproval, err error) {
	conn, err := to(ctx)
	if err != nil {
		return nil, err
	}
	rows = []listedApproval{}
	err = eachApproval(ctx, conn, f.owner, f.status, func(found api.Approval) (bool, error) {
		if len(rows) >= f.most {
			return false, nil
		}
		whole, err := api.GetApproval.Get(ctx, conn.Person(), found.ApprovalID)
		if err != nil {
			return false, err
		}
		row := listedApproval{Approval: found}
		c, err := contractIn(whole)
		if err != nil {
			return false, err
		}
		row.Title, row.TaskID, row.AllowedPaths, row.MutationMode = c.Title, c.TaskID, c.AllowedPaths, c.MutationMode.String()
		rows = append(rows, row)
		return true, nil
	})
	if closing := conn.Close(); err == nil {
		err = closing
	}
	return rows, err
}

// eachApproval walks the approvals of an owner, the newest first.
func eachApproval(ctx context.Context, conn *requester.Connection, owner, status string,
	visit func(api.Approval) (more bool, err error)) error {
	params := api.ListApprovalsParams{Owner: api.Optional(owner)}
	if status != "" {
		now := api.ApprovalStatus(strings.Replace(status, pending, string(api.ApprovalStatusRequested), 1))
		params.Status = &now
	}
	for {
		page, err := api.ListApprovals.Get(ctx, conn.Person(), params)
		if err != nil {
			return err
		}
		for _, found := range page.Items {
			if more, err := visit(found); err != nil || !more {
				return err
			}
		}
		if params.Cursor = page.NextCursor; params.Cursor == nil {
			return nil
		}
	}
}

func printApprovals(w io.Writer, rows []listedApproval) error {
	return printTable(w, "approvals", "APPROVAL\tSTATUS\tTITLE\tREPOSITORY\tPATHS\tMODE\tASKED BY\tEXPIRES", rows, func(r listedApproval) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", plain(r.ApprovalID), statusWord(r.Approval), shorten(plain(r.Title), 40), plain(r.RepoRef),
			shorten(plain(strings.Join(r.AllowedPaths, " ")), 40), r.MutationMode, plain(r.RequestedBy), plain(r.ExpiresAt))
	})
}

func statusWord(a api.Approval) string {
	if a.Status == api.ApprovalStatusRequested {
		return pending
	}
	return plain(string(a.Status))
}

// shorten cuts a text for a table.
func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// latestApproval names the newest one that is pending.
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
	home, err := session.HomeFromEnv()
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
