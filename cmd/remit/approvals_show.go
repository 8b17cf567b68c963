package main

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/evidence"
	"remit/work/route"
	"remit/work/session"
)

// approvalProof is the file of a session that says on which approval it worked, of
// runs that touch a repository.
const approvalProof = "proofs/approval.json"

func (a *app) showApprovalCommand() *cobra.Command {
	f := new(approvalsFlags)
	cmd := &cobra.Command{
		Use: "show ID", Short: "Print what a person decides about, and what may be done now", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.approvalArgs,
		Long: `Show prints the packet of one approval: what is to be done and where, what a run may
touch and must not, how it is judged and undone, the one sentence that a person agrees
to, and whether a run may begin on it now. A packet executes nothing: ` + "`remit approve`" + `
decides. From the mode sandbox-repo on an approval is for one build of an engine, one
model, one commit and one repository besides the contract.`,
		Example: "  remit approvals show latest\n  remit approvals show latest --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := a.authority(cmd, &f.nexus, operator())
			if err != nil {
				return err
			}
			found, err := findApproval(cmd.Context(), to, f.owner, args[0])
			if err != nil {
				return err
			}
			packet, err := a.packetOf(found)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if a.json {
				changes, err := a.policyChangeOf(cmd.Context(), found.ApprovalID)
				if err != nil {
					return err
				}
				return printJSON(out, approvalPacket{packet, changes})
			}
			if err := printPacket(out, found); err != nil {
				return err
			}
			a.printPolicyOf(cmd.Context(), out, found.ApprovalID)
			fmt.Fprintf(out, "\n  %s\n\n", plain(packet.ApprovalCommandText))
			fmt.Fprintf(out, "  %-12s granted %t, used %t, a run may begin on it: %t\n", "now", packet.ApprovalGranted, packet.ApprovalConsumed,
				packet.ExecutionAllowed)
			fmt.Fprintf(out, "  %-12s %s\n", "next", strings.Join(packet.AllowedNextActions, ", "))
			_, err = fmt.Fprintf(out, "  %-12s %s\n", "blocked", strings.Join(packet.BlockedNextActions, ", "))
			return err
		},
	}
	f.add(cmd)
	return cmd
}

// packetOf is the packet of an approval, with what this machine knows of its
// target and of the run that used it.
func (a *app) packetOf(found api.Approval) (job.ApprovalPacket, error) {
	c, err := contractIn(found)
	if err != nil {
		return job.ApprovalPacket{}, err
	}
	work := found.Binding.Work()
	admitted := ""
	if work != nil {
		all, err := route.Records(a.home.Dir, false, nil).Load()
		if err != nil {
			return job.ApprovalPacket{}, err
		}
		for _, t := range all.Targets {
			if admission.TargetDigest(t.Path) == work.TargetSHA256 {
				admitted = t.ID
			}
		}
	}
	pass, err := a.passOf(api.Value(found.RunID))
	if err != nil {
		return job.ApprovalPacket{}, err
	}
	known := job.Approval{ID: found.ApprovalID, ContractSHA256: found.ContractSha256, Status: string(found.Status), ExpiresAt: found.ExpiresAt}
	return job.PacketOf(c, known, found.RepoRef, admitted, work, pass), nil
}

// passOf is the session of this machine that worked as a run of an authority and
// passed, nil when there is none.
func (a *app) passOf(run string) (*job.PassEvidence, error) {
	if run == "" {
		return nil, nil
	}
	sessions, err := a.home.List()
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		st, err := s.Inspect()
		if err != nil || st.Log == nil || session.NexusRun(st.Log.Entries) != run || st.Report == nil || st.Report.Status != evidence.StatusPass {
			continue // a session that cannot be read is no evidence
		}
		dir, err := filepath.Rel(a.home.Dir, s.Dir)
		if err != nil {
			return nil, err
		}
		pass := &job.PassEvidence{RunID: run, SessionID: s.ID, Report: path.Join(filepath.ToSlash(dir), evidence.ReportFile)}
		if f, err := s.Open(approvalProof); err == nil {
			pass.Proof = path.Join(filepath.ToSlash(dir), approvalProof)
			if err := f.Close(); err != nil {
				return nil, err
			}
		}
		return pass, nil
	}
	return nil, nil
}
