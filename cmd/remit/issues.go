package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"remit/forge"
	"remit/forge/pull"
	"remit/proof/reason"
	"remit/work/workspace"
)

func (a *app) issuesCommand() *cobra.Command {
	var at forgeFlags
	var repo, assignee string
	var labels []string
	var most, release int
	cmd := &cobra.Command{
		Use: "issues", Short: "List the open issues of the repository at its forge", Args: cobra.NoArgs,
		Long: `Issues lists the open issues of a repository at GitHub, Gitea or Forgejo, the newest
first: what 'remit run --issue N' can be given. One that a run works on has the label
` + forge.ClaimLabel + `. What is public needs no token.

--release N takes away the claim of a run that is lost, so that another run can have the
issue at once. A claim counts for 12 hours, and a run that ends gives it back.`,
		Example: `  remit issues --label bug
  remit issues --assignee alice --json
  remit run --issue '#12' --allow 'src/**' --verify 'go test ./...' -- ./fix.sh`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 1 {
				return usagef("--limit %d: must be at least 1", most)
			}
			source, err := workspace.OpenSource(cmd.Context(), repo)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("release") {
				return a.releaseIssue(cmd, &at, source, release)
			}
			address, err := at.repository(source)
			if err != nil {
				return err
			}
			client, err := at.reader(cmd, address)
			if err != nil {
				return err
			}
			list, err := client.Issues(cmd.Context(), labels, assignee, most)
			if err != nil {
				return err
			}
			return a.present(cmd.OutOrStdout(), listed[pull.Issue]{list}, func(w io.Writer) error { return printIssues(w, list) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&repo, "repo", ".", "the repository whose remote origin is asked")
	at.addForge(cmd)
	at.addKind(cmd)
	fl.StringArrayVar(&labels, "label", nil, "only issues with this label (repeatable: with all of them)")
	fl.StringVar(&assignee, "assignee", "", "only issues that are assigned to this account")
	fl.IntVar(&most, "limit", 50, "list at most this many")
	fl.IntVar(&release, "release", 0, "take away the claim of this issue, and list nothing")
	return cmd
}

func printIssues(w io.Writer, list []pull.Issue) error {
	return printTable(w, "open issues", "ISSUE\tTITLE\tLABELS\tASSIGNEES", list, func(i pull.Issue) string {
		return fmt.Sprintf("#%d\t%s\t%s\t%s", i.Number, clipped(plain(i.Title), 80), plain(strings.Join(i.Labels, ", ")),
			plain(strings.Join(i.Assignees, ", ")))
	})
}

// clipped bounds a text of strangers in a table.
func clipped(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// releaseIssue takes away a claim, whosever it is.
func (a *app) releaseIssue(cmd *cobra.Command, at *forgeFlags, source *workspace.Source, number int) error {
	if number < 1 {
		return usagef("--release %d: want the number of an issue", number)
	}
	if err := mayExport(cmd.Context(), source, []string{"issue_claim"}); err != nil {
		return err
	}
	client, err := at.client(cmd, source)
	if err != nil {
		return err
	}
	released, err := claimOf(client, number).Release(cmd.Context(), "")
	if err != nil {
		return err
	}
	if err := client.RemoveLabel(cmd.Context(), number, forge.ClaimLabel); err != nil && reason.CodeOf(err) != reason.ForgeDenied {
		return err
	}
	return a.present(cmd.OutOrStdout(), map[string]any{"issue": number, "released": released}, func(w io.Writer) error {
		said := "was not claimed"
		if released {
			said = "is free"
		}
		_, err := fmt.Fprintf(w, "issue %d %s\n", number, said)
		return err
	})
}
