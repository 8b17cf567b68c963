package main

import (
	"errors"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"remit/nexus/approval"
	"remit/proof/canon"
	"remit/work/harness"
)

// approvalFlags say what a run does about the approval of its contract.
type approvalFlags struct {
	approve, requireApprove   bool
	waitApproval, approvalTTL time.Duration
}

func (f *approvalFlags) addApproval(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.approve, "approve", false, "approve this contract as the operator at this terminal; under --nexus with a token that may decide")
	fl.BoolVar(&f.requireApprove, "require-approval", false, "block unless the contract is approved")
	fl.DurationVar(&f.waitApproval, "wait-approval", 0, "wait so long for somebody to approve the contract, e.g. 30m (default: ask, and block)")
	fl.DurationVar(&f.approvalTTL, "approval-ttl", 0, "how long a new request for an approval is good for, 1m to 168h (default 24h)")
}

// putBefore has the contract of a run put before its authority, if it asks for
// an approval. That is for one repository, under the name that every run of it
// has; its issue stays free for other runs.
func (f *runFlags) putBefore(req *harness.Request) (err error) {
	req.WaitApproval, req.ApprovalTTL = f.waitApproval, f.approvalTTL
	if c := req.Contract; !c.ApprovalRequired && !c.RiskClass.NeedsApproval() {
		return nil
	}
	req.Unclaimed = true
	req.RepoRef, err = f.repositoryAt(req.Nexus)
	return err
}

// approvalTimes refuses times that no approval can have.
func (f *approvalFlags) approvalTimes() error {
	switch {
	case f.waitApproval < 0:
		return usagef("--wait-approval %s: must not be negative", f.waitApproval)
	case f.approvalTTL != 0 && (f.approvalTTL < approval.MinTTL || f.approvalTTL > approval.MaxTTL):
		return usagef("--approval-ttl %s: must be %s to %s", f.approvalTTL, approval.MinTTL, approval.MaxTTL)
	}
	return nil
}

// repositoryAt is how an authority calls the repository. A nexus has the name
// that people use; that of this machine has one for each directory, since
// nobody has given names there, and does not tell where it lies.
func (f *runFlags) repositoryAt(nexus string) (string, error) {
	if nexus != "" && f.repoRef != "" {
		return f.repoRef, checkRef(f.repoRef)
	}
	dir, err := filepath.Abs(f.repo)
	if err != nil || nexus != "" {
		return filepath.Base(dir), errors.Join(err, checkRef(filepath.Base(dir)))
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", usageError{err}
	}
	name := strings.Map(func(c rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", c) {
			return c
		}
		return '-'
	}, filepath.Base(dir))
	digest := strings.TrimPrefix(canon.Digest([]byte(dir)), "sha256:")
	return "local:" + name[:min(len(name), 100)] + "@" + digest[:12], nil
}

// maxRepoRef is how long a nexus lets the name of a repository be, in bytes.
const maxRepoRef = 500

// checkRef refuses a name that no nexus takes, and says where it is given.
func checkRef(name string) error {
	if len(name) > maxRepoRef || strings.ContainsFunc(name, unicode.IsControl) {
		return usagef("the name of the repository at the nexus, %.60q, must be at most %d bytes without control characters: give another with --repo-ref", name, maxRepoRef)
	}
	return nil
}
