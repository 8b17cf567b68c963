package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/work/session"
	"remit/work/workspace"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", Short: "Compare the policies of a repository",
		Long: `The policy of a repository is its remit.yaml: what a run may change, and how a change is
verified. 'remit init' writes one.`,
	}
	cmd.AddCommand(a.policyDiffCommand())
	return cmd
}

func (a *app) policyDiffCommand() *cobra.Command {
	var repo string
	cmd := &cobra.Command{
		Use: "diff OLD NEW", Short: "Say what a new remit.yaml would newly allow or forbid", Args: cobra.ExactArgs(2),
		Long: `Diff says in sentences what the policy NEW allows or forbids that OLD does not. Each is a
file, or a revision of the repository, whose remit.yaml is meant; a file goes first. A
revision without remit.yaml has the rules that hold without one.`,
		Example: `  remit policy diff HEAD remit.yaml
  remit policy diff main feature --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			policies := [2]*task.Policy{}
			for i, arg := range args {
				var err error
				if policies[i], err = policyNamed(cmd.Context(), repo, arg); err != nil {
					return err
				}
			}
			out := policyDiff{Changes: task.ComparePolicies(policies[0], policies[1])}
			if out.Changes == nil {
				out.Changes = []task.PolicyChange{}
			}
			for _, c := range out.Changes {
				out.Allows = out.Allows || c.Effect == task.Allows
			}
			return a.present(cmd.OutOrStdout(), out, func(w io.Writer) error {
				if len(out.Changes) == 0 {
					fmt.Fprintln(w, "the two policies have the same rules")
				}
				printPolicyChanges(w, out.Changes)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&repo, "repo", ".", "the repository of the revisions")
	return cmd
}

// policyDiff is the JSON document of remit policy diff.
type policyDiff struct {
	Allows  bool                `json:"allows"` // something is newly allowed
	Changes []task.PolicyChange `json:"changes"`
}

// policyNamed is the policy in a file, or of a revision; nil where that has none.
func policyNamed(ctx context.Context, repo, name string) (*task.Policy, error) {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return task.LoadPolicy(name)
	}
	source, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		return nil, usagef("%q is no file, and no revision can be looked up: %w", name, err)
	}
	return committedPolicy(ctx, source, name)
}

func printPolicyChanges(w io.Writer, changes []task.PolicyChange) {
	for _, c := range changes {
		fmt.Fprintf(w, "  %-8s  %s\n", plain(string(c.Effect)), plain(c.Sentence))
	}
}

// policyChange is the body of proofs/policy-change.json.
type policyChange struct {
	Readable bool                `json:"readable"`
	Error    string              `json:"error"`
	Changes  []task.PolicyChange `json:"changes"`
}

// policyChanges reads out of a session what a checked change makes of remit.yaml, nil
// where it leaves that alone.
func policyChanges(s session.Session) (*policyChange, error) {
	text, err := s.Read(evidence.ProofsDir + "/policy-change.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what becomes of the policy: %w", err)
	}
	out := new(policyChange)
	return out, json.Unmarshal(text, out)
}

// printPolicyChange says it to a person.
func printPolicyChange(w io.Writer, c *policyChange) {
	switch {
	case c == nil:
	case !c.Readable:
		fmt.Fprintf(w, "%s changes, and the new one cannot be read: %s\n\n", task.PolicyFile, plain(c.Error))
	default:
		fmt.Fprintf(w, "%s changes. That counts for nothing here; once it is in the base:\n", task.PolicyFile)
		printPolicyChanges(w, c.Changes)
		fmt.Fprintln(w)
	}
}
